"""Two clocks: time since boot for decisions, and the wall clock for log lines and files.

Time since boot (CLOCK_BOOTTIME, which includes suspend) cannot be set, and the kernel records the
start of every process on it. The wall clock can be set at any moment, and is when a node starts
before its time is synchronized. So it only dates log lines and one metric. The age of a pid file is
compared by it as well, since a file has no other time; there every offset that was seen is allowed
for.
"""

from __future__ import annotations

import time

__all__ = ["WallClock", "since_boot", "wall"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def since_boot() -> float:
    """Return the seconds since boot, in this time namespace; never decreases."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Return the POSIX time, for log lines and metrics."""
    return time.time()


class WallClock:
    """Converts file times to time since boot, for all clock offsets that were seen."""

    def __init__(
        self, wall: Callable[[], float] = wall, since_boot: Callable[[], float] = since_boot
    ) -> None:
        self._wall, self._since_boot = wall, since_boot
        #: The smallest offset between the two clocks that was ever seen.
        self._offset = self._wall() - self._since_boot()

    def observe(self) -> None:
        """Record the current offset."""
        self._offset = min(self._offset, self._wall() - self._since_boot())

    def latest_since_boot(self, date: float) -> float:
        """Return the latest time since boot at which a file with this time can have been written.

        A clock that was set while it was observed allows two times: the later one. Offsets before
        this object was made are unknown.
        """
        self.observe()
        return date - self._offset
