"""Which pods a ReplicaSet deletes when it has too many."""

from __future__ import annotations

import pytest
from tests.local.controllers.objects import Object, pod

from hotmap.local.controllers.pods import choose_victims, is_active, is_available

NOW = 1_767_312_000.0  # 2026-01-02T00:00:00Z, a day after pods are created


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        pytest.param(pod(node=""), pod(phase="Pending", ready=None), id="not assigned to a node"),
        pytest.param(pod(phase="Pending"), pod(phase="Unknown"), id="pending before unknown"),
        pytest.param(pod(phase="Unknown"), pod(), id="unknown before running"),
        pytest.param(pod(ready=None), pod(cost="-5"), id="not ready before cheap"),
        pytest.param(pod(cost="-1"), pod(), id="lower deletion cost"),
        pytest.param(
            pod(ready="2026-01-01T23:00:00Z"),
            pod(ready="2026-01-01T01:00:00Z", restarts=9),
            id="ready for a shorter time",
        ),
        pytest.param(pod(restarts=2), pod(restarts=1), id="more restarts"),
        pytest.param(
            pod(created="2026-01-01T23:00:00Z"), pod(created="2026-01-01T00:00:00Z"), id="younger"
        ),
        pytest.param(
            pod("a", ready="2026-01-01T00:00:07Z"), pod("b"), id="by uid when about equally old"
        ),
    ],
)
def test_pod_that_costs_least_is_deleted_first(goes: Object, stays: Object) -> None:
    """Of two pods the first goes, in whatever order they come."""
    for pods in ([goes, stays], [stays, goes]):
        assert choose_victims(pods, pods, 1, now=NOW) == [goes]


def test_pod_on_fuller_node_is_deleted_first() -> None:
    """Pods of sibling ReplicaSets count for how crowded a node is; finished ones do not."""
    here, there = pod(node="one"), pod(node="two")
    siblings = [here, there, pod(node="two"), pod(node="one", phase="Succeeded")]
    assert choose_victims([here, there], siblings, 1, now=NOW) == [there]


@pytest.mark.parametrize(
    ("candidate", "active"),
    [
        (pod(), True),
        (pod(phase="Pending"), True),
        (pod(phase="Succeeded"), False),
        (pod(phase="Failed"), False),
    ],
)
def test_finished_and_deleted_pods_are_not_active(candidate: Object, active: bool) -> None:
    """A finished pod is not a replica, and neither is one that is going."""
    assert is_active(candidate) is active
    candidate["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_active(candidate)


def test_pod_is_available_after_min_ready_seconds() -> None:
    """Ready for exactly minReadySeconds is enough; zero asks for readiness only."""
    candidate = pod(ready="2026-01-02T00:00:00Z")
    assert is_available(candidate, 0, now=NOW)
    assert not is_available(candidate, 10, now=NOW + 9)
    assert is_available(candidate, 10, now=NOW + 10)
    assert not is_available(pod(ready=None), 0, now=NOW)
