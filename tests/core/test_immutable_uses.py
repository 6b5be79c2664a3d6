"""Immutable sources that came into use are remembered until the record has them."""

from __future__ import annotations

import pytest
from tests.core.freshness import (
    B_FROZEN,
    A,
    app,
    applied_record,
    assess_change,
    assess_sources,
    deployment,
)
from tests.support.calls import count_calls
from tests.support.objects import ENV, ENV_AND_FILES, FILES, KEY, config_map, consumer, sources
from tests.support.shards import write_shard

from hotmap.core.decide.assessment import Finding, Verdict
from hotmap.core.decide.evidence import PodStart, Span
from hotmap.core.decide.immutable_uses import (
    add_immutable_uses,
    has_immutable_predecessor,
    keep_added_uses,
    remaining_immutable_uses,
)
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.state import ImmutableUse, Record, read_shard

APP = ("ConfigMap", "app")


def use(uid: str, name: str = "app") -> ImmutableUse:
    return ImmutableUse("ConfigMap", name, uid)


def without_sources() -> Record:
    return applied_record(deployment(ENV))


def record_after(
    who: Consumer, record: Record, now: ConfigMap | None, verdict: Verdict = Verdict.ADOPT
) -> Record:
    """Make the record after a decision on what the sources are now."""
    taken = take_snapshots(who.uses, sources(*([now] if now else [])), KEY)
    findings = [
        Finding(
            item._replace(replaces_immutable=has_immutable_predecessor(record, APP, item.uid)),
            verdict,
            "",
        )
        for item in taken
    ]
    return record_applied(who, record, findings, key_id=KEY.id, generation=1)


def test_immutable_source_in_use_is_added_once() -> None:
    """Of one name two are kept at most: whatever comes then differs from one of them."""
    record = add_immutable_uses(without_sources(), [use("1")])
    assert record.immutable_uses == (use("1"),)
    assert add_immutable_uses(record, [use("1")]) is record
    many = add_immutable_uses(record, [use(str(number)) for number in range(2, 99)])
    assert many.immutable_uses == (use("1"), use("2"))
    assert read_shard(write_shard([many])) == {many.uid: many}


def test_uses_of_many_immutable_sources_are_added_once() -> None:
    """Of more than are kept, the last ones: a record that changes is written."""
    many = [use("1", f"app-{number}") for number in range(1_000)]
    record = add_immutable_uses(without_sources(), many)
    assert record.immutable_uses == tuple(many[-128:])
    assert add_immutable_uses(record, many) is record
    assert count_calls(lambda: add_immutable_uses(without_sources(), many)) < 100_000


def test_use_is_added_beside_many_that_are_recorded() -> None:
    record = applied_record(deployment(ENV), app(immutable=True))
    recorded = [use(record.sources[0].uid)] * 1_000
    assert add_immutable_uses(record, [use("1", "other"), *recorded]).immutable_uses == (
        use("1", "other"),
    )


def test_source_that_became_immutable_with_other_content_is_a_predecessor() -> None:
    """Pods of others may have it, while the record still has its content from before."""
    record = add_immutable_uses(applied_record(deployment(ENV), app()), [use("uid-1")])
    assessment = assess_change(deployment(ENV), record, [app(uid="uid-2", changed_at=500)])
    assert assessment.verdict is Verdict.HOLD


def test_record_of_a_template_that_names_others_forever_does_not_grow() -> None:
    """Its rollout never ends, so nothing shows that no pod uses the first ones any more."""
    record, sizes = without_sources(), []
    for turn in range(400):
        spec = ENV.replace("app", f"app-{turn}")
        item = config_map(f"app-{turn}", A, immutable=True)
        record = add_immutable_uses(record, [use("1", f"app-{turn}"), use("1", f"early-{turn}")])
        record = record_after(deployment(spec, rolling=True), record, item)
        sizes.append(len(write_shard([record])))
    assert max(sizes[200:]) < max(sizes[:200]) * 1.2
    assert sizes[-1] < 20_000


@pytest.mark.parametrize(
    ("recorded", "added"),
    [
        (app(immutable=True), ()),
        (app(), (use("uid-1"),)),
        (app(uid="another", immutable=True), (use("uid-1"),)),
    ],
    ids=["recorded", "recorded as mutable", "another is recorded"],
)
def test_recorded_immutable_source_is_not_added(
    recorded: ConfigMap, added: tuple[ImmutableUse, ...]
) -> None:
    """One that the record has as immutable is known already."""
    found = add_immutable_uses(applied_record(deployment(ENV), recorded), [use("uid-1")])
    assert found.immutable_uses == added


def test_predecessor_is_another_immutable_source_of_the_name() -> None:
    """Also while there is no source of that name."""
    record = add_immutable_uses(without_sources(), [use("1")])
    assert not has_immutable_predecessor(record, APP, "1")
    assert has_immutable_predecessor(record, APP, "2")
    assert has_immutable_predecessor(record, APP, "")
    assert not has_immutable_predecessor(record, ("Secret", "app"), "2")
    assert not has_immutable_predecessor(None, APP, "2")


def test_use_is_forgotten_when_its_source_is_recorded() -> None:
    """The record says of it that it is immutable."""
    record = add_immutable_uses(without_sources(), [use("uid-1")])
    after = record_after(deployment(ENV), record, app(immutable=True))
    assert after.immutable_uses == ()
    assert after.sources[0].immutable


@pytest.mark.parametrize(
    ("uid", "recorded", "kept"),
    [
        pytest.param("uid-1", False, True, id="not recorded"),
        pytest.param("uid-2", False, True, id="nor what replaces it"),
        pytest.param("uid-1", True, True, id="recorded before it was immutable"),
        pytest.param("uid-2", True, False, id="what replaces it is recorded"),
    ],
)
def test_use_is_kept_until_a_source_has_been_judged(uid: str, recorded: bool, kept: bool) -> None:
    now = app(uid=uid)
    (current,) = take_snapshots(deployment(ENV).uses, sources(now), KEY)
    (source,) = applied_record(deployment(ENV), now).sources
    record = add_immutable_uses(without_sources(), [use("uid-1")])
    results = [(current, source if recorded else None)]
    remaining = remaining_immutable_uses(record, results, lambda name: False)
    assert remaining == ((use("uid-1"),) if kept else ())


def test_held_successor_is_recorded_as_such() -> None:
    """Whatever comes after it, new pods may get the content of the first."""
    record = add_immutable_uses(without_sources(), [use("before")])
    after = record_after(deployment(ENV), record, app(B_FROZEN), Verdict.HOLD)
    assert after.immutable_uses == ()
    assert after.sources[0].pinned


def test_held_successor_stays_held_where_it_is_used_otherwise_with_the_recorded_content() -> None:
    """What came in between was immutable and had other content, so kubelets serve that."""
    before = applied_record(deployment(ENV), app(A))
    record = add_immutable_uses(before, [use("between")])
    after = record_after(deployment(ENV_AND_FILES), record, app(A, uid="uid-3"), Verdict.HOLD)
    later = assess_change(deployment(ENV_AND_FILES), after, [app(A, uid="uid-3", changed_at=500)])
    assert later.verdict is Verdict.HOLD


@pytest.mark.parametrize("verdict", [Verdict.UP_TO_DATE, Verdict.LIVE, Verdict.HOLD])
def test_use_of_a_deleted_source_is_kept_until_it_is_recorded(verdict: Verdict) -> None:
    """What was applied before stays in the record, and says nothing of the one in between."""
    before = applied_record(deployment(FILES), app(A))
    record = add_immutable_uses(before, [use("between")])
    after = record_after(deployment(FILES), record, None, verdict)
    assert after.sources[0].pinned or after.immutable_uses == (use("between"),)


@pytest.mark.parametrize("rolling", [True, False])
def test_use_is_kept_while_pods_of_an_earlier_template_run(rolling: bool) -> None:
    """Their kubelets serve it, also to new pods that use it again."""
    record = add_immutable_uses(without_sources(), [use("1", "other")])
    who = deployment(ENV, rolling=rolling)
    assert who.rolling is rolling
    after = record_after(who, record, config_map("app", A))
    assert after.immutable_uses == ((use("1", "other"),) if rolling else ())


def test_record_of_an_ignored_immutable_source_is_kept_while_it_is_used() -> None:
    """Kubelets serve it whether it is ignored or not."""
    before = applied_record(deployment(ENV), app(immutable=True))
    ignored = record_applied(deployment(ENV), before, (), key_id=KEY.id, generation=1)
    assert ignored.sources == ()
    assert [source.uid for source in ignored.former] == ["uid-1"]
    unused = record_applied(deployment(FILES), ignored, (), key_id=KEY.id, generation=1)
    assert [source.uid for source in unused.former] == ["uid-1"]
    gone = deployment("containers: [{name: web}]")
    assert record_applied(gone, ignored, (), key_id=KEY.id, generation=2).former == ()


def test_source_that_equals_the_applied_one_is_held_after_another_immutable_one() -> None:
    """Content A, then B that was immutable, then A again: new pods may get B."""
    who, before = deployment(ENV), applied_record(deployment(ENV), app())
    again = app(uid="uid-3")
    assert assess_change(who, before, [again]).verdict is Verdict.UP_TO_DATE
    record = add_immutable_uses(before, [use("uid-2")])
    held = assess_change(who, record, [again])
    assert held.verdict is Verdict.HOLD
    after = record_applied(who, record, held.findings, key_id=KEY.id, generation=1)
    assert assess_change(who, after, [again]).verdict is Verdict.HOLD
    scaled = deployment(ENV, replicas=0)
    assert assess_change(scaled, after, [again]).verdict is Verdict.ADOPT


@pytest.mark.parametrize(
    ("created", "restarted", "verdict"),
    [
        pytest.param(600.0, False, Verdict.ADOPT, id="created after it"),
        pytest.param(600.0, True, Verdict.ADOPT, id="created after it, and restarted"),
        pytest.param(400.0, False, Verdict.ADOPT, id="first started after it"),
        pytest.param(400.0, True, Verdict.HOLD, id="restarted after it"),
    ],
)
def test_restarted_container_gets_what_its_kubelet_has_served_to_the_pod(
    created: float, restarted: bool, verdict: Verdict
) -> None:
    """The hold of a StatefulSet with one pod ends with its pods, not with their containers."""
    who = consumer("StatefulSet", ENV)
    record = applied_record(who, app(immutable=True))
    start = PodStart(
        "web-1", 700.0, "", (Span(700.0, 701.0),), created, created, restarted=restarted
    )
    taken = take_snapshots(who.uses, sources(app(B_FROZEN, uid="uid-2", changed_at=500.0)), KEY)
    others = {item.source: None for item in taken}
    found = assess_sources(who, record, taken, starts=(start,), others=others)
    assert found.verdict is verdict


def test_use_that_was_added_during_a_decision_is_kept() -> None:
    """A decision takes a while, and its record is made from the one at its beginning."""
    before = without_sources()
    latest = add_immutable_uses(before, [use("1")])
    made = record_after(deployment(ENV), before, app())
    assert keep_added_uses(made, before, latest).immutable_uses == (use("1"),)
    assert keep_added_uses(made, latest, latest) is made
    assert keep_added_uses(made, before, None) is made
