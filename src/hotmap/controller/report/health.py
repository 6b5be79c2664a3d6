"""What /healthz and /readyz answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotmap.kube.reflector_statistics import ReflectorStatistics

__all__ = ["check_health", "check_readiness"]

#: Seconds of silence after which /healthz fails: four times a reflector's own limit, so that
#: only a watch that cannot recover by itself causes a restart.
_UNHEALTHY_AFTER = 300.0


def check_health(
    watches: Sequence[ReflectorStatistics], *, failing: Mapping[str, str]
) -> tuple[bool, dict[str, Any]]:
    """Return whether all watches and tasks work, and the answer of /healthz.

    `failing` has the background tasks that fail, and why.
    """
    silent = [watch.resource for watch in watches if watch.last_byte_age > _UNHEALTHY_AFTER]
    healthy = not silent and not failing
    return healthy, {
        "healthy": healthy,
        "silent": silent,
        "failingTasks": failing,
        "watches": {
            watch.resource: {
                "lastByteAgeSeconds": round(watch.last_byte_age, 1),
                "error": watch.last_error,
            }
            for watch in watches
        },
    }


def check_readiness(
    watches: Sequence[ReflectorStatistics],
    *,
    is_leader: bool,
    may_write: bool,
    problems: Sequence[str],
) -> tuple[bool, dict[str, Any]]:
    """Return whether this is a working leader, or a standby with complete stores.

    The second value is the answer of /readyz; `problems` are for people.
    """
    missing = [watch.resource for watch in watches if not watch.synced and not watch.refused]
    ready = is_leader or (bool(watches) and not missing and not may_write)
    return ready, {
        "ready": ready,
        "role": "leader" if is_leader else "standby",
        "notSynced": missing,
        "refused": {watch.resource: watch.last_error for watch in watches if watch.refused},
        "problems": list(problems),
    }
