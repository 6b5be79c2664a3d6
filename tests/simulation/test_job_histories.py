"""A CronJob and a Job that ask for new runs: each runs with the last content, and once.

    python -m tests.simulation.test_job_histories FIRST LAST

plays a range of seeds, and prints each history that breaks a promise.
"""

from __future__ import annotations

import os
import sys

import pytest
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


def main(first: int, last: int) -> int:
    """Play a range of seeds; returns how many break a promise."""
    count = 0
    for seed in range(first, last):
        broken, log = play_job_history(seed)
        if broken:
            count += 1
            sys.stdout.write("\n  ".join([f"history {seed}: {broken}", *log]) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{last - first} histories, {count} broken\n")
    return count


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
