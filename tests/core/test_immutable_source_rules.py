"""Is a consumer behind an immutable source that was recreated? Rule 7."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from tests.core.freshness import (
    B_FROZEN,
    B_LIVE,
    OPTIONAL_BOTH,
    OPTIONAL_ENV,
    TWO,
    app,
    applied_record,
    assess_change,
    assess_sources,
    deployment,
    record_after,
)
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    KEY,
    config_map,
    consumer,
    pod,
    sources,
)

from hotmap.core.decide.assessment import OtherUse, Verdict
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.plan import make_plan
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.source_snapshot import ChangeSummary, SourceSnapshot, take_snapshots
from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.core.model.state import PodCheck, Record, Window
from hotmap.core.policy.policy import Policy

_APP = ObjectKey("ConfigMap", "shop", "app")


@pytest.mark.parametrize(
    ("kind", "fields", "started", "verdict"),
    [
        pytest.param("StatefulSet", {}, None, Verdict.CHECK_OTHERS, id="pods not listed"),
        pytest.param("StatefulSet", {}, [400.0], Verdict.HOLD, id="it may serve the old one"),
        pytest.param("DaemonSet", {}, [600.0], Verdict.HOLD, id="replaced before the old was gone"),
        pytest.param("Deployment", {}, [600.0], Verdict.HOLD, id="new pods overlapped old ones"),
        pytest.param("StatefulSet", {}, [600.0], Verdict.ADOPT, id="its only pod was replaced"),
        pytest.param(
            "StatefulSet", {"wanted": 2}, [600.0] * 2, Verdict.HOLD, id="two pods of one node"
        ),
        pytest.param(
            "StatefulSet", {"generation": 2}, [600.0], Verdict.HOLD, id="it may have had two pods"
        ),
    ],
)
def test_rule_7_ends_when_pods_were_replaced_that_never_overlap(
    kind: str, fields: dict[str, Any], started: list[float] | None, verdict: Verdict
) -> None:
    """Only where a node never has two pods of a workload, no kubelet serves the old content."""
    before = consumer(kind, ENV)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = applied_record(before, app(immutable=True))
    who = structs.replace(before, **fields)
    assert assess_change(who, record, now, started=started).verdict is verdict


@pytest.mark.parametrize(("created", "verdict"), [(501.0, Verdict.HOLD), (502.0, Verdict.ADOPT)])
def test_rule_7_restarted_container_has_what_was_served_since_its_pod_was_created(
    created: float, verdict: Verdict
) -> None:
    """However late it started again: its kubelet goes on with the content of the pod."""
    who = consumer("StatefulSet", ENV)
    record = applied_record(who, app(immutable=True))
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    starts = (PodStart("web-0", 600.0, "", created=created, restarted=True),)
    assert assess_change(who, record, now, starts=starts).verdict is verdict


def test_rule_7_other_uses_do_not_end_a_hold() -> None:
    """A template that uses the source in another way gets new pods with the old content, too."""
    record = applied_record(deployment(ENV), app(immutable=True))
    who = deployment(ENV_AND_FILES, generation=2)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    for _ in range(2):
        assessment = assess_change(who, record, now)
        assert assessment.verdict is Verdict.HOLD
        assert "was immutable and has been recreated" in assessment.reason
        after = record_after(who, record, assessment)
        assert [source.content for source in after.sources] == [record.sources[0].content]
        record = after
    idle = deployment(ENV_AND_FILES, generation=3, replicas=0)
    assert assess_change(idle, record, now).verdict is Verdict.ADOPT
    same = [app(uid="uid-2", changed_at=500)]
    assert assess_change(deployment(ENV, generation=2), record, same).verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        pytest.param(
            {"immutable": True}, {"uid": "uid-2", "immutable": True}, Verdict.HOLD, id="recreated"
        ),
        pytest.param(
            {"immutable": True}, {"uid": "uid-2"}, Verdict.HOLD, id="recreated, now mutable"
        ),
        pytest.param(
            {}, {"uid": "uid-2", "immutable": True}, Verdict.FROZEN, id="only the new is immutable"
        ),
    ],
)
def test_rule_7_an_immutable_source_was_recreated(
    was: dict[str, Any], now: dict[str, Any], verdict: Verdict
) -> None:
    """Kubelets serve the old content to new pods, so new pods would change nothing."""
    assert assess_change(deployment(), [app(**was)], [app(B_FROZEN, **now)]).verdict is verdict


def test_rule_7_same_content_is_fresh() -> None:
    """An immutable source that comes back as it was is fresh."""
    assert (
        assess_change(deployment(), [app(immutable=True)], [app(uid="uid-2")]).verdict
        is Verdict.UP_TO_DATE
    )


def test_rule_7_same_content_does_not_end_what_kubelets_serve() -> None:
    """A mutable successor with equal content: the next edit of it reaches no pod of the node."""
    who, record = deployment(ENV), applied_record(deployment(ENV), app(immutable=True))
    successor = app(uid="uid-2", version=2)
    for _ in range(2):
        assessment = assess_change(who, record, [successor])
        assert assessment.verdict is Verdict.UP_TO_DATE
        record = record_after(who, record, assessment)
    edited = [app(B_FROZEN, uid="uid-2", version=3)]
    assert assess_change(who, record, edited).verdict is Verdict.HOLD
    other = deployment(ENV_AND_FILES, generation=2)
    adopted = record_after(other, record, assess_change(other, record, [successor]))
    assert assess_change(other, adopted, edited).verdict is Verdict.HOLD
    idle = deployment(ENV, generation=2, replicas=0)
    unused = assess_change(idle, record, [successor])
    free = record_after(idle, record, unused, generation=2)
    assert assess_change(deployment(ENV, generation=2), free, edited).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("rolling", "recreated", "unchanged"),
    [
        pytest.param(True, Verdict.HOLD, Verdict.UP_TO_DATE, id="older pods run on"),
        pytest.param(False, Verdict.CHECK_PODS, Verdict.CHECK_PODS, id="the rollout is over"),
    ],
)
def test_rule_7_source_out_of_use_counts_while_older_pods_run(
    rolling: bool, recreated: Verdict, unchanged: Verdict
) -> None:
    """A template without the source, its recreation, and an undo: old pods never went away."""
    other = deployment("containers: [{name: web}]", generation=2)
    other = structs.replace(other, rolling=rolling)
    record = applied_record(deployment(ENV), app(immutable=True))
    without = record_after(other, record, assess_change(other, record, []), generation=2)
    assert without.sources == ()
    back = deployment(ENV, generation=3)
    successor = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    assert assess_change(back, without, successor).verdict is recreated
    assert assess_change(back, without, [app(immutable=True)]).verdict is unchanged


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(None, id="the consumer is new"),
        pytest.param(Record("uid-web", KEY.id, 1), id="the source is new to it"),
    ],
)
def test_rule_7_pods_keep_an_immutable_source_deleted_before_its_record(
    record: Record | None,
) -> None:
    """Pods of this template have used it, as hotmap saw; so they hold what it was."""
    who = deployment(OPTIONAL_ENV, generation=2)
    others = {_APP: None}

    def snapshots(*items: ConfigMap) -> tuple[SourceSnapshot, ...]:
        taken = take_snapshots(who.uses, sources(*items), KEY)
        return tuple(item._replace(replaces_immutable=True) for item in taken)

    gone = record_after(
        who, record, assess_sources(who, record, snapshots(), others=others), generation=2
    )
    recreated = snapshots(app(uid="uid-2"))
    held = assess_sources(who, gone, recreated, others=others)
    assert held.verdict is Verdict.HOLD
    at_once = assess_sources(who, record, recreated, others=others)
    assert at_once.verdict is Verdict.HOLD
    kept = record_after(who, record, at_once, generation=2)
    # The next controller knows of the deletion by the record only.
    assert assess_change(who, kept, [app(uid="uid-2")]).verdict is Verdict.HOLD
    idle = deployment(OPTIONAL_ENV, replicas=0, generation=3)
    assert assess_change(idle, kept, [app(uid="uid-2")]).verdict is Verdict.ADOPT


def test_rule_7_deletion_of_an_immutable_source_while_other_uses_of_it_come() -> None:
    """The template changes while the source does not exist: kubelets go on to serve it."""
    before = applied_record(deployment(OPTIONAL_ENV), app(immutable=True))
    other = deployment(OPTIONAL_BOTH, generation=2)
    gone = record_after(other, before, assess_change(other, before, []))
    recreated = assess_change(other, gone, [app(B_FROZEN, uid="uid-2")])
    assert recreated.verdict is Verdict.HOLD


def test_rule_7_edit_of_an_unused_data_key_that_the_next_template_uses() -> None:
    """New pods get what kubelets serve, and that lacks the edit of the successor."""
    before = applied_record(deployment(ENV), app(immutable=True))
    edited = [app(B_LIVE, uid="uid-2", version=2)]
    unused = assess_change(deployment(ENV), before, edited)
    assert unused.verdict is Verdict.UP_TO_DATE
    record = record_after(deployment(ENV), before, unused)
    wider = assess_change(deployment(ENV_AND_FILES, generation=2), record, edited)
    assert wider.verdict is Verdict.HOLD


def test_rule_7_pods_that_started_before_an_edit_of_the_successor_was_reverted() -> None:
    """They may have either content, and new pods too."""
    who, before = deployment(ENV), applied_record(deployment(ENV), app(immutable=True))
    successor = [app(uid="uid-2", version=2)]
    record = record_after(who, before, assess_change(who, before, successor))
    reverted = [app(uid="uid-2", version=4)]
    changes = ChangeSummary(window=Window(100.0, 110.0))
    within = assess_change(who, record, reverted, started=[105], changes=changes)
    assert within.verdict is Verdict.HOLD
    earlier = assess_change(who, record, reverted, started=[90], changes=changes)
    assert earlier.verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        pytest.param({}, Verdict.CHECK_OTHERS, id="it is not known whether others use it"),
        pytest.param({_APP: OtherUse("db-0", 400.0)}, Verdict.HOLD, id="others use it"),
        pytest.param({_APP: None}, Verdict.FROZEN, id="nobody else uses it"),
    ],
)
def test_rule_7_only_pod_that_started_before_an_edit_was_reverted(
    others: dict[ObjectKey, OtherUse | None], verdict: Verdict
) -> None:
    """A new one gets the present content if the old one was the last to use the source."""
    who = consumer("StatefulSet", ENV)
    before = applied_record(who, app(immutable=True))
    record = record_after(who, before, assess_change(who, before, [app(uid="uid-2", version=2)]))
    changes = ChangeSummary(window=Window(100.0, 110.0))
    now = [app(uid="uid-2", version=4, changed_at=80)]
    found = assess_change(who, record, now, started=[105], changes=changes, others=others)
    assert found.verdict is verdict


def test_rule_7_older_pods_beside_a_successor_with_the_first_content() -> None:
    """A, then B, then A again, all immutable: new pods would get B like those that have it."""
    who = deployment(ENV)
    before = applied_record(who, app(immutable=True))
    before = structs.replace(before, pods_checked=PodCheck.LATENT)
    taken = take_snapshots(who.uses, sources(app(uid="uid-3", changed_at=500)), KEY)
    snapshots = [item._replace(edited=True) for item in taken]
    starts = pod_starts(who, [pod("web-1", started=400)])
    for pinned, verdict in ((True, Verdict.HOLD), (False, Verdict.FROZEN)):
        known = tuple(
            structs.replace(item, pinned=pinned, immutable=pinned) for item in before.sources
        )
        record = structs.replace(before, sources=known)
        assert (
            assess_sources(who, record, snapshots, revision="r", starts=starts).verdict is verdict
        )


def test_rule_7_an_immutable_source_that_came_and_went_between_two_decisions() -> None:
    """A pod that started meanwhile has used it, and makes its kubelet serve it."""
    who = deployment(ENV)
    taken = take_snapshots(who.uses, sources(app(B_FROZEN, uid="uid-3", version=3)), KEY)
    for replaced, verdict in ((True, Verdict.HOLD), (False, Verdict.FROZEN)):
        snapshots = [item._replace(replaces_immutable=replaced) for item in taken]
        found = assess_sources(who, applied_record(who, app()), snapshots)
        assert found.verdict is verdict
    # A rollout for another source makes the template younger than the deletion.
    held = [item._replace(replaces_immutable=True) for item in taken]
    found = assess_sources(who, applied_record(who, app()), held)
    kept = record_after(who, applied_record(who, app()), found)
    later = assess_sources(who, kept, taken, now=2000)
    assert later.verdict is Verdict.HOLD


def test_rule_7_reason_has_the_remedy() -> None:
    """The hold names the remedy, and following it ends the hold."""
    before, now = [app(immutable=True)], [app(B_FROZEN, uid="uid-2", immutable=True)]
    held = assess_change(deployment(), before, now)
    assert "Use a new name, or scale to zero until it is not held any more" in held.reason
    later = [app(B_FROZEN, uid="uid-2", immutable=True, changed_at=500)]
    single = assess_change(consumer("StatefulSet", ENV), before, later, started=[400.0])
    assert "Use a new name, or delete its pods" in single.reason
    daemons = assess_change(consumer("DaemonSet", ENV), before, later, started=[600.0])
    assert "a nodeSelector that matches no node" in daemons.reason
    gone = assess_change(consumer("DaemonSet", ENV), before, later, started=[])
    assert gone.verdict is Verdict.ADOPT
    assert gone.reason.endswith("has been recreated; no pods use it")
    empty = deployment(replicas=0, generation=2)
    adopted = assess_change(empty, applied_record(deployment(), *before), now)
    assert adopted.verdict is Verdict.ADOPT
    record = record_after(empty, applied_record(deployment(), *before), adopted, generation=2)
    assert assess_change(deployment(generation=3), record, now).verdict is Verdict.UP_TO_DATE


def test_rollout_beside_a_held_source_is_decided_again_soon() -> None:
    """The next decision reports the hold, which the rollout says nothing of."""
    who = deployment(TWO)
    before = [app(immutable=True), config_map("other", {"K": "1"})]
    recreated = app(B_FROZEN, uid="uid-2")
    for other, again in (({"K": "2"}, True), ({"K": "1"}, None)):
        assessment = assess_change(who, before, [recreated, config_map("other", other, version=2)])
        plan = make_plan(who, Policy(opted_in=True), assessment, changed={})
        assert plan.verdict is (Verdict.FROZEN if again else Verdict.HOLD)
        assert (plan.requeue_after is not None) is bool(again)
