"""What the demo shows: lines with the time since the last edit, and whether each is true."""

from __future__ import annotations

import time
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Line", "Timeline"]

_STYLES = {
    "decided": "cyan",
    "refreshed": "green",
    "loaded": "green",
    "left alone": "dim",
    "same": "dim",
    "WRONG": "bold red",
}


class Line(NamedTuple):
    """One thing that happened."""

    #: Seconds since the edit that it belongs to; None for a heading.
    after: float | None
    label: str
    text: str
    true: bool = True


class Timeline:
    """Collects lines and prints each as it comes, unless there is no console to print on."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._started = time.monotonic()
        self.lines: list[Line] = []

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started

    @property
    def true(self) -> bool:
        """Whether everything that was shown is true."""
        return all(line.true for line in self.lines)

    def heading(self, text: str) -> None:
        """Begin a chapter: something that a person does."""
        self.lines.append(Line(None, "", text))
        if self._console:
            self._console.print()
            self._console.print(Text(text, style="bold"))

    def note(self, after: float, label: str, text: str, *, true: bool = True) -> None:
        """Show one thing that happened, some seconds after the edit."""
        line = Line(after, label if true else "WRONG", text, true)
        self.lines.append(line)
        if self._console:
            self._console.print(self._formatted(line))

    def say(self, text: str, *, style: str = "") -> None:
        """Print a line that is no part of the record."""
        if self._console:
            self._console.print(Text(text, style=style))

    def _formatted(self, line: Line) -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=8, style="dim", justify="right")
        grid.add_column(width=10)
        grid.add_column()
        when = f"{line.after:+.2f} s" if line.after is not None else ""
        grid.add_row(when, Text(line.label, style=_STYLES.get(line.label, "")), Text(line.text))
        return grid
