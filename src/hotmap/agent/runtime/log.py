"""One line for each transition, on standard error: names and digests, never values.

The logging module would cost 1.5 MB and a lock; the agent has one thread and one destination.
"""

from __future__ import annotations

import os
import time

from hotmap.agent.runtime.clock import wall

__all__ = ["Log"]


class Log:
    """Writes lines as text or as JSON."""

    def __init__(self, form: str) -> None:
        self._json = form == "json"

    def info(self, event: str, message: str, **fields: object) -> None:
        """Log something that is as it should be."""
        self._write("info", event, message, fields)

    def warning(self, event: str, message: str, **fields: object) -> None:
        """Log a problem; the agent continues."""
        self._write("warning", event, message, fields)

    def _write(self, level: str, event: str, message: str, fields: dict[str, object]) -> None:
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
            details = "".join(f" {name}={value}" for name, value in known.items())
            text = message.replace("\n", " | ")
            line = f"{stamp} {level.upper():<7} {event}: {text}{details}"
        try:
            os.write(2, f"{line}\n".encode("utf-8", "backslashreplace"))
        except OSError:
            return  # standard error is closed; /status has the same
