"""Container logs as files, in the form that container runtimes write them.

One line per line of output: `<RFC 3339, nanoseconds> stdout|stderr F|P <text>`, where P marks a
part of a longer line (kubernetes: KEP CRI logging; pkg/kubelet/kuberuntime/logs). The runtime's
output is written to them; `logs` reads them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from hotmap.local.kubelet_api import LogOptions

#: Bytes of one line after which it is written in parts (containerd: maxContainerLogLineSize).
MAX_LINE = 16 * 1024
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

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._partial = {"stdout": b"", "stderr": b""}
        self._readers: set[asyncio.Event] = set()

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
        if data:
            self._file.write(data)
            self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Return the chosen part of the log; with `options.follow` go on until the run is over."""
        changed = asyncio.Event()
        self._readers.add(changed)
        remaining = options.limit_bytes
        try:
            with self.path.open("rb", buffering=_CHUNK) as file:
                lines: Iterable[Line] = map(parse_line, file)
                if options.tail_lines is not None:
                    lines = deque(lines, maxlen=options.tail_lines)
                while True:
                    complete = self.closed
                    for chunk in _chunks(lines, options):
                        yield chunk[:remaining]
                        if remaining is not None:
                            remaining -= len(chunk)
                            if remaining <= 0:
                                return
                    if complete or not options.follow:
                        return
                    await changed.wait()
                    changed.clear()
                    lines = map(parse_line, file)
        finally:
            self._readers.discard(changed)


def parse_line(record: bytes) -> Line:
    """Take a line of a log file apart; the text of a partial line has no newline."""
    when, stream, tag, text = record.split(b" ", 3)
    if tag == b"P":
        text = text.removesuffix(b"\n")
    return Line(when.decode(), stream.decode(), text)


def _chunks(lines: Iterable[Line], options: LogOptions) -> Iterable[bytes]:
    """Join the lines that are wanted to chunks of moderate size."""
    earliest = "" if options.since is None else _timestamp(int(options.since * 1e9))
    parts: list[bytes] = []
    size = 0
    for line in lines:
        if line.time < earliest:
            continue
        text = b"%s %s" % (line.time.encode(), line.text) if options.timestamps else line.text
        parts.append(text)
        size += len(text)
        if size >= _CHUNK:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


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
