"""A directory with only content that passed its check.

The application mounts it instead of the source. It is written as the kubelet writes a volume, so
the application sees all files of a revision or none, also while it starts; and since it is in an
emptyDir, the last content that passed survives restarts of agent and application.
"""

from __future__ import annotations

import os

from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.data_link import DATA_LINK

__all__ = ["Stage"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.agent.decide.snapshot import Snapshot
    from hotmap.core.payload import Payload

#: Where the source was replaced while it was read.
_DEFAULT_MODE = 0o644

#: For directories, which have the mode of a kubelet's: the application is another user, often.
_UMASK = 0o022

#: The name of a link until it takes the place of another file.
_DRAFT = "..link_tmp"


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
        #: What identifies the files that were published last, by path; None: none were, or another
        #: program has changed them since.
        self._published: dict[str, object] | None = None

    def remove_remains(self) -> None:
        """Remove what an agent left that was killed while it published."""
        for place in self.places.values():
            try:
                AtomicWriter(place).remove_remains()
            except (OSError, RecursionError):
                continue  # it is not there yet, or the next publication says why

    def is_filled(self) -> bool:
        """Whether all directories have been published before, by another agent of the pod."""
        return all(os.path.isdir(os.path.join(place, DATA_LINK)) for place in self.places.values())

    def publish(self, snapshot: Snapshot) -> None:
        """Publish this content.

        Raises:
            OSError, HotmapError: it cannot be written; what was published stays, or, of several
                directories, the first ones are new already. Publishing again completes it.
        """
        self._published = None
        before = os.umask(_UMASK)
        try:
            self._published = self._publish(snapshot)
        finally:
            os.umask(before)

    def _publish(self, snapshot: Snapshot) -> dict[str, object]:
        published: dict[str, object] = {}
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
            paths = [os.path.join(place, path) for path in payload]
            published.update((path, _identity(path)) for path in paths)
        return published

    def is_altered(self) -> bool:
        """Whether another program has changed what is published; told once for each publication.

        Files beside it are not ours. Times of status changes do not count: an application may
        change the owner of its files at each start.
        """
        if self._published is None:
            return False
        if all(_identity(path) == found for path, found in self._published.items()):
            return False
        self._published = None
        return True

    def _mode_of(self, path: str, known: Mapping[str, tuple[int, int]]) -> int:
        if self._mode is not None:
            return self._mode
        return known[path][0] if path in known else _DEFAULT_MODE


def _write(place: str, payload: Payload, groups: Mapping[str, int]) -> None:
    AtomicWriter(place).write(payload, set_permissions=lambda root: _set_groups(root, groups))
    for name in {path.partition("/")[0] for path in payload}:
        _restore_link(place, name)


def _restore_link(place: str, name: str) -> None:
    """Replace what is in the place of a link to published files, as after `sed -i`.

    The writer, as that of the kubelet, leaves it, and the application would read it forever.
    """
    path, target = os.path.join(place, name), f"{DATA_LINK}/{name}"
    if os.path.islink(path) and os.readlink(path) == target:
        return
    draft = os.path.join(place, _DRAFT)
    if os.path.lexists(draft):
        os.remove(draft)  # of an agent that was killed
    os.symlink(target, draft)
    os.rename(draft, path)


def _identity(path: str) -> object:
    """Return what differs once a file is replaced or written; None where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _set_groups(root: str, groups: Mapping[str, int]) -> None:
    """Give files the group of their source, which the application is in by fsGroup.

    Only a group that the agent is in can be given; otherwise the agent's own stays.
    """
    for path, group in groups.items():
        try:
            os.chown(os.path.join(root, path), -1, group, follow_symlinks=False)
        except OSError:
            continue
