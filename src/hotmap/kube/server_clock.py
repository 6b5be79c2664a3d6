"""Estimates the API server's clock from the `Date` header of its responses.

A response was generated between sending and receiving, within the second of its Date (RFC 9110,
6.6.1), so each one bounds how far the server is ahead, and several bound it better. The correction
of our own clock is the smallest within these bounds.

Our own clock is read once, and goes on with the time since boot. Where only watches are in use, no
response may come for minutes, and a clock that is set in that time would give changes a wrong time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from math import inf

__all__ = ["ServerClock", "steady_clock"]


def steady_clock() -> Callable[[], float]:
    """Return a clock of POSIX seconds that cannot be set; it includes the time of a suspend."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return lambda: booted + time.clock_gettime(time.CLOCK_BOOTTIME)


class ServerClock:
    """Returns POSIX seconds on the API server's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: By how many seconds the server is ahead, at least and at most.
        self._least, self._most = -inf, inf
        self._last = ""

    def now(self) -> float:
        """Return the time on the server's clock, to about a second if ours is wrong."""
        return self._clock() + self.ahead

    @property
    def ahead(self) -> float:
        """Seconds to add to our own clock; 0 if no response contradicts it."""
        return min(max(0.0, self._least), self._most)

    def learn(self, date: str, *, waited: float) -> None:
        """Use the `Date` of a response that arrived now, `waited` seconds after its request.

        A date that cannot be parsed, or equal to the previous one, is ignored. One that contradicts
        earlier ones replaces them: its clock was set, or another server responds.
        """
        if date == self._last:
            return
        self._last = date
        try:
            date_time = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError, OSError):  # any number may be in it
            return
        received = self._clock()
        least, most = date_time - received, date_time + 1 - (received - waited)
        if least > self._most or most < self._least:
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)
