"""Whatever happens in whatever order: what an agent calls loaded is, and no change is lost.

    python -m tests.simulation.test_agent_histories FIRST LAST [TEMPLATE]

plays a range of seeds, and prints each history that breaks a promise.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest
from tests.simulation.agent_histories import broken_promise, play_agent_history, report

#: Histories of the quick tests, one for each test.
_QUICK = 10

_COUNT = int(os.environ.get("HOTMAP_HISTORIES", "300"))

#: Seconds for all of them, on a busy machine.
_TIMEOUT = max(900, 3 * _COUNT)


@pytest.mark.parametrize("seed", range(_QUICK))
def test_agents_load_the_present_content(seed: int) -> None:
    """A few in each run of the tests."""
    result = play_agent_history(seed)
    assert not broken_promise(result), report(seed, result)


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
def test_agents_of_random_histories_load_the_present_content() -> None:
    """Many of them, each from its own seed."""
    for seed in range(_QUICK, _QUICK + _COUNT):
        result = play_agent_history(seed)
        assert not broken_promise(result), report(seed, result)


def main(first: int, last: int, template: str = "") -> int:
    """Play a range of seeds; returns how many break a promise."""
    states: Counter[str] = Counter()
    broken = 0
    for seed in range(first, last):
        result = play_agent_history(seed, int(template) if template else None)
        states[result.status.state.value if result.status else "none"] += 1
        if broken_promise(result):
            broken += 1
            sys.stdout.write(f"{report(seed, result)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{last - first} histories, {broken} broken: {dict(states)}\n")
    return broken


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))
