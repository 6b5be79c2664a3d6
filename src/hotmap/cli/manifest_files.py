"""Manifests on disk and on standard input and output."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hotmap.core.errors import ManifestError, SettingsError, os_reason

__all__ = [
    "describe_file",
    "find_manifests",
    "is_manifest",
    "join_manifests",
    "read_manifest",
    "read_manifests",
    "write_manifest",
    "write_manifests",
]

#: The files of a directory that are read, as kubectl does.
_SUFFIXES = (".yaml", ".yml", ".json")

#: MiB; a pipe or a device may never end. 7 MB are 10,000 objects, and take 170 MB and 4 s.
_LARGEST_FILE = 64


def is_manifest(word: str) -> bool:
    """Return whether a word of a command line looks like the name of a manifest."""
    return word.endswith(_SUFFIXES) and not word.startswith("-")


def describe_file(filename: str) -> str:
    """Name a file for a message."""
    return "standard input" if filename == "-" else filename


def read_manifests(given: Sequence[str], output: str | None, *, in_place: bool) -> dict[str, str]:
    """Read the files, and the manifests of the directories, that `--filename` names.

    Raises:
        SettingsError: options cannot be used together.
        ManifestError: one cannot be read.
    """
    if in_place and (output or "-" in given):
        raise SettingsError("--in-place cannot be used with --output or standard input (-f -)")
    if "" in given:  # of a variable that is not set; as a path it is the working directory
        raise SettingsError('--filename: invalid file "": expected a file, a directory or -')
    if output == "":
        raise SettingsError('--output: invalid file "": expected the name of a file or -')
    filenames = [name for each in given for name in find_manifests(each)]
    if filenames.count("-") > 1:
        raise SettingsError("standard input can be read only once; use one -f -")
    return {filename: read_manifest(filename) for filename in dict.fromkeys(filenames)}


def write_manifests(
    texts: Mapping[str, str], results: Mapping[str, str], output: str | None, *, in_place: bool
) -> None:
    """Write what became of the manifests: each in its place, or all as one stream.

    Raises:
        ManifestError: one cannot be written.
    """
    if in_place:
        for filename, text in results.items():
            if text != texts[filename]:
                write_manifest(filename, text)
    elif output and output != "-":
        write_manifest(output, join_manifests(results.values()))
    else:
        # Always UTF-8, as manifests are, whatever the encoding of the locale.
        sys.stdout.flush()
        sys.stdout.buffer.write(join_manifests(results.values()).encode())


def find_manifests(filename: str) -> Iterator[str]:
    """Yield a file, or the manifests of a directory in the order of their names, as kubectl does.

    Directories in it are left out, whatever their names.

    Raises:
        ManifestError: the directory has none, or cannot be read.
    """
    try:
        if filename == "-" or not Path(filename).is_dir():
            yield filename
            return
        named = (path for path in Path(filename).iterdir() if path.suffix in _SUFFIXES)
        found = sorted(path for path in named if not path.is_dir())
    except OSError as error:
        raise ManifestError(f"cannot read {filename}: {os_reason(error)}") from None
    if not found:
        raise ManifestError(f"{filename} contains no manifests: no {', '.join(_SUFFIXES)} file")
    yield from map(str, found)


def read_manifest(filename: str) -> str:
    """Read a file, or standard input for `-`.

    Raises:
        ManifestError: it cannot be read, is too large, or is not UTF-8.
    """
    most = _LARGEST_FILE << 20
    try:
        if filename == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(filename).open("rb") as file:
                data = file.read(most + 1)
        if len(data) > most:
            raise ManifestError(
                f"cannot read {describe_file(filename)}: it has more than {_LARGEST_FILE} MiB"
            )
        return data.decode()
    except UnicodeDecodeError:
        raise ManifestError(f"cannot read {describe_file(filename)}: not valid UTF-8") from None
    except OSError as error:
        raise ManifestError(f"cannot read {filename}: {os_reason(error)}") from None


def join_manifests(texts: Iterable[str]) -> str:
    """Join manifests to one YAML stream."""
    stream = ""
    for text in texts:
        if stream and not text.startswith("---"):
            stream += "---\n" if stream.endswith("\n") else "\n---\n"
        elif stream and not stream.endswith("\n"):
            stream += "\n"
        stream += text
    return stream


def write_manifest(filename: str, text: str) -> None:
    """Write a file completely or not at all; it keeps its permissions and its owner.

    A device or a pipe is written to and stays what it is.

    Raises:
        ManifestError: it cannot be written.
    """
    place = Path(filename)
    target = Path(os.path.realpath(place))  # the links of a file stay what they are
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        # Of the name as it is given: what /dev/fd links to has no path where it is a pipe.
        if place.exists() and not place.is_file():
            place.write_bytes(text.encode())
            return
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        draft.write_bytes(text.encode())
        if target.exists():
            status = target.stat()
            with suppress(PermissionError):  # root alone can, as in a container with a user's files
                os.chown(draft, status.st_uid, status.st_gid)
            draft.chmod(status.st_mode & 0o7777)
        draft.rename(target)
    except OSError as error:
        with suppress(OSError):  # where no file can be written, none can be removed either
            draft.unlink()
        raise ManifestError(f"cannot write {filename}: {os_reason(error)}") from None
