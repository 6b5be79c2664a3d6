"""The status of a StatefulSet (kubernetes: stateful_set_control.go, updateStatus)."""

from __future__ import annotations

from hotmap.local.controllers.pods import is_available, is_ready
from hotmap.local.controllers.statefulset.identity import replica_range, revision_of
from hotmap.local.controllers.statefulset.plan import StatefulSetView
from hotmap.local.meta import Object, is_deleted

__all__ = ["is_status_outdated", "stateful_set_status"]

# A change of another field alone is not written (inconsistentStatus).
_WRITTEN = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "currentRevision",
    "updateRevision",
)


def stateful_set_status(view: StatefulSetView, *, collision_count: int) -> Object:
    """Count a set's pods; with all of them updated, the update is the current revision.

    Counts of zero are left out as by Go's omitempty, but for `replicas` and `availableReplicas`.
    """
    owner, pods = view.owner, view.pods
    min_ready = owner["spec"].get("minReadySeconds") or 0
    current, update = view.current["metadata"]["name"], view.update["metadata"]["name"]
    ready = [pod for pod in pods if _phase(pod) == "Running" and is_ready(pod)]
    staying = [pod for pod in pods if not is_deleted(pod)]
    updated = sum(revision_of(pod) == update for pod in staying)
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": sum(revision_of(pod) == current for pod in staying),
        "updatedReplicas": updated,
    }
    is_rolled_out = {len(pods), len(ready), updated} == {len(replica_range(owner))}
    if view.rolling_update is not None and is_rolled_out:
        counts["currentReplicas"], current = updated, update
    return {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        **{field: count for field, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collision_count,
        "availableReplicas": sum(is_available(pod, min_ready, now=view.now) for pod in ready),
    }


def is_status_outdated(present: Object, status: Object) -> bool:
    """Return whether a status is worth a write."""
    if status["observedGeneration"] > (present.get("observedGeneration") or 0):
        return True
    return any((present.get(field) or 0) != (status.get(field) or 0) for field in _WRITTEN)


def _phase(pod: Object) -> str:
    phase: str = pod.get("status", {}).get("phase") or ""
    return phase
