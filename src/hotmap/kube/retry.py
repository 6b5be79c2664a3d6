"""The backoff policy: how long to wait before a retry.

Only arithmetic; the caller waits, and decides what counts as a failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """Returns growing, jittered pauses between `first` and `last` seconds.

    Decorrelated jitter: each pause is drawn between `first` and three times the one before
    (Brooker, "Exponential Backoff And Jitter", AWS 2015), so that clients which failed together do
    not retry together. `uniform` draws the pauses.
    """

    __slots__ = ("_first", "_last", "_previous", "_uniform")

    def __init__(
        self,
        first: float,
        last: float,
        *,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first = first
        self._last = last
        self._previous = first
        self._uniform = uniform

    def next(self) -> float:
        """Return the seconds to wait now; the next are drawn from a wider range."""
        self._previous = min(self._last, self._uniform(self._first, self._previous * 3))
        return self._previous

    def reset(self) -> None:
        """Start again at the first pause, after a success."""
        self._previous = self._first
