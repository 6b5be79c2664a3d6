"""How much one run measures, and the frame around each measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks import machine
from benchmarks.curves import Curve, Curves
from benchmarks.figures import Comparison, Figure, Sample, Table, machine_line

__all__ = ["Measurement", "Scope", "measured"]


class Scope(NamedTuple):
    """What one run was asked for."""

    #: A few samples of everything: shows that the benchmarks work, and gives no figures.
    quick: bool
    #: The real Kubernetes of tests/cluster beside the local plane.
    cluster: bool

    def count(self, full: int, quick: int = 2) -> int:
        """Choose the number of samples, consumers or objects."""
        return quick if self.quick else full


class Measurement:
    """One table while it comes to be."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._before = machine.sample()
        self._after: Sample | None = None
        self.figures: list[Figure] = []
        self.notes: list[str] = []

    def end(self) -> None:
        """Look at the machine once more."""
        self._after = machine.sample()

    def table(self) -> Table:
        """Return what was measured, once it has ended."""
        line = machine_line(self._before, self._after or self._before)
        return Table(self._title, self.figures, line, self.notes)

    def comparison(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Comparison:
        """Return what was measured beside what others do, once it has ended."""
        line = machine_line(self._before, self._after or self._before)
        return Comparison(self._title, columns, rows, line, self.notes)

    def curves(self, name: str, size: str, unit: str, curves: Sequence[Curve]) -> Curves:
        """Return what was measured at several sizes, once it has ended."""
        line = machine_line(self._before, self._after or self._before)
        return Curves(self._title, name, size, unit, curves, line, self.notes)


@contextmanager
def measured(title: str) -> Iterator[Measurement]:
    """Frame a measurement: the machine is looked at when the block begins and when it ends."""
    measurement = Measurement(title)
    yield measurement
    measurement.end()
