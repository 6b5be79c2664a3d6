"""The copy of content that a check command works on."""

from __future__ import annotations

import os

__all__ = ["fill_placeholders", "make_work_directory", "write_copies"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Where copies for a check command go: memory first, since they may be of Secrets.
_PARENTS = ("/dev/shm", "/tmp")


def make_work_directory(wanted: str) -> str:
    """Make a directory for copies; "" where nothing can be written.

    Made in `wanted`, or, when that is "", in memory, then /tmp.
    """
    for parent in [wanted] if wanted else _PARENTS:
        path = os.path.join(parent, f"hotmap-agent-{os.getpid()}-{os.urandom(4).hex()}")
        try:
            os.mkdir(path, 0o700)
        except OSError:
            continue
        return path
    return ""


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
