"""Limits how often a persisting failure is logged."""

from __future__ import annotations

from typing import Final

from hotmap.kube.bounded_dict import put_latest

__all__ = ["LogThrottle"]

#: Seconds between two log lines of one kind with any text, and between two with the same text.
BETWEEN: Final = 60.0
BETWEEN_REPETITIONS: Final = 3600.0

#: How many kinds are remembered: namespaces that come and go may each have some.
MOST: Final = 4096


class LogThrottle:
    """Remembers what was logged for each kind of failure, and when.

    The texts of one failure differ by numbers and addresses, so a kind is logged once a minute at
    most. An unchanged failure is logged again every hour, since logs are rotated.
    """

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        #: kind → (text, "" once the failure was over; seconds of the caller's clock)
        self._logged: dict[str, tuple[str, float]] = {}

    def should_log(self, kind: str, text: str, *, now: float) -> bool:
        """Return whether to log it now; then it counts as logged."""
        before, at = self._logged.get(kind, ("", float("-inf")))
        if now - at < (BETWEEN_REPETITIONS if text == before else BETWEEN):
            return False
        put_latest(self._logged, kind, (text, now), most=MOST)
        return True

    def end(self, kind: str) -> bool:
        """End a failure, so that its return is logged, though not within the same minute.

        Returns whether one had been logged, so that its end is to be logged too.
        """
        text, at = self._logged.get(kind, ("", 0.0))
        if text:
            self._logged[kind] = "", at
        return bool(text)
