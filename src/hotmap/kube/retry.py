"""The backoff policy: how long to wait before a retry.

The caller decides what counts as a failure.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Backoff", "Outage"]


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


class Outage:
    """Whether a server cannot be reached; ends the pauses of all its clients with its next answer.

    Pauses become as long as an outage, so without this each client would notice its end half a
    minute late.
    """

    __slots__ = ("_over", "count")

    def __init__(self) -> None:
        #: How many there have been, with this one.
        self.count = 0
        #: Set when the outage is over; None: there is none.
        self._over: asyncio.Event | None = None

    def begin(self) -> None:
        """Record that a request got no answer."""
        if self._over is None:
            self._over = asyncio.Event()
            self.count += 1

    def end(self) -> None:
        """Record that a request got an answer."""
        if self._over is not None:
            self._over.set()
            self._over = None

    async def pause(self, seconds: float, *, least: float) -> None:
        """Wait some seconds; the end of an outage shortens them to `least`."""
        over = self._over
        if over is None or seconds <= least:
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(least)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await over.wait()
