"""Printing on a terminal."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

__all__ = ["OutputConsole", "print_unpadded"]


class OutputConsole(Console):
    """A console that raises what it is told of a closed pipe.

    rich's own raises SystemExit, which ends an event loop before its tasks are done.
    """

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


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
