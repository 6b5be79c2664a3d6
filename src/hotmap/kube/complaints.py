"""Limits how often a persisting failure is logged."""

from __future__ import annotations

from typing import Final

__all__ = ["Complaints"]

#: Seconds between two log lines of one kind with any text, and between two with the same text.
BETWEEN: Final = 60.0
BETWEEN_REPETITIONS: Final = 3600.0


class Complaints:
    """Remembers what was logged for each kind of failure, and when.

    The texts of one failure differ by numbers and addresses, so a kind is logged once a minute at
    most. An unchanged failure is logged again every hour, since logs are rotated.
    """

    __slots__ = ("_said",)

    def __init__(self) -> None:
        #: kind → (text, "" once the failure was over; seconds of the caller's clock)
        self._said: dict[str, tuple[str, float]] = {}

    def is_news(self, kind: str, words: str, *, now: float) -> bool:
        """Return whether to log it now; then it counts as logged."""
        before, at = self._said.get(kind, ("", float("-inf")))
        if now - at < (BETWEEN_REPETITIONS if words == before else BETWEEN):
            return False
        self._said[kind] = words, now
        return True

    def over(self, kind: str) -> bool:
        """End a failure, so that its return is logged, though not within the same minute.

        Returns whether one had been logged, so that its end is to be logged too.
        """
        words, at = self._said.get(kind, ("", 0.0))
        if words:
            self._said[kind] = "", at
        return bool(words)
