"""Is a consumer behind its sources? One table for each of the rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.core.freshness import (
    B_BOTH,
    B_FROZEN,
    B_LIVE,
    OPTIONAL_ENV,
    TWO,
    A,
    app,
    applied_record,
    assess_change,
    assess_sources,
    deployment,
)
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

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.snapshot import TemplateChange
from hotmap.core.decide.source_rules import ROLLOUT_WAIT
from hotmap.core.decide.source_snapshot import ChangeSummary, take_snapshots
from hotmap.core.model.consumer import FIELD_MANAGER
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ConfigMap, ManagedFields
from hotmap.core.model.state import UNVOUCHED, Window
from hotmap.core.policy.policy import Policy

CATCH_UP = Policy(catch_up=True)

# -- rule 0: a crash between the patch and the record -----------------------------------------


@pytest.mark.parametrize(
    ("written_at", "changed_at", "verdict"),
    [
        pytest.param(500, 499, Verdict.ADOPT, id="we wrote after the change"),
        pytest.param(500, 500, Verdict.ADOPT, id="in the same second"),
        pytest.param(499, 500, Verdict.FROZEN, id="before it: an undo brought the revision back"),
        pytest.param(None, 500, Verdict.FROZEN, id="never: another writer wrote it"),
        pytest.param(500, None, Verdict.FROZEN, id="the time of the change is unknown"),
    ],
)
def test_rule_0_template_has_the_current_revision(
    written_at: float | None, changed_at: float | None, verdict: Verdict
) -> None:
    """A template with the current revision, written by us since the change, counts as applied."""
    now = [app(B_FROZEN, version=2, changed_at=changed_at)]
    snapshots = take_snapshots(deployment().uses, sources(*now), KEY)
    revision = revision_of(snapshots, KEY, uid="uid-web", live_needs_rollout=False)
    for name in (revision, f"{revision}.1"):
        who = deployment(revision=name, written_at=written_at)
        assessment = assess_change(who, [app()], now)
        assert assessment.verdict is verdict
        assert assessment.distinct is (verdict is Verdict.FROZEN)


def test_rule_0_another_revision_is_another_content() -> None:
    """Our own write of other content proves nothing."""
    who = deployment(revision=f"{KEY.id}.other", written_at=500)
    assessment = assess_change(who, [app()], [app(B_FROZEN, version=2, changed_at=400)])
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, False)


# -- rule 1: nothing is known -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        pytest.param({}, Verdict.ADOPT, id="without catch-up: adopt at once"),
        pytest.param({"started": [1]}, Verdict.ADOPT, id="even when the pods are old"),
        pytest.param({"policy": CATCH_UP}, Verdict.CHECK_PODS, id="catch-up: look first"),
        pytest.param({"policy": CATCH_UP, "started": [102]}, Verdict.ADOPT, id="proven younger"),
        pytest.param({"policy": CATCH_UP, "started": [101]}, Verdict.FROZEN, id="not proven"),
        pytest.param({"policy": CATCH_UP, "started": []}, Verdict.ADOPT, id="no pods"),
    ],
)
def test_rule_1_first_sight_adopts(options: dict[str, Any], verdict: Verdict) -> None:
    """First sight adopts; with catch-up the pods' start decides."""
    assert assess_change(deployment(), None, [app(changed_at=100)], **options).verdict is verdict


def test_rule_1_current_revision_does_not_replace_a_look_at_the_pods() -> None:
    """An undo may have brought it back, and with it pods from before the last change."""
    now = app(changed_at=100)
    taken = take_snapshots(deployment().uses, sources(now), KEY)
    who = deployment(revision=revision_of(taken, KEY, uid="uid-web", live_needs_rollout=False))
    assert assess_change(who, None, [now], policy=CATCH_UP).verdict is Verdict.CHECK_PODS
    found = assess_change(who, None, [now], policy=CATCH_UP, started=[95])
    assert (found.verdict, found.distinct) == (Verdict.FROZEN, True)


def test_rule_1_source_that_does_not_exist_is_no_change() -> None:
    """New pods could not start without it."""
    assert assess_change(deployment(), None, [], policy=CATCH_UP).verdict is Verdict.ADOPT


@pytest.mark.parametrize(
    ("now", "options", "verdict"),
    [
        pytest.param(app(), {}, Verdict.ADOPT, id="what was applied to the deleted one"),
        pytest.param(app(B_LIVE), {}, Verdict.ADOPT, id="a data key that is not used"),
        pytest.param(app(B_FROZEN, changed_at=100), {}, Verdict.CHECK_PODS, id="changed: look"),
        pytest.param(
            app(B_FROZEN, changed_at=100),
            {"started": [98]},
            Verdict.FROZEN,
            id="changed, and the new one has adopted a pod from before",
        ),
        pytest.param(
            app(B_FROZEN, changed_at=100),
            {"started": [100]},
            Verdict.ADOPT,
            id="changed, and no pod is known to be older",
        ),
    ],
)
def test_rule_1_successor_of_a_deleted_workload_may_have_its_pods(
    now: ConfigMap, options: dict[str, Any], verdict: Verdict
) -> None:
    """Its pods may be those of the deleted one, which an edit has not reached."""
    before = applied_record(deployment(), app())
    options = {"predecessor": before, **options}
    assert assess_change(deployment(), None, [now], **options).verdict is verdict


@pytest.mark.parametrize(
    ("since", "changed_at", "started", "verdict"),
    [
        pytest.param(None, 910, None, Verdict.ADOPT, id="no gap"),
        pytest.param(900, 910, None, Verdict.CHECK_PODS, id="edited in a gap"),
        pytest.param(900, None, None, Verdict.CHECK_PODS, id="perhaps edited in it"),
        pytest.param(900, 898, None, Verdict.ADOPT, id="edited before it"),
        pytest.param(900, 899, None, Verdict.CHECK_PODS, id="edited within the margin"),
        pytest.param(-2600, 910, None, Verdict.CHECK_PODS, id="a gap of an hour"),
        pytest.param(-2601, 910, None, Verdict.ADOPT, id="a longer gap"),
        pytest.param(900, 910, [905], Verdict.FROZEN, id="a new pod is older than the edit"),
        pytest.param(900, 910, [912], Verdict.ADOPT, id="new pods are younger"),
        pytest.param(900, 910, [880, 905], Verdict.ADOPT, id="a pod is from before the gap"),
    ],
)
def test_rule_1_workload_may_be_created_and_its_source_edited_without_a_controller(
    since: float | None, changed_at: float | None, started: list[float] | None, verdict: Verdict
) -> None:
    """With pods from before the gap, it was merely not followed."""
    now = [app(changed_at=changed_at)]
    found = assess_change(deployment(), None, now, started=started, unwatched_since=since)
    assert found.verdict is verdict


def test_sources_of_which_the_same_is_said_are_named_together() -> None:
    """A consumer of six sources has one sentence for all of them, at first sight and later."""
    now = [app(), config_map("other", {"COLOR": "red"})]
    who = deployment(TWO)
    both = "ConfigMap shop/app, ConfigMap shop/other are"
    first = assess_change(who, None, now)
    assert first.reason == f"{both} new to hotmap: now tracking"
    assert assess_change(who, now, now).reason == f"{both} unchanged"
    changed = assess_change(who, now, [app(B_FROZEN, version=2, changed_at=900), now[1]])
    assert changed.reason.startswith("ConfigMap shop/app ")


# -- rule 8: used differently, or newly ---------------------------------------------------------


def test_rule_8_other_uses_of_the_same_content_are_adopted() -> None:
    """A template that gained a use starts new pods by itself; the source did not change."""
    record = applied_record(deployment(ENV), app())
    other = deployment(ENV_AND_FILES, generation=2)
    for now in (app(), app(version=2), app(uid="uid-2")):
        assessment = assess_change(other, record, [now])
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
    record = applied_record(deployment(ENV), app())
    other = deployment(ENV_AND_FILES, generation=2)
    now = [app(B_BOTH, version=2, changed_at=500)]
    assert assess_change(other, record, now, started=started).verdict is verdict


def test_rule_8_changed_source_that_only_files_use_now_is_refreshed() -> None:
    """Its pods need no restart for it, whatever they read at their start before."""
    record = applied_record(deployment(ENV), app())
    now = [app(B_BOTH, version=2, changed_at=500)]
    assessment = assess_change(deployment(FILES, generation=2), record, now)
    assert assessment.verdict is Verdict.LIVE


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        pytest.param(1, Verdict.ADOPT, id="the same version"),
        pytest.param(2, Verdict.CHECK_PODS, id="another version"),
    ],
)
def test_rule_8_record_without_content_is_compared_by_version(
    version: int, verdict: Verdict
) -> None:
    """Other data keys cannot be compared with it."""
    record = applied_record(deployment(ENV), app())
    (source,) = record.sources
    record = msgspec.structs.replace(record, sources=(msgspec.structs.replace(source, content=""),))
    now = [app(version=version, changed_at=500)]
    assert assess_change(deployment(ENV_AND_FILES, generation=2), record, now).verdict is verdict


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
def test_rule_8_new_use_of_a_source_may_have_changed_before_its_record(
    generation: int, started: list[float] | None, verdict: Verdict
) -> None:
    """A source that the template has come to use may change before hotmap records it."""
    record = applied_record(deployment(ENV), app())
    who = deployment(TWO, generation=generation)
    other = config_map("other", {"k": "v"}, changed_at=500)
    assert assess_change(who, record, [app(), other], started=started).verdict is verdict


#: A pod spec that reads one ConfigMap when its container starts, and another one as files.
FILES_OF_OTHER = (
    ENV
    + """
      volumeMounts: [{name: config, mountPath: /etc/app}]
    volumes: [{name: config, configMap: {name: other}}]
"""
)
OPTIONAL_OTHER = TWO.replace("{name: other}", "{name: other, optional: true}")
IGNORES_CREATIONS = Policy(reload_on_create=False)
#: The source was created, which was seen, and the template is as it was.
CREATED = {"changes": ChangeSummary(latest=950.0, created=True), "changed_at": 950.0}
SAME_TEMPLATE = {"generation": 1, "template": None}
#: The source was seen to change right before the template.
BEFORE_TEMPLATE = {"changes": ChangeSummary(last=500.2), "changed_at": 500.2, "edited": True}


@pytest.mark.parametrize(
    ("started", "source", "facts", "verdict"),
    [
        pytest.param(None, {}, {"rolling": True}, Verdict.WAIT, id="in a rollout"),
        pytest.param(
            [400], {}, {"rolling": True, "waited": ROLLOUT_WAIT}, Verdict.FROZEN, id="a stuck one"
        ),
        pytest.param([501], {"edited": True}, {}, Verdict.FROZEN, id="edited within the margin"),
        pytest.param([502], {"edited": True}, {}, Verdict.ADOPT, id="edited before the margin"),
        pytest.param([501], {}, {}, Verdict.ADOPT, id="created within the margin"),
        pytest.param([500], BEFORE_TEMPLATE, {}, Verdict.ADOPT, id="new pods of the template"),
        pytest.param([499], BEFORE_TEMPLATE, {}, Verdict.FROZEN, id="an undo kept older pods"),
        pytest.param(
            [500], BEFORE_TEMPLATE, {"template": None}, Verdict.FROZEN, id="nobody saw the template"
        ),
        pytest.param(
            None, {}, {"policy": IGNORES_CREATIONS}, Verdict.ADOPT, id="creations are ignored"
        ),
        pytest.param(None, {}, {"spec": FILES_OF_OTHER}, Verdict.ADOPT, id="files are updated"),
        pytest.param(None, CREATED, SAME_TEMPLATE, Verdict.CHECK_PODS, id="created"),
        pytest.param([940], CREATED, SAME_TEMPLATE, Verdict.FROZEN, id="created while pods ran"),
        pytest.param([960], CREATED, SAME_TEMPLATE, Verdict.ADOPT, id="created before the pods"),
        pytest.param(
            [940],
            CREATED,
            {**SAME_TEMPLATE, "spec": OPTIONAL_OTHER},
            Verdict.FROZEN,
            id="optional, and created",
        ),
        pytest.param(
            None,
            {"changes": ChangeSummary(latest=950.0)},
            SAME_TEMPLATE,
            Verdict.ADOPT,
            id="edited, and followed only now",
        ),
        pytest.param(
            None, CREATED, {**SAME_TEMPLATE, "now": 1071}, Verdict.ADOPT, id="created long ago"
        ),
    ],
)
def test_rule_8_new_use_of_a_template_is_compared_with_the_pods(
    started: list[float] | None, source: dict[str, Any], facts: dict[str, Any], verdict: Verdict
) -> None:
    facts = {"template": TemplateChange(500.3, 2), **facts}
    spec, rolling = facts.pop("spec", TWO), facts.pop("rolling", False)
    who = deployment(spec, generation=facts.pop("generation", 2), rolling=rolling)
    record = applied_record(deployment(ENV), app())
    found = sources(app(), config_map("other", {"k": "v"}, changed_at=500))
    used, other = take_snapshots(who.uses, found, KEY)
    pods = [pod(f"web-{number}", started=at) for number, at in enumerate(started or ())]
    starts = None if started is None else pod_starts(who, pods)
    assessment = assess_sources(
        who, record, [used, other._replace(**source)], revision="k.a", starts=starts, **facts
    )
    assert assessment.verdict is verdict


def test_rule_9_invisible_source_is_neither_deleted_nor_created() -> None:
    """What may not be listed keeps its record, and its return with the same content is none."""
    who = deployment(OPTIONAL_ENV)
    record = applied_record(who, app())
    hidden = tuple(source._replace(visible=False) for source in take_snapshots(who.uses, {}, KEY))
    assessment = assess_sources(who, record, hidden, policy=Policy(reload_on_delete=True))
    assert assessment.verdict is Verdict.UP_TO_DATE
    after = record_applied(who, record, assessment.findings, key_id=KEY.id, generation=1)
    assert after.sources == record.sources
    assert assess_change(who, after, [app()]).verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("created", "rolling", "verdict"),
    [
        pytest.param(504.0, False, Verdict.ADOPT, id="all created since the template changed"),
        pytest.param(504.0, True, Verdict.FROZEN, id="a pod of the template before may be left"),
        pytest.param(400.0, False, Verdict.FROZEN, id="an undo kept older pods"),
    ],
)
def test_rule_6_template_change_alone_proves_nothing(
    created: float, rolling: bool, verdict: Verdict
) -> None:
    """The pods of a template that changed after the source may be older than both."""
    who = deployment(generation=2, rolling=rolling)
    now = [app(B_FROZEN, version=2, changed_at=504)]
    found = assess_change(
        who,
        applied_record(deployment(), app()),
        now,
        started=[created],
        changes=ChangeSummary(last=504.0),
        template=TemplateChange(504.3, 2),
        waited=ROLLOUT_WAIT,
    )
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("ended", "verdict"),
    [
        pytest.param(504.0, Verdict.ADOPT, id="no pod of this template is as old"),
        pytest.param(504.6, Verdict.FROZEN, id="edited again after the template"),
    ],
)
def test_rule_6_several_edits_before_the_template_change_are_one(
    ended: float, verdict: Verdict
) -> None:
    """A manifest that is applied again during its rollout needs no further rollout."""
    who, record = deployment(generation=2), applied_record(deployment(), app())
    found = assess_change(
        who,
        msgspec.structs.replace(record, windows=(Window(501.0, ended),)),
        [app(B_FROZEN, version=3, changed_at=504)],
        started=[505.0],
        changes=ChangeSummary(last=504.0),
        template=TemplateChange(504.3, 2),
    )
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("spec", "mounted", "verdict"),
    [
        pytest.param(ENV, 400.0, Verdict.ADOPT, id="variables are read at the start"),
        pytest.param(FILES, 400.0, Verdict.FROZEN, id="files were written before the image came"),
        pytest.param(FILES, 504.0, Verdict.ADOPT, id="files were written after the change"),
        pytest.param(ENV_AND_FILES, 400.0, Verdict.FROZEN, id="both"),
    ],
)
def test_rule_6_files_are_as_old_as_their_volume(
    spec: str, mounted: float, verdict: Verdict
) -> None:
    """A kubelet mounts before it pulls the image, which may take longer than the change is ago."""
    record = applied_record(deployment(spec), app())
    now = [app(B_BOTH, version=2, changed_at=500)]
    start = PodStart("web-0", 600.0, "", created=400.0, mounted=mounted)
    who = deployment(spec, generation=2)
    found = assess_change(who, record, now, starts=(start,), live_needs_rollout=True)
    assert found.verdict is verdict


def test_scaled_down_workload_has_pods_until_the_last_is_gone() -> None:
    """Pods of a StatefulSet that is scaled to zero may outlive the next scaling."""
    ending = msgspec.structs.replace(consumer("StatefulSet", ENV, replicas=0), pods=1)
    assert not ending.has_no_pods
    assert msgspec.structs.replace(ending, pods=0).has_no_pods


def test_rule_1_a_source_beside_an_unknown_one_is_compared() -> None:
    """One new reference does not hide a change of a source that was known."""
    record = applied_record(deployment(ENV), app())
    now = [app(B_FROZEN, version=2), config_map("other", {"k": "v"})]
    assert assess_change(deployment(TWO), record, now).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("live_needs_rollout", "verdict"), [(False, Verdict.ADOPT), (True, Verdict.CHECK_PODS)]
)
def test_rule_1_reread_files_catch_up_by_themselves(
    live_needs_rollout: bool, verdict: Verdict
) -> None:
    """Catch-up rolls nothing for files that the application re-reads."""
    assessment = assess_change(
        deployment(FILES),
        None,
        [app()],
        policy=CATCH_UP,
        live_needs_rollout=live_needs_rollout,
    )
    assert assessment.verdict is verdict


@pytest.mark.parametrize(("waited", "verdict"), [(0, Verdict.WAIT), (60, Verdict.CHECK_PODS)])
def test_rule_1_catch_up_waits_for_a_rollout(waited: float, verdict: Verdict) -> None:
    """A consumer that is replacing its pods anyway is looked at when it is done."""
    who = deployment(rolling=True)
    assert assess_change(who, None, [app()], policy=CATCH_UP, waited=waited).verdict is verdict


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
    """A version older than the applied one comes from a stale store: do nothing."""
    now = [app(B_FROZEN, version=version, uid=uid)]
    assert assess_change(deployment(), [app(version=10)], now).verdict is verdict


def test_rule_2_comes_before_every_action() -> None:
    """One stale source holds the whole consumer back: its other sources may be stale as well."""
    before = [app(version=10), config_map("other", {"k": "v"})]
    now = [app(version=9), config_map("other", {"k": "w"}, version=2)]
    assert assess_change(deployment(TWO), before, now).verdict is Verdict.WAIT


# -- rules 3, 4 and 5: compared with the record ------------------------------------------------


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
def test_rules_3_to_5_compare_content_by_use(
    spec: str, now: dict[str, str], verdict: Verdict
) -> None:
    """Equal is fresh, files are a live change, what was read at start is a frozen one."""
    assert assess_change(deployment(spec), [app()], [app(now, version=2)]).verdict is verdict


def test_rule_3_recreated_with_the_same_content_is_fresh() -> None:
    """Delete and recreate with the same content changes nothing."""
    assert assess_change(deployment(), [app()], [app(uid="uid-2")]).verdict is Verdict.UP_TO_DATE


@pytest.mark.parametrize(
    ("generation", "written_at", "started", "verdict"),
    [
        pytest.param(2, 90, [95], Verdict.FROZEN, id="a pod has the content applied meanwhile"),
        pytest.param(2, 90, None, Verdict.CHECK_PODS, id="the pods have to be looked at"),
        pytest.param(2, 90, [200], Verdict.ADOPT, id="they are proven younger"),
        pytest.param(2, None, [95], Verdict.UP_TO_DATE, id="an undo wrote the revision"),
        pytest.param(1, 90, [95], Verdict.UP_TO_DATE, id="the record vouches for the generation"),
    ],
)
def test_rule_3_a_crash_kept_our_last_rollout_from_the_record(
    generation: int, written_at: float | None, started: list[float | None] | None, verdict: Verdict
) -> None:
    """The recorded content is restored, but another one was applied meanwhile."""
    other = take_snapshots(deployment().uses, sources(app(B_FROZEN)), KEY)
    revision = revision_of(other, KEY, uid="uid-web", live_needs_rollout=False)
    who = deployment(generation=generation, revision=revision, written_at=written_at)
    now = [app(version=3, changed_at=100)]
    record = applied_record(deployment(), app())
    assert assess_change(who, record, now, started=started).verdict is verdict


@pytest.mark.parametrize(
    ("live_needs_rollout", "verdict"), [(False, Verdict.UP_TO_DATE), (True, Verdict.FROZEN)]
)
def test_rule_3_a_lost_rollout_is_none_of_files_that_are_updated(
    live_needs_rollout: bool, verdict: Verdict
) -> None:
    who = deployment(FILES, generation=2, revision=f"{KEY.id}.other", written_at=90)
    record, now = applied_record(deployment(FILES), app()), [app(version=3, changed_at=100)]
    found = assess_change(who, record, now, started=[95], live_needs_rollout=live_needs_rollout)
    assert found.verdict is verdict


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
    assert assess_change(who, [app()], now, started=[95]).verdict is Verdict.UP_TO_DATE


def test_rule_3_a_revision_under_another_key_proves_nothing() -> None:
    """A key that was recreated is not a sign of a crash."""
    who = deployment(generation=2, revision="XXXX.AAAAAAAAAAA", written_at=90)
    record, now = applied_record(deployment(), app()), [app(version=3, changed_at=100)]
    assert assess_change(who, record, now, started=[95]).verdict is Verdict.UP_TO_DATE


def test_rule_3_a_lost_rollout_to_the_recorded_content_tells_nothing() -> None:
    """It was written under another name, as for pods that may have had other content."""
    taken = take_snapshots(deployment().uses, sources(app()), KEY)
    revision = revision_of(taken, KEY, uid="uid-web", live_needs_rollout=False)
    who = deployment(generation=2, revision=f"{revision}.1", written_at=90)
    record, now = applied_record(deployment(), app()), [app(version=3, changed_at=100)]
    assert assess_change(who, record, now, started=[95]).verdict is Verdict.UP_TO_DATE


def test_rule_5_recreated_with_other_content_is_a_change() -> None:
    """Delete and recreate with other content is a change like any other."""
    now = [app(B_FROZEN, uid="uid-2")]
    assert assess_change(deployment(), [app()], now).verdict is Verdict.FROZEN


def test_rule_6_the_generation_of_a_cron_job_starts_no_pods() -> None:
    record = applied_record(consumer("CronJob", ENV), app())
    who = consumer("CronJob", ENV, generation=2)
    assert assess_change(who, record, [app(B_FROZEN, version=2)]).verdict is Verdict.FROZEN


def test_rule_5_needs_no_pod_starts() -> None:
    """With the generation vouched for, young pods do not matter."""
    now = [app(B_FROZEN, version=2)]
    assert assess_change(deployment(), [app()], now, started=[999]).verdict is Verdict.FROZEN


# -- rule 6: the consumer moved on ------------------------------------------------------------


@pytest.mark.parametrize(
    ("rolling", "waited", "started", "verdict"),
    [
        pytest.param(True, 0, None, Verdict.WAIT, id="its own rollout runs: wait"),
        pytest.param(True, ROLLOUT_WAIT - 1, None, Verdict.WAIT, id="… up to a minute"),
        pytest.param(True, ROLLOUT_WAIT, None, Verdict.CHECK_PODS, id="then look at the pods"),
        pytest.param(False, 0, None, Verdict.CHECK_PODS, id="no rollout: look at once"),
        pytest.param(False, 0, [102], Verdict.ADOPT, id="proven younger: it has the change"),
        pytest.param(False, 0, [101], Verdict.FROZEN, id="inside the margin"),
        pytest.param(False, 0, [200, 50], Verdict.FROZEN, id="an old pod left (undo, partition)"),
        pytest.param(False, 0, [], Verdict.ADOPT, id="no pods"),
    ],
)
@pytest.mark.parametrize("live_needs_rollout", [False, True])
def test_rule_6_own_rollout_may_have_taken_the_change(
    rolling: bool,
    waited: float,
    started: list[float | None] | None,
    verdict: Verdict,
    live_needs_rollout: bool,
) -> None:
    """A change beside one of the consumer itself: its own rollout may have taken it.

    A live change that needs new pods is assessed in the same way.
    """
    spec, change = (FILES, B_LIVE) if live_needs_rollout else (ENV, B_FROZEN)
    assessment = assess_change(
        deployment(spec, generation=2, rolling=rolling),
        applied_record(deployment(spec), app()),
        [app(change, version=2, changed_at=100)],
        waited=waited,
        started=started,
        live_needs_rollout=live_needs_rollout,
    )
    assert assessment.verdict is verdict


@pytest.mark.parametrize(
    ("waited", "verdict"), [(0, Verdict.WAIT), (ROLLOUT_WAIT, Verdict.CHECK_PODS)]
)
def test_rule_6_the_watch_lags_behind_our_own_rollout(waited: float, verdict: Verdict) -> None:
    """Without pods it would be adopted otherwise, and never rolled out."""
    record = structs.replace(applied_record(deployment(), app()), generation=2)
    now = [app(B_FROZEN, version=2, changed_at=100)]
    assert assess_change(deployment(), record, now, waited=waited).verdict is verdict


def test_rule_6_an_undo_that_returns_the_present_revision_needs_another_name() -> None:
    """Writing the revision that is there already would change nothing."""
    now = [app(B_FROZEN, version=2, changed_at=100)]
    snapshots = take_snapshots(deployment().uses, sources(*now), KEY)
    revision = revision_of(snapshots, KEY, uid="uid-web", live_needs_rollout=False)
    undone = deployment(generation=2, revision=revision)
    assessment = assess_change(undone, applied_record(deployment(), app()), now, started=[50])
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, True)


def test_rule_6_an_unvouched_generation_is_never_the_same() -> None:
    """What was recorded in the middle of a rollout vouches for no generation."""
    who = deployment()
    record = record_applied(
        who,
        None,
        assess_change(who, None, [app()]).findings,
        key_id=KEY.id,
        generation=UNVOUCHED,
    )
    assert assess_change(who, record, [app(B_FROZEN, version=2)]).verdict is Verdict.CHECK_PODS


@pytest.mark.parametrize(
    ("live_needs_rollout", "verdict"), [(False, Verdict.LIVE), (True, Verdict.FROZEN)]
)
def test_files_without_a_reader_need_new_pods(live_needs_rollout: bool, verdict: Verdict) -> None:
    """A live change is a frozen one where nothing in the pods takes it."""
    assessment = assess_change(
        deployment(FILES), [app()], [app(B_LIVE)], live_needs_rollout=live_needs_rollout
    )
    assert assessment.verdict is verdict
