"""What a Deployment's own controller says about pods that it cannot create."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import Workload

MESSAGE = 'pods "web-7d9f" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2'
AVAILABLE = {"type": "Available", "status": "True", "message": "has minimum availability"}


def blocked_by(conditions: list[dict[str, Any]] | None, *, updated: int, kind: str) -> str:
    """Reduce a workload of two pods with these conditions, `updated` of which are replaced."""
    status = {"replicas": 2, "updatedReplicas": updated, "conditions": conditions}
    body = {"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": status}
    return consumer_from_workload(
        kind, msgspec.json.decode(msgspec.json.encode(body), type=Workload)
    ).blocked_by


def failure(status: str = "True", message: str = MESSAGE) -> dict[str, Any]:
    return {"type": "ReplicaFailure", "status": status, "message": message}


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (None, ""),
        ([AVAILABLE], ""),
        ([AVAILABLE, failure()], MESSAGE),
        ([failure(status="False")], ""),
        ([{**AVAILABLE, "message": 'about "ReplicaFailure"'}], ""),
        ([failure(message="two\nlines")], "two\\nlines"),
    ],
)
def test_reason_is_that_of_the_condition(
    conditions: list[dict[str, Any]] | None, reason: str
) -> None:
    """On one line, of the condition that the controller sets while pods cannot be created."""
    assert blocked_by(conditions, updated=1, kind="Deployment") == reason


def test_long_reason_is_cut() -> None:
    """A webhook may give one of any length."""
    assert len(blocked_by([failure(message="x" * 5000)], updated=1, kind="Deployment")) <= 301


def test_only_a_rollout_of_a_deployment_is_blocked() -> None:
    """Nothing is wanted of one that is complete; other kinds have no such condition."""
    assert blocked_by([failure()], updated=2, kind="Deployment") == ""
    assert blocked_by([failure()], updated=1, kind="StatefulSet") == ""
