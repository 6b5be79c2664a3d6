"""Whatever happens in whatever order: what is called up to date is, and what was missed is mended.

    python -m tests.simulation.test_random_histories FIRST LAST [CIRCUMSTANCE]

plays a range of seeds, and prints each history that breaks a promise.

`make test-slow` plays 300 histories; HOTMAP_HISTORIES asks for another number (10,000 a night).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from tests.simulation.histories import CIRCUMSTANCES, broken_promise, report, run_history

#: Histories of the quick tests, one for each test.
_QUICK = 10
_QUICK_IN_EACH = 3

_COUNT = int(os.environ.get("HOTMAP_HISTORIES", "300"))

#: Seconds for all of them, on a busy machine.
_TIMEOUT = max(900, 3 * _COUNT)


@pytest.mark.parametrize("seed", range(_QUICK))
def test_history_ends_with_the_present_content(seed: int) -> None:
    """A few in each run of the tests."""
    result = run_history(seed)
    assert not broken_promise(result), report(seed, result)


@pytest.mark.parametrize("circumstance", CIRCUMSTANCES)
def test_history_in_a_circumstance_ends_with_the_present_content(circumstance: str) -> None:
    """What happens rarely, beside all that happens anyway."""
    for seed in range(_QUICK_IN_EACH):
        result = run_history(seed, circumstance=circumstance)
        assert not broken_promise(result), report(seed, result)


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
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


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize("circumstance", CIRCUMSTANCES)
def test_random_histories_in_a_circumstance_end_with_the_present_content(
    circumstance: str,
) -> None:
    """As many in all circumstances together as without them."""
    for seed in range(_QUICK_IN_EACH, _QUICK_IN_EACH + _COUNT // len(CIRCUMSTANCES)):
        result = run_history(seed, circumstance=circumstance)
        assert not broken_promise(result), report(seed, result)


def main(first: int, last: int, circumstance: str = "") -> int:
    """Play a range of seeds; returns how many break a promise."""
    states: Counter[str] = Counter()
    broken = 0
    for seed in range(first, last):
        result = run_history(seed, circumstance=circumstance)
        states[result.state.value] += 1
        if broken_promise(result):
            broken += 1
            sys.stdout.write(f"{report(seed, result)}\n")
    sys.stdout.write(f"{last - first} histories, {broken} broken: {dict(states)}\n")
    return broken


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))
