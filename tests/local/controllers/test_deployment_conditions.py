"""What a Deployment says of its rollout: counts, Available, Progressing, the deadline."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import Object, deployment, replica_set

from hotmap.local.controllers.progress import (
    is_complete,
    next_check,
    progressing,
    rollout_status,
    with_pause,
)

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def _condition(status: Object, kind: str) -> Object | None:
    return next((c for c in status["conditions"] if c["type"] == kind), None)


def _reason(status: Object, kind: str = "Progressing") -> tuple[str, str, str] | None:
    condition = _condition(status, kind)
    if condition is None:
        return None
    return condition["status"], condition["reason"], condition["message"]


def _with_progress(reason: str, status: str = "True", *, at: float, **counts: int) -> Object:
    condition = progressing(status, reason, 'ReplicaSet "web-1"', now=at)
    return deployment(3, status={"conditions": [condition], **counts})


def test_status_omits_zero_counts() -> None:
    """As Go's omitempty: a count that is nothing is not written, but terminatingReplicas is."""
    status = rollout_status(deployment(0), replica_set("web-1", 0), [], now=NOW)
    assert {k: v for k, v in status.items() if k != "conditions"} == {
        "observedGeneration": 1,
        "terminatingReplicas": 0,
    }


def test_status_counts_during_rollout() -> None:
    """Replicas are what ReplicaSets report, unavailable what is wished and not available."""
    old = replica_set("web-1", 2, readyReplicas=2)
    new = replica_set("web-2", 2, available=1, readyReplicas=1, terminatingReplicas=1)
    status = rollout_status(deployment(3), new, [old], now=NOW)
    assert {k: v for k, v in status.items() if k != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 4,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 1,
        "terminatingReplicas": 1,
    }


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (2, ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")),
        (
            1,
            (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            ),
        ),
    ],
)
def test_available_means_replicas_less_max_unavailable(
    available: int, expected: tuple[str, str, str]
) -> None:
    """Available means at least the replicas less maxUnavailable: 3 of 4 at 25 %, 2 of 3 at 1."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    new = replica_set("web-1", 3, available=available)
    status = rollout_status(deployment(3, strategy=strategy), new, [], now=NOW)
    assert _reason(status, "Available") == expected


@pytest.mark.parametrize(
    ("before", "new", "expected"),
    [
        pytest.param(
            _with_progress("NewReplicaSetCreated", at=NOW - 5),
            replica_set("web-1", 3),
            ("True", "NewReplicaSetAvailable", 'ReplicaSet "web-1" has successfully progressed.'),
            id="complete",
        ),
        pytest.param(
            _with_progress("NewReplicaSetCreated", at=NOW - 5),
            replica_set("web-1", 3, available=1),
            ("True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.'),
            id="a pod became available",
        ),
        pytest.param(
            _with_progress(
                "ReplicaSetUpdated",
                at=NOW - 599,
                replicas=3,
                updatedReplicas=3,
                availableReplicas=1,
            ),
            replica_set("web-1", 3, available=1),
            ("True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.'),
            id="no news, in time",
        ),
        pytest.param(
            _with_progress(
                "ReplicaSetUpdated",
                at=NOW - 601,
                replicas=3,
                updatedReplicas=3,
                availableReplicas=1,
            ),
            replica_set("web-1", 3, available=1),
            (
                "False",
                "ProgressDeadlineExceeded",
                'ReplicaSet "web-1" has timed out progressing.',
            ),
            id="no news for longer than the deadline",
        ),
        pytest.param(
            _with_progress(
                "NewReplicaSetAvailable",
                at=NOW - 9999,
                replicas=3,
                updatedReplicas=3,
                availableReplicas=3,
            ),
            replica_set("web-1", 3, available=1),
            ("True", "NewReplicaSetAvailable", 'ReplicaSet "web-1" has successfully progressed.'),
            id="pods that fail after the rollout never time it out",
        ),
    ],
)
def test_progressing_follows_from_the_replica_sets(
    before: Object, new: Object, expected: tuple[str, str, str]
) -> None:
    """The Progressing condition after one look at the ReplicaSets."""
    assert _reason(rollout_status(before, new, [], now=NOW)) == expected


def test_progress_moves_update_time_only() -> None:
    """Each step forward starts the deadline again; the status was True all along."""
    before = _with_progress("ReplicaSetUpdated", at=NOW - 100, replicas=3, updatedReplicas=1)
    after = rollout_status(before, replica_set("web-1", 3, available=0), [], now=NOW)
    condition = _condition(after, "Progressing")
    assert condition is not None
    assert condition["lastUpdateTime"] == "2026-01-01T00:00:00Z"
    assert condition["lastTransitionTime"] == "2025-12-31T23:58:20Z"


def test_equal_condition_is_unchanged() -> None:
    """Looking again at the same ReplicaSets gives the same status, at any later time."""
    new = replica_set("web-1", 3)
    status = rollout_status(deployment(3), new, [], now=NOW)
    assert rollout_status(deployment(3, status=status), new, [], now=NOW + 1000) == status


def test_progressing_condition_is_absent_without_deadline() -> None:
    """The largest int32 stands for no deadline, and takes the condition away."""
    before = _with_progress("ReplicaSetUpdated", at=NOW)
    before["spec"]["progressDeadlineSeconds"] = 2147483647
    assert _reason(rollout_status(before, replica_set("web-1", 1), [], now=NOW)) is None


def test_replica_failure_is_copied_to_deployment() -> None:
    """ReplicaFailure is copied while it lasts, the new ReplicaSet's before an old one's."""
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    new = replica_set("web-1", 3, available=0, conditions=[failure])
    status = rollout_status(deployment(3), new, [], now=NOW)
    assert _reason(status, "ReplicaFailure") == ("True", "FailedCreate", "no room")
    healed = rollout_status(deployment(3, status=status), replica_set("web-1", 3), [], now=NOW)
    assert _reason(healed, "ReplicaFailure") is None


@pytest.mark.parametrize(
    ("reason", "paused", "expected"),
    [
        ("ReplicaSetUpdated", True, ("Unknown", "DeploymentPaused", "Deployment is paused")),
        ("DeploymentPaused", False, ("Unknown", "DeploymentResumed", "Deployment is resumed")),
        ("DeploymentPaused", True, None),
        ("ReplicaSetUpdated", False, None),
        ("ProgressDeadlineExceeded", True, None),
    ],
)
def test_pause_sets_progressing_condition(
    reason: str, paused: bool, expected: tuple[str, str, str] | None
) -> None:
    """A pause and its end are noted once; a missed deadline is not covered up."""
    before = _with_progress(reason, at=NOW)
    before["spec"]["paused"] = paused
    conditions = with_pause(before, now=NOW)
    if expected is None:
        assert conditions is None
    else:
        assert conditions is not None
        assert _reason({"conditions": conditions}) == expected


@pytest.mark.parametrize(
    ("counts", "complete"),
    [
        ({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}, True),
        ({"updatedReplicas": 3, "replicas": 4, "availableReplicas": 3}, False),
        ({"updatedReplicas": 2, "replicas": 3, "availableReplicas": 3}, False),
        ({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 2}, False),
    ],
)
def test_complete_rollout_is_detected(counts: dict[str, int], complete: bool) -> None:
    """All pods new, none left over, all available, and the newest spec observed."""
    assert is_complete(deployment(3), {"observedGeneration": 1, **counts}) is complete
    assert not is_complete(deployment(3), {"observedGeneration": 0, **counts})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": []}, None),
        ({"conditions": [progressing("True", "ReplicaSetUpdated", now=NOW - 100)]}, 501.0),
        ({"conditions": [progressing("True", "ReplicaSetUpdated", now=NOW - 9999)]}, 1.0),
        ({"conditions": [progressing("False", "ProgressDeadlineExceeded", now=NOW)]}, None),
        ({"conditions": [progressing("True", "NewReplicaSetAvailable", now=NOW)]}, None),
    ],
)
def test_progress_is_checked_after_the_deadline(
    status: dict[str, Any], expected: float | None
) -> None:
    """One second after the deadline could be missed, if it can be missed at all."""
    assert next_check(deployment(3), status, now=NOW) == expected
