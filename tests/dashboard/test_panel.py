"""What the panel shows of a workload or a source."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dashboard.documents import document, source, workload

from hotmap.core.status.status_document import (
    DecisionSummary,
    PodSummary,
    StageSummary,
    UnfollowedSource,
)
from hotmap.dashboard.panel import source_panel, workload_panel


def pod(name: str, state: str, confidence: str = "proven", reason: str = "why") -> PodSummary:
    loaded = StageSummary(confidence=confidence, reason=reason)
    return PodSummary(name=name, ready=True, loaded=loaded, state=state)


def panel(**fields: Any) -> dict[str, Any]:
    item = workload("web", fields.pop("state", "waiting"), **fields)
    return workload_panel(document([item]), item, ())


def test_workload_is_described_in_full() -> None:
    """State, sources with their uses and age, pods with evidence, decisions, commands."""
    item = workload(
        "web",
        "waiting",
        source("app", read=["start", "files"], changed_at=700.0),
        pods=[
            pod("web-1", "current"),
            pod("web-2", "waiting", "unknown"),
            pod("web-3", "unknown", "unknown", "no answer"),
        ],
        action_required=True,
        policy="hotmap.dev/follow: auto",
        strategy="auto",
        unfollowed=[UnfollowedSource(kind="Secret", name="token")],
        decisions=[
            DecisionSummary(
                at=990.0, verdict="", reason="changed", actions=["rollout"], outcome="done"
            )
        ],
    )
    assert workload_panel(document([item]), item, ["--context", "my prod"]) == {
        "title": "deployment/web",
        "namespace": "shop",
        "state": "waiting",
        "verdict": "waiting; action required",
        "tone": "busy",
        "reason": "reason of web",
        "note": "hotmap.dev/follow: auto; strategy auto",
        "commands": [
            "hotmap status deployment/web -n shop --context 'my prod'",
            "hotmap why deployment/web -n shop --context 'my prod'",
        ],
        "sources": [
            {
                "id": "ConfigMap/shop/app",
                "name": "configmap/app",
                "text": "read at start, as files; changed 5m ago",
            },
            {"id": "", "name": "secret/token", "text": "not followed"},
        ],
        "pods": [
            {"name": "web-2", "state": "waiting", "tone": "busy", "text": "waiting (unknown): why"},
            {"name": "web-3", "state": "unknown", "tone": "warn", "text": "unknown: no answer"},
            {"name": "web-1", "state": "current", "tone": "good", "text": "current (proven): why"},
        ],
        "podsNote": "",
        "decisions": [{"at": 990.0, "actions": "rollout", "reason": "changed"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"pods": [], "pods_error": "forbidden"}, "cannot list pods: forbidden"),
        ({"pods": [], "pod_count": 0}, "no pods"),
        ({"pods": [pod("web-1", "current")], "pod_count": 1}, ""),
        ({"pods": [pod(f"w-{n}", "current") for n in range(150)], "pod_count": 150},
         "and 50 more"),
    ],
)  # fmt: skip
def test_pods_that_are_not_listed_are_mentioned(fields: dict[str, Any], note: str) -> None:
    """Because they could not be read, or since there are too many."""
    assert panel(**fields)["podsNote"] == note


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"actions": ["nudge", "notify"]}, ("nudge, notify", "r")),
        ({"held": True}, ("held", "r")),
        ({"outcome": "failed: 403"}, ("none", "r; failed: 403")),
        ({"count": 3}, ("none", "r (3 times)")),
    ],
)
def test_decisions_are_worded_as_by_hotmap_why(
    fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    base: dict[str, Any] = {"at": 1.0, "verdict": "", "reason": "r", "actions": []}
    decision = DecisionSummary(**{**base, "outcome": "done", **fields})
    (shown,) = panel(decisions=[decision])["decisions"]
    assert (shown["actions"], shown["reason"]) == expected


def test_source_lists_its_workloads() -> None:
    """Those that need attention first; each is a link."""
    status = document([workload("a", "current", "app"), workload("b", "held", "app"),
                       workload("c", "current", "other")])  # fmt: skip
    shown = source_panel(status, "ConfigMap/shop/app", [])
    assert shown is not None
    assert [user["id"] for user in shown["users"]] == ["Deployment/shop/b", "Deployment/shop/a"]
    assert shown["reason"] == "1 of 2 followed workloads that use it is current"
    assert shown["tone"] == "bad"
    assert shown["commands"] == [
        "hotmap status configmap/app -n shop",
        "hotmap preview configmap/app -n shop",
    ]
    assert source_panel(status, "ConfigMap/shop/nosuch", []) is None


def test_missing_source_is_described() -> None:
    status = document([workload("a", "waiting", source("app", exists=False))])
    shown = source_panel(status, "ConfigMap/shop/app", [])
    assert shown is not None
    assert shown["note"] == "does not exist"
