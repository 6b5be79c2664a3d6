"""Figures say what was measured and whether it is what was promised."""

from __future__ import annotations

import pytest
from benchmarks.figures import Comparison, Figure, Table, Target, at_most, quantile
from benchmarks.results import merged
from hypothesis import given
from hypothesis import strategies as st


def table(title: str, *values: float, targets: tuple[Target, ...] = ()) -> Table:
    return Table(title, [Figure("delay", values, "ms", targets)], "a machine")


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_quantile_is_sample_that_enough_samples_do_not_exceed(
    values: list[float], share: float
) -> None:
    """A quantile was really seen, and the asked share of all samples is not above it."""
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


@pytest.mark.parametrize(
    ("values", "statistic", "said"),
    [
        ((5, 7), "max", "met by 3 ms"),
        ((5, 10), "max", "met by 0 ms"),
        ((5, 12.5), "max", "MISSED by 2.50 ms"),
        ((5, 12.5), "p50", "met by 5 ms"),
    ],
)
def test_target_is_met_or_missed_by_amount(
    values: tuple[float, ...], statistic: str, said: str
) -> None:
    """The result names the distance of the target's own statistic from its limit."""
    shown = table("T", *values, targets=at_most(10, statistic))
    assert said in shown.as_text()
    assert said in shown.as_markdown()


def test_columns_are_aligned() -> None:
    """Every row of a table begins its target in the same column."""
    figures = [Figure("short", [1.5], "s", at_most(2)), Figure("much longer", [1], "", at_most(2))]
    lines = Table("T", figures, "a machine").as_text().splitlines()[1:4]
    assert len({line.index("target" if "target" in line else "p99 ≤") for line in lines}) == 1


def test_new_run_replaces_its_own_section_alone() -> None:
    """What was not measured again stays in the document, and nothing is there twice."""
    first = merged("", [table("A", 1), table("B", 2)])
    second = merged(first, [table("B", 3), table("C", 4)])
    assert [line for line in second.splitlines() if line.startswith("#")] == [
        "# Results",
        "## A",
        "## B",
        "## C",
    ]
    assert "1 ms" in second
    assert "3 ms" in second
    assert "2 ms" not in second
    assert merged(second, []) == second


def test_head_in_middle_is_dropped() -> None:
    """A document that was put together of two keeps every section, and one head."""
    halves = [merged("", [table(name, 1)]) for name in "AB"]
    mended = merged("\n".join(halves), [])
    assert [line for line in mended.splitlines() if line.startswith("#")] == [
        "# Results",
        "## A",
        "## B",
    ]
    assert mended.count("Written by") == 1


def test_comparison_is_section_as_well() -> None:
    """Its rows stand under its columns, in a terminal and in the document."""
    made = Comparison("C", ("row", "them", "us"), [("speed", "9 s", "1 s")], "a machine", ["note"])
    head, row = made.as_text().splitlines()[1:3]
    assert head.index("us") == row.index("1 s")
    document = merged("", [made, table("A", 1)])
    assert "| speed | 9 s | 1 s |" in document
    assert merged(document, []) == document
