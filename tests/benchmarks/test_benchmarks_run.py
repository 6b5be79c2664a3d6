"""Each benchmark runs to its end and prints its table; how fast it was is not asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.requires import requires

#: Minutes of processor time, too much for each edit.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name",
    ["decode", "plane", "requests", "rollout", "nudge", "agent", "scale", "takeover", "tenants"],
)
def test_a_benchmark_prints_a_table_with_its_targets(name: str) -> None:
    """Two samples of everything are enough for every row, its target and the machine."""
    done = subprocess.run(
        (sys.executable, "-m", "benchmarks", name, "--quick"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    refused = "the local plane ended instead" in done.stderr
    requires("namespaces", available=not refused, reason="no local plane starts here")
    assert done.returncode == 0, done.stderr
    assert "target" in done.stdout
    assert "≤" in done.stdout
    assert "Python" in done.stdout


def test_an_unknown_benchmark_is_refused_with_the_names_that_there_are() -> None:
    """A wrong name gives exit status 2 and the right ones."""
    done = subprocess.run(
        (sys.executable, "-m", "benchmarks", "speed"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "rollout" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_comparison_has_a_column_for_each_of_us() -> None:
    """Every row of the peers is there, with hotmap's own figure in the last column."""
    done = subprocess.run(
        (sys.executable, "-m", "benchmarks", "peers", "--quick"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    refused = "the local plane ended instead" in done.stderr
    requires("namespaces", available=not refused, reason="no local plane starts here")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (head,) = (line for line in lines if "Reloader 1.4.21" in line)
    column = head.index("hotmap")
    rows = lines[lines.index(head) + 1 :][:16]
    assert all(len(row) > column for row in rows), done.stdout
    assert "lost" not in "".join(row[column:] for row in rows)
