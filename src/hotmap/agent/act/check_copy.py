"""The copy of content that a check command works on."""

from __future__ import annotations

import os
import stat

from hotmap.volume.atomic_writer import remove_contents

__all__ = [
    "WorkDirectory",
    "fill_placeholders",
    "make_work_directory",
    "remove_left_directories",
    "work_places",
    "write_copies",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Where copies for a check command go: memory first, since they may be of Secrets.
_PARENTS = ("/dev/shm", "/tmp")

_PREFIX = "hotmap-agent-"


class WorkDirectory:
    """A directory of our own for copies, which no other agent removes while we run.

    It is held by a lock, since a process number says nothing: in containers it is always 1.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def clear(self) -> None:
        """Remove everything in it, whatever permissions a checker has set.

        Raises:
            OSError: something in it cannot be removed.
        """
        _make_removable(self.path)
        remove_contents(self.path)

    def remove(self) -> None:
        """Remove it; what cannot be removed now is left for the next start."""
        _remove(self.path)
        os.close(self._descriptor)


def work_places(wanted: str) -> tuple[str, ...]:
    """Return where a directory for copies may be made: in `wanted`, or, without it, in several."""
    return (wanted,) if wanted else _PARENTS


def make_work_directory(parent: str) -> WorkDirectory:
    """Make a directory for copies in another one.

    Raises:
        OSError: nothing can be written there.
    """
    suffix = os.urandom(8).hex()
    draft, path = os.path.join(parent, f".{_PREFIX}{suffix}"), f"{parent}/{_PREFIX}{suffix}"
    os.mkdir(draft, 0o700)
    descriptor = _lock(draft)
    os.rename(draft, path)
    return WorkDirectory(path, descriptor)


def remove_left_directories(wanted: str) -> None:
    """Remove work directories of agents that were killed; copies may be of Secrets."""
    for parent in work_places(wanted):
        try:
            names = [name for name in os.listdir(parent) if name.startswith(_PREFIX)]
        except OSError:
            continue
        for name in names:
            path = os.path.join(parent, name)
            try:
                descriptor = _lock(path)
            except OSError:
                continue  # its agent runs, it belongs to another user, or it is not a directory
            _remove(path)
            os.close(descriptor)


def _lock(path: str) -> int:
    """Open and lock a directory.

    Raises:
        OSError: it is locked, it is a link or no directory, or it belongs to another user.
    """
    import fcntl

    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise NotADirectoryError(path)
    os.chmod(path, 0o700)  # a checker may have made it unreadable
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _make_removable(root: str) -> None:
    """Let us list and change every directory below `root`; links are not followed."""
    os.chmod(root, 0o700)
    with os.scandir(root) as entries:
        folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        _make_removable(folder)


def _remove(path: str) -> None:
    try:
        _make_removable(path)
        remove_contents(path)
        os.rmdir(path)
    except (OSError, RecursionError):
        return


def write_copies(root: str, contents: Sequence[Mapping[str, bytes]]) -> list[str]:
    """Write each directory's files below `root`; return the path of each copy.

    Raises:
        OSError: there is no space, or no permission to write.
    """
    copies = []
    for number, files in enumerate(contents):
        copy = os.path.join(root, str(number))
        os.mkdir(copy, 0o700)
        copies.append(copy)
        for path, data in files.items():
            target = os.path.join(copy, path)
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
    return copies


def fill_placeholders(words: Iterable[str], copies: Sequence[str]) -> list[str]:
    """Replace {dir}, {dir2}, {dir3} … in a command by the paths of the copies."""
    filled = []
    for word in words:
        for number, copy in enumerate(copies, start=1):
            word = word.replace("{dir}" if number == 1 else f"{{dir{number}}}", copy)
        filled.append(word)
    return filled
