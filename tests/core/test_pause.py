"""A Deployment with a pause period is paused by a change, and resumed when the period is over."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import (
    ENV,
    KEY,
    config_map,
    consumer,
    deployment,
    snapshot,
    with_changes,
    workload,
)

from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.record import Outcome, next_record, record_applied
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ObjectKey, ObjectMeta
from hotmap.core.model.state import Record
from hotmap.core.model.template_writers import is_paused_by_other
from hotmap.core.patch.rollout import end_pause_patch, pause_in, template_patch
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Defaults, Pause
from hotmap.core.reloader.annotations import DialectSettings, Names, Writing
from hotmap.core.reloader.patch import Stamp

PERIOD = "deployment.reloader.stakater.com/pause-period"
PAUSED_AT = "deployment.reloader.stakater.com/paused-at"
AUTO = {"reloader.stakater.com/auto": "true"}
COMPAT = Defaults(dialect=DialectSettings(pauses=True))
#: 600 seconds.
AT = "1970-01-01T00:10:00Z"

BEFORE = config_map("app", {"LEVEL": "info"})
AFTER = config_map("app", {"LEVEL": "debug"}, version=2, changed_at=990)


# -- what is read -----------------------------------------------------------------------------


@pytest.mark.parametrize("pauses", [False, True], ids=["", "compat"])
@pytest.mark.parametrize(
    ("kind", "paused", "said", "paused_at"),
    [
        pytest.param("Deployment", True, {PAUSED_AT: AT, PERIOD: "5m"}, 600.0, id="paused"),
        pytest.param("Deployment", True, {PAUSED_AT: AT}, 600.0, id="no period"),
        pytest.param("Deployment", True, {PAUSED_AT: "?", PERIOD: "5m"}, 0.0, id="unreadable"),
        pytest.param(
            "Deployment", True, {PAUSED_AT: "1970-01-01T02:10:00+02:00"}, 600.0, id="offset"
        ),
        pytest.param("Deployment", True, {PERIOD: "5m"}, None, id="paused by a user"),
        pytest.param("Deployment", False, {PAUSED_AT: AT}, None, id="running"),
        pytest.param("StatefulSet", True, {PAUSED_AT: AT}, None, id="kind"),
    ],
)
def test_time_of_a_pause_is_read(
    kind: str, paused: bool, said: dict[str, str], paused_at: float | None, pauses: bool
) -> None:
    """From the Deployment alone, whether Reloader wrote it or hotmap."""
    defaults = Defaults(dialect=DialectSettings(pauses=pauses))
    policy = read_policy(consumer(kind, paused=paused, annotations=said), defaults=defaults)
    assert (policy.pause.paused_at if policy.pause else None) == paused_at
    assert policy.is_paused is (paused_at is not None)


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("2026-11-22T10:00:00Z", True),
        ("2026-11-22T12:00:00+02:00", True),
        ("2026-13-01T00:00:00Z", False),
        ("2026-11-22T10:00:00", False),
        ("2026-11-22", False),
        ("", False),
        ("now", False),
        ("1e9", False),
        ("９" * 30, False),
        ("0001-01-01T00:00:00+23:59", True),
        ("x" * 100_000, False),
    ],
)
def test_invalid_time_is_reported(text: str, readable: bool) -> None:
    """One message, whatever it is; the pause counts as over, as for Reloader."""
    said = {**AUTO, PAUSED_AT: text, PERIOD: "5m"}
    policy = read_policy(deployment(ENV, paused=True, annotations=said), defaults=COMPAT)
    assert policy.is_paused
    assert len(policy.problems) == (0 if readable else 1)
    assert all("invalid time" in problem.message for problem in policy.problems)
    assert all(len(problem.message) < 400 for problem in policy.problems)


def test_period_pauses_only_with_compat() -> None:
    """Otherwise the rollout waits as long; a settle time of its own counts in both."""
    who = deployment(ENV, annotations={**AUTO, PERIOD: "5m"})
    waiting, pausing = read_policy(who), read_policy(who, defaults=COMPAT)
    assert (waiting.settle, waiting.settle_max, waiting.pauses) == (300.0, 300.0, False)
    assert (pausing.settle, pausing.settle_max, pausing.pauses) == (0.5, 5.0, True)
    assert pausing.pause == Pause(PAUSED_AT, 300.0, own=True)


@pytest.mark.parametrize("period", ["0s", "soon", "-5m", ""])
def test_invalid_period_pauses_nothing(period: str) -> None:
    """Nor does one of no length."""
    who = deployment(ENV, annotations={**AUTO, PERIOD: period})
    assert not read_policy(who, defaults=COMPAT).pauses


def test_shadow_leaves_pauses_to_reloader() -> None:
    """It writes nothing, so it would resume again and again."""
    shadow = Defaults(dialect=DialectSettings(compares=True))
    who = deployment(ENV, paused=True, annotations={**AUTO, PAUSED_AT: AT, PERIOD: "5m"})
    assert read_policy(who, defaults=shadow).pause is None


def test_names_may_be_changed() -> None:
    """Both annotations have a flag; their default names mean nothing then."""
    names = Names(pause_period="acme.com/period", paused_at="acme.com/at")
    dialect = DialectSettings(names=names, pauses=True)
    said = {"acme.com/period": "1m", "acme.com/at": AT, PERIOD: "5m", PAUSED_AT: "?"}
    item = workload(ENV, paused=True, annotations=said)
    who = consumer_from_workload("Deployment", item, dialect)
    policy = read_policy(who, defaults=Defaults(dialect=dialect))
    assert policy.pause == Pause("acme.com/at", 60.0, own=True, paused_at=600.0)


@pytest.mark.parametrize(
    ("manager", "fields", "other"),
    [
        ("Reloader", {"f:spec": {"f:paused": {}}}, False),
        ("reloader", {"f:spec": {"f:paused": {}}}, False),
        ("hotmap", {"f:spec": {"f:paused": {}}}, False),
        ("kubectl-rollout", {"f:spec": {"f:paused": {}}}, True),
        ("argocd", {"f:spec": {"f:paused": {}, "f:replicas": {}}}, True),
        ("kubectl", {"f:spec": {"f:replicas": {}}}, False),
        (
            "kubectl",
            {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:paused": {}}}}}},
            False,
        ),
        ("kubectl", {"f:spec": 1, "f:paused": {}}, False),
    ],
)
def test_owner_of_a_pause_is_found(manager: str, fields: Any, other: bool) -> None:
    """The field of the spec alone counts, not a name of the same text elsewhere."""
    entry = {"manager": manager, "time": AT, "fieldsV1": fields}
    body = msgspec.json.encode({"managedFields": [entry]})
    assert is_paused_by_other(msgspec.json.decode(body, type=ObjectMeta)) is other


def test_new_owner_of_a_pause_is_noticed_without_a_generation() -> None:
    """Who applies `paused: true` once more changes managedFields alone."""
    item = workload(ENV, paused=True, generation=4)
    before = consumer_from_workload("Deployment", item)
    entry = {"manager": "argocd", "time": AT, "fieldsV1": {"f:spec": {"f:paused": {}}}}
    body = msgspec.json.encode({"managedFields": [entry]})
    owners = msgspec.json.decode(body, type=ObjectMeta).managed_fields
    metadata = msgspec.structs.replace(item.metadata, managed_fields=owners)
    item = msgspec.structs.replace(item, metadata=metadata)
    after = consumer_from_workload("Deployment", item, known=before)
    assert (before.paused_by_other, after.paused_by_other) == (False, True)


# -- what is decided ---------------------------------------------------------------------------


def recorded(who: Consumer) -> Record:
    """Record that BEFORE was applied to a consumer."""
    findings = decide(snapshot(who, BEFORE)).assessment.findings
    return record_applied(who, None, findings, key_id=KEY.id, generation=who.generation)


def decided(
    *,
    now: float = 1000.0,
    paused: bool = False,
    at: str | None = None,
    other: bool = False,
    pauses: bool = True,
    annotations: dict[str, str] | None = None,
    muted: str = "",
    changed: bool = True,
) -> Decision:
    """Decide on a Deployment with a pause period of five minutes, after a change or without one."""
    said = {**AUTO, PERIOD: "5m", **(annotations or {})}
    if at is not None:
        said[PAUSED_AT] = at
    who = deployment(ENV, paused=paused, annotations=said)
    who = msgspec.structs.replace(who, paused_by_other=other)
    defaults = Defaults(dialect=DialectSettings(pauses=pauses), muted=muted)
    policy = read_policy(who, defaults=defaults)
    taken = snapshot(
        who, AFTER if changed else BEFORE, record=recorded(who), policy=policy, now=now
    )
    seen = ChangeSummary(frozenset(("LEVEL",)), now - 1, now - 1)
    return decide(with_changes(taken, seen) if changed else taken)


def actions(decision: Decision) -> list[str]:
    """Name the actions, and whether a rollout pauses."""
    return [
        f"{action.type.value}{', pausing' if action.pauses else ''}"
        for action in decision.plan.actions
    ]


@pytest.mark.parametrize(
    ("case", "expected", "resume_in", "reason"),
    [
        pytest.param(
            {}, ["rollout, pausing"], None, "pausing the Deployment for 5m, then", id="change"
        ),
        pytest.param({"changed": False}, [], None, "unchanged", id="no change"),
        pytest.param(
            {"paused": True}, ["rollout"], None, "Deployment is resumed", id="paused by a user"
        ),
        pytest.param(
            {"paused": True, "at": "1970-01-01T00:15:00Z"},
            ["rollout"],
            201.0,
            "when the pause period of 5m is over",
            id="another change in the period",
        ),
        pytest.param(
            {"paused": True, "at": "1970-01-01T00:15:00Z", "changed": False},
            [],
            201.0,
            "unchanged",
            id="waiting",
        ),
        pytest.param({"paused": True, "at": AT}, ["resume"], 0.0, "5m is over", id="over"),
        pytest.param(
            {"paused": True, "at": AT, "now": 901.0}, ["resume"], 0.0, "is over", id="over just now"
        ),
        pytest.param(
            {"paused": True, "at": AT, "now": 900.0}, ["rollout"], 1.0, "period", id="nearly over"
        ),
        pytest.param(
            {"paused": True, "at": "2026-13-01T00:00:00Z"}, ["resume"], 0.0, "", id="invalid time"
        ),
        pytest.param(
            {"paused": True, "at": "2999-01-01T00:00:00Z"}, ["resume"], 0.0, "", id="future"
        ),
        pytest.param(
            {"paused": True, "at": "1970-01-01T00:16:50Z"},
            ["rollout"],
            311.0,
            "",
            id="a clock that is ahead",
        ),
        pytest.param(
            {"paused": True, "at": AT, "other": True},
            ["rollout"],
            None,
            "Deployment is resumed",
            id="paused by a user after our pause",
        ),
        pytest.param(
            {"at": AT}, ["end pause"], None, "resumed by another writer", id="resumed by a person"
        ),
        pytest.param(
            {"paused": True, "at": AT, "annotations": {PERIOD: "nonsense"}},
            ["resume"],
            0.0,
            "",
            id="period became invalid",
        ),
        pytest.param(
            {"paused": True, "at": AT, "annotations": {"reloader.stakater.com/auto": "false"}},
            ["resume"],
            0.0,
            "",
            id="not followed any more",
        ),
        pytest.param(
            {"annotations": {"reloader.stakater.com/auto": "false"}, "at": AT},
            [],
            None,
            "not followed",
            id="not followed, with an old annotation",
        ),
        pytest.param(
            {"paused": True, "at": AT, "annotations": {"hotmap.dev/strategy": "notify"}},
            ["resume"],
            0.0,
            "",
            id="strategy notify since",
        ),
        pytest.param(
            {"annotations": {"hotmap.dev/strategy": "notify"}}, ["notify"], None, "", id="notify"
        ),
        pytest.param(
            {"paused": True, "at": AT, "muted": "--webhook-url is set"},
            ["notify"],
            None,
            "",
            id="only webhooks",
        ),
        pytest.param(
            {"paused": True, "at": AT, "annotations": {"hotmap.dev/suspend": "true"}},
            [],
            None,
            "suspended by hotmap.dev/suspend: true",
            id="suspended since",
        ),
        pytest.param(
            {"at": AT, "annotations": {"hotmap.dev/suspend": "true"}, "changed": False},
            [],
            None,
            "unchanged",
            id="resumed by a user and suspended since",
        ),
        pytest.param(
            {"pauses": False, "now": 1300.0}, ["rollout"], None, "rolling out", id="own dialect"
        ),
        pytest.param(
            {"paused": True, "at": AT, "pauses": False, "now": 901.0},
            ["rollout"],
            1.0,
            "",
            id="left by Reloader, which may still run",
        ),
        pytest.param(
            {
                "paused": True,
                "at": AT,
                "pauses": False,
                "annotations": {"reloader.stakater.com/auto": "false"},
            },
            [],
            None,
            "not followed",
            id="left by Reloader, not followed",
        ),
    ],
)
def test_pause_is_decided(
    case: dict[str, Any], expected: list[str], resume_in: float | None, reason: str
) -> None:
    """Who is paused, until when, and by whom; times are the API server's."""
    decision = decided(**case)
    assert actions(decision) == expected
    assert decision.resume_in == resume_in
    assert reason in decision.plan.reason


def test_deployment_without_pods_is_not_paused() -> None:
    """Its template is marked, which replaces nothing; a pause would only delay later rollouts."""
    dialect = DialectSettings(pauses=True, writing=Writing.ENV_VARS)
    item = workload(ENV, annotations={**AUTO, PERIOD: "5m"}, replicas=0)
    who = msgspec.structs.replace(consumer_from_workload("Deployment", item, dialect), pods=0)
    policy = read_policy(who, defaults=Defaults(dialect=dialect))
    assert policy.pauses
    assert actions(decide(snapshot(who, AFTER, record=recorded(who), policy=policy))) == ["rollout"]


def test_further_changes_while_paused_are_not_limited() -> None:
    """They replace no pods, so they neither count as rollouts nor wait for one."""
    first = decide(decided().snapshot._replace(flap_limit=1))
    record = next_record(first, Outcome(2, "r", 1000.0))
    assert record is not None
    assert len(record.rollouts.times) == 1
    while_paused = decided(paused=True, at="1970-01-01T00:15:00Z")
    rolled = while_paused.snapshot._replace(record=record, flap_limit=1)
    again = decide(rolled)
    assert again.settle_in is None
    later = next_record(again, Outcome(3, "r", 1001.0))
    assert later is not None
    assert later.rollouts == record.rollouts


@pytest.mark.parametrize(("changed", "generation"), [(False, 7), (True, 1)])
def test_resumed_generation_is_vouched_for(changed: bool, generation: int) -> None:
    """Resuming changes no template, so the next change needs no look at the pods.

    One that is not written yet does: the pods that the end of the pause starts have read it.
    """
    decision = decided(paused=True, at=AT, changed=changed)
    record = next_record(decision, Outcome(7, "", 1000.0)) or decision.snapshot.record
    assert record is not None
    assert record.generation == generation


# -- what is written ---------------------------------------------------------------------------


@pytest.mark.parametrize("writing", [Writing.REVISION, Writing.ENV_VARS, Writing.ANNOTATIONS])
def test_pause_and_template_are_one_patch(writing: Writing) -> None:
    """No controller can end between the two; both have one precondition."""
    who = consumer_from_workload("Deployment", workload(ENV), DialectSettings(writing=writing))
    stamps = (Stamp(ObjectKey("ConfigMap", "shop", "app"), "0123"),)
    patch = template_patch(who, "r", writing=writing, stamps=stamps, distinct=True, now=600.9)
    paused = pause_in(patch, PAUSED_AT, now=600.9)
    assert isinstance(paused.body, dict) and isinstance(patch.body, dict)
    assert paused.body["metadata"]["resourceVersion"] == who.resource_version
    assert paused.body["metadata"]["annotations"] == {PAUSED_AT: AT}
    assert paused.body["spec"] == {**patch.body["spec"], "paused": True}
    assert "annotations" not in patch.body["metadata"]


def test_end_of_a_pause_is_one_patch() -> None:
    """The annotation goes with it, so that a later pause of a user is theirs."""
    who = deployment(ENV)
    metadata = {
        "uid": who.uid,
        "resourceVersion": who.resource_version,
        "annotations": {PAUSED_AT: None},
    }
    assert end_pause_patch(who, PAUSED_AT, resumes=True) == {
        "metadata": metadata,
        "spec": {"paused": False},
    }
    assert end_pause_patch(who, PAUSED_AT, resumes=False) == {"metadata": metadata}
