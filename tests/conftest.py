"""What holds for all tests: their order, how long they may take, and the figures they measured.

A test notes a figure with pytest's `record_property`; nothing is asserted of it.
"""

from __future__ import annotations

import pytest

#: Seconds that a test with a marker may take with its fixtures; the others: see pyproject.toml. The
#: first test of a cluster may build it.
TIMEOUTS = {"cluster": 3600, "slow": 900}


#: Where tests wait most, for processes and for Leases to run out.
LONGEST = (
    *("tests/faults/", "tests/walkthroughs/", "tests/kube/test_leader_election.py"),
    *("tests/agent/", "tests/conformance/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that a run does not end with waiting for one.

    Also set the time-out of tests marked as slow, unless they set their own.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        if item.get_closest_marker("timeout"):
            continue
        for name, seconds in TIMEOUTS.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.timeout(seconds))
                break


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in which order the tests ran, and write a line for each figure, after its test."""
    seed = getattr(terminalreporter.config.option, "randomly_seed", None)
    if isinstance(seed, int):
        terminalreporter.line(f"in random order; to repeat it: --randomly-seed={seed}")
    figures = [
        f"{report.nodeid.rpartition('/')[2]}: {name} {value}"
        for report in terminalreporter.stats.get("passed", [])
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
    ]
    if figures:
        terminalreporter.section("measured here, with whatever else ran")
        for figure in figures:
            terminalreporter.line(figure)
