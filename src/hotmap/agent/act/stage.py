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


class Stage:
    """Publishes directories below one directory.

    A single source directory is published in it directly, each of several in a subdirectory with
    its base name.
    """

    def __init__(self, root: str, directories: tuple[str, ...], mode: int) -> None:
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
            except OSError:
                continue  # it is not there yet, or the next publication says why

    def publish(self, contents: Mapping[str, Mapping[str, bytes]]) -> None:
        """Publish this content.

        Raises:
            OSError, HotmapError: it cannot be written; what was published stays, or, of several
                directories, the first ones are new already. Publishing again completes it.
        """
        for directory, place in self.places.items():
            if place != self._root and os.path.islink(place):
                os.remove(place)  # whoever put it there would have us write elsewhere
            os.makedirs(place, exist_ok=True)
            payload = {
                path: PayloadFile(data, self._mode) for path, data in contents[directory].items()
            }
            AtomicWriter(place).write(payload)
