"""A directory with only content that passed its check.

The application mounts it instead of the source. It is written as the kubelet writes a volume, so
the application sees all files of a revision or none, also while it starts; and since it is in an
emptyDir, the last content that passed survives restarts of agent and application.
"""

from __future__ import annotations

import os

from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter

__all__ = ["Stage"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.agent.decide.snapshot import Snapshot
    from hotmap.core.payload import Payload

#: Where the source was replaced while it was read.
_DEFAULT_MODE = 0o644


class Stage:
    """Publishes directories below one directory.

    A single source directory is published in it directly, each of several in a subdirectory with
    its base name.
    """

    def __init__(self, root: str, directories: tuple[str, ...], mode: int | None) -> None:
        """`mode`: permission bits of all files; None for those of their source."""
        names = [os.path.basename(directory.rstrip("/")) for directory in directories]
        self.places = (
            {directories[0]: root}
            if len(directories) == 1
            else {d: os.path.join(root, name) for d, name in zip(directories, names, strict=True)}
        )
        self._root = root
        self._mode = mode

    def remove_remains(self) -> None:
        """Remove what an agent left that was killed while it published."""
        for place in self.places.values():
            try:
                AtomicWriter(place).remove_remains()
            except (OSError, RecursionError):
                continue  # it is not there yet, or the next publication says why

    def publish(self, snapshot: Snapshot) -> None:
        """Publish this content.

        Raises:
            OSError, HotmapError: it cannot be written; what was published stays, or, of several
                directories, the first ones are new already. Publishing again completes it.
        """
        for directory, place in self.places.items():
            if place != self._root and os.path.islink(place):
                os.remove(place)  # a link could redirect the writes to another place
            os.makedirs(place, exist_ok=True)
            known = snapshot.permissions.get(directory, {})
            payload = {
                path: PayloadFile(data, self._mode_of(path, known))
                for path, data in snapshot.contents[directory].items()
            }
            groups = {path: group for path, (_, group) in known.items() if path in payload}
            _write(place, payload, groups)

    def _mode_of(self, path: str, known: Mapping[str, tuple[int, int]]) -> int:
        if self._mode is not None:
            return self._mode
        return known[path][0] if path in known else _DEFAULT_MODE


def _write(place: str, payload: Payload, groups: Mapping[str, int]) -> None:
    AtomicWriter(place).write(payload, set_permissions=lambda root: _set_groups(root, groups))


def _set_groups(root: str, groups: Mapping[str, int]) -> None:
    """Give files the group of their source, which the application is in by fsGroup.

    Only a group that the agent is in can be given; otherwise the agent's own stays.
    """
    for path, group in groups.items():
        try:
            os.chown(os.path.join(root, path), -1, group, follow_symlinks=False)
        except OSError:
            continue
