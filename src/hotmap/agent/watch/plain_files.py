"""Files of a directory that no kubelet writes: an emptyDir, a host path, or a single file.

Such a directory has no `..data` link to watch, so its files are compared at each poll.
"""

from __future__ import annotations

import errno
import os
import stat

from hotmap.core.errors import os_reason

__all__ = [
    "NotReadable",
    "moving",
    "not_readable",
    "read_file",
    "read_plain",
    "signature",
    "too_large",
    "without_memory",
]


#: Bytes that a file counts for at least, since an empty one takes memory too: its path, its digest
#: and its entries. And how many files are allowed whatever the limit is.
_BYTES_OF_FILE, _MIN_FILES = 4096, 1000


#: Bytes of a file that are read at once: nearly all have fewer.
_PIECE = 64 << 10

#: Errors of a machine without descriptors or memory.
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class NotReadable(Exception):
    """Raised when a directory cannot be read now; its text is one sentence."""

    #: The watched directory that cannot be read.
    directory = ""
    #: Whether it is too large, which takes long to find out, and does not pass by itself.
    is_too_large = False
    #: Whether nothing is known of what is there: it changed while it was read, or the machine lacks
    #: what reading takes.
    is_unknown = False


def read_plain(directory: str, max_size: int, ignored: list[str]) -> dict[str, bytes]:
    """Read the files below a directory, or a single file, by relative path.

    `ignored` gets the links to files elsewhere, which are not read.

    Raises:
        NotReadable: a file cannot be read, or there are more than `max_size` bytes, or too many
            files for that size.
    """
    found: dict[str, bytes] = {}
    left = max_size
    is_file = not os.path.isdir(directory)
    folder = os.path.dirname(directory) if is_file else directory
    for path in [directory] if is_file else _list_files(directory, max_size, ignored):
        found[os.path.relpath(path, folder)] = data = read_file(path, left + 1)
        left -= len(data)
        if left < 0:
            raise too_large(directory, max_size)
    return found


def too_large(directory: str, max_size: int) -> NotReadable:
    """Return the error of a directory that has more than `max_size` bytes."""
    return _over_limit(directory, f"{max_size} bytes")


def without_memory(directory: str) -> NotReadable:
    """Return the error of a directory that is larger than the memory that is left."""
    error = NotReadable(f"not enough memory to read {directory}")
    error.is_too_large = error.is_unknown = True
    return error


def moving(text: str) -> NotReadable:
    """Return the error of a directory that changed while it was read."""
    error = NotReadable(text)
    error.is_unknown = True
    return error


def _over_limit(directory: str, limit: str) -> NotReadable:
    error = NotReadable(
        f"{directory} has more than {limit}: watch a part of it, or raise --max-directory-size"
    )
    error.is_too_large = True
    return error


def _list_files(directory: str, max_size: int, ignored: list[str] | None = None) -> list[str]:
    """List regular files below a directory; links that point out of it are ignored.

    Raises:
        NotReadable: it cannot be listed, or has too many files for `max_size` bytes.
    """
    root = os.path.realpath(directory)
    found: list[str] = []
    most = max(_MIN_FILES, max_size // _BYTES_OF_FILE)

    def walk(folder: str) -> None:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if not os.path.isfile(target):
                        continue
                    if target.startswith(f"{root}/"):
                        found.append(entry.path)
                    elif ignored is not None:
                        ignored.append(entry.path)
                elif entry.is_dir():
                    walk(entry.path)
                elif entry.is_file():
                    found.append(entry.path)
                if len(found) > most:
                    raise _over_limit(directory, f"{most} files")

    try:
        walk(directory)
    except OSError as error:
        raise not_readable(error, directory) from None
    except RecursionError:
        raise NotReadable(f"cannot read {directory}: nested too deeply") from None
    return found


def signature(directory: str, max_size: int) -> object:
    """Summarize plain content without reading it: names, sizes, times and inodes.

    None where it cannot be listed, or has too many files for `max_size` bytes.
    """
    try:
        if not os.path.isdir(directory):
            return _stamp(directory)
        return [(path, _stamp(path)) for path in _list_files(directory, max_size)]
    except (OSError, NotReadable):
        return None


def _stamp(path: str) -> tuple[int, int, int, int]:
    # The change time as well: tools that preserve times set the modification time back.
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_file(path: str, length: int) -> bytes:
    """Read at most `length` bytes of a regular file; a pipe is not waited for.

    Raises:
        NotReadable: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(mode):
                raise NotReadable(f"{path} is not a regular file")
            # In pieces, since memory for all of `length` is allocated for each read.
            pieces, left = [], length
            while piece := os.read(descriptor, min(left, _PIECE)):
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise not_readable(error, path) from None


def not_readable(error: OSError, place: str) -> NotReadable:
    """Return the error of something at `place` that the system does not read, in one sentence."""
    where = error.filename if isinstance(error.filename, str) else ""
    if where and not where.startswith("/"):
        where = f"{place}/…/{where}"
    user = f" as user {os.geteuid()}" if isinstance(error, PermissionError) else ""
    found = NotReadable(f"cannot read {where or place}{user}: {os_reason(error)}")
    found.is_unknown = error.errno in _LACKS
    return found
