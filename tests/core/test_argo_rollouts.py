"""How an Argo Rollout is read, with its own template or with a Deployment's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.freshness import assess_sources
from tests.support.objects import (
    ENV,
    KEY,
    config_map,
    deployment,
    pod,
    rollout,
    sources,
    timestamp,
)

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.plan import Action, ActionType, make_plan
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.consumer import Consumer, is_replaced_by_argo, rolled_by
from hotmap.core.model.objects import ObjectKey
from hotmap.core.patch.rollout import restart_time
from hotmap.core.policy.annotations import read_policy
from hotmap.core.status.consumer import ConsumerStatus, State, rollout_status

FOLLOW = {"hotmap.dev/follow": "auto"}
RESTART = {**FOLLOW, "reloader.stakater.com/rollout-strategy": "restart"}
FROM_DEPLOYMENT = ("Deployment", "web")


@pytest.mark.parametrize(
    ("options", "rolling"),
    [
        ({}, False),
        ({"promoted": False}, True),
        ({"restart_at": 100}, True),
        ({"restart_at": 100, "restarted_at": 50}, True),
        ({"restart_at": 100, "restarted_at": 100}, False),
    ],
)
def test_rollout_is_in_progress_until_its_newest_template_is_promoted_or_restarted(
    options: dict[str, Any], rolling: bool
) -> None:
    """Argo's own two pairs of facts tell."""
    assert rollout(ENV, **options).rolling is rolling


def test_edit_that_argo_has_not_seen_counts_as_rolling() -> None:
    """Of the Rollout, or of the Deployment whose template it uses."""
    assert rollout(ENV, generation=3, observed=2).rolling
    mine = deployment(ENV, generation=2)
    assert rolled_by(mine, rollout(template_in=FROM_DEPLOYMENT, template_seen=1)).rolling
    assert not rolled_by(mine, rollout(template_in=FROM_DEPLOYMENT, template_seen=2)).rolling


#: What Argo Rollouts 1.10.2 reports of two pods, after a rollout of kind blue-green was promoted,
#: and while it is paused or aborted.
PROMOTED = {"phase": "Healthy", "currentPodHash": "b", "stableRS": "b", "replicas": 4}
PAUSED = {"phase": "Paused", "message": "BlueGreenPause", "replicas": 4, "updatedReplicas": 2}
ABORTED = {
    "abort": True,
    "phase": "Degraded",
    "message": "RolloutAborted: Rollout aborted update to revision 12",
    "replicas": 4,
    "updatedReplicas": 2,
}
INVALID = {"phase": "Degraded", "message": "InvalidSpec: The Rollout is invalid: no service"}
TIMED_OUT = {**ABORTED, "abort": False, "message": "ProgressDeadlineExceeded: it has timed out"}


def test_rollout_is_in_progress_while_argo_keeps_older_pods() -> None:
    """Blue-green keeps them for 30 s after the promotion; they are no reason to roll out again."""
    kept = rollout(ENV, replicas=2, status=PROMOTED)
    assert (kept.rolling, kept.behind) == (True, 2)
    gone = rollout(ENV, replicas=2, status={**PROMOTED, "replicas": 2})
    assert (gone.rolling, gone.behind) == (False, 0)


@pytest.mark.parametrize(
    ("options", "state", "reason", "needs_action"),
    [
        ({"promoted": False}, State.WAITING, "rollout in progress", False),
        (
            {"status": PROMOTED},
            State.WAITING,
            "older pods are kept for scaleDownDelaySeconds",
            False,
        ),
        (
            {"promoted": False, "status": PAUSED},
            State.PAUSED,
            "rollout is paused (BlueGreenPause)",
            False,
        ),
        (
            {"promoted": False, "status": ABORTED},
            State.WAITING,
            "RolloutAborted: Rollout aborted update to revision 12",
            True,
        ),
        (
            {"promoted": False, "status": TIMED_OUT},
            State.WAITING,
            "ProgressDeadlineExceeded: it has timed out",
            False,
        ),
        (
            {"status": INVALID},
            State.WAITING,
            "InvalidSpec: The Rollout is invalid: no service",
            False,
        ),
    ],
)
@pytest.mark.parametrize("borrows", [False, True])
def test_status_says_what_argo_waits_for(
    options: dict[str, Any], state: State, reason: str, needs_action: bool, borrows: bool
) -> None:
    """By Argo's own phase, also of a Deployment whose template it uses."""
    if borrows:
        runs = rollout(replicas=2, template_in=FROM_DEPLOYMENT, **options)
        who = rolled_by(deployment(ENV, replicas=0), runs)
    else:
        who = rollout(ENV, replicas=2, **options)
    status = rollout_status(who)
    assert status == ConsumerStatus(state, f"waiting for 2 pods: {reason}", 2, needs_action)


@pytest.mark.parametrize("status", [PAUSED, ABORTED])
@pytest.mark.parametrize("borrows", [False, True])
def test_phase_before_an_edit_says_nothing(status: dict[str, Any], borrows: bool) -> None:
    """Argo has not seen the edit yet; it ends an abort."""
    if borrows:
        runs = rollout(template_in=FROM_DEPLOYMENT, promoted=False, status=status)
        who = rolled_by(deployment(ENV, replicas=0, generation=2), runs)
    else:
        who = rollout(ENV, generation=3, observed=2, promoted=False, status=status)
    expected = ConsumerStatus(State.WAITING, "waiting for 1 pod: rollout in progress", 1)
    assert rollout_status(who) == expected


def test_rollout_with_a_deployments_template_is_not_a_consumer() -> None:
    """The template to write is the Deployment's."""
    assert rollout(template_in=FROM_DEPLOYMENT).owned
    assert not rollout(ENV).owned
    assert not rollout(template_in=("PodTemplate", "web")).owned


def test_deployment_is_shown_as_the_rollout_runs_it() -> None:
    """Pods, count and progress are the Rollout's; object, uses and template the Deployment's."""
    runs = rollout(template_in=FROM_DEPLOYMENT, replicas=3, annotations=FOLLOW)
    mine = deployment(ENV, replicas=0, annotations={"hotmap.dev/settle": "1s"})
    shown = rolled_by(mine, runs)
    assert (shown.key, shown.uid, shown.uses) == (mine.key, mine.uid, mine.uses)
    assert (shown.replicas, shown.rolling) == (3, False)
    assert shown.selector == mine.selector
    assert shown.annotations == {**FOLLOW, "hotmap.dev/settle": "1s"}


def test_deployment_annotations_override_the_rollouts() -> None:
    """The Rollout's annotations count where it is silent."""
    runs = rollout(template_in=FROM_DEPLOYMENT, annotations={"hotmap.dev/follow": "off"})
    assert read_policy(rolled_by(deployment(ENV, annotations=FOLLOW), runs)).opted_in


@pytest.mark.parametrize("kind", ["PodTemplate", "ReplicaSet"])
def test_template_of_an_unsupported_kind_is_reported(kind: str) -> None:
    """Argo takes these too; no writer of the spec, so the Rollout is patched."""
    policy = read_policy(rollout(template_in=(kind, "web"), annotations=FOLLOW))
    assert [problem.message for problem in policy.problems] == [
        f"its pod template is that of {kind} shop/web, which is not a Deployment; "
        "not acting on changes of its sources"
    ]
    silent = read_policy(rollout(template_in=(kind, "web")))
    assert not silent.problems


# -- a change ----------------------------------------------------------------------------------


def assess_change(
    who: Consumer,
    *,
    applied_generation: int = 1,
    changed_at: float = 100.0,
    now: float = 200.0,
    **known: Any,
) -> Assessment:
    """Assess a consumer whose LEVEL changed since it was applied."""
    old = sources(config_map("app", {"LEVEL": "info"}))
    new = sources(config_map("app", {"LEVEL": "debug"}, version=2, changed_at=changed_at))
    first = assess_sources(who, None, take_snapshots(who.uses, old, KEY), now=0)
    record = record_applied(who, None, first.findings, key_id=KEY.id, generation=applied_generation)
    found = take_snapshots(who.uses, new, KEY)
    return assess_sources(who, record, found, now=now, revision="r", **known)


def acts(who: Consumer) -> tuple[Action, ...]:
    return make_plan(who, read_policy(who), assess_change(who), changed={}).actions


@pytest.mark.parametrize(
    ("said", "act"),
    [(FOLLOW, ActionType.ROLLOUT), (RESTART, ActionType.RESTART_PODS)],
    ids=["own", "restart"],
)
def test_change_asks_for_its_template_or_for_a_restart(
    said: dict[str, str], act: ActionType
) -> None:
    """As Reloader's annotation says, on either of the two objects."""
    assert acts(rollout(ENV, annotations=said)) == (Action(act),)
    runs = rollout(template_in=FROM_DEPLOYMENT, annotations=said)
    assert acts(rolled_by(deployment(ENV, replicas=0), runs)) == (Action(act),)
    silent = rollout(template_in=FROM_DEPLOYMENT)
    mine = deployment(ENV, replicas=0, annotations=said)
    assert acts(rolled_by(mine, silent)) == (Action(act),)
    assert not read_policy(rolled_by(mine, silent)).problems


@pytest.mark.parametrize(
    ("status", "started", "verdict"),
    [
        pytest.param(PAUSED, 130.0, Verdict.WAIT, id="read by the pods of a paused canary"),
        pytest.param(PAUSED, 90.0, Verdict.FROZEN, id="changed while a canary is paused"),
        pytest.param(
            {**ABORTED, "abortedAt": timestamp(150.0)}, None, Verdict.WAIT, id="aborted later"
        ),
        pytest.param(
            {**ABORTED, "abortedAt": timestamp(90.0)}, None, Verdict.FROZEN, id="aborted before"
        ),
    ],
)
def test_rollout_of_another_is_waited_for_as_long_as_its_pods_have_read_the_change(
    status: dict[str, Any], started: float | None, verdict: Verdict
) -> None:
    """A canary is not started again, be it paused or aborted, but where a change came after that.

    The starts are those of the pods that have the newest template; an aborted one has none.
    """
    who = rollout(ENV, generation=2, promoted=False, status=status)
    starts = () if started is None else (PodStart("web-1", started, ""),)
    assert assess_change(who, waited=100.0, starts=starts).verdict is verdict


def test_plan_names_what_is_paused() -> None:
    """The Rollout, also where the Deployment's template is written."""
    own = rollout(ENV, annotations=FOLLOW, paused=True)
    runs = rollout(template_in=FROM_DEPLOYMENT, annotations=FOLLOW, paused=True)
    for who in (own, rolled_by(deployment(ENV, replicas=0), runs)):
        plan = make_plan(who, read_policy(who), assess_change(who), changed={})
        assert plan.reason.endswith("rolling out when the Rollout is resumed")


@pytest.mark.parametrize(
    ("label", "phase", "replaced"),
    [
        ("old", "Paused", True),
        ("old", "Healthy", True),
        ("new", "Paused", False),
        (None, "Healthy", False),
        ("old", "", False),
    ],
)
def test_pods_of_other_templates_are_replaced_by_argo(
    label: str | None, phase: str, replaced: bool
) -> None:
    """As far as Argo has seen the template and names the one of a pod."""
    named = {"rollouts-pod-template-hash": label} if label else {}
    found = pod()
    found = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, labels=named)
    )
    who = rollout(ENV, promoted=False, status={"phase": phase})
    assert is_replaced_by_argo(who, found) is replaced
    unnamed = rollout(ENV, promoted=False, status={"phase": phase, "currentPodHash": ""})
    assert not is_replaced_by_argo(unnamed, found)
    assert not is_replaced_by_argo(deployment(ENV), found)


def test_restart_strategy_without_a_rollout_is_reported() -> None:
    """The annotation is for a Rollout; a Deployment alone is rolled, and hears of it."""
    alone = deployment(ENV, annotations=RESTART)
    assert acts(alone) == (Action(ActionType.ROLLOUT),)
    assert len(read_policy(alone).problems) == 1


@pytest.mark.parametrize(
    ("restart_at", "verdict"),
    [
        pytest.param(101, Verdict.ADOPT, id="after the change"),
        pytest.param(100, Verdict.FROZEN, id="not after it"),
        pytest.param(None, Verdict.FROZEN, id="never"),
        pytest.param(5000, Verdict.FROZEN, id="planned for later"),
    ],
)
def test_restart_after_the_change_has_done_it(restart_at: float | None, verdict: Verdict) -> None:
    """Be it ours, before a crash kept us from noting it, or a person's."""
    who = rollout(ENV, restart_at=restart_at, restarted_at=restart_at)
    assert assess_change(who).verdict is verdict


@pytest.mark.parametrize(
    ("changed_at", "now", "at"),
    [
        (100.0, 100.2, 101),
        (100.0, 100.0, 101),
        (100.0, 40.0, 101),
        (None, 100.2, 101),
    ],
)
def test_restart_time_is_the_next_second(changed_at: float | None, now: float, at: int) -> None:
    """Argo compares whole seconds, and the change may have a later clock."""
    assert restart_time([changed_at], now=now) == at


def test_its_key_is_its_own() -> None:
    """For the Event and the patch of restartAt."""
    argo = rolled_by(deployment(ENV), rollout(template_in=FROM_DEPLOYMENT)).argo
    assert argo is not None
    assert argo.key == ObjectKey("Rollout", "shop", "web")
