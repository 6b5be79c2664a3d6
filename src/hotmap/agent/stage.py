"""A directory in which only content appears that passed its check.

The application mounts it instead of the source. It is written by the kubelet's own protocol, so
the application sees all files of a revision or none, also when it is started in the middle; and
since it lies in an emptyDir, the last good content outlives a restart of agent and application.
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

    A single source directory is published in it directly, each of several in a folder with the
    last part of its name.
    """

    def __init__(self, root: str, directories: tuple[str, ...], mode: int) -> None:
        names = [os.path.basename(directory.rstrip("/")) for directory in directories]
        self.places = (
            {directories[0]: root}
            if len(directories) == 1
            else {d: os.path.join(root, name) for d, name in zip(directories, names, strict=True)}
        )
        self._mode = mode

    def publish(self, contents: Mapping[str, Mapping[str, bytes]]) -> None:
        """Make the stage hold this content.

        Raises:
            OSError, HotmapError: it cannot be written; what was published stays, or, of several
                directories, those before it are new already. Publishing again completes it.
        """
        for directory, place in self.places.items():
            os.makedirs(place, exist_ok=True)
            payload = {
                path: PayloadFile(data, self._mode) for path, data in contents[directory].items()
            }
            AtomicWriter(place).write(payload)
