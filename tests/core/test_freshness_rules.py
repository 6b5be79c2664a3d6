"""Is a consumer behind its sources? One table for each of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    KEY,
    config_map,
    consumer,
    pod,
    sources,
    workload,
)

from hotmap.core.decide.assessment import Assessment, Facts, Verdict
from hotmap.core.decide.evidence import pod_starts
from hotmap.core.decide.freshness import assess
from hotmap.core.decide.plan import make_plan
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.snapshot import revision_of, take_snapshots
from hotmap.core.decide.source_rules import ROLLOUT_PATIENCE
from hotmap.core.fingerprint import fingerprint_key
from hotmap.core.model.consumer import FIELD_MANAGER, Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ConfigMap, ManagedFields, ObjectKey
from hotmap.core.model.state import UNVOUCHED, Record
from hotmap.core.policy.policy import Policy

A = {"LEVEL": "info", "app.yaml": "a: 1"}
B_FROZEN = A | {"LEVEL": "debug"}
B_LIVE = A | {"app.yaml": "a: 2"}
B_BOTH = B_FROZEN | {"app.yaml": "a: 2"}

TWO = (
    ENV
    + """
      envFrom: [{configMapRef: {name: other}}]
"""
)

OPTIONAL_ENV = ENV.replace("key: LEVEL", "key: LEVEL, optional: true")
OPTIONAL_FILES = FILES.replace("{name: app}", "{name: app, optional: true}")
OPTIONAL_BOTH = """
    containers:
    - name: web
      envFrom: [{configMapRef: {name: app, optional: true}}]
      volumeMounts: [{name: config, mountPath: /etc/app}]
    volumes: [{name: config, configMap: {name: app, optional: true}}]
"""


def app(data: dict[str, str] = A, **options: Any) -> ConfigMap:
    """Make the ConfigMap `app`."""
    return config_map("app", data, **options)


def asked(who: Consumer, *items: ConfigMap) -> Record:
    """Make the record of a consumer that was last asked for these sources."""
    snapshots = take_snapshots(who.uses, sources(*items), KEY)
    first = assess(who, None, snapshots, Facts(now=0, revision=""))
    return record_applied(who, None, first.findings, key_id=KEY.id, generation=1)


def judged(
    who: Consumer,
    before: Sequence[ConfigMap] | Record | None,
    now: Sequence[ConfigMap],
    *,
    started: Sequence[float | None] | None = None,
    **facts: Any,
) -> Assessment:
    """Judge a consumer that was asked for `before` (None: no record) and finds `now`.

    `started` are the starts of its pods; None says that nobody has looked.
    """
    record = before if isinstance(before, Record) or before is None else asked(who, *before)
    snapshots = take_snapshots(who.uses, sources(*now), KEY)
    live_rolls = facts.get("live_rolls", False)
    if started is not None:
        pods = [pod(f"web-{number}", started=at) for number, at in enumerate(started)]
        facts["starts"] = pod_starts(who, pods)
    revision = revision_of(snapshots, KEY, uid=who.uid, live_rolls=live_rolls)
    return assess(who, record, snapshots, Facts(now=1000, revision=revision, **facts))


def kept(
    who: Consumer, record: Record | None, assessment: Assessment, generation: int = 1
) -> Record:
    """Make the record after a judgement that settles."""
    assert make_plan(who, Policy(), assessment, changed={}).settles
    return record_applied(who, record, assessment.findings, key_id=KEY.id, generation=generation)


def deployment(spec: str = ENV, **options: Any) -> Consumer:
    """Make a Deployment whose record vouches for its generation 1."""
    return consumer("Deployment", spec, **options)


# -- rule 0: a crash between the patch and the record -----------------------------------------


@pytest.mark.parametrize(
    ("written_at", "changed_at", "verdict"),
    [
        pytest.param(500, 499, Verdict.ADOPT, id="we wrote after the change"),
        pytest.param(500, 500, Verdict.ADOPT, id="in the same second"),
        pytest.param(499, 500, Verdict.FROZEN, id="before it: an undo brought the revision back"),
        pytest.param(None, 500, Verdict.FROZEN, id="never: somebody else wrote it"),
        pytest.param(500, None, Verdict.FROZEN, id="the time of the change is unknown"),
    ],
)
def test_rule_0_template_has_the_current_revision(
    written_at: float | None, changed_at: float | None, verdict: Verdict
) -> None:
    """A template with the present revision, written by us since the change, was asked."""
    now = [app(B_FROZEN, version=2, changed_at=changed_at)]
    snapshots = take_snapshots(deployment().uses, sources(*now), KEY)
    revision = revision_of(snapshots, KEY, uid="uid-web", live_rolls=False)
    for name in (revision, f"{revision}.1"):
        who = deployment(revision=name, written_at=written_at)
        assessment = judged(who, [app()], now)
        assert assessment.verdict is verdict
        assert assessment.distinct is (verdict is Verdict.FROZEN)


def test_rule_0_another_revision_is_another_content() -> None:
    """Our own write of other content proves nothing."""
    who = deployment(revision=f"{KEY.id}.other", written_at=500)
    assessment = judged(who, [app()], [app(B_FROZEN, version=2, changed_at=400)])
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, False)


# -- rule 1: nothing is known -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        pytest.param({}, Verdict.ADOPT, id="without catch-up: adopt at once"),
        pytest.param({"started": [1]}, Verdict.ADOPT, id="even when the pods are old"),
        pytest.param({"catch_up": True}, Verdict.CHECK_PODS, id="catch-up: look first"),
        pytest.param({"catch_up": True, "started": [102]}, Verdict.ADOPT, id="proven younger"),
        pytest.param({"catch_up": True, "started": [101]}, Verdict.FROZEN, id="not proven"),
        pytest.param({"catch_up": True, "started": []}, Verdict.ADOPT, id="no pods"),
    ],
)
def test_rule_1_first_sight(options: dict[str, Any], verdict: Verdict) -> None:
    """First sight adopts; with catch-up the pods' start decides."""
    assert judged(deployment(), None, [app(changed_at=100)], **options).verdict is verdict


# -- rule 8: used differently, or newly ---------------------------------------------------------


def test_rule_8_other_uses_of_the_same_content_are_adopted() -> None:
    """A template that gained a use starts new pods by itself; the source did not change."""
    record = asked(deployment(ENV), app())
    other = deployment(ENV_AND_FILES, generation=2)
    for now in (app(), app(version=2), app(uid="uid-2")):
        assessment = judged(other, record, [now])
        assert assessment.verdict is Verdict.ADOPT
        assert assessment.reason == (
            "ConfigMap shop/app is used differently than before: now tracking"
        )


@pytest.mark.parametrize(
    ("started", "verdict"),
    [
        pytest.param(None, Verdict.CHECK_PODS, id="pods not listed"),
        pytest.param([502.0], Verdict.ADOPT, id="all pods younger"),
        pytest.param([600.0, 400.0], Verdict.FROZEN, id="one pod older"),
    ],
)
def test_rule_8_other_uses_do_not_hide_a_change(
    started: list[float] | None, verdict: Verdict
) -> None:
    """A template gained a use and the source changed: the starts of the pods decide."""
    record = asked(deployment(ENV), app())
    other = deployment(ENV_AND_FILES, generation=2)
    now = [app(B_BOTH, version=2, changed_at=500)]
    assert judged(other, record, now, started=started).verdict is verdict


@pytest.mark.parametrize(
    ("generation", "started", "verdict"),
    [
        pytest.param(1, None, Verdict.ADOPT, id="visible only now: first sight"),
        pytest.param(2, None, Verdict.CHECK_PODS, id="new in the template, pods not listed"),
        pytest.param(2, [400.0], Verdict.FROZEN, id="edited after a pod started with it"),
        pytest.param(2, [500.0], Verdict.ADOPT, id="started in the second of the change"),
        pytest.param(2, [600.0], Verdict.ADOPT, id="started after the change"),
    ],
)
def test_rule_8_new_use_of_a_source(
    generation: int, started: list[float] | None, verdict: Verdict
) -> None:
    """A source that the template has come to use may change before hotmap records it."""
    record = asked(deployment(ENV), app())
    who = deployment(TWO, generation=generation)
    other = config_map("other", {"k": "v"}, changed_at=500)
    assert judged(who, record, [app(), other], started=started).verdict is verdict


def test_rule_9_invisible_source_is_neither_deleted_nor_created() -> None:
    """What may not be listed keeps its record, and its return with the same content is none."""
    who = deployment(OPTIONAL_ENV)
    record = asked(who, app())
    hidden = tuple(source._replace(visible=False) for source in take_snapshots(who.uses, {}, KEY))
    assessment = assess(who, record, hidden, Facts(now=1000, revision="", wants_deleted=True))
    assert assessment.verdict is Verdict.UP_TO_DATE
    after = record_applied(who, record, assessment.findings, key_id=KEY.id, generation=1)
    assert after.sources == record.sources
    assert judged(who, after, [app()]).verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("kind", "started", "verdict"),
    [
        pytest.param("DaemonSet", None, Verdict.CHECK_PODS, id="pods not listed"),
        pytest.param("DaemonSet", [400.0], Verdict.HOLD, id="a pod that may serve the old one"),
        pytest.param("DaemonSet", [600.0], Verdict.ADOPT, id="all pods were replaced"),
        pytest.param("Deployment", [600.0], Verdict.HOLD, id="new pods overlapped old ones"),
    ],
)
def test_rule_7_ends_when_all_pods_were_replaced(
    kind: str, started: list[float] | None, verdict: Verdict
) -> None:
    """A DaemonSet deletes a pod before it creates the next, so no kubelet serves the old one."""
    who = consumer(kind, ENV)
    now = [app(B_FROZEN, uid="uid-2", changed_at=500)]
    record = asked(who, app(immutable=True))
    assert judged(who, record, now, started=started).verdict is verdict


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        pytest.param(504.0, Verdict.ADOPT, id="all created since the template changed"),
        pytest.param(400.0, Verdict.FROZEN, id="an undo kept older pods"),
    ],
)
def test_rule_6_template_change_alone_proves_nothing(created: float, verdict: Verdict) -> None:
    """The pods of a template that changed after the source may be older than both."""
    who = deployment(generation=2)
    now = [app(B_FROZEN, version=2, changed_at=504)]
    facts = {
        "before_template": frozenset((ObjectKey("ConfigMap", "shop", "app"),)),
        "template_at": 504.3,
    }
    record = asked(deployment(), app())
    assert judged(who, record, now, started=[created], **facts).verdict is verdict


def test_scaled_down_workload_has_pods_until_the_last_is_gone() -> None:
    """Pods of a StatefulSet that is scaled to zero may outlive the next scaling."""
    ending = msgspec.structs.replace(consumer("StatefulSet", ENV, replicas=0), pods=1)
    assert not ending.has_no_pods
    assert msgspec.structs.replace(ending, pods=0).has_no_pods


def test_rule_1_a_source_beside_an_unknown_one_is_compared() -> None:
    """One new reference does not hide a change of a source that was known."""
    record = asked(deployment(ENV), app())
    now = [app(B_FROZEN, version=2), config_map("other", {"k": "v"})]
    assert judged(deployment(TWO), record, now).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("live_rolls", "verdict"), [(False, Verdict.ADOPT), (True, Verdict.CHECK_PODS)]
)
def test_rule_1_reread_files_catch_up_by_themselves(live_rolls: bool, verdict: Verdict) -> None:
    """Catch-up rolls nothing for files that the application re-reads."""
    assessment = judged(deployment(FILES), None, [app()], catch_up=True, live_rolls=live_rolls)
    assert assessment.verdict is verdict


@pytest.mark.parametrize(("waited", "verdict"), [(0, Verdict.WAIT), (60, Verdict.CHECK_PODS)])
def test_rule_1_catch_up_waits_for_a_rollout(waited: float, verdict: Verdict) -> None:
    """A consumer that is replacing its pods anyway is looked at when it is done."""
    who = deployment(rolling=True)
    assert judged(who, None, [app()], catch_up=True, waited=waited).verdict is verdict


# -- rule 2: a stale store --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "uid", "verdict"),
    [
        pytest.param(9, "uid-1", Verdict.WAIT, id="older: wait, as string order would not"),
        pytest.param(10, "uid-1", Verdict.FROZEN, id="the same"),
        pytest.param(11, "uid-1", Verdict.FROZEN, id="newer"),
        pytest.param(9, "uid-2", Verdict.FROZEN, id="another object: not comparable"),
    ],
)
def test_rule_2_stale_store_waits(version: int, uid: str, verdict: Verdict) -> None:
    """A version older than the one asked for comes from a stale store: do nothing."""
    now = [app(B_FROZEN, version=version, uid=uid)]
    assert judged(deployment(), [app(version=10)], now).verdict is verdict


def test_rule_2_comes_before_every_action() -> None:
    """One stale source holds the whole consumer back: its other sources may be stale as well."""
    before = [app(version=10), config_map("other", {"k": "v"})]
    now = [app(version=9), config_map("other", {"k": "w"}, version=2)]
    assert judged(deployment(TWO), before, now).verdict is Verdict.WAIT


# -- rules 3, 4 and 5: compared with what was asked -------------------------------------------

REQUIRED = [ENV, FILES, ENV_AND_FILES]


@pytest.mark.parametrize(
    ("spec", "now", "verdict"),
    [
        pytest.param(ENV_AND_FILES, A, Verdict.UP_TO_DATE, id="equal"),
        pytest.param(
            ENV_AND_FILES, A | {"other": "x"}, Verdict.UP_TO_DATE, id="an unused data key"
        ),
        pytest.param(ENV_AND_FILES, B_LIVE, Verdict.LIVE, id="files"),
        pytest.param(ENV_AND_FILES, B_FROZEN, Verdict.FROZEN, id="environment"),
        pytest.param(ENV_AND_FILES, B_BOTH, Verdict.FROZEN, id="both"),
        pytest.param(ENV, B_LIVE, Verdict.UP_TO_DATE, id="files that it does not mount"),
        pytest.param(FILES, B_FROZEN, Verdict.LIVE, id="a data key that is only a file"),
        pytest.param(FILES, A | {"other": "x"}, Verdict.LIVE, id="a new file"),
    ],
)
def test_rules_3_to_5(spec: str, now: dict[str, str], verdict: Verdict) -> None:
    """Equal is fresh, files are a live change, what was read at start is a frozen one."""
    assert judged(deployment(spec), [app()], [app(now, version=2)]).verdict is verdict


def test_rule_3_recreated_with_the_same_content_is_fresh() -> None:
    """Delete and recreate with the same content changes nothing."""
    assert judged(deployment(), [app()], [app(uid="uid-2")]).verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("generation", "written_at", "started", "verdict"),
    [
        pytest.param(2, 90, [95], Verdict.FROZEN, id="a pod has what we asked for meanwhile"),
        pytest.param(2, 90, None, Verdict.CHECK_PODS, id="the pods have to be looked at"),
        pytest.param(2, 90, [200], Verdict.ADOPT, id="they are proven younger"),
        pytest.param(2, None, [95], Verdict.UP_TO_DATE, id="an undo wrote the revision"),
        pytest.param(1, 90, [95], Verdict.UP_TO_DATE, id="the record vouches for the generation"),
    ],
)
def test_rule_3_a_crash_kept_our_last_rollout_from_the_record(
    generation: int, written_at: float | None, started: list[float | None] | None, verdict: Verdict
) -> None:
    """The record's content is back, but the template was asked for another one meanwhile."""
    other = take_snapshots(deployment().uses, sources(app(B_FROZEN)), KEY)
    revision = revision_of(other, KEY, uid="uid-web", live_rolls=False)
    who = deployment(generation=generation, revision=revision, written_at=written_at)
    now = [app(version=3, changed_at=100)]
    record = asked(deployment(), app())
    assert judged(who, record, now, started=started).verdict is verdict


def test_undo_does_not_count_as_own_write() -> None:
    """An undo takes the annotation over and leaves our entry, with what is around it."""
    item = workload(revision="k.a")
    assert item.metadata.managed_fields is not None
    left = msgspec.Raw(b'{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{}}}}}')
    item.metadata.managed_fields.append(
        ManagedFields(FIELD_MANAGER, "2026-01-01T00:00:00Z", fields_v1=left)
    )
    assert consumer_from_workload("Deployment", item).written_at is None


def test_rule_3_recorded_template_revision_is_ignored() -> None:
    """A source that went, or a state that was lost, leaves a revision that is not the present."""
    who = deployment(generation=2, revision=f"{KEY.id}.AAAAAAAAAAA", written_at=90)
    now = [app(version=3, changed_at=100)]
    assert judged(who, [app()], now, started=[95]).verdict is Verdict.UP_TO_DATE


def test_rule_3_a_revision_under_another_key_tells_nothing() -> None:
    """A key that was made anew is no sign of a crash."""
    who = deployment(generation=2, revision="XXXX.AAAAAAAAAAA", written_at=90)
    now = [app(version=3, changed_at=100)]
    assert judged(who, [app()], now, started=[95]).verdict is Verdict.UP_TO_DATE


def test_rule_5_recreated_with_other_content_is_a_change() -> None:
    """Delete and recreate with other content is a change like any other."""
    now = [app(B_FROZEN, uid="uid-2")]
    assert judged(deployment(), [app()], now).verdict is Verdict.FROZEN


def test_rule_5_needs_no_look_at_the_pods() -> None:
    """With the generation vouched for, young pods do not matter."""
    now = [app(B_FROZEN, version=2)]
    assert judged(deployment(), [app()], now, started=[999]).verdict is Verdict.FROZEN


# -- rule 6: the consumer moved on ------------------------------------------------------------


@pytest.mark.parametrize(
    ("rolling", "waited", "started", "verdict"),
    [
        pytest.param(True, 0, None, Verdict.WAIT, id="its own rollout runs: wait"),
        pytest.param(True, ROLLOUT_PATIENCE - 1, None, Verdict.WAIT, id="… up to a minute"),
        pytest.param(True, ROLLOUT_PATIENCE, None, Verdict.CHECK_PODS, id="then look at the pods"),
        pytest.param(False, 0, None, Verdict.CHECK_PODS, id="no rollout: look at once"),
        pytest.param(False, 0, [102], Verdict.ADOPT, id="proven younger: it has the change"),
        pytest.param(False, 0, [101], Verdict.FROZEN, id="inside the margin"),
        pytest.param(False, 0, [200, 50], Verdict.FROZEN, id="an old pod left (undo, partition)"),
        pytest.param(False, 0, [], Verdict.ADOPT, id="no pods"),
    ],
)
@pytest.mark.parametrize("live_rolls", [False, True])
def test_rule_6_the_generation_moved(
    rolling: bool,
    waited: float,
    started: list[float | None] | None,
    verdict: Verdict,
    live_rolls: bool,
) -> None:
    """A change beside one of the consumer itself: its own rollout may have taken it.

    A live change that needs new pods is judged in the same way.
    """
    spec, change = (FILES, B_LIVE) if live_rolls else (ENV, B_FROZEN)
    assessment = judged(
        deployment(spec, generation=2, rolling=rolling),
        asked(deployment(spec), app()),
        [app(change, version=2, changed_at=100)],
        waited=waited,
        started=started,
        live_rolls=live_rolls,
    )
    assert assessment.verdict is verdict


@pytest.mark.parametrize(
    ("waited", "verdict"), [(0, Verdict.WAIT), (ROLLOUT_PATIENCE, Verdict.CHECK_PODS)]
)
def test_rule_6_the_watch_lags_behind_our_own_rollout(waited: float, verdict: Verdict) -> None:
    """Without pods it would be adopted otherwise, and never rolled out."""
    record = structs.replace(asked(deployment(), app()), generation=2)
    now = [app(B_FROZEN, version=2, changed_at=100)]
    assert judged(deployment(), record, now, waited=waited).verdict is verdict


def test_rule_6_an_undo_that_returns_the_present_revision_needs_another_name() -> None:
    """Writing the revision that is there already would change nothing."""
    now = [app(B_FROZEN, version=2, changed_at=100)]
    snapshots = take_snapshots(deployment().uses, sources(*now), KEY)
    revision = revision_of(snapshots, KEY, uid="uid-web", live_rolls=False)
    undone = deployment(generation=2, revision=revision)
    assessment = judged(undone, asked(deployment(), app()), now, started=[50])
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, True)


def test_rule_6_an_unvouched_generation_is_never_the_same() -> None:
    """What was recorded in the middle of a rollout vouches for no generation."""
    who = deployment()
    record = record_applied(
        who,
        None,
        judged(who, None, [app()]).findings,
        key_id=KEY.id,
        generation=UNVOUCHED,
    )
    assert judged(who, record, [app(B_FROZEN, version=2)]).verdict is Verdict.CHECK_PODS


@pytest.mark.parametrize(("live_rolls", "verdict"), [(False, Verdict.LIVE), (True, Verdict.FROZEN)])
def test_files_without_a_reader_need_new_pods(live_rolls: bool, verdict: Verdict) -> None:
    """A live change is a frozen one where nothing in the pods takes it."""
    assessment = judged(deployment(FILES), [app()], [app(B_LIVE)], live_rolls=live_rolls)
    assert assessment.verdict is verdict


# -- rule 7: immutable and recreated ----------------------------------------------------------


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
    assert judged(deployment(), [app(**was)], [app(B_FROZEN, **now)]).verdict is verdict


def test_rule_7_same_content_is_fresh() -> None:
    """An immutable source that comes back as it was is fresh."""
    assert (
        judged(deployment(), [app(immutable=True)], [app(uid="uid-2")]).verdict
        is Verdict.UP_TO_DATE
    )


def test_rule_7_reason_has_the_remedy() -> None:
    """The hold names the remedy, and following it ends the hold."""
    before, now = [app(immutable=True)], [app(B_FROZEN, uid="uid-2", immutable=True)]
    held = judged(deployment(), before, now)
    assert "Use a new name, or scale to zero first" in held.reason
    empty = deployment(replicas=0, generation=2)
    adopted = judged(empty, asked(deployment(), *before), now)
    assert adopted.verdict is Verdict.ADOPT
    record = kept(empty, asked(deployment(), *before), adopted, generation=2)
    assert judged(deployment(generation=3), record, now).verdict is Verdict.UP_TO_DATE


# -- sources and data keys that are not there -------------------------------------------------


@pytest.mark.parametrize("spec", REQUIRED)
def test_deleted_source_changes_nothing(spec: str) -> None:
    """Running pods keep what they have, and its return with the same content is none either."""
    who = deployment(spec)
    before = asked(who, app())
    gone = judged(who, before, [])
    assert gone.verdict is Verdict.UP_TO_DATE
    record = kept(who, before, gone)
    assert judged(who, record, [app(uid="uid-2")]).verdict is Verdict.UP_TO_DATE


def test_deleted_source_that_returns_with_other_content_is_a_change() -> None:
    """What was last asked for outlives the source."""
    who = deployment()
    record = kept(who, asked(who, app()), judged(who, [app()], []))
    assert judged(who, record, [app(B_FROZEN, uid="uid-2")]).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("spec", "live_rolls", "verdict"),
    [
        pytest.param(OPTIONAL_ENV, False, Verdict.UP_TO_DATE, id="environments stay"),
        pytest.param(OPTIONAL_FILES, False, Verdict.LIVE, id="files go away"),
        pytest.param(OPTIONAL_BOTH, False, Verdict.LIVE, id="both"),
        pytest.param(OPTIONAL_FILES, True, Verdict.UP_TO_DATE, id="files that nobody re-reads"),
    ],
)
def test_deleted_optional_source(spec: str, live_rolls: bool, verdict: Verdict) -> None:
    """Its files go away, which is a live change; what was read at start stays."""
    assert judged(deployment(spec), [app()], [], live_rolls=live_rolls).verdict is verdict


@pytest.mark.parametrize(
    ("spec", "live_rolls", "data", "verdict"),
    [
        pytest.param(OPTIONAL_ENV, False, A, Verdict.UP_TO_DATE, id="environment, the same"),
        pytest.param(OPTIONAL_ENV, False, B_FROZEN, Verdict.FROZEN, id="environment, other"),
        pytest.param(OPTIONAL_FILES, False, A, Verdict.LIVE, id="files come back"),
        pytest.param(OPTIONAL_FILES, True, A, Verdict.UP_TO_DATE, id="nobody noticed"),
        pytest.param(OPTIONAL_BOTH, False, A, Verdict.LIVE, id="both, the same"),
        pytest.param(OPTIONAL_BOTH, False, B_FROZEN, Verdict.FROZEN, id="both, other"),
    ],
)
def test_deleted_optional_source_returns(
    spec: str, live_rolls: bool, data: dict[str, str], verdict: Verdict
) -> None:
    """What running containers still hold is no change; what they lost is one."""
    who = deployment(spec)
    before = asked(who, app())
    record = kept(who, before, judged(who, before, [], live_rolls=live_rolls))
    now = [app(data, uid="uid-2")]
    assert judged(who, record, now, live_rolls=live_rolls).verdict is verdict


def test_new_pods_are_without_a_deleted_optional_source() -> None:
    """A rollout for another source takes the environment away, so its return is a change."""
    spec = (
        OPTIONAL_ENV
        + """
      envFrom: [{configMapRef: {name: other}}]
    """
    )
    who = deployment(spec)
    other = config_map("other", {"k": "w"}, version=2)
    before = asked(who, app(), config_map("other", {"k": "v"}))
    rolled = judged(who, before, [other])
    assert rolled.verdict is Verdict.FROZEN
    record = kept(who, before, rolled)
    assert judged(who, record, [other]).verdict is Verdict.UP_TO_DATE
    now = [other, app(uid="uid-2", changed_at=500)]
    assert judged(who, record, now, started=[100.0]).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("spec", "verdict"),
    [
        pytest.param(ENV, Verdict.FROZEN, id="the container should have waited for it"),
        pytest.param(FILES, Verdict.FROZEN, id="the pod should have waited for its volume"),
        pytest.param(OPTIONAL_ENV, Verdict.FROZEN, id="optional: it runs without"),
        pytest.param(OPTIONAL_FILES, Verdict.LIVE, id="optional files appear"),
        pytest.param(
            ENV + "    - {name: b, envFrom: [{configMapRef: {name: app, optional: true}}]}\n",
            Verdict.FROZEN,
            id="one container waited, its neighbour ran without",
        ),
        pytest.param(
            FILES.replace(
                "- name: web\n",
                "- name: web\n      envFrom: [{configMapRef: {name: app, optional: true}}]\n",
            ),
            Verdict.FROZEN,
            id="the whole pod should have waited for the volume",
        ),
    ],
)
def test_source_appears_while_pods_run(spec: str, verdict: Verdict) -> None:
    """What runs without a source has a change, whether or not it was to wait for the source."""
    now = [app(changed_at=500)]
    assert judged(deployment(spec), [], now, started=[100.0]).verdict is verdict


@pytest.mark.parametrize("spec", [ENV, FILES], ids=["env", "files"])
@pytest.mark.parametrize("started", [None, 500.0, 501.0, 900.0])
def test_source_appears_and_containers_start_with_it(spec: str, started: float | None) -> None:
    """What waited for a source starts with it, within the second of its creation or later."""
    now = [app(changed_at=500)]
    assert judged(deployment(spec), [], now).verdict is Verdict.CHECK_PODS
    assert judged(deployment(spec), [], now, started=[started]).verdict is Verdict.ADOPT


def test_source_appears_before_pods_start() -> None:
    """Pods that certainly started after its creation have it, though it is optional."""
    now = [app(changed_at=500)]
    who = deployment(OPTIONAL_ENV)
    assert judged(who, [], now, started=[502.0]).verdict is Verdict.ADOPT
    assert judged(who, [], now, started=[501.0]).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("spec", "data", "verdict"),
    [
        pytest.param(ENV, {}, Verdict.HOLD, id="env"),
        pytest.param(ENV_AND_FILES, {"LEVEL": "info"}, Verdict.HOLD, id="an item of a volume"),
        pytest.param(OPTIONAL_ENV, {}, Verdict.FROZEN, id="optional: new pods are without it"),
        pytest.param(FILES, {}, Verdict.LIVE, id="a file of a whole volume"),
    ],
)
def test_data_key_is_lost(spec: str, data: dict[str, str], verdict: Verdict) -> None:
    """A data key that new pods could not start without holds the consumer back."""
    assert judged(deployment(spec), [app()], [app(data, version=2)]).verdict is verdict


def test_lost_data_key_is_named() -> None:
    """The hold says what is missing and what would happen."""
    assert judged(deployment(), [app()], [app({})]).reason == (
        "ConfigMap shop/app lacks LEVEL, which is not optional: new pods could not start"
    )


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        pytest.param(
            [config_map("other", {"k": "w"}, version=2)],
            "ConfigMap shop/app does not exist and is not optional: new pods could not start",
            id="a source is gone",
        ),
        pytest.param(
            [app({}), config_map("other", {"k": "w"}, version=2)],
            "ConfigMap shop/app lacks LEVEL, which is not optional: new pods could not start",
            id="a data key is gone",
        ),
    ],
)
def test_rollout_is_held_when_pods_could_not_start(now: list[ConfigMap], reason: str) -> None:
    """A change waits while something else would keep new pods from starting, and is kept."""
    who = deployment(TWO)
    before = asked(who, app(), config_map("other", {"k": "v"}))
    held = judged(who, before, now)
    assert (held.verdict, held.reason) == (Verdict.HOLD, reason)
    record = kept(who, before, held)
    assert record == before
    whole = [app(), config_map("other", {"k": "w"}, version=2)]
    assert judged(who, record, whole).verdict is Verdict.FROZEN


def test_hold_keeps_the_record_of_other_sources() -> None:
    """A source that is first seen during a hold is known from then on."""
    who = deployment(TWO, generation=2)
    before = asked(deployment(ENV), app(immutable=True))
    held_app = app(B_FROZEN, uid="uid-2", immutable=True)
    first = judged(who, before, [held_app, config_map("other", {"k": "v"})], started=[1.0])
    assert first.verdict is Verdict.HOLD
    record = kept(who, before, first, generation=2)
    assert {source.name for source in record.sources} == {"app", "other"}
    assert record.generation == before.generation
    edited = [held_app, config_map("other", {"k": "w"}, version=2)]
    assert judged(who, record, edited, started=[1]).verdict is Verdict.FROZEN


def test_hold_outlives_a_rollout_for_another_source() -> None:
    """The rollout for one source does not count as asking for the one that is held back."""
    who = deployment(TWO)
    before = asked(who, app(immutable=True), config_map("other", {"k": "v"}))
    now = [app(B_FROZEN, uid="uid-2", immutable=True), config_map("other", {"k": "w"}, version=2)]
    rolled = judged(who, before, now)
    assert rolled.verdict is Verdict.FROZEN
    assert judged(who, kept(who, before, rolled), now).verdict is Verdict.HOLD


# -- the record -------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*REQUIRED, OPTIONAL_BOTH])
@pytest.mark.parametrize("data", [A, B_LIVE, B_FROZEN, B_BOTH])
def test_applied_content_is_fresh(spec: str, data: dict[str, str]) -> None:
    """After an action, judging the same content again finds nothing to do."""
    who = deployment(spec)
    before, now = asked(who, app()), [app(data, version=2)]
    record = kept(who, before, judged(who, before, now))
    assert judged(who, record, now).verdict is Verdict.UP_TO_DATE


def test_record_under_another_key_is_not_mixed_in() -> None:
    """Fingerprints of two keys never stand in one record; what cannot be carried over goes."""
    who = deployment()
    old = asked(who, app())
    other = fingerprint_key(b"another key")
    gone = judged(who, old, [])
    record = record_applied(who, old, gone.findings, key_id=other.id, generation=1)
    assert record.key_id == other.id
    assert [source.frozen for source in record.sources] == ["-"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param((A, False), (A, False), True, id="equal"),
        pytest.param((A, False), (A | {"x": ""}, False), True, id="an unused data key"),
        pytest.param((A, False), (B_FROZEN, False), False, id="frozen"),
        pytest.param((A, False), (B_LIVE, False), True, id="live does not count"),
        pytest.param((A, True), (B_LIVE, True), False, id="… but where a live change rolls"),
    ],
)
def test_revision_names_content(
    one: tuple[dict[str, str], bool], other: tuple[dict[str, str], bool], same: bool
) -> None:
    """The same content gives the same name, so a revert returns to the earlier ReplicaSet."""

    def revision(data: dict[str, str], live_rolls: bool) -> str:
        snapshots = take_snapshots(deployment(ENV_AND_FILES).uses, sources(app(data)), KEY)
        return revision_of(snapshots, KEY, uid="u", live_rolls=live_rolls)

    assert (revision(*one) == revision(*other)) is same
    assert revision(*one).startswith(f"{KEY.id}.")


def test_revision_is_bound_to_its_consumer() -> None:
    """Two consumers of the same content have different revisions: a clone is not asked."""
    snapshots = take_snapshots(deployment().uses, sources(app()), KEY)
    revisions = {revision_of(snapshots, KEY, uid=uid, live_rolls=False) for uid in ("u", "v")}
    assert len(revisions) == 2


def test_image_pull_secrets_are_not_in_snapshots() -> None:
    """A Secret that only pulls images is nothing to be fresh of."""
    who = deployment("{containers: [{name: web}], imagePullSecrets: [{name: registry}]}")
    assert take_snapshots(who.uses, {}, KEY) == ()
