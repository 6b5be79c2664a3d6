"""The API server's clock, as far as the `Date` of its answers tells it from our own.

An answer was made between sending and receiving, within the second that it names (RFC 9110,
6.6.1), so each one bounds by how much the server is ahead; together they bound it better. Our own
clock is right for as long as it may be: the correction is the smallest that fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from math import inf

__all__ = ["ServerClock"]


class ServerClock:
    """Tells POSIX seconds as the API server would."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        #: By how many seconds the server is ahead, at least and at most.
        self._least, self._most = -inf, inf
        self._last = ""

    def now(self) -> float:
        """Return the time on the server's clock, to about a second where ours is wrong."""
        return self._wall_clock() + self.ahead

    @property
    def ahead(self) -> float:
        """Seconds to add to our own clock; 0 while nothing shows that it is wrong."""
        return min(max(0.0, self._least), self._most)

    def learn(self, date: str, *, waited: float) -> None:
        """Take in the `Date` of an answer that has just come, `waited` seconds after its request.

        A date that cannot be read says nothing, nor does one that was just read. One that
        contradicts earlier ones counts alone: a clock was set, or another server answers.
        """
        if date == self._last:
            return
        self._last = date
        try:
            said = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        received = self._wall_clock()
        least, most = said - received, said + 1 - (received - waited)
        if least > self._most or most < self._least:
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)
