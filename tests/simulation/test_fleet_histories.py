"""Several workloads with one source and the whole controller: turns end, and no edit is lost.

    python -m tests.simulation.test_fleet_histories FIRST LAST

plays a range of seeds, and prints each history that breaks a promise.
"""

from __future__ import annotations

import os
import sys

import pytest
from tests.simulation.controller_histories import play_seeds
from tests.simulation.fleet_histories import play_fleet_history

#: Histories of the slow test: each takes seconds.
_COUNT = int(os.environ.get("HOTMAP_HISTORIES", "300")) // 10

#: Seconds for all of them, on a busy machine.
_TIMEOUT = max(900, 30 * _COUNT)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(14, id="workloads that are new to a leader wait for their turn"),
        pytest.param(42, id="the limit is lowered while rollouts fail"),
    ],
)
def test_fleet_has_the_last_content(seed: int) -> None:
    """Histories that broke a promise once."""
    broken, log = play_fleet_history(seed)
    assert not broken, "\n".join([broken, *log])


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
def test_fleets_have_the_last_content() -> None:
    """Many of them."""
    for seed in range(1000, 1000 + _COUNT):
        broken, log = play_fleet_history(seed)
        assert not broken, "\n".join([f"history {seed}: {broken}", *log])


if __name__ == "__main__":
    sys.exit(bool(play_seeds(play_fleet_history, int(sys.argv[1]), int(sys.argv[2]))))
