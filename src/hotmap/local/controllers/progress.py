"""The rollout status of a Deployment: counts, conditions, the progress deadline.

Decisions only; `now` is POSIX seconds on the clock that wrote the conditions (kubernetes:
pkg/controller/deployment/progress.go, sync.go calculateStatus, util/deployment_util.go).
`kubectl rollout status` reads these counts, `observedGeneration` and ProgressDeadlineExceeded.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotmap.local.controllers.conditions import find_condition, set_condition, without_condition
from hotmap.local.controllers.rolling import (
    available_replicas,
    bounds_of,
    spec_replicas,
    status_replicas,
    total_replicas,
)
from hotmap.local.meta import Object, parse_time, timestamp

__all__ = [
    "is_complete",
    "next_check",
    "plain_status",
    "progress_deadline",
    "progressing",
    "rollout_status",
    "with_pause",
]

# Seconds; "no deadline" is written as the largest int32 (kubernetes: HasProgressDeadline).
_NO_DEADLINE = 2**31 - 1

_MESSAGES = {
    "NewReplicaSetAvailable": "{} has successfully progressed.",
    "ReplicaSetUpdated": "{} is progressing.",
    "ProgressDeadlineExceeded": "{} has timed out progressing.",
    "NewReplicaSetCreated": 'Created new replica set "{}"',
    "FoundNewReplicaSet": 'Found new replica set "{}"',
    "ReplicaSetCreateError": "{}",
    "DeploymentPaused": "Deployment is paused",
    "DeploymentResumed": "Deployment is resumed",
}


def progressing(status: str, reason: str, subject: str = "", *, now: float) -> Object:
    """Build a Progressing condition in upstream's words for its reason.

    *subject* goes where the text has a gap: `ReplicaSet "web-1"` for the verdicts, the bare name
    for a ReplicaSet that was created or found, the whole text for a failed create.
    """
    return _condition("Progressing", status, reason, _MESSAGES[reason].format(subject), now=now)


def plain_status(
    deployment: Object, new: Object | None, old: Sequence[Object], *, now: float
) -> Object:
    """Count what the ReplicaSets report, and return whether the minimum is available.

    All other conditions are kept as they are; nothing is said of progress. This is the whole
    status of a Deployment that is paused, scaled or being deleted.
    """
    replica_sets = [*old, *([new] if new is not None else [])]
    available = sum(map(available_replicas, replica_sets))
    present = deployment.get("status", {})
    status: Object = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(map(status_replicas, replica_sets)),
        "updatedReplicas": status_replicas(new) if new is not None else 0,
        "readyReplicas": _sum(replica_sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total_replicas(replica_sets) - available),
        "terminatingReplicas": _sum(replica_sets, "terminatingReplicas"),
    }
    # Go's omitempty: a count of 0 is left out, so `kubectl get -o json` reads the same.
    # terminatingReplicas is a pointer and stays (1.35).
    status = {key: n for key, n in status.items() if n or key == "terminatingReplicas"}
    if "collisionCount" in present:
        status["collisionCount"] = present["collisionCount"]
    status["conditions"] = set_condition(
        list(present.get("conditions") or []),
        _availability(available >= bounds_of(deployment).min_available, now=now),
    )
    return status


def rollout_status(
    deployment: Object, new: Object | None, old: Sequence[Object], *, now: float
) -> Object:
    """Count, and judge the rollout: complete, moving, or over its deadline.

    Once a rollout was complete nothing more is judged until another one starts, so pods that
    fail later never make it time out. Moving renews lastUpdateTime each time, which is what the
    deadline is measured from.
    """
    status = plain_status(deployment, new, old, now=now)
    conditions = status["conditions"]
    current = find_condition(deployment.get("status", {}).get("conditions") or [], "Progressing")
    if progress_deadline(deployment) is None:
        conditions = without_condition(conditions, "Progressing")
    elif not _was_complete(status, current):
        conditions = _with_progress(deployment, status, current, _subject(deployment, new), now=now)
    status["conditions"] = _with_replica_failure(conditions, new, old)
    return status


def with_pause(deployment: Object, *, now: float) -> list[Object] | None:
    """Return the conditions that note a pause or its end, or None if there is nothing to note.

    Without them a Deployment paused for longer than its deadline would be reported as stuck as
    soon as it is resumed. A deadline that was already missed stays reported.
    """
    conditions = deployment.get("status", {}).get("conditions") or []
    if progress_deadline(deployment) is None:
        return None
    current = find_condition(conditions, "Progressing") or {}
    reason = current.get("reason")
    paused = bool(deployment["spec"].get("paused"))
    if reason == "ProgressDeadlineExceeded" or paused == (reason == "DeploymentPaused"):
        return None
    noted = "DeploymentPaused" if paused else "DeploymentResumed"
    return set_condition(conditions, progressing("Unknown", noted, now=now))


def is_complete(deployment: Object, status: Object) -> bool:
    """Return whether every pod is of the new template, available, and none is left over."""
    replicas = spec_replicas(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    generation = deployment["metadata"].get("generation", 0)
    return (
        all(_count(status, field) == replicas for field in counts)
        and _count(status, "observedGeneration") >= generation
    )


def next_check(deployment: Object, status: Object, *, now: float) -> float | None:
    """Return the seconds until the next check of the deadline.

    A second more than is left, as times are whole seconds. None when nothing can be missed: no
    deadline, complete, or reported already.
    """
    deadline = progress_deadline(deployment)
    current = find_condition(status.get("conditions") or [], "Progressing")
    if deadline is None or current is None or is_complete(deployment, status):
        return None
    if current["reason"] in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable"):
        return None
    return max(0.0, parse_time(current["lastUpdateTime"]) + deadline - now) + 1.0


def progress_deadline(deployment: Object) -> int | None:
    """Return the seconds a rollout may have no progress, None for no limit."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds in (None, _NO_DEADLINE) else int(seconds)


def _with_progress(
    deployment: Object, status: Object, current: Object | None, subject: str, *, now: float
) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    if is_complete(deployment, status):
        done = progressing("True", "NewReplicaSetAvailable", subject, now=now)
        return set_condition(conditions, done)
    if _has_moved(deployment.get("status", {}), status):
        moving = progressing("True", "ReplicaSetUpdated", subject, now=now)
        if current is not None and current["status"] == "True":
            moving["lastTransitionTime"] = current["lastTransitionTime"]
        return [*without_condition(conditions, "Progressing"), moving]
    if _is_late(deployment, current, now=now):
        late = progressing("False", "ProgressDeadlineExceeded", subject, now=now)
        return set_condition(conditions, late)
    return conditions


def _was_complete(status: Object, current: Object | None) -> bool:
    return (
        current is not None
        and current["reason"] == "NewReplicaSetAvailable"
        and _count(status, "replicas") == _count(status, "updatedReplicas")
    )


def _has_moved(before: Object, after: Object) -> bool:
    """Return whether any count went the right way since the status that was last written."""
    old_before = _count(before, "replicas") - _count(before, "updatedReplicas")
    old_after = _count(after, "replicas") - _count(after, "updatedReplicas")
    rising = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_after < old_before or any(
        _count(after, field) > _count(before, field) for field in rising
    )


def _is_late(deployment: Object, current: Object | None, *, now: float) -> bool:
    deadline = progress_deadline(deployment)
    if deadline is None or current is None or current["reason"] == "NewReplicaSetAvailable":
        return False
    if current["reason"] == "ProgressDeadlineExceeded":
        return True
    return parse_time(current["lastUpdateTime"]) + deadline < now


def _subject(deployment: Object, new: Object | None) -> str:
    if new is None:
        return f'Deployment "{deployment["metadata"]["name"]}"'
    return f'ReplicaSet "{new["metadata"]["name"]}"'


def _with_replica_failure(
    conditions: list[Object], new: Object | None, old: Sequence[Object]
) -> list[Object]:
    """Show why pods cannot be made or removed: the new ReplicaSet's reason before older ones'."""
    for replica_set in [*([new] if new is not None else []), *old]:
        reported = replica_set.get("status", {}).get("conditions") or []
        failure = find_condition(reported, "ReplicaFailure")
        if failure is not None:
            shown = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
            return set_condition(conditions, shown)
    return without_condition(conditions, "ReplicaFailure")


def _availability(enough: bool, *, now: float) -> Object:
    if enough:
        text = "Deployment has minimum availability."
        return _condition("Available", "True", "MinimumReplicasAvailable", text, now=now)
    text = "Deployment does not have minimum availability."
    return _condition("Available", "False", "MinimumReplicasUnavailable", text, now=now)


def _condition(kind: str, status: str, reason: str, message: str, *, now: float) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


def _count(status: Object, field: str) -> int:
    return int(status.get(field) or 0)


def _sum(replica_sets: Sequence[Object], field: str) -> int:
    return sum(_count(rs.get("status", {}), field) for rs in replica_sets)
