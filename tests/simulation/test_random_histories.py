"""Whatever happens in whatever order: what is called up to date is, and what was missed is mended.

    python -m tests.simulation.test_random_histories FIRST LAST    plays a range of seeds, and
    prints each history that breaks a promise

`make test-slow` plays 300 histories; HOTMAP_HISTORIES asks for another number (10,000 a night).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from tests.simulation.histories import HistoryResult, run_history

#: Histories of the quick tests, one for each test.
_QUICK = 10

_COUNT = int(os.environ.get("HOTMAP_HISTORIES", "300"))


def broken_promise(result: HistoryResult) -> str:
    """Return which promise a history breaks, "" for none.

    Every change in it is seen by a controller, or leaves a difference to what was recorded. So the
    pods have to hold the present content once it is quiet, unless new ones could not start, or
    hotmap's rollouts were reverted, or a source came into use while no controller ran, so that
    there was nothing to compare it with: then it is enough that they are named.
    """
    if result.is_false:
        return f"called {result.state.value} ({result.reason}), but {'; '.join(result.stale)}"
    undone = any(" undo " in line for line in result.log)
    came_into_use = any(" is used now" in line for line in result.log)
    if result.stale and not (result.blocked or undone or came_into_use):
        return f"left behind as {result.state.value} ({result.reason}): {'; '.join(result.stale)}"
    return ""


def report(seed: int, result: HistoryResult) -> str:
    """Report a history that breaks a promise."""
    return "\n  ".join([f"history {seed}: {broken_promise(result)}", *result.log])


@pytest.mark.parametrize("seed", range(_QUICK))
def test_history_ends_with_the_present_content(seed: int) -> None:
    """A few in each run of the tests."""
    result = run_history(seed)
    assert not broken_promise(result), report(seed, result)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_random_histories_end_with_the_present_content(
    record_property: Callable[[str, object], None],
) -> None:
    """Many of them, each from its own seed."""
    states: Counter[str] = Counter()
    for seed in range(_QUICK, _QUICK + _COUNT):
        result = run_history(seed)
        assert not broken_promise(result), report(seed, result)
        states[result.state.value] += 1
    record_property("histories", dict(states))


def main(first: int, last: int) -> int:
    """Play a range of seeds; returns how many break a promise."""
    states: Counter[str] = Counter()
    broken = 0
    for seed in range(first, last):
        result = run_history(seed)
        states[result.state.value] += 1
        if broken_promise(result):
            broken += 1
            sys.stdout.write(f"{report(seed, result)}\n")
    sys.stdout.write(f"{last - first} histories, {broken} broken: {dict(states)}\n")
    return broken


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
