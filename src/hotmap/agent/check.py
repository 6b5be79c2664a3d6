"""Is content fit to be loaded? Built-in checks, and the copy that a check command looks at.

What the application itself thinks of its configuration only its own checker knows (`nginx -t`);
what can be said without it is said here: size, emptiness, JSON and TOML syntax.
"""

from __future__ import annotations

import os
from collections import namedtuple

from hotmap.agent.detect import matches

__all__ = ["Bounds", "complaint", "remove_copy", "work_directory", "write_copy"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import NamedTuple

    class Bounds(NamedTuple):
        largest: int
        not_empty: tuple[str, ...]
        syntax: tuple[tuple[str, str], ...]

else:
    Bounds = namedtuple("Bounds", "largest not_empty syntax")
    Bounds.__doc__ = """What is asked of files. largest: bytes of one file, 0 for any; not_empty:
    patterns, each of which must have a file with content; syntax: (pattern, json or toml)."""


def complaint(contents: Mapping[str, Mapping[str, bytes]], bounds: Bounds) -> str:
    """Say in one sentence what is wrong with content; "" when nothing is.

    Names files, never what stands in them.
    """
    files = {
        f"{directory}/{path}": (path, data)
        for directory, found in contents.items()
        for path, data in found.items()
    }
    for name, (_, data) in sorted(files.items()):
        if bounds.largest and len(data) > bounds.largest:
            return f"{name} has {len(data)} bytes, more than the {bounds.largest} allowed"
    for pattern in bounds.not_empty:
        found = [data for name, (path, data) in files.items() if _meant(pattern, name, path)]
        if not found:
            return f"there is no file {pattern}"
        if not all(data.strip() for data in found):
            return f"{pattern} is empty"
    for pattern, language in bounds.syntax:
        for name, (path, data) in sorted(files.items()):
            if _meant(pattern, name, path) and (error := _syntax_error(data, language)):
                return f"{name} is no {language.upper()}: {error}"
    return ""


def _meant(pattern: str, name: str, path: str) -> bool:
    return matches(pattern, name if pattern.startswith("/") else path)


def _syntax_error(data: bytes, language: str) -> str:
    """Say where a text is wrong; a parser's own message could quote the content."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} is not UTF-8"
    if language == "json":
        import json

        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            return f"line {error.lineno}, column {error.colno}"
        except RecursionError:
            return "it is nested too deeply"
        return ""
    import tomllib

    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        _, found, place = str(error).rpartition("(at ")
        return place.rstrip(")") if found else "it ends too early"
    return ""


#: Where copies for a check command go: memory first, since they may be of Secrets.
_PLACES = ("/dev/shm", "/tmp")


def work_directory(wanted: str) -> str:
    """Make a directory of our own for copies; "" where nothing can be written.

    `wanted` is the place a person named, or "" for memory, then /tmp.
    """
    for place in [wanted] if wanted else _PLACES:
        path = os.path.join(place, f"hotmap-agent-{os.getpid()}-{os.urandom(4).hex()}")
        try:
            os.mkdir(path, 0o700)
        except OSError:
            continue
        return path
    return ""


def write_copy(root: str, contents: Sequence[Mapping[str, bytes]]) -> list[str]:
    """Write each directory's files below `root`; give where each directory's copy is.

    Raises:
        OSError: the place is full, or is not writable any more.
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


def remove_copy(root: str) -> None:
    """Remove everything below a directory that `write_copy` filled, and the directory if asked."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files:
            os.remove(os.path.join(folder, name))
        for name in folders:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                os.remove(path)
            else:
                os.rmdir(path)


def fill(words: Iterable[str], copies: Sequence[str]) -> list[str]:
    """Put the places of the copies into a command: {dir}, and {dir2}, {dir3} … for the others."""
    filled = []
    for word in words:
        for number, copy in enumerate(copies, start=1):
            word = word.replace("{dir}" if number == 1 else f"{{dir{number}}}", copy)
        filled.append(word)
    return filled
