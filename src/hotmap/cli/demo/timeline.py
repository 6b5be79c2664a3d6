"""The demo's output: lines with the time since the last edit, and whether each check passed."""

from __future__ import annotations

import time
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotmap.cli.terminal import print_unpadded

__all__ = ["Line", "Timeline"]

_STYLES = {
    "decided": "cyan",
    "refreshed": "green",
    "loaded": "green",
    "status": "cyan",
    "unaffected": "dim",
    "same": "dim",
    "FAILED": "bold red",
}


class Line(NamedTuple):
    """A result of the demo."""

    #: Seconds since the edit; None for a heading.
    after: float | None
    label: str
    text: str
    passed: bool = True


class Timeline:
    """Collects lines, and prints each at once if there is a console."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._started = time.monotonic()
        self.lines: list[Line] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(line.passed for line in self.lines)

    def heading(self, text: str) -> None:
        """Begin a section: an action of the user."""
        self.lines.append(Line(None, "", text))
        if self._console:
            self._console.print()
            self._console.print(Text(text, style="bold"))

    def add(self, after: float, label: str, text: str, *, passed: bool = True) -> None:
        """Add a result, `after` seconds after the edit."""
        line = Line(after, label if passed else "FAILED", text, passed)
        self.lines.append(line)
        if self._console:
            print_unpadded(self._console, self._formatted(line))

    def print_line(self, text: str, *, style: str = "") -> None:
        """Print a line that is not a result."""
        if self._console:
            self._console.print(Text(text, style=style))

    def _formatted(self, line: Line) -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=8, style="dim", justify="right")
        grid.add_column(width=10)
        grid.add_column(overflow="fold")
        when = f"{line.after:+.2f} s" if line.after is not None else ""
        grid.add_row(when, Text(line.label, style=_STYLES.get(line.label, "")), Text(line.text))
        return grid
