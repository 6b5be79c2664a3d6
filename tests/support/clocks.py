"""A clock that a test moves."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """Returns `now`, in seconds, wherever code takes a function for a clock."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
