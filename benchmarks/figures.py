"""Measured values as figures, figures as aligned tables, and whether they meet their targets.

Pure: nothing is measured, printed or written here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "Comparison",
    "Figure",
    "Sample",
    "Table",
    "Target",
    "at_most",
    "machine_line",
    "quantile",
]

_HEADINGS = ("quantity", "n", "p50", "p99", "max", "target", "result")


class Target(NamedTuple):
    """What a figure has to be: one of its statistics is at most the limit."""

    limit: float
    #: "p50", "p99" or "max".
    statistic: str = "p99"


def at_most(limit: float, statistic: str = "p99") -> tuple[Target, ...]:
    """Make the targets of a figure that has one."""
    return (Target(limit, statistic),)


class Figure(NamedTuple):
    """All samples of one quantity, in the unit that is shown."""

    quantity: str
    values: Sequence[float]
    #: "" for plain counts.
    unit: str = "ms"
    targets: tuple[Target, ...] = ()


class Sample(NamedTuple):
    """The machine at one moment."""

    cores: int
    #: What the kernel calls the processor; "" where it does not say.
    processor: str
    #: Runnable tasks, the mean of the last minute.
    load: float
    #: Seconds in which an interpreter starts and imports asyncio.
    speed: float
    python: str
    kernel: str
    #: ISO 8601, local time, minutes.
    date: str


class Table(NamedTuple):
    """What one benchmark found out, ready to be printed."""

    title: str
    figures: Sequence[Figure]
    #: On which machine, and how busy it was.
    machine: str
    #: What the numbers cannot say, one sentence each.
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        """Lay the table out for a terminal."""
        rows = [_HEADINGS, *(_row(figure) for figure in self.figures)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self.title, *(_aligned(row, widths) for row in rows), f"  {self.machine}"]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def as_markdown(self) -> str:
        """Write the table as a section of a Markdown document."""
        rule = ("---", "--:", "--:", "--:", "--:", "---", "---")
        rows = [_HEADINGS, rule, *(_row(figure) for figure in self.figures)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n\n".join([f"## {self.title}", self.machine, "\n".join(lines), *self.notes])

    def missed(self) -> bool:
        """Return whether any target is missed."""
        return any(
            _statistic(figure, target) > target.limit
            for figure in self.figures
            for target in figure.targets
        )


class Comparison(NamedTuple):
    """What was measured beside what others were measured to do, ready to be printed."""

    title: str
    #: The first says what the rows are.
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    machine: str
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        """Lay the comparison out for a terminal."""
        cells = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = (zip(row, widths, strict=True) for row in cells)
        lines = [
            ("  " + "  ".join(text.ljust(width) for text, width in row)).rstrip() for row in rows
        ]
        return "\n".join(
            [self.title, *lines, f"  {self.machine}", *(f"  {note}" for note in self.notes)]
        )

    def as_markdown(self) -> str:
        """Write the comparison as a section of a Markdown document."""
        rows = [self.columns, ["---"] * len(self.columns), *self.rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n\n".join([f"## {self.title}", self.machine, "\n".join(lines), *self.notes])


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest sample that `share` of all samples do not exceed (nearest rank).

    Always a value that was seen; with fewer than 100 samples p99 is therefore the maximum.
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def machine_line(before: Sample, after: Sample) -> str:
    """Say on which machine something was measured, and how busy that was."""
    processor = f" ({before.processor})" if before.processor else ""
    return (
        f"{before.date}, {before.cores} cores{processor}, load {before.load:.1f} before and "
        f"{after.load:.1f} after, Python {before.python} (asyncio in {before.speed * 1000:.0f} and "
        f"{after.speed * 1000:.0f} ms), Linux {before.kernel}"
    )


def _statistic(figure: Figure, target: Target) -> float:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return quantile(figure.values, shares[target.statistic])


def _row(figure: Figure) -> tuple[str, ...]:
    values, unit = figure.values, figure.unit
    several = len(values) > 1
    return (
        figure.quantity,
        str(len(values)),
        _number(quantile(values, 0.5), unit) if several else "",
        _number(quantile(values, 0.99), unit) if several else "",
        _number(max(values), unit),
        ", ".join(
            f"{target.statistic} ≤ {_number(target.limit, unit)}" for target in figure.targets
        ),
        ", ".join(_result(_statistic(figure, target), target, unit) for target in figure.targets),
    )


def _result(value: float, target: Target, unit: str) -> str:
    room = target.limit - value
    return f"met by {_number(room, unit)}" if room >= 0 else f"MISSED by {_number(-room, unit)}"


def _number(value: float, unit: str) -> str:
    if float(value).is_integer() or abs(value) >= 100:
        text = f"{value:,.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2f}"
    return f"{text} {unit}".rstrip()


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Pad the cells of a row: names to the left, numbers to the right, words to the left."""
    cells = [
        text.rjust(width) if 1 <= column <= 4 else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return ("  " + "  ".join(cells)).rstrip()
