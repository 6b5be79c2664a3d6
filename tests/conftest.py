"""What holds for all tests: their order, how long they may take, and the figures they measured.

A test notes a figure with pytest's `record_property`; nothing is asserted of it.
"""

from __future__ import annotations

import gc
import importlib
import logging
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.support.stuck_tests import ended_if_stuck

# Property tests check results, not the speed of a machine that other work shares.
settings.register_profile(
    "tests", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

# nohup and shells make what they start ignore these, and so would all processes of the tests.
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Seconds that a test with a marker may take with its fixtures; the others: see pyproject.toml. The
#: first test of a cluster may build it.
TIMEOUTS = {"cluster": 3600, "slow": 900}

#: Where tests wait most, for processes and for Leases to run out; the longest first.
WAITING = (
    *("tests/faults/", "tests/kube/test_leader_election.py", "tests/walkthroughs/"),
    *("tests/agent/", "tests/conformance/"),
)

#: Seconds that a test may go on after its time-out, with what it does to clean up.
GRACE = 120

ROOT = Path(__file__).parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without the garbage collector: nothing of what is made is garbage, then or later."""
    gc.disable()
    if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        import_from_another_start(getattr(session.config, "workerinput", None))
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Go on with the next test if one hangs so that no time-out ends it."""
    marker = item.get_closest_marker("timeout")
    timeout = marker.args[0] if marker else float(item.config.getini("timeout"))
    with ended_if_stuck(item.nodeid, timeout + GRACE):
        return (yield)


@pytest.fixture(autouse=True)
def kept_logging() -> Iterator[None]:
    """Leave logging as it was: some tests run commands in this process, and these set it up."""
    root, ours = logging.getLogger(), logging.getLogger("hotmap")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


class _Tracebacks(logging.Handler):
    """Keeps the log lines that have a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def no_internal_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if hotmap logs a traceback: it goes on after one, so a test may pass in spite of it."""
    found, logger = _Tracebacks(), logging.getLogger("hotmap")
    logger.addHandler(found)
    yield
    logger.removeHandler(found)
    if not request.node.get_closest_marker("internal_errors"):
        assert not found.lines, "\n".join(found.lines[:3])


def import_from_another_start(worker: Mapping[str, Any] | None) -> None:
    """Let each parallel worker begin to import at another test module.

    In a new clone all of them have to be compiled, which takes longer than the rest of a
    collection. A worker that comes to a module second finds it compiled.
    """
    if worker is not None:
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        start = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        for file in files[start:] + files[:start]:
            with suppress(Exception):  # is reported where the module is collected
                importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the files whose tests wait with those that compute, so that no processor is idle.

    Also set the time-out of tests marked as slow, unless they set their own.
    """
    places = mixed(dict.fromkeys(item.nodeid.partition("::")[0] for item in items))
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])
    for item in items:
        if item.get_closest_marker("timeout"):
            continue
        for name, seconds in TIMEOUTS.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.timeout(seconds))
                break


def mixed(files: Iterable[str]) -> dict[str, float]:
    """Return the place of each file in a run, from 0 to 1: each sort is spread over all of it."""
    waiting: list[str] = []
    computing: list[str] = []
    for file in files:
        (waiting if file.startswith(WAITING) else computing).append(file)
    waiting.sort(key=lambda file: [file.startswith(part) for part in WAITING].index(True))
    return {
        file: number / len(kind)
        for kind in (waiting, computing)
        for number, file in enumerate(kind)
    }


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
