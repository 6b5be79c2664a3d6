"""How often the failed pod of a node is replaced (kubernetes: failedPodsBackoff).

After 1 s at the earliest, each time twice as long up to 15 minutes, and as at first again when
nothing failed for half an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hotmap.kube.loop_clock import loop_time

__all__ = ["FailedPodBackoff"]

_FIRST = 1.0
_LONGEST = 15 * 60.0
# Entries that are remembered; expired ones are dropped first.
_ENTRIES = 1000


class _Pause(NamedTuple):
    seconds: float
    since: float


class FailedPodBackoff:
    """Pauses by key: the uid of a set, the generation that it has observed, and a node."""

    def __init__(self, *, clock: Callable[[], float] = loop_time) -> None:
        self._clock = clock
        self._pauses: dict[tuple[str, int, str], _Pause] = {}

    def take(self, key: tuple[str, int, str]) -> float:
        """Return 0 if a pod may be replaced now, and count that; else the seconds until then."""
        now = self._clock()
        pause = self._pauses.get(key)
        if pause is None or now - pause.since > 2 * _LONGEST:
            self._pauses[key] = _Pause(_FIRST, now)
        elif now - pause.since < pause.seconds:
            return pause.seconds - (now - pause.since)
        else:
            self._pauses[key] = _Pause(min(2 * pause.seconds, _LONGEST), now)
        if len(self._pauses) > _ENTRIES:
            self._drop(now)
        return 0.0

    def _drop(self, now: float) -> None:
        kept = {key: p for key, p in self._pauses.items() if now - p.since <= 2 * _LONGEST}
        # To half, so that it is seldom done. A key that is forgotten begins with a short pause.
        self._pauses = dict(list(kept.items())[-_ENTRIES // 2 :])
