"""Two clocks: one that everything is decided by, and one that people and files go by.

Time since boot (CLOCK_BOOTTIME, time asleep included) cannot be set, and the kernel counts the
start of every process on it. The wall clock can jump at any moment, and does when a node starts
before its time is synchronised. So it dates log lines and one metric; the only thing judged by it
is a pid file, which has no other date, and there every setting that was seen is allowed for.
"""

from __future__ import annotations

import time

__all__ = ["WallClock", "since_boot", "wall"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def since_boot() -> float:
    """Tell the seconds since boot, as this time namespace has them; never goes back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Tell the POSIX time, for people."""
    return time.time()


class WallClock:
    """Translates dates of files into time since boot, as far as settings of the clock are known."""

    def __init__(
        self, wall: Callable[[], float] = wall, since_boot: Callable[[], float] = since_boot
    ) -> None:
        self._wall, self._since_boot = wall, since_boot
        #: The smallest distance between the two clocks that was ever seen.
        self._distance = self._wall() - self._since_boot()

    def look(self) -> None:
        """Take note of how the clocks stand to each other now."""
        self._distance = min(self._distance, self._wall() - self._since_boot())

    def at_the_latest(self, date: float) -> float:
        """Give the time since boot at which something with a date was written, at the latest.

        A clock that was set, and that we saw before and after, leaves two answers: the later one.
        What was set before this object was made cannot be known.
        """
        self.look()
        return date - self._distance
