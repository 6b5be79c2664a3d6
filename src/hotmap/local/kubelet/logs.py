"""Container logs as files, in the form that container runtimes write them.

One line per line of output: `<RFC 3339, nanoseconds> stdout|stderr F|P <text>`, where P marks a
part of a longer line (kubernetes: KEP CRI logging; pkg/kubelet/kuberuntime/logs). The runtime's
output is written to them; `logs` reads them.

A file that has become large is rotated, as by a kubelet with its default settings
(containerLogMaxSize, containerLogMaxFiles): the newest file is what can be read, and readers that
follow go on in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from typing import Any, BinaryIO

    from hotmap.local.kubelet_api import LogOptions

_log = logging.getLogger(__name__)

#: Bytes of one line after which it is written in parts (containerd: maxContainerLogLineSize).
MAX_LINE = 16 * 1024
#: Bytes of a log file after which it is rotated, and how many files are kept with the newest.
MAX_SIZE = 10 * 1024 * 1024
MAX_FILES = 5
#: Bytes read from a log file at a time.
_CHUNK = 1 << 16


class Line(NamedTuple):
    """One line of a log file; `time` is as written, `text` ends where the output's line ended."""

    time: str
    stream: str
    text: bytes


class ContainerLog:
    """The log of one run of a container; the only writer of its file.

    A line is written when it is complete, too long, or the run is over, so that lines of the two
    streams never mix.
    """

    def __init__(self, path: Path, *, max_size: int = MAX_SIZE) -> None:
        self.path = path
        self.closed = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._max_size = max_size
        self._file = path.open("ab", buffering=0)
        self._size = self._file.tell()
        self._rotations = 0
        self._partial = {"stdout": b"", "stderr": b""}
        self._readers: set[asyncio.Event] = set()
        self._is_lossy = False

    @classmethod
    def of_earlier_run(cls, path: Path) -> ContainerLog | None:
        """Open the log of a run that is over, for reading; None if there is no file."""
        if not path.is_file():
            return None
        log = cls(path)
        log.close()
        return log

    def write(self, stream: str, data: bytes) -> None:
        """Write output as it arrives."""
        if self.closed:
            return
        *lines, rest = (self._partial[stream] + data).split(b"\n")
        now = _timestamp(time.time_ns())
        written = [part for line in lines for part in _line(now, stream, line)]
        while len(rest) > MAX_LINE:
            written.append(_record(now, stream, b"P", rest[:MAX_LINE]))
            rest = rest[MAX_LINE:]
        self._partial[stream] = rest
        self._append(written)

    def close(self) -> None:
        """Write the rest that has no newline, and end the readers that follow.

        It is part of a line, so readers get no newline either (containerd: cri/io/logger.go).
        """
        if self.closed:
            return
        now = _timestamp(time.time_ns())
        rests = [(stream, rest) for stream, rest in self._partial.items() if rest]
        self._append(_record(now, stream, b"P", rest) for stream, rest in rests)
        self.closed = True
        self._file.close()
        self._wake()

    def _append(self, records: Iterable[bytes]) -> None:
        data = b"".join(records)
        if not data:
            return
        try:
            written = self._file.write(data)
        except OSError as error:
            self._lose(error)
            return
        if written != len(data):
            self._lose(None)
            return
        self._size += len(data)
        if self._size >= self._max_size:
            self._rotate()
        self._wake()

    def _lose(self, error: OSError | None) -> None:
        """Give up what could not be written: the container goes on (containerd: cri/io)."""
        with contextlib.suppress(OSError):
            # Not half a record, which the next one would be joined to.
            os.ftruncate(self._file.fileno(), self._size)
        if not self._is_lossy:
            self._is_lossy = True
            reason = error.strerror if error is not None else "no space left"
            _log.error("output is missing from %s: %s", self.path, reason)

    def _rotate(self) -> None:
        old = self._rotated(self._rotations)
        try:
            self.path.rename(old)
            file = self.path.open("ab", buffering=0)
        except OSError:
            # Tried again after the next line; until then the file is as readers expect it.
            with contextlib.suppress(OSError):
                old.rename(self.path)
            return
        self._file.close()
        self._file, self._size = file, 0
        self._rotations += 1
        self._rotated(self._rotations - MAX_FILES).unlink(missing_ok=True)

    def _rotated(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Return the chosen part of the log; with `options.follow` go on until the run is over."""
        changed = asyncio.Event()
        self._readers.add(changed)
        number = self._rotations
        file = self._open(number)
        try:
            if options.tail_lines is not None:
                file.seek(_start_of_tail(file, options.tail_lines))
            remaining = options.limit_bytes
            # A tail is so many lines, whatever is written meanwhile.
            wanted = None if options.follow else options.tail_lines
            while True:
                # What is written after this is for the next round.
                complete, newest = self.closed, self._rotations
                while (records := file.readlines(_CHUNK)) and wanted != 0:
                    if wanted is not None:
                        records = records[:wanted]
                        wanted -= len(records)
                    chunk = _select(records, options)
                    if remaining is not None:
                        chunk, remaining = chunk[:remaining], remaining - len(chunk)
                    if chunk:
                        yield chunk
                    if remaining is not None and remaining <= 0:
                        return
                    # Other requests are answered while much output is read.
                    await asyncio.sleep(0)
                if options.follow and number < newest:
                    number = max(number + 1, self._rotations - MAX_FILES + 1)
                    file.close()
                    file = self._open(number)
                    continue
                if complete or not options.follow:
                    return
                await changed.wait()
                changed.clear()
        finally:
            file.close()
            self._readers.discard(changed)

    def _open(self, number: int) -> BinaryIO:
        return (self._rotated(number) if number < self._rotations else self.path).open("rb")


def log_directory(root: Path, pod: Mapping[str, Any]) -> Path:
    """Return the directory of a pod's logs; the name is upstream's (`/var/log/pods/…`)."""
    metadata = pod["metadata"]
    return root / "logs" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"


def remove_logs(root: Path, pod: Mapping[str, Any]) -> None:
    """Remove the logs of a pod; readers that have one open can read it to its end."""
    shutil.rmtree(log_directory(root, pod), ignore_errors=True)


def log_path(directory: Path, container: str, restarts: int) -> Path:
    """Return the file for one run of a container."""
    return directory / container / f"{restarts}.log"


def remove_older_logs(path: Path, restarts: int) -> None:
    """Remove the logs of runs before this one; readers read on in what they have open."""
    for found in path.parent.glob("*.log*"):
        number = found.name.partition(".")[0]
        if number.isdecimal() and int(number) < restarts:
            found.unlink(missing_ok=True)


def parse_line(record: bytes) -> Line:
    """Take a line of a log file apart; the text of a partial line has no newline."""
    when, stream, tag, text = record.split(b" ", 3)
    if tag == b"P":
        text = text.removesuffix(b"\n")
    return Line(when.decode(), stream.decode(), text)


def _select(records: Iterable[bytes], options: LogOptions) -> bytes:
    """Join the text of the records that are wanted."""
    earliest = "" if options.since is None else _timestamp(int(options.since * 1e9))
    return b"".join(
        b"%s %s" % (line.time.encode(), line.text) if options.timestamps else line.text
        # The last record may be cut off where the kubelet was killed.
        for record in records
        if record.endswith(b"\n") and (line := parse_line(record)).time >= earliest
    )


def _start_of_tail(file: BinaryIO, count: int) -> int:
    """Return where the last `count` lines of a file begin (kuberuntime/logs, tail.go)."""
    position = file.seek(0, os.SEEK_END)
    if count == 0:
        return position
    missing = count + 1
    while position > 0:
        begin = max(0, position - _CHUNK)
        file.seek(begin)
        block = file.read(position - begin)
        found = block.count(b"\n")
        if found >= missing:
            at = len(block)
            for _ in range(missing):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        missing, position = missing - found, begin
    return 0


def _line(now: str, stream: str, text: bytes) -> Iterable[bytes]:
    while len(text) > MAX_LINE:
        yield _record(now, stream, b"P", text[:MAX_LINE])
        text = text[MAX_LINE:]
    yield _record(now, stream, b"F", text)


def _record(now: str, stream: str, tag: bytes, text: bytes) -> bytes:
    return b"%s %s %s %s\n" % (now.encode(), stream.encode(), tag, text)


def _timestamp(nanoseconds: int) -> str:
    """RFC 3339 in UTC with all nine digits, so that times sort as text."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
