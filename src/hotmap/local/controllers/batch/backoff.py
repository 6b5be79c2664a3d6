"""How long a Job waits before it replaces failed pods (pkg/controller/job/backoff_utils.go)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotmap.local.controllers.conditions import find_condition
from hotmap.local.meta import Object, created_at, parse_time

__all__ = ["Backoff", "finished_at", "remaining_pause"]

# Seconds (DefaultJobPodFailureBackOff, MaxJobPodFailureBackOff).
_FIRST_PAUSE = 10.0
_LONGEST_PAUSE = 600.0


class Backoff(NamedTuple):
    """The failures of a Job since its last success."""

    failures: int = 0
    #: POSIX seconds of the last of them.
    last_failure: float = 0.0

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Backoff:
        """Count pods that have finished since."""
        times = sorted(map(finished_at, failed))
        if not succeeded:
            last = times[-1] if times else self.last_failure
            return Backoff(self.failures + len(times), last)
        last_success = max(map(finished_at, succeeded))
        later = [time for time in times if time > last_success]
        return Backoff(len(later), later[-1] if later else 0.0)

    def remaining(self, now: float) -> float:
        """Return the seconds until the next pod may be created."""
        return remaining_pause(self.failures, self.last_failure, now)


def remaining_pause(failures: int, last_failure: float, now: float) -> float:
    """Return the rest of a pause that doubles with each failure."""
    if failures == 0:
        return 0.0
    pause: float = min(_FIRST_PAUSE * 2 ** min(failures - 1, 10), _LONGEST_PAUSE)
    return max(0.0, pause - (now - last_failure))


def finished_at(pod: Object) -> float:
    """Return when a pod finished: its last container, else when it was no longer ready."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ended = [
        ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for container in status.get("containerStatuses") or ()
    ]
    if ended and all(ended):
        return max(map(parse_time, ended))
    ready = find_condition(status.get("conditions") or [], "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        return parse_time(metadata["deletionTimestamp"]) - float(grace)
    return parse_time(created_at(pod))
