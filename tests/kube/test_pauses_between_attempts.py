"""The backoff policy: growing, jittered, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotmap.kube.retry import Backoff


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_every_pause_is_within_bounds(draws: list[float]):
    """Between `first` and `last`, and at most three times the pause before."""
    wishes = iter(draws)
    backoff = Backoff(0.8, 30, uniform=lambda low, high: low + (high - low) * next(wishes))
    previous = 0.8
    for _ in draws:
        pause = backoff.next()
        assert 0.8 <= pause <= min(30, max(0.8, previous * 3) + 1e-9)
        previous = pause


def test_a_reset_starts_from_the_first_pause():
    """What has worked is trusted again."""
    backoff = Backoff(1, 100, uniform=lambda low, high: high)
    assert [backoff.next() for _ in range(6)] == [3, 9, 27, 81, 100, 100]
    backoff.reset()
    assert backoff.next() == 3
