"""Decides what of a failure that goes on is worth a line of the log."""

from __future__ import annotations

from typing import Final

__all__ = ["Complaints"]

#: Seconds between two lines of one kind, whatever their words, and between two that say the same.
BETWEEN: Final = 60.0
BETWEEN_REPETITIONS: Final = 3600.0


class Complaints:
    """Remembers what was said of each kind of failure, and when.

    Words differ by numbers and addresses although the failure is the same one, so a kind speaks
    once a minute at most. What goes on unchanged is said again every hour, since logs are cut off.
    """

    __slots__ = ("_said",)

    def __init__(self) -> None:
        #: kind → (words, "" once the failure was over; seconds of the caller's clock)
        self._said: dict[str, tuple[str, float]] = {}

    def is_news(self, kind: str, words: str, *, now: float) -> bool:
        """Return whether to say it now; then it counts as said."""
        before, at = self._said.get(kind, ("", float("-inf")))
        if now - at < (BETWEEN_REPETITIONS if words == before else BETWEEN):
            return False
        self._said[kind] = words, now
        return True

    def over(self, kind: str) -> bool:
        """Let the return of a failure be news, though not within the same minute.

        Returns whether there was one that had been said, so that its end is news too.
        """
        words, at = self._said.get(kind, ("", 0.0))
        if words:
            self._said[kind] = "", at
        return bool(words)
