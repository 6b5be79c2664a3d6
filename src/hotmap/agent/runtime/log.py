"""One line for each transition, on standard error: names and digests, never values.

The logging module would cost 1.5 MB and a lock; the agent has one thread and one destination.
"""

from __future__ import annotations

import os
import select
import stat
import time

from hotmap.agent.runtime.clock import wall
from hotmap.core.text import printable

__all__ = ["Log"]


#: Bytes that fit into a pipe which is ready for writing (pipe(7), PIPE_BUF).
_PIECE = 4096


class Log:
    """Writes lines as text or as JSON, and never waits for a reader.

    A pipe or socket that is full loses lines; they are counted. Descriptor 2 is not set to
    non-blocking, since the application and others have the same open file.
    """

    def __init__(self, form: str, level: str = "info") -> None:
        """`form`: text or json; `level`: info, warning or none."""
        self._json = form == "json"
        self._levels = {"info": ("info", "warning"), "warning": ("warning",)}.get(level, ())
        #: Number of lines that were not read in time; those since the last line that was written.
        self.dropped = 0
        self._dropped_since = 0
        self._cut = False
        self._descriptor = 2
        self._poll: select.poll | None = None
        try:
            kind = os.fstat(2).st_mode
            if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or stat.S_ISCHR(kind):
                self._poll = select.poll()
                self._poll.register(2, select.POLLOUT)
            if stat.S_ISFIFO(kind):
                # An open file of our own, which may be non-blocking.
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
                self._descriptor = os.open("/proc/self/fd/2", flags)
        except OSError:
            return  # it is closed, or belongs to another user

    def info(self, event: str, message: str, **fields: object) -> None:
        """Log a normal transition."""
        self._write("info", event, message, fields)

    def warning(self, event: str, message: str, **fields: object) -> None:
        """Log a problem; the agent continues."""
        self._write("warning", event, message, fields)

    def _write(self, level: str, event: str, message: str, fields: dict[str, object]) -> None:
        if level not in self._levels:
            return
        seconds = wall()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        stamp = f"{stamp}.{int(seconds * 1000) % 1000:03d}Z"
        known = {name: value for name, value in fields.items() if value not in (None, "")}
        if self._json:
            import json

            line = json.dumps(
                {"time": stamp, "level": level, "event": event, "message": message, **known}
            )
        else:
            details = "".join(f" {name}={printable(str(value))}" for name, value in known.items())
            text = " | ".join(printable(line) for line in message.split("\n"))
            line = f"{stamp} {level.upper():<7} {event}: {text}{details}"
        self._write_line(f"{line}\n".encode("utf-8", "backslashreplace"))

    def _write_line(self, line: bytes) -> None:
        data = b"\n" + line if self._cut else line
        whole = len(data)
        try:
            while data and (self._poll is None or self._poll.poll(0)):
                data = data[os.write(self._descriptor, data[:_PIECE]) :]
        except BlockingIOError:
            pass
        except OSError:
            return  # standard error is closed; /status has the same
        if data:
            self.dropped += 1
            self._dropped_since += 1
            self._cut = self._cut or len(data) < whole
        else:
            self._cut = False
            if self._dropped_since:
                count, self._dropped_since = self._dropped_since, 0
                self.warning("log", f"{count} lines were dropped: standard error was not read")
