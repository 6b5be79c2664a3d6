"""What `hotmap status --wait` shows on a terminal while it waits."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from hotmap.core.text import printable

__all__ = ["WaitProgress", "create_wait_progress"]

#: Lines for one answer; a release can change the state of hundreds of workloads in a second.
_MAX_LINES = 10


class WaitProgress:
    """Prints a workload's reason when it changes; omits workloads that are current at first."""

    def __init__(self, stream: TextIO | None) -> None:
        """`stream` None prints nothing."""
        self._stream = stream
        #: The reason of each workload that was not current once, by kind, namespace and name.
        self._shown: dict[tuple[str, str, str], str] = {}

    def report(self, document: dict[str, Any]) -> None:
        """Print the reasons that differ from those of the last report."""
        if self._stream is None:
            return
        lines = []
        for workload in document["workloads"]:
            key = workload["kind"], workload["namespace"], workload["name"]
            reason = workload["reason"]
            is_news = key in self._shown or workload["state"] != "current"
            if is_news and self._shown.get(key) != reason:
                self._shown[key] = reason
                lines.append(f"{key[0].lower()}/{key[2]} in {key[1]}: {reason}")
        more = len(lines) - _MAX_LINES
        if more > 0:
            lines[_MAX_LINES:] = [f"… and {more} more"]
        for line in lines:
            self._stream.write(f"{printable(line)}\n")
        self._stream.flush()


def create_wait_progress(*, quiet: bool) -> WaitProgress:
    """Report on standard error if that is a terminal: a script's log gets the result alone."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return WaitProgress(sys.stderr if is_terminal and not quiet else None)
