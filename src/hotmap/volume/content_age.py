"""When the content of a directory was written, and whether it is the first that was there.

Both follow from what a kubelet leaves (kubernetes: pkg/volume/util/atomic_writer.go): each update
makes another `..data` link, while the link of a file in the directory itself is made only once.
"""

from __future__ import annotations

import os
import stat

from hotmap.core.value import Value
from hotmap.volume.data_link import DATA_LINK

__all__ = ["ContentAge", "content_age"]

#: Entries of a plain directory that are looked at; a larger one has no known age.
_MAX_ENTRIES = 16_384


class ContentAge(Value):
    """The age of what a directory shows now.

    written: POSIX seconds of the last update, by the clock of then; rounded down by the kernel, by
        10 ms at most
    is_first: nothing else was ever there, as far as the links show: they do not tell a volume that
        was empty, or whose files all have other names now. False where there is no such volume
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
        return ContentAge(link.st_mtime, is_first)
    except (FileNotFoundError, NotADirectoryError):
        return _plain_age(directory)
    except OSError:
        return None


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
