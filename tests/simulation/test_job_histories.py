"""A CronJob and a Job that ask for new runs: each runs with the last content, and once.

    python -m tests.simulation.test_job_histories FIRST LAST

plays a range of seeds, and prints each history that breaks a promise.
"""

from __future__ import annotations

import os
import sys

import pytest
from tests.simulation.controller_histories import play_seeds
from tests.simulation.job_histories import play_job_history

#: Histories of the slow test: each takes seconds.
_COUNT = int(os.environ.get("HOTMAP_HISTORIES", "300")) // 10

#: Seconds for all of them, on a busy machine.
_TIMEOUT = max(900, 30 * _COUNT)


def test_jobs_run_with_the_last_content() -> None:
    """One in each run of the tests."""
    broken, log = play_job_history(1)
    assert not broken, "\n".join([broken, *log])


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
def test_random_jobs_run_with_the_last_content() -> None:
    """Many of them."""
    for seed in range(1000, 1000 + _COUNT):
        broken, log = play_job_history(seed)
        assert not broken, "\n".join([f"history {seed}: {broken}", *log])


if __name__ == "__main__":
    sys.exit(bool(play_seeds(play_job_history, int(sys.argv[1]), int(sys.argv[2]))))
