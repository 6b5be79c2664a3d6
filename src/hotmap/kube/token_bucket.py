"""A token bucket: so many at once, then one at a time; times are the caller's."""

from __future__ import annotations

__all__ = ["TokenBucket"]


class TokenBucket:
    """Allows `burst` events at once, and one more for each `refill` seconds."""

    __slots__ = ("_at", "_burst", "_left", "_refill")

    def __init__(self, now: float, *, burst: int, refill: float) -> None:
        self._burst, self._refill = burst, refill
        self._left = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Use up a token; False if there is none."""
        if self.wait(now) > 0:
            return False
        self._left -= 1
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token."""
        self._left = min(self._burst, self._left + (now - self._at) / self._refill)
        self._at = now
        return max(0.0, (1 - self._left) * self._refill)

    @property
    def is_full(self) -> bool:
        """Whether nothing of it was used lately, as of the last call."""
        return self._left >= self._burst
