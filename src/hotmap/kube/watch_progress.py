"""Until when a watch delivered every change, and what is delivered late after it was interrupted.

A watch that is resumed delivers what it missed; a list in its place has only the last state of each
object, so an object may have had other content in between. Listeners of a store ask here since when
a change that arrives now may have happened. Times are those of the event loop's clock.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MissedTime", "WatchProgress"]


class MissedTime(NamedTuple):
    """What a watch missed is arriving now."""

    #: Until when every change had arrived.
    since: float
    #: Whether it arrives as a list, so that intermediate states are unknown.
    listed: bool


class WatchProgress:
    """The progress of the watches that fill one store, one for each namespace; None: all."""

    def __init__(self) -> None:
        self._until: dict[str | None, float] = {}
        self._missed: dict[str | None, MissedTime] = {}

    def record_received(self, namespace: str | None, at: float) -> None:
        """Record that every change until `at` has arrived, unless a watch is still catching up."""
        if namespace not in self._missed:
            self._until[namespace] = at

    def record_interruption(self, namespace: str | None, *, listed: bool) -> None:
        """Record that what arrives from now on may have happened since the last progress."""
        until = self._until.get(namespace)
        if until is not None:
            before = self._missed.get(namespace)
            since, was_listed = before or (until, False)
            self._missed[namespace] = MissedTime(since, listed or was_listed)

    def record_caught_up(self, namespace: str | None, at: float) -> None:
        """Record that every change until `at` has arrived."""
        self._missed.pop(namespace, None)
        self._until[namespace] = at

    def missed_time(self, namespace: str) -> MissedTime | None:
        """Return since when changes that arrive now may have happened; None: just now."""
        return self._missed.get(None) or self._missed.get(namespace)

    def until(self) -> float | None:
        """Return until when every change has arrived; None: no list is complete yet."""
        return min(self._until.values(), default=None)
