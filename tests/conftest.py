"""Shows at the end of a run what its tests have measured, of which nothing is asserted.

A test notes a figure with pytest's `record_property`.
"""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write a line for each figure, after the name of its test."""
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
