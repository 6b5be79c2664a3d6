"""An edit and its revert change nothing, unless a pod started in between."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.freshness import assess_sources
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    KEY,
    config_map,
    deployment,
    pod,
    sources,
)

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.plan import make_plan
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.rollout_records import Replacement, record_rollout, was_unmarked
from hotmap.core.decide.source_rules import ROLLOUT_WAIT
from hotmap.core.decide.source_snapshot import ChangeSummary, take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import Record, RetiredRevision, Window
from hotmap.core.policy.policy import Policy

WENT = Window(100, 110)
A = {"LEVEL": "info", "app.yaml": "a: 1"}


def applied_record(consumer: Consumer, data: dict[str, str]) -> Record:
    """Make the record of a consumer to which a ConfigMap's content was applied."""
    snapshots = take_snapshots(consumer.uses, sources(config_map(data=data)), KEY)
    assessment = assess_sources(consumer, None, snapshots, now=0)
    return record_applied(
        consumer, None, assessment.findings, key_id=KEY.id, generation=consumer.generation
    )


def assess_change(
    spec: str = ENV,
    *,
    started: float | None = 50,
    now: float = 200,
    window: Window | None = WENT,
    unobserved: bool = False,
    recorded: tuple[Window, ...] = (),
    data: dict[str, str] = A,
    live_needs_rollout: bool = False,
    rolling: bool = False,
    waited: float = 0,
    pods_checked: bool = True,
    gone: bool = False,
) -> Assessment:
    """Assess a consumer of ConfigMap app to which A was applied, with windows in between."""
    consumer = deployment(spec, rolling=rolling)
    record = applied_record(consumer, A)
    record = Record(record.uid, KEY.id, 1, record.sources, recorded)
    changes = ChangeSummary(window=window, unobserved_by=now if unobserved else None)
    held = {} if gone else sources(config_map(data=data))
    taken = take_snapshots(consumer.uses, held, KEY)
    snapshots = [source._replace(changes=changes) for source in taken]
    return assess_sources(
        consumer,
        record,
        snapshots,
        now=now,
        revision=revision_of(
            snapshots, KEY, uid=consumer.uid, live_needs_rollout=live_needs_rollout
        ),
        live_needs_rollout=live_needs_rollout,
        waited=waited,
        starts=pod_starts(consumer, [pod(started=started)]) if pods_checked else None,
    )


@pytest.mark.parametrize(
    ("started", "verdict"),
    [
        (50, Verdict.UP_TO_DATE),
        (98, Verdict.FROZEN),
        (105, Verdict.FROZEN),
        (112, Verdict.FROZEN),
        (150, Verdict.UP_TO_DATE),
        (None, Verdict.UP_TO_DATE),
    ],
)
def test_pod_that_started_in_between_is_stale(started: float | None, verdict: Verdict) -> None:
    """Equal content is fresh, but for pods that started in the window or 2 s beside it."""
    assessment = assess_change(started=started)
    assert assessment.verdict is verdict
    assert assessment.distinct is (verdict is Verdict.FROZEN)


def test_reason_names_the_pods() -> None:
    """A rollout for equal content says which pods made it needed."""
    assert (
        assess_change(started=105).reason
        == "web-1 may have started while other content was current"
    )


def test_source_without_a_reader_at_start_has_no_part_in_it() -> None:
    spec = (
        ENV
        + """
      volumeMounts: [{name: config, mountPath: /etc/app}]
    volumes: [{name: config, configMap: {name: other}}]
"""
    )
    consumer = deployment(spec)
    found = sources(config_map(data=A), config_map("other", {"k": "v"}))
    taken = take_snapshots(consumer.uses, found, KEY)
    first = assess_sources(consumer, None, taken, now=0)
    record = record_applied(consumer, None, first.findings, key_id=KEY.id, generation=1)
    record = msgspec.structs.replace(record, windows=(WENT,))
    starts = pod_starts(consumer, [pod(started=105)])
    assessment = assess_sources(consumer, record, taken, now=200, revision="k.a", starts=starts)
    verdicts = {finding.current.source.name: finding.verdict for finding in assessment.findings}
    assert verdicts == {"app": Verdict.FROZEN, "other": Verdict.UP_TO_DATE}


def test_recorded_windows_count_as_well() -> None:
    """A window that was kept in the record is examined like one just seen."""
    assert assess_change(started=105, window=None, recorded=(WENT,)).verdict is Verdict.FROZEN


def test_assessment_asks_for_pod_starts() -> None:
    """A window without the pods' starts asks for them."""
    assessment = assess_change(pods_checked=False)
    assert assessment.verdict is Verdict.CHECK_PODS
    assert assessment.reason == "reverted: checking when its pods started"


@pytest.mark.parametrize("now", [110.5, 112, 115])
def test_window_that_just_ended_is_examined_later(now: float) -> None:
    """A container may still read the other content, or its start is not reported yet."""
    assessment = assess_change(now=now, pods_checked=False)
    assert (assessment.verdict, assessment.early) == (Verdict.UP_TO_DATE, True)
    plan = make_plan(deployment(ENV), Policy(), assessment, changed={})
    assert (plan.actions, plan.settles, plan.requeue_after) == ((), False, 1.0)
    assert plan.reason == "reverted; re-checking pods"


def test_last_of_several_windows_has_to_be_over() -> None:
    early = assess_change(window=Window(190, 199), recorded=(WENT,), pods_checked=False)
    assert (early.verdict, early.early) == (Verdict.UP_TO_DATE, True)


@pytest.mark.parametrize("now", [112, 200])
def test_unobserved_write_of_the_same_content_is_not_a_revert(now: float) -> None:
    """It may have encrypted a Secret again; the pods are checked all the same."""
    assessment = assess_change(now=now, unobserved=True, pods_checked=False)
    assert assessment.reason.startswith("same content, but written while not watched")
    assert assessment.early or assessment.verdict is Verdict.CHECK_PODS


@pytest.mark.parametrize("now", [110.5, 200])
def test_reason_after_an_edit_and_a_deletion_says_that_the_source_was_deleted(now: float) -> None:
    """Nothing came back: a pod may have started with the content before the deletion."""
    assessment = assess_change(now=now, pods_checked=False, gone=True)
    assert "ConfigMap shop/app was deleted" in assessment.reason
    assert "pods" in assessment.reason
    assert "reverted" not in assessment.reason


def test_reason_after_several_live_edits_says_that_the_files_changed() -> None:
    assessment = assess_change(
        ENV_AND_FILES, now=110.5, data={**A, "app.yaml": "b: 2"}, pods_checked=False
    )
    assert (assessment.verdict, assessment.early) == (Verdict.LIVE, True)
    assert assessment.reason == "ConfigMap shop/app changed in mounted files; re-checking pods"


def test_rollout_is_waited_for_first() -> None:
    """While the consumer rolls out, its pods say nothing; after a minute they are looked at."""
    early = assess_change(rolling=True, pods_checked=False, waited=20)
    plan = make_plan(deployment(ENV), Policy(), early, changed={})
    assert (early.early, plan.requeue_after) == (True, ROLLOUT_WAIT - 20)
    late = assess_change(rolling=True, pods_checked=False, waited=ROLLOUT_WAIT)
    assert (late.verdict, late.early) == (Verdict.CHECK_PODS, False)


@pytest.mark.parametrize(
    ("live_needs_rollout", "started", "verdict"),
    [
        (False, 105, Verdict.LIVE),
        (True, 105, Verdict.FROZEN),
        (True, 50, Verdict.UP_TO_DATE),
    ],
)
def test_files_that_are_reread_leave_no_window(
    live_needs_rollout: bool, started: float, verdict: Verdict
) -> None:
    """A nudge brings them back; only where they are not re-read may a pod be stale."""
    found = assess_change(FILES, started=started, live_needs_rollout=live_needs_rollout)
    assert found.verdict is verdict


@pytest.mark.parametrize(("started", "verdict"), [(50, Verdict.LIVE), (105, Verdict.FROZEN)])
def test_live_change_does_not_forget_a_window(started: float, verdict: Verdict) -> None:
    """Other files changed meanwhile: the nudge does not settle what a pod may hold frozen."""
    changed = A | {"app.yaml": "a: 2"}
    assert assess_change(ENV_AND_FILES, started=started, data=changed).verdict is verdict
    early = assess_change(ENV_AND_FILES, data=changed, now=111, pods_checked=False)
    assert (early.verdict, early.early) == (Verdict.LIVE, True)


def test_rollout_is_held_if_new_pods_could_not_start() -> None:
    """A suspect pod is left alone while a source that new pods need does not exist."""
    assessment = assess_change(started=105, gone=True)
    assert assessment.verdict is Verdict.HOLD
    assert "does not exist" in assessment.reason


# -- a return to an earlier revision ----------------------------------------------------------


def rolled(record: Record, previous: str, revision: str, **options: float | bool | str) -> Record:
    """Add a rollout to a record, from one revision to another."""
    values: dict[str, Any] = {"distinct": False, "retired_at": 100.0, "now": 101.0, **options}
    replaced = Replacement(
        values.pop("retired_at"), values.pop("observed", False), values.pop("unmarked", "")
    )
    return record_rollout(record, previous=previous, revision=revision, replaced=replaced, **values)


def test_revision_that_is_left_is_remembered() -> None:
    """A rollout notes which content it replaced and since when that is gone."""
    record = rolled(Record("u", "k", 1), "k.a", "k.b", retired_at=99.5)
    assert (record.retired, record.windows) == ((RetiredRevision("k.a", 99.5),), ())


def test_return_opens_a_window() -> None:
    """The old ReplicaSet is used again, and a pod of it may have started meanwhile."""
    away = rolled(Record("u", "k", 1), "k.a", "k.b", retired_at=100.0)
    back = rolled(away, "k.b", "k.a", retired_at=120.0, now=130.7)
    assert back.retired == (RetiredRevision("k.b", 120.0),)
    (window,) = back.windows
    assert window.start == 100.0


@pytest.mark.parametrize(
    ("started", "suspect"),
    [(96, False), (97, True), (115, True), (129, True), (130, False), (131, False)],
)
def test_pods_started_by_the_return_are_not_suspect(started: float, suspect: bool) -> None:
    """Pods of the second of the rollout and later read the content that came back."""
    away = rolled(Record("u", "k", 1), "k.a", "k.b", retired_at=100.0)
    back = rolled(away, "k.b", "k.a", retired_at=120.0, now=130.7)
    verdict = Verdict.FROZEN if suspect else Verdict.UP_TO_DATE
    assert assess_change(started=started, window=None, recorded=back.windows).verdict is verdict


def test_quick_return_suspects_only_what_started_before_it() -> None:
    """Away and back within two seconds: the rollout's own pods are still no suspects."""
    away = rolled(Record("u", "k", 1), "k.a", "k.b", retired_at=100.2, now=100.7)
    back = rolled(away, "k.b", "k.a", retired_at=101.2, now=101.7)
    assert assess_change(started=100, window=None, recorded=back.windows).verdict is Verdict.FROZEN
    assert (
        assess_change(started=101, window=None, recorded=back.windows).verdict is Verdict.UP_TO_DATE
    )


@pytest.mark.parametrize(
    ("left", "returned", "replaced_at"),
    [
        pytest.param({"observed": True}, {}, 100.0, id="observed"),
        pytest.param({}, {}, 0.0, id="it may have been replaced earlier"),
        pytest.param({"observed": True}, {"distinct": True}, 0.0, id="its pods are replaced"),
    ],
)
def test_return_remembers_when_the_content_was_replaced(
    left: dict[str, Any], returned: dict[str, Any], replaced_at: float
) -> None:
    """Pods from before that have it, although the last change is newer than they are."""
    away = rolled(Record("u", "k", 1), "k.a", "k.b", retired_at=100.0, **left)
    back = rolled(away, "k.b", "k.a", retired_at=120.0, now=130.7, observed=True, **returned)
    assert back.replaced_at == replaced_at


def test_second_return_remembers_the_first_replacement() -> None:
    """Only pods from before that have certainly never read other content."""
    record = rolled(Record("u", "k", 1), "k.a", "k.b", retired_at=100.0, observed=True)
    record = rolled(record, "k.b", "k.a", retired_at=120.0, observed=True)
    record = msgspec.structs.replace(record, windows=())
    record = rolled(record, "k.a", "k.c", retired_at=140.0, observed=True)
    assert record.replaced_at == 0.0
    record = rolled(record, "k.c", "k.a", retired_at=160.0, observed=True)
    assert record.replaced_at == 100.0


def test_numbered_revision_opens_no_window() -> None:
    """A distinct revision makes new pods, and its number is never used again."""
    away = rolled(Record("u", "k", 1, windows=(WENT,)), "k.a", "k.b")
    back = rolled(away, "k.b", "k.a", distinct=True)
    assert (back.windows, back.serial) == ((), 1)


def test_suspects_outlive_a_rollout_that_was_to_replace_them() -> None:
    """Other content came before they were replaced, and then the return finds them again."""
    replaced = rolled(Record("u", "k", 1), "k.a", "k.a", distinct=True, retired_at=100.0, now=115.0)
    overtaken = rolled(replaced, "k.a.1", "k.b", retired_at=120.0, now=121.0)
    back = rolled(overtaken, "k.b", "k.a", retired_at=130.0, now=131.0)
    (window,) = back.windows
    assert window.start == 100.0
    assert assess_change(started=105, window=None, recorded=back.windows).distinct


def test_revision_number_is_not_part_of_the_content() -> None:
    """`k.a.1` and `k.a` are the same content, under names of their own."""
    again = rolled(Record("u", "k", 1), "k.a", "k.a", distinct=True)
    assert again.retired == (RetiredRevision("k.a", 100.0),)
    away = rolled(again, "k.a.1", "k.b", retired_at=200.0)
    assert away.retired == (RetiredRevision("k.a", 100.0),)
    assert rolled(away, "k.b", "k.a").windows != ()


def test_three_revisions_are_remembered() -> None:
    """Older ones have no pods left to suspect."""
    record = Record("u", "k", 1)
    for before, after in ("ab", "bc", "cd", "de"):
        record = rolled(record, f"k.{before}", f"k.{after}")
    assert [retired.revision for retired in record.retired] == ["k.b", "k.c", "k.d"]


def test_first_rollout_leaves_nothing() -> None:
    """A template without a revision has no earlier content to return to."""
    assert rolled(Record("u", "k", 1), "", "k.a").retired == ()


def test_workload_without_uses_has_no_window() -> None:
    """A consumer without uses has no window to examine."""
    consumer = deployment("")
    uses = consumer.uses
    record = Record(consumer.uid, KEY.id, 1, windows=(WENT,))
    starts = pod_starts(consumer, [pod(started=105)])
    assessment = assess_sources(
        consumer, record, take_snapshots(uses, {}, KEY), now=200, starts=starts
    )
    assert (assessment.verdict, assessment.reason) == (
        Verdict.UP_TO_DATE,
        "uses no source that it follows",
    )


@pytest.mark.parametrize("carried", [True, False])
def test_pods_that_carry_the_name_still_are_not_kept(carried: bool) -> None:
    """The template lost the revision, a pod of it may hold other content: it needs another name."""
    consumer = deployment(ENV)
    snapshots = take_snapshots(consumer.uses, sources(config_map(data=A, changed_at=100)), KEY)
    revision = revision_of(snapshots, KEY, uid=consumer.uid, live_needs_rollout=False)
    starts = pod_starts(consumer, [pod(started=95, revision=revision if carried else "k.other")])
    policy = Policy(catch_up=True)
    assessment = assess_sources(
        consumer, None, snapshots, now=200, revision=revision, starts=starts, policy=policy
    )
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, carried)


@pytest.mark.parametrize(
    ("ago", "unmarked", "named", "verdict", "distinct"),
    [
        pytest.param(5.9, False, None, Verdict.CHECK_PODS, False, id="its pods are looked for"),
        pytest.param(6.0, False, None, Verdict.FROZEN, False, id="a window finds them later"),
        pytest.param(5.9, False, "k.a", Verdict.FROZEN, True, id="it has a pod"),
        pytest.param(5.9, False, "", Verdict.FROZEN, False, id="it has no pod"),
        pytest.param(5.9, True, "", Verdict.FROZEN, True, id="it has a pod from before names"),
        pytest.param(5.9, True, "k.b", Verdict.FROZEN, False, id="it has no pod from before names"),
    ],
)
def test_return_to_a_revision_that_was_left_moments_ago(
    ago: float, unmarked: bool, named: str | None, verdict: Verdict, distinct: bool
) -> None:
    """Whole seconds do not tell a pod that has read the other content from one that returns."""
    consumer = deployment(ENV)
    snapshots = take_snapshots(consumer.uses, sources(config_map(data=A)), KEY)
    left = RetiredRevision("k.a", 200 - ago, unmarked=unmarked)
    record = applied_record(consumer, A | {"LEVEL": "debug"})
    record = msgspec.structs.replace(record, retired=(left, RetiredRevision("k.c", 199)))
    starts = None
    if named is not None:
        pods = [pod("web-1", started=50, revision=named), pod("web-2", started=60, revision="k.b")]
        starts = pod_starts(consumer, pods)
    assessment = assess_sources(consumer, record, snapshots, now=200, revision="k.a", starts=starts)
    assert (assessment.verdict, assessment.distinct) == (verdict, distinct)


def test_revision_removed_from_the_template_is_retired() -> None:
    """Its pods may be there still, so a return to it suspects those that started meanwhile."""
    applied_record = Record("u", "k", 1, revision="k.a")
    away = rolled(applied_record, "", "k.b", retired_at=100.0)
    assert away.retired == (RetiredRevision("k.a", 100.0),)
    assert rolled(applied_record, "z.forged", "k.b").retired == (
        RetiredRevision("k.a", 100.0),
        RetiredRevision("z.forged", 100.0),
    )


@pytest.mark.parametrize(
    ("unmarked", "returns"),
    [
        pytest.param("k.a", True, id="all pods had it"),
        pytest.param("", False, id="some may have had older content"),
    ],
)
def test_first_rollout_remembers_what_its_pods_had(unmarked: str, returns: bool) -> None:
    """Then a return brings the template without a revision back, and with it their ReplicaSet."""
    away = rolled(Record("u", "k", 1), "", "k.b", observed=True, unmarked=unmarked)
    assert was_unmarked(away, "k.a") is returns
    assert not was_unmarked(away, "k.b")
    back = rolled(away, "k.b", "k.a", retired_at=120.0, now=130.7, observed=True)
    assert bool(back.windows) is returns
    assert back.replaced_at == (100.0 if returns else 0.0)
    assert not was_unmarked(back, "k.a")
