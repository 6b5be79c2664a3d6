"""How long to wait between attempts."""

from __future__ import annotations

__all__ = ["backoff"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def backoff(failures: int, *, first: float, longest: float, random: Callable[[], float]) -> float:
    """Choose the delay after the n-th failure in a row, in seconds.

    Doubles from `first` up to `longest`, less up to half of it by `random()` (0 to 1), so that
    pods that failed together do not retry together.
    """
    delay = min(longest, first * 2.0 ** min(failures - 1, 30))
    return delay * (1 - random() / 2)
