"""Immutable sources that several workloads use: what a kubelet keeps for one, it gives to all."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec import structs
from tests.core.freshness import (
    B_FROZEN,
    app,
    applied_record,
    assess_change,
    assess_sources,
    deployment,
    record_after,
)
from tests.support.objects import ENV, KEY, consumer, sources

from hotmap.core.decide.assessment import OtherUse, Verdict
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.plan import make_plan
from hotmap.core.decide.snapshot import TemplateChange
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Policy

APP = ObjectKey("ConfigMap", "shop", "app")
OTHER = OtherUse("db-0", 400.0)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        pytest.param("Deployment", {"replicas": 0, "pods": 0}, id="scaled to zero"),
        pytest.param("StatefulSet", {"wanted": 1, "pods": 1}, id="its only pod was replaced"),
        pytest.param("CronJob", {}, id="no run is in progress"),
    ],
)
def test_hold_lasts_while_other_pods_use_the_source(kind: str, fields: dict[str, Any]) -> None:
    """A kubelet gives its new pods what it keeps for pods of others; so those are listed."""
    before = consumer(kind, ENV)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = applied_record(before, app(immutable=True))
    who = structs.replace(before, **fields)
    unknown = assess_change(who, record, now, started=[600.0], others={})
    assert unknown.verdict is Verdict.CHECK_OTHERS
    held = assess_change(who, record, now, started=[600.0], others={APP: OTHER})
    assert held.verdict is Verdict.HOLD
    assert held.reason.endswith(
        "while any pod on the node uses it, as db-0 does. Use a new name, or scale all workloads "
        "that use it to zero until it is not held any more"
    )
    plan = make_plan(who, Policy(opted_in=True), held, changed={})
    assert plan.requeue_after, "nothing tells when the others end"
    assert assess_change(who, record, now, started=[600.0]).verdict is Verdict.ADOPT


@pytest.mark.parametrize(
    ("other", "seconds"),
    [
        pytest.param(OTHER, 10.0, id="runs on"),
        pytest.param(OTHER._replace(ends=True), 1.0, id="is terminating"),
        pytest.param(OTHER._replace(own=True, ends=True), 1.0, id="is its own, and terminating"),
    ],
)
def test_hold_is_checked_again_soon_while_the_other_pod_terminates(
    other: OtherUse, seconds: float
) -> None:
    """A user who has scaled to zero may scale up as soon as that has ended."""
    who = deployment(ENV, replicas=0)
    record = applied_record(deployment(ENV), app(immutable=True))
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    held = assess_change(who, record, now, others={APP: other})
    assert held.verdict is Verdict.HOLD
    assert [found.recheck_in for found in held.findings] == [seconds]


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        pytest.param(990.0, Verdict.HOLD, id="created while others used it"),
        pytest.param(1001.0, Verdict.HOLD, id="created in the second in which they were seen"),
        pytest.param(1010.0, Verdict.ADOPT, id="created later"),
    ],
)
def test_pods_that_were_created_beside_other_pods_do_not_end_the_hold(
    created: float, verdict: Verdict
) -> None:
    """They got what their kubelet kept for the others, and keep it when those have ended."""
    who = consumer("StatefulSet", ENV)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = applied_record(who, app(immutable=True))
    held = assess_change(who, record, now, started=[600.0], others={APP: OTHER})
    record = record_after(who, record, held)
    assert record.sources[0].shared_at == 1000.0
    alone = assess_change(who, record, now, started=[created])
    assert alone.verdict is verdict
    again = record_after(who, record, alone)
    assert again.sources[0].shared_at == (1000.0 if verdict is Verdict.HOLD else 0.0)


def test_daemon_set_whose_last_pod_is_terminating_is_held() -> None:
    """Its status does not count that pod, and its kubelet keeps the source until it is gone."""
    who = consumer("DaemonSet", ENV)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = applied_record(who, app(immutable=True))
    last = {APP: OTHER._replace(own=True)}
    assert assess_change(who, record, now, started=[], others={}).verdict is Verdict.CHECK_OTHERS
    assert assess_change(who, record, now, started=[], others=last).verdict is Verdict.HOLD
    assert assess_change(who, record, now, started=[]).verdict is Verdict.ADOPT


def test_own_pod_that_is_terminating_delays_the_end_of_a_hold_only() -> None:
    """The next pod of a StatefulSet is created when it has ended."""
    who = consumer("StatefulSet", ENV)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = applied_record(who, app(immutable=True))
    held = assess_change(who, record, now, started=[], others={APP: OTHER._replace(own=True)})
    assert held.verdict is Verdict.HOLD
    record = record_after(who, record, held)
    assert assess_change(who, record, now, started=[1000.0]).verdict is Verdict.ADOPT


def test_hold_of_a_workload_without_pods_changes_its_record_once() -> None:
    """It may last for days beside other pods, and is checked again and again."""
    idle = deployment(ENV, generation=2, replicas=0)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = applied_record(deployment(ENV), app(immutable=True))
    held = assess_change(idle, record, now, others={APP: OTHER})
    once = record_after(idle, record, held)
    assert [source.pinned for source in once.sources] == [True]
    assert record_after(idle, once, held).sources == once.sources
    plan = make_plan(idle, Policy(opted_in=True), held, changed={})
    ending = assess_change(idle, record, now, others={APP: OTHER._replace(own=True)})
    soon = make_plan(idle, Policy(opted_in=True), ending, changed={})
    assert (plan.requeue_after, soon.requeue_after) == (10.0, 1.0)


def test_held_source_stays_known_while_it_is_not_used() -> None:
    """Pods of others go on to use it, so a template that takes it up again gets the old content."""
    record = applied_record(deployment(ENV), app(immutable=True))
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    held = assess_change(deployment(ENV), record, now)
    record = record_after(deployment(ENV), record, held)
    without = deployment("", generation=2)
    record = record_after(without, record, assess_change(without, record, []), generation=2)
    assert [source.pinned for source in record.former] == [True]
    again = deployment(ENV, generation=3)
    assert assess_change(again, record, now, started=[900.0]).verdict is Verdict.HOLD


@pytest.mark.parametrize(
    ("pinned_before", "other", "verdict"),
    [
        pytest.param(None, OTHER, Verdict.ADOPT, id="nothing is known of an earlier one"),
        pytest.param(500.0, OTHER, Verdict.HOLD, id="another pod is older than its deletion"),
        pytest.param(500.0, OtherUse("db-0", 501.0), Verdict.ADOPT, id="another is younger"),
        pytest.param(inf, OtherUse("db-0", 501.0), Verdict.HOLD, id="another has the earlier one"),
        pytest.param(inf, None, Verdict.ADOPT, id="no other pod uses it"),
    ],
)
def test_first_pods_of_a_consumer_get_what_others_keep(
    pinned_before: float | None, other: OtherUse | None, verdict: Verdict
) -> None:
    """A new workload beside those that are held for the source."""
    who = deployment(ENV)
    taken = take_snapshots(who.uses, sources(app(B_FROZEN, uid="uid-2", changed_at=500)), KEY)
    snapshots = [item._replace(pinned_before=pinned_before) for item in taken]
    if pinned_before is not None:
        unchecked = assess_sources(who, None, snapshots, starts=())
        assert unchecked.verdict is Verdict.CHECK_OTHERS
    found = assess_sources(who, None, snapshots, starts=(), others={APP: other})
    assert found.verdict is verdict
    record = record_after(who, None, found)
    assert record.sources[0].pinned is (verdict is Verdict.HOLD)
    later = assess_change(who, record, [app(B_FROZEN, uid="uid-2", changed_at=500)])
    assert later.verdict is (Verdict.HOLD if verdict is Verdict.HOLD else Verdict.UP_TO_DATE)


@pytest.mark.parametrize(
    ("kept", "pods", "verdict"),
    [
        pytest.param(True, 1, Verdict.HOLD, id="pods were always there since the deletion"),
        pytest.param(False, 1, Verdict.ADOPT, id="there were none in between"),
        pytest.param(True, 0, Verdict.ADOPT, id="it has no pods yet, and others have none"),
    ],
)
def test_first_pods_may_have_started_beside_others_that_have_ended(
    kept: bool, pods: int, verdict: Verdict
) -> None:
    """No pod from before is left at the first decision."""
    who = deployment(ENV)
    taken = take_snapshots(who.uses, sources(app(B_FROZEN, uid="uid-2", changed_at=500)), KEY)
    snapshots = [item._replace(pinned_before=500.0, kept_in_use=kept) for item in taken]
    starts = (PodStart("web-1", 600.0, "", created=600.0),) * pods
    found = assess_sources(who, None, snapshots, starts=starts, others={APP: None})
    assert found.verdict is verdict
    assert record_after(who, None, found).sources[0].pinned is (verdict is Verdict.HOLD)


def test_first_pods_may_get_equal_content_that_others_keep() -> None:
    """It makes no difference until an edit, which these others hold."""
    who = deployment(ENV)
    taken = take_snapshots(who.uses, sources(app(uid="uid-2", changed_at=500)), KEY)
    snapshots = [item._replace(pinned_before=500.0, is_like_replaced=True) for item in taken]
    found = assess_sources(who, None, snapshots, starts=(), others={APP: OTHER})
    assert found.verdict is Verdict.ADOPT
    record = record_after(who, None, found)
    assert record.sources[0].pinned
    edited = [app(B_FROZEN, uid="uid-2", version=3)]
    assert assess_change(who, record, edited).verdict is Verdict.HOLD


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        pytest.param(490.0, Verdict.HOLD, id="its pods are older than the deletion"),
        pytest.param(510.0, Verdict.ADOPT, id="its pods are younger"),
    ],
)
def test_adopted_pods_of_a_new_workload_keep_what_they_use(
    created: float, verdict: Verdict
) -> None:
    """A workload that was deleted with --cascade=orphan and created again has no record."""
    who = consumer("DaemonSet", ENV)
    taken = take_snapshots(who.uses, sources(app(B_FROZEN, uid="uid-2", changed_at=500)), KEY)
    snapshots = [item._replace(pinned_before=500.0) for item in taken]
    pods = (PodStart("web-1", created, "", created=created),)
    found = assess_sources(who, None, snapshots, starts=pods, others={APP: None})
    assert found.verdict is verdict
    assert ("nodeSelector" in found.reason) is (verdict is Verdict.HOLD), "it cannot be scaled"
    assert record_after(who, None, found).sources[0].pinned is (verdict is Verdict.HOLD)


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        pytest.param(490.0, Verdict.HOLD, id="its pods are older than itself"),
        pytest.param(600.0, Verdict.ADOPT, id="its pods are its own"),
    ],
)
def test_adopted_pods_of_a_workload_that_succeeds_a_held_one_keep_what_they_use(
    created: float, verdict: Verdict
) -> None:
    """They may have started beside the pods that kept it at first."""
    who = consumer("DaemonSet", ENV)
    taken = take_snapshots(who.uses, sources(app(uid="uid-2", changed_at=300)), KEY)
    snapshots = [item._replace(pinned_before=inf) for item in taken]
    pods = (PodStart("web-1", created, "", created=created),)
    before = applied_record(who, app(immutable=True))
    found = assess_sources(
        who,
        None,
        snapshots,
        starts=pods,
        others={APP: None},
        template=TemplateChange(600.0, 1),
        predecessor=before,
    )
    assert found.verdict is verdict
    assert record_after(who, None, found).sources[0].pinned is (verdict is Verdict.HOLD)


def test_equal_content_is_kept_for_other_pods_too() -> None:
    """Scaled to zero, and the successor of equal content is edited: others keep the first."""
    record = applied_record(deployment(ENV), app(immutable=True))
    successor, edited = [app(uid="uid-2", version=2)], [app(B_FROZEN, uid="uid-2", version=3)]
    idle = deployment(ENV, generation=2, replicas=0)
    for other, verdict in ((OTHER, Verdict.HOLD), (None, Verdict.FROZEN)):
        unused = assess_change(idle, record, successor, others={APP: other})
        assert unused.verdict in (Verdict.UP_TO_DATE, Verdict.ADOPT)
        after = record_after(idle, record, unused, generation=2)
        assert assess_change(deployment(ENV, generation=2), after, edited).verdict is verdict
