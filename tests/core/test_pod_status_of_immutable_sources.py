"""What pods have loaded of an immutable source, which kubelets may keep after it was deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.core.freshness import app, applied_record
from tests.core.pod_stages import CHANGED, SUB_PATH, WEB, observed_pod, stages_of
from tests.support.objects import ENV, FILES, config_map, deployment, snapshot, with_changes

from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.policy.policy import Agent, Policy
from hotmap.core.status.agent_answers import read_answer
from hotmap.core.status.desired import desired_content
from hotmap.core.status.stage import Confidence, Stage


@pytest.mark.parametrize(
    "content",
    [
        pytest.param((ENV, False), id="environment"),
        pytest.param((FILES, False), id="files that are re-read"),
        pytest.param((FILES, True), id="files that are read at start"),
        pytest.param((SUB_PATH, False), id="subPath"),
    ],
)
@pytest.mark.parametrize(
    ("fields", "is_known"),
    [
        pytest.param({"immutable": True, "created_at": CHANGED}, False, id="created after it"),
        pytest.param({"immutable": True, "created_at": 500.0}, True, id="created with it"),
        pytest.param({"created_at": CHANGED}, True, id="refreshed by kubelets"),
    ],
)
def test_pod_older_than_an_immutable_source_is_unknown(
    content: tuple[str, bool], fields: dict[str, Any], is_known: bool
) -> None:
    """Its kubelet may go on to serve one that was deleted, whatever restarts or is nudged."""
    spec, live_needs_rollout = content
    source = config_map(data={"LEVEL": "info", "app.yaml": "a: 1"}, changed_at=CHANGED, **fields)
    policy = Policy(opted_in=True, rereads=not live_needs_rollout)
    taken = snapshot(deployment(spec), source, policy=policy)
    wanted = desired_content(taken)
    restarted = observed_pod(
        1200, mounted_at=500, nudged=wanted.target._replace(sequence=7), nudged_at=1100
    )
    restarted = restarted._replace(start=restarted.start._replace(restarted=True))
    projected, loaded = stages_of(wanted, restarted, now=1300)
    assert loaded.reached is is_known
    assert projected is None or projected.reached is is_known
    if not is_known:
        assert "ConfigMap shop/app, which is immutable" in loaded.reason
    _, younger = stages_of(wanted, observed_pod(1002), now=1300)
    assert younger.reached


@pytest.mark.parametrize("spec", [ENV, FILES, SUB_PATH], ids=["env", "files", "subPath"])
@pytest.mark.parametrize(
    ("data", "is_known"),
    [
        pytest.param({"LEVEL": "debug", "app.yaml": "a: 2"}, False, id="other content"),
        pytest.param({"LEVEL": "info", "app.yaml": "a: 1"}, True, id="equal content"),
    ],
)
def test_no_time_is_evidence_while_kubelets_may_serve_an_immutable_source(
    spec: str, data: dict[str, str], is_known: bool
) -> None:
    """Whenever a pod of a held workload started, it may have the content from before."""
    who = deployment(spec)
    before = applied_record(who, app(immutable=True))
    recreated = config_map(data=data, uid="uid-2", changed_at=CHANGED)
    wanted = desired_content(snapshot(who, recreated, record=before))
    _, loaded = stages_of(wanted, observed_pod(CHANGED + 100), now=CHANGED + 300)
    assert loaded.reached is is_known
    if not is_known:
        assert loaded.reason == (
            "its kubelet may serve ConfigMap shop/app as it was before it was deleted"
        )


def test_files_that_kubelets_keep_are_not_waited_for() -> None:
    """With an agent, whose report then never shows the new content."""
    who = deployment(FILES)
    policy = Policy(opted_in=True, agent=Agent())
    before = applied_record(who, app(immutable=True))
    recreated = config_map(data={"app.yaml": "a: 2"}, uid="uid-2", changed_at=CHANGED)
    wanted = desired_content(snapshot(who, recreated, record=before, policy=policy))
    pod = observed_pod(CHANGED - 100, nudged=wanted.target, nudged_at=CHANGED + 1)._replace(uid="u")
    document = {"protocol": 1, "uid": pod.uid, "live": "-", "frozen": "-", "directories": []}
    report = read_answer(json.dumps(document).encode(), pod.uid)
    _, loaded = stages_of(wanted, pod, now=CHANGED + 300, agents={pod.uid: report})
    assert loaded == Stage(
        Confidence.UNKNOWN,
        "its kubelet may serve ConfigMap shop/app as it was before it was deleted",
    )


def test_pod_that_waited_for_an_immutable_source_is_proven() -> None:
    """It was created before the source, and its containers started for the first time after it."""
    source = config_map(
        data={"LEVEL": "info"}, changed_at=CHANGED, created_at=CHANGED, immutable=True
    )
    wanted = desired_content(snapshot(WEB, source))
    _, loaded = stages_of(wanted, observed_pod(1010, mounted_at=990))
    assert loaded.confidence is Confidence.PROVEN


def test_observed_creation_of_an_immutable_source_is_not_a_recreation() -> None:
    source = config_map(
        data={"LEVEL": "info"}, changed_at=CHANGED, created_at=CHANGED, immutable=True
    )
    taken = with_changes(snapshot(WEB, source), ChangeSummary(latest=CHANGED))
    assert desired_content(taken).immutable == ()
