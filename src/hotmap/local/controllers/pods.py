"""Pod status for owners: active, ready, available, and the order of deletion.

kubernetes: pkg/api/v1/pod/util.go, pkg/controller/controller_utils.go (ActivePodsWithRanks).
Pods are whole objects; `now` is POSIX seconds on the cluster's clock.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hotmap.local.controllers.conditions import find_condition
from hotmap.local.meta import (
    Object,
    annotations_of,
    created_at,
    is_deleted,
    name_of,
    parse_time,
    uid_of,
)

__all__ = [
    "choose_victims",
    "is_active",
    "is_available",
    "is_finished",
    "is_ready",
    "ready_since",
    "seconds_to_availability",
]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_finished(pod: Object) -> bool:
    return _phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    """Return whether a pod counts as a replica: neither finished nor on its way out."""
    return not is_finished(pod) and not is_deleted(pod)


def is_ready(pod: Object) -> bool:
    ready = _ready_condition(pod)
    return ready is not None and ready["status"] == "True"


def ready_since(pod: Object) -> float:
    """Return since when a ready pod is ready; 0 if it is not, or has no time."""
    ready = _ready_condition(pod)
    if ready is None or ready["status"] != "True":
        return 0.0
    return parse_time(ready.get("lastTransitionTime"))


def is_available(pod: Object, min_ready_seconds: int, *, now: float) -> bool:
    """Return whether a pod has been ready for long enough; at once without a minimum."""
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return min_ready_seconds == 0 or (since > 0 and since + min_ready_seconds <= now)


def seconds_to_availability(
    pods: Iterable[Object], min_ready_seconds: int, *, now: float
) -> float | None:
    """Return when the next of some pods will have been ready for long enough; None for none."""
    waits = [
        ready_since(pod) + min_ready_seconds - now
        for pod in pods
        if is_active(pod) and is_ready(pod) and not is_available(pod, min_ready_seconds, now=now)
    ]
    return max(0.0, min(waits)) if waits else None


def choose_victims(
    pods: Sequence[Object], related: Iterable[Object], count: int, *, now: float
) -> list[Object]:
    """Choose *count* of *pods* to delete, the least valuable first.

    1. without a node  2. Pending, then Unknown, then Running  3. not ready
    4. lower pod-deletion-cost  5. on the node with more of the *related* pods (those of all
    ReplicaSets with the same owner)  6. ready for a shorter time  7. more restarts  8. younger

    The times of 6 and 8 are compared by magnitude (the power of two of their nanoseconds), so
    that equally old pods go in random order, that of their uids, and not all from the last
    zone to be filled (KEP-2185).
    """
    crowd = Counter(_node(pod) for pod in related if is_active(pod))
    return sorted(pods, key=lambda pod: _cost(pod, crowd, now))[:count]


def _cost(pod: Object, crowd: Counter[str], now: float) -> tuple[Any, ...]:
    ready = is_ready(pod)
    return (
        bool(_node(pod)),
        _PHASE_ORDER.get(_phase(pod), 0),
        ready,
        _deletion_cost(pod),
        -crowd[_node(pod)],
        _magnitude(now - ready_since(pod)) if ready else 0,
        -_restarts(pod),
        _magnitude(now - parse_time(created_at(pod))),
        uid_of(pod),
        name_of(pod),
    )


def _phase(pod: Object) -> str:
    phase: str = pod.get("status", {}).get("phase") or "Pending"
    return phase


def _node(pod: Object) -> str:
    return pod["spec"].get("nodeName") or ""


def _ready_condition(pod: Object) -> Object | None:
    return find_condition(pod.get("status", {}).get("conditions") or [], "Ready")


def _deletion_cost(pod: Object) -> int:
    text = annotations_of(pod).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _restarts(pod: Object) -> int:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def _magnitude(seconds: float) -> int:
    return int(math.log2(seconds * 1e9)) if seconds > 0 else -1
