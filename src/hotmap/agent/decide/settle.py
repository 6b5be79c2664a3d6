"""The settle time: changes in quick succession count as one."""

from __future__ import annotations

__all__ = ["SettleTimer"]


class SettleTimer:
    """When changes are over: `quiet` after the last one, at most `longest` after the first."""

    def __init__(self, quiet: float, longest: float) -> None:
        self.quiet = quiet
        self.longest = max(quiet, longest)
        self._first: float | None = None
        self._last = 0.0

    def touch(self, now: float) -> None:
        """Record a change."""
        if self._first is None:
            self._first = now
        self._last = now

    def due_at(self) -> float | None:
        """When to read the content; None while nothing changed."""
        if self._first is None:
            return None
        return min(self._first + self.longest, self._last + self.quiet)

    def clear(self) -> None:
        """Forget the changes so far: their content was read."""
        self._first = None
