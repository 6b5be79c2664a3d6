"""Printing on a terminal."""

from __future__ import annotations

import os
from typing import NoReturn

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

__all__ = ["OutputConsole", "print_unpadded", "width_from_environment"]

# With fewer columns, rich leaves words out.
_NARROWEST = 20
# Nothing that is printed depends on it.
_ANY_HEIGHT = 25


class OutputConsole(Console):
    """A console on standard output, which says what it shows as it is.

    With COLUMNS=0, which a terminal of unknown size has, rich's own would print nothing. When its
    pipe is closed, it raises SystemExit, which ends an event loop before its tasks are done.
    """

    def __init__(self, *, width: int | None = None) -> None:
        """Prepare; `width` is by default that of COLUMNS in the environment or of the terminal."""
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        width = width or width_from_environment()
        super().__init__(
            width=width,
            # Without a height, a dumb terminal has 80 columns whatever is asked for.
            height=None if width is None else _ANY_HEIGHT,
            highlight=False,
            markup=False,
            emoji=False,
            _environ=environment,
        )

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def width_from_environment() -> int | None:
    """Return the width that COLUMNS names, None where it names none."""
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), _NARROWEST) if columns.isdecimal() and int(columns) else None


def print_unpadded(console: Console, renderable: RenderableType) -> None:
    """Print a table or the like without the spaces that fill its last column."""
    segments: list[Segment] = []
    for line in console.render_lines(renderable, pad=False):
        while line and not line[-1].text.strip(" "):
            line.pop()
        if line:
            last = line.pop()
            line.append(Segment(last.text.rstrip(" "), last.style))
        segments += [*line, Segment.line()]
    console.print(Segments(segments), end="")
