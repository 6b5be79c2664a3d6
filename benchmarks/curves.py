"""Curves of what something costs as it grows, as a table and as a picture.

Pure: nothing is measured or written here. The picture is drawn for light and for dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["Curve", "Curves"]

#: Where `python -m benchmarks --write` puts the pictures, as seen from results.md.
_PICTURES: Final = "../docs/benchmarks"

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 48, 56

#: Largest value in smallest ones up to which lines are drawn between powers of ten, too.
_FEW_POWERS: Final = 500

#: Height of a line of the key.
_LINE = 18


class _Colors(NamedTuple):
    page: str
    text: str
    grid: str
    #: Of the curves, in their order.
    curves: Sequence[str]


_LIGHT = _Colors("#ffffff", "#1f2328", "#d0d7de", ("#0969da", "#8250df", "#bf3989", "#1a7f37"))
_DARK = _Colors("#0d1117", "#e6edf3", "#30363d", ("#4493f8", "#ab7df8", "#db61a2", "#3fb950"))


class Curve(NamedTuple):
    """One quantity at several sizes."""

    name: str
    #: (size, value), by size.
    points: Sequence[tuple[float, float]]
    #: Whether it is a bound, which is drawn dashed.
    bound: bool = False


class Curves(NamedTuple):
    """Curves with the same axes, both logarithmic: what grows with the size is a straight line."""

    title: str
    #: The name of the files, without `-light.svg`.
    name: str
    size: str
    #: The unit of the values.
    unit: str
    curves: Sequence[Curve]
    machine: str
    notes: Sequence[str] = ()

    def _rows(self) -> list[list[str]]:
        sizes = sorted({size for curve in self.curves for size, _ in curve.points})
        rows = [[self.size, *(f"{curve.name}, {self.unit}" for curve in self.curves)]]
        for size in sizes:
            values = [dict(curve.points).get(size) for curve in self.curves]
            shown = ["" if value is None else _number(value) for value in values]
            rows.append([f"{size:,.0f}", *shown])
        return rows

    def as_text(self) -> str:
        """Lay the values out for a terminal."""
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join(
            [self.title, *lines, f"  {self.machine}", *(f"  {note}" for note in self.notes)]
        )

    def as_markdown(self) -> str:
        """Write the values and the picture as a section of a Markdown document."""
        head, *rows = self._rows()
        lines = [f"| {' | '.join(row)} |" for row in (head, ["--:"] * len(head), *rows)]
        dark, light = (f"{_PICTURES}/{self.name}-{page}.svg" for page in ("dark", "light"))
        picture = (
            "<picture>\n"
            f'  <source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
            f'  <img alt="{self.title}" src="{light}">\n'
            "</picture>"
        )
        return "\n\n".join(
            [f"## {self.title}", self.machine, picture, "\n".join(lines), *self.notes]
        )

    def pictures(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each picture."""
        yield f"{self.name}-light.svg", self._svg(_LIGHT)
        yield f"{self.name}-dark.svg", self._svg(_DARK)

    def _svg(self, colors: _Colors) -> str:
        sizes = [size for curve in self.curves for size, _ in curve.points]
        values = [value for curve in self.curves for _, value in curve.points]
        axes = _Axes(min(sizes), max(sizes), *_range(values))
        parts = [*_frame(self, colors, axes)]
        for number, curve in enumerate(self.curves):
            color = colors.text if curve.bound else colors.curves[number % len(colors.curves)]
            parts += _drawn(curve, color, axes)
            parts += _key(curve, color, colors, _TOP + 14 + number * _LINE)
        body = "\n".join(parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            f' font-family="system-ui, sans-serif" font-size="12" role="img">\n{body}\n</svg>\n'
        )


class _Axes(NamedTuple):
    """Places on the picture."""

    smallest: float
    largest: float
    lowest: float
    highest: float

    def x(self, size: float) -> float:
        whole = math.log(self.largest / self.smallest) or 1.0
        share = math.log(size / self.smallest) / whole
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        value = max(value, self.lowest)
        share = math.log(value / self.lowest) / math.log(self.highest / self.lowest)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def values(self) -> Iterator[float]:
        """Yield the values that lines are drawn at: 1, 2 and 5 times powers of ten, or these."""
        steps = (1, 2, 5) if self.highest <= _FEW_POWERS * self.lowest else (1,)
        power = 10.0 ** math.floor(math.log10(self.lowest))
        while power <= self.highest:
            yield from (power * n for n in steps if self.lowest <= power * n <= self.highest)
            power *= 10


def _frame(curves: Curves, colors: _Colors, axes: _Axes) -> Iterator[str]:
    yield f"<title>{_escaped(curves.title)}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="{colors.page}"/>'
    yield _text(_LEFT, 24, f"{curves.title} ({curves.unit})", colors.text, size=15)
    for value in axes.values():
        y = axes.y(value)
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            f' stroke="{colors.grid}"/>'
        )
        yield _text(_LEFT - 8, y + 4, _number(value), colors.text, anchor="end")
    for size in sorted({size for curve in curves.curves for size, _ in curve.points}):
        label = f"{size / 1000:g}k" if size >= 1000 else f"{size:g}"
        yield _text(axes.x(size), _HEIGHT - _BOTTOM + 20, label, colors.text, anchor="middle")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield _text(middle, _HEIGHT - 14, curves.size, colors.text, anchor="middle")


def _drawn(curve: Curve, color: str, axes: _Axes) -> Iterator[str]:
    places = [(axes.x(size), axes.y(value)) for size, value in curve.points]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline fill="none" points="{points}" {_stroke(curve, color)}/>'
    for x, y in () if curve.bound else places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'


def _key(curve: Curve, color: str, colors: _Colors, y: int) -> Iterator[str]:
    # A line of the grid would strike the text through.
    area = f'width="{44 + 7 * len(curve.name)}" height="{_LINE}" fill="{colors.page}"'
    yield f'<rect x="{_LEFT + 4}" y="{y - _LINE // 2}" {area}/>'
    ends = f'x1="{_LEFT + 12}" x2="{_LEFT + 36}" y1="{y}" y2="{y}"'
    yield f"<line {ends} {_stroke(curve, color)}/>"
    yield _text(_LEFT + 44, y + 4, curve.name, colors.text)


def _stroke(curve: Curve, color: str) -> str:
    dashes = ' stroke-dasharray="6 5"' if curve.bound else ""
    return f'stroke="{color}" stroke-width="2"{dashes}'


def _text(
    x: float, y: float, text: str, color: str, *, anchor: str = "start", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" font-size="{size}">'
        f"{_escaped(text)}</text>"
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return 1, 2 or 5 times a power of ten below all values that are not 0, and one above."""
    some = [value for value in values if value > 0] or [1.0]
    steps = [10.0**power * step for power in range(-6, 10) for step in (1, 2, 5)]
    lowest = max(step for step in steps if step <= max(min(some), steps[0]))
    return lowest, next(step for step in steps if step > lowest and step >= max(some))


def _number(value: float) -> str:
    if float(value).is_integer() or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
