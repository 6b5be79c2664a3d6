"""The files of the store on disk: their first line, and their records.

The first line names the format. What follows are records: size and CRC-32 of the rest, both
4 bytes, big endian; then revision, revision of the key's creation (8 bytes each), 1 for a value or
0 for a deletion, size of the key (2 bytes), key, value.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.errors import SettingsError
from hotmap.local.store import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["FIRST_LINE", "FORMAT", "Content", "damaged", "encode_record", "read_records"]

#: Counted up with each change of the files' layout.
FORMAT = 1
_MAGIC = b"hotmap store, format "
#: What each file begins with.
FIRST_LINE = _MAGIC + b"%d\n" % FORMAT
_FRAME = struct.Struct(">II")
_HEAD = struct.Struct(">QQ?H")


class Content(NamedTuple):
    """The records of a file, where they end, and how many bytes behind them are not a record."""

    entries: list[Entry]
    end: int
    torn: int


def encode_record(entry: Entry) -> bytes:
    """Write an entry as a record."""
    key = entry.key.encode()
    head = _HEAD.pack(entry.mod_revision, entry.create_revision, entry.value is not None, len(key))
    payload = b"".join((head, key, entry.value or b""))
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def read_records(path: Path) -> Content:
    """Read a file.

    Raises:
        SettingsError: it is of another format, or damaged before its end.
    """
    data = path.read_bytes()
    end = _check_format(path, data)
    entries: list[Entry] = []
    for behind, entry in _records(data, end):
        end = behind
        entries.append(entry)
    if any(True for _ in _records_behind_damage(data, end)):
        raise SettingsError(damaged(path))
    return Content(entries, end, len(data) - end)


def _check_format(path: Path, data: bytes) -> int:
    """Check the first line; return where the records begin."""
    line, newline, _ = data[:64].partition(b"\n")
    if not newline and FIRST_LINE.startswith(data):
        # Killed while it wrote the line.
        return len(FIRST_LINE)
    if not line.startswith(_MAGIC):
        raise SettingsError(
            f"{path} is not a file of the store: remove it, or choose another directory"
        )
    found = line.removeprefix(_MAGIC).decode(errors="replace")
    if found != str(FORMAT):
        raise SettingsError(
            f"the store in {path.parent} has format {found}, this version of hotmap reads format "
            f"{FORMAT}: use the version that wrote it, or choose another directory"
        )
    return len(line) + 1


def _records(data: bytes, at: int) -> Iterator[tuple[int, Entry]]:
    """Read records up to the first that is not whole; give the end of each with it."""
    view = memoryview(data)
    while at + _FRAME.size <= len(data):
        size, checksum = _FRAME.unpack_from(data, at)
        payload = view[at + _FRAME.size : at + _FRAME.size + size]
        if size < _HEAD.size or len(payload) < size or zlib.crc32(payload) != checksum:
            return
        at += _FRAME.size + size
        revision, created, has_value, key_size = _HEAD.unpack_from(payload)
        key = bytes(payload[_HEAD.size : _HEAD.size + key_size]).decode()
        value = bytes(payload[_HEAD.size + key_size :]) if has_value else None
        yield at, Entry(key, value, created, revision)


def _records_behind_damage(data: bytes, at: int) -> Iterable[tuple[int, Entry]]:
    """Find whole records behind one that is not: an interrupted write leaves none."""
    if at + _FRAME.size > len(data):
        return ()
    size, _ = _FRAME.unpack_from(data, at)
    return _records(data, at + _FRAME.size + size)


def damaged(path: Path) -> str:
    """Return the error for a damaged file."""
    return (
        f"{path} is corrupt before its end: restore it from a backup, or choose another directory"
    )
