"""How fast the pods of one owner are created.

kubernetes: a sync creates 500 pods at most (BurstReplicas), and the controller manager's client
sends 20 requests a second. Here the first 500 pods of an owner come as fast as they can,
which is what people wait for; beyond them, the pace is that of upstream, so that a typing error in
`replicas` does not fill the memory within a minute.
"""

from __future__ import annotations

from collections.abc import Callable

from hotmap.kube.loop_clock import loop_time

__all__ = ["BURST", "CreationPace"]

#: Pods that an owner gets at once, and the most that are deleted or counted in one sync (for Jobs
#: MaxPodCreateDeletePerSync and MaxUncountedPods).
BURST = 500
# Pods a second after that.
_RATE = 20.0
# Owners that are remembered; those that could have a full burst again are dropped first.
_OWNERS = 1000


class CreationPace:
    """A token bucket for each owner; `clock` returns monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = loop_time) -> None:
        self._clock = clock
        #: uid → pods that may be created, and when that was true.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, owner: str, wanted: int) -> int:
        """Return how many of the wanted pods of an owner (a uid) may be created now.

        Beyond the burst they come once a second, since each sync counts all pods of its owner.
        """
        now = self._clock()
        allowed = self._allowed(owner, now)
        taken = min(wanted, int(allowed)) if allowed >= min(wanted, _RATE, BURST) else 0
        self._buckets[owner] = (allowed - taken, now)
        if len(self._buckets) > _OWNERS:
            self._buckets = {
                uid: bucket
                for uid, bucket in self._buckets.items()
                if self._allowed(uid, now) < BURST
            }
        return taken

    def pause(self, owner: str) -> float:
        """Return the seconds until an owner may have further pods."""
        return max(0.0, (_RATE - self._allowed(owner, self._clock())) / _RATE)

    def _allowed(self, owner: str, now: float) -> float:
        allowed, at = self._buckets.get(owner, (float(BURST), now))
        return min(float(BURST), allowed + (now - at) * _RATE)
