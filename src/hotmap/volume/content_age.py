"""When the content of a directory was written, and whether it is the first that was there.

Both follow from what a kubelet leaves (kubernetes: pkg/volume/util/atomic_writer.go): each update
makes another `..data` link, while the link of a file in the directory itself is made only once.
Where all files have other names than before, all links are new, and only the directory is older.
"""

from __future__ import annotations

import os
import stat
import struct

from hotmap.core.value import Value
from hotmap.volume.data_link import DATA_LINK

__all__ = ["ContentAge", "content_age"]

#: Entries of a plain directory that are looked at; a larger one has no known age.
_MAX_ENTRIES = 16_384

#: Seconds that a kubelet may take from making the directory to its first content, on a busy node.
_FIRST_WRITE = 10.0

# linux: include/uapi/linux/stat.h, include/uapi/linux/fcntl.h
_CURRENT_DIRECTORY = -100
_BIRTH = 0x800
_STATX_SIZE = 256
_STATX_MASK = struct.Struct("I")
_STATX_BIRTH = struct.Struct("80x qI")


class ContentAge(Value):
    """The age of what a directory shows now.

    written: POSIX seconds of the last update, by the clock of then; rounded down by the kernel, by
        10 ms at most
    is_first: nothing else was ever there, as far as the links show, and where the file system
        keeps it, the time at which the directory was made. False where there is no such volume
    """

    written: float
    is_first: bool


def content_age(directory: str) -> ContentAge | None:
    """Return the age of a directory's content; None where that is unknown.

    To be called after the content was read: an update in between makes it younger, not older.
    """
    try:
        link = os.lstat(os.path.join(directory, DATA_LINK))
        if not stat.S_ISLNK(link.st_mode):
            return None
        # Not the change time: the kubelet sets the group of all files at each update (fsGroup).
        others = [
            os.lstat(os.path.join(directory, name)).st_mtime_ns
            for name in os.listdir(directory)
            if not name.startswith("..")
        ]
        is_first = bool(others) and min(others) >= link.st_mtime_ns
        if is_first and (made := _birth(directory)):
            is_first = link.st_mtime <= made + _FIRST_WRITE
        return ContentAge(link.st_mtime, is_first)
    except (FileNotFoundError, NotADirectoryError):
        return _plain_age(directory)
    except OSError:
        return None


def _birth(directory: str) -> float:
    """Return the POSIX time at which a directory was made; 0 where that is unknown (statx(2))."""
    import ctypes  # the watcher of the same directory has loaded it

    found = ctypes.create_string_buffer(_STATX_SIZE)
    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return 0.0
    if statx(_CURRENT_DIRECTORY, os.fsencode(directory), 0, _BIRTH, found) != 0:
        return 0.0
    if not _STATX_MASK.unpack_from(found)[0] & _BIRTH:
        return 0.0
    seconds, nanoseconds = _STATX_BIRTH.unpack_from(found)
    return float(seconds + nanoseconds / 1e9)


def _plain_age(path: str) -> ContentAge | None:
    """Return the age of what no kubelet writes: the last change of anything in it."""
    written, waiting, count = 0.0, [path], 0
    try:
        while waiting:
            place = waiting.pop()
            found = os.stat(place)
            # Tools that preserve times set the modification time back.
            written = max(written, found.st_ctime, found.st_mtime)
            count += 1
            if stat.S_ISDIR(found.st_mode) and (place == path or not os.path.islink(place)):
                waiting += [os.path.join(place, name) for name in os.listdir(place)]
            if count + len(waiting) > _MAX_ENTRIES:
                return None
    except OSError:
        return None
    return ContentAge(written, is_first=False)
