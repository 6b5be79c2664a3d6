"""Reads raw inotify events with nothing of hotmap's in between: the oracle for event orders."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: linux: include/uapi/linux/inotify.h
EVENT_NAMES = {
    0x0002: "MODIFY",
    0x0004: "ATTRIB",
    0x0008: "CLOSE_WRITE",
    0x0040: "MOVED_FROM",
    0x0080: "MOVED_TO",
    0x0100: "CREATE",
    0x0200: "DELETE",
    0x0400: "DELETE_SELF",
    0x0800: "MOVE_SELF",
    0x8000: "IGNORED",
}
IS_DIRECTORY = 0x40000000


class RawEvents:
    """The events of one watched path, as `(names of its bits joined by "|", file name)`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> list[tuple[str, str]]:
        """List the events that wait; the kernel queues them before a system call returns."""
        events = []
        try:
            buffer = os.read(self._descriptor, 1 << 20)
        except BlockingIOError:
            return []
        offset = 0
        while offset < len(buffer):
            _, mask, _, length = struct.unpack_from("iIII", buffer, offset)
            name = buffer[offset + 16 : offset + 16 + length].rstrip(b"\0").decode()
            events.append((_bit_names(mask), name))
            offset += 16 + length
        return events


def _bit_names(mask: int) -> str:
    names = [name for bit, name in EVENT_NAMES.items() if mask & bit]
    return "|".join(names + (["ISDIR"] if mask & IS_DIRECTORY else []))


@contextmanager
def watching(path: Path) -> Iterator[RawEvents]:
    """Watch a path for every change that inotify knows, until the block ends."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    try:
        number = library.inotify_add_watch(descriptor, os.fsencode(path), sum(EVENT_NAMES))
        assert number >= 0, os.strerror(ctypes.get_errno())
        yield RawEvents(descriptor)
    finally:
        os.close(descriptor)
