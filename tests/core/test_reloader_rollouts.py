"""When rollouts are written in Reloader's way: what is decided, and what the patch says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.core.freshness import TWO, assess_sources
from tests.support.objects import ENV, FILES, KEY, config_map, snapshot, workload

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.evidence import PodStart, Span
from hotmap.core.decide.own_rollouts import is_written
from hotmap.core.decide.plan import Action, ActionType, make_plan
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import recorded_revision, revision_of
from hotmap.core.decide.source_snapshot import ChangeSummary, take_snapshots
from hotmap.core.model.consumer import REVISION, Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ManagedFields, ObjectKey
from hotmap.core.model.source import Source, source_from_config_map
from hotmap.core.model.state import Record
from hotmap.core.patch.rollout import template_patch
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Defaults, Policy
from hotmap.core.reloader.annotations import LAST_RELOADED_FROM, DialectSettings, Names, Writing
from hotmap.core.reloader.patch import Stamp

ENV_VARS = DialectSettings(writing=Writing.ENV_VARS)
ANNOTATIONS = DialectSettings(writing=Writing.ANNOTATIONS)
OLD, NEW = {"LEVEL": "info"}, {"LEVEL": "debug"}
APP = ObjectKey("ConfigMap", "shop", "app")


def read(data: dict[str, str] | None, dialect: DialectSettings = ENV_VARS, **at: Any) -> Source:
    return source_from_config_map(config_map(data=data, **at), [KEY], dialect)


def read_other(text: str, **at: Any) -> Source:
    return source_from_config_map(config_map("other", {"k": text}, **at), [KEY], ENV_VARS)


def marked(
    digest: str, spec: str = ENV, *, dialect: DialectSettings = ENV_VARS, **options: Any
) -> Consumer:
    """A Deployment whose template Reloader marked with a digest of app."""
    text = spec.replace(
        "      env:", f"      env:\n      - {{name: STAKATER_APP_CONFIGMAP, value: '{digest}'}}"
    )
    return consumer_from_workload("Deployment", workload(text, **options), dialect)


def decide(
    who: Consumer,
    source: Source | None,
    record: Record | None,
    *,
    visible: bool = True,
    starts: Sequence[PodStart] | None = None,
    others: Sequence[Source] = (),
    **settings: Any,
) -> Assessment:
    """Assess a consumer by a policy with these settings.

    `visible` tells whether sources that do not exist would be seen, `others` exist beside `source`.
    """
    found = {each.key: each for each in (source, *others) if each is not None}
    snapshots = tuple(
        snapshot if snapshot.exists else snapshot._replace(visible=visible)
        for snapshot in take_snapshots(who.uses, found, KEY)
    )
    revision = revision_of(snapshots, KEY, uid=who.uid, live_needs_rollout=True)
    return assess_sources(
        who,
        record,
        snapshots,
        now=100.0,
        revision=revision,
        starts=starts,
        policy=Policy(writing=Writing.ENV_VARS, **settings),
        live_needs_rollout=True,
    )


def applied_record(who: Consumer, source: Source | None, *others: Source) -> Record:
    """The record after sources were first seen."""
    assessment = decide(who, source, None, others=others)
    return record_applied(who, None, assessment.findings, key_id=KEY.id, generation=who.generation)


# -- what is kept -----------------------------------------------------------------------------


def test_digests_are_kept_only_while_they_are_written() -> None:
    """In hotmap's own way of writing neither sources nor consumers carry anything of Reloader's."""
    plain = DialectSettings()
    assert read(OLD, plain).stamp == ""
    assert read(OLD).stamp == read(OLD, ANNOTATIONS).stamp
    assert len(read(OLD).stamp) == 40
    assert marked("1", dialect=plain).traces is None
    assert marked("1").traces is not None


def test_binary_data_is_digested_as_base64() -> None:
    """As Reloader does it, so that data `aGk=` and binaryData `hi` are one digest."""
    text = source_from_config_map(config_map(data={"k": "aGk="}), [KEY], ENV_VARS)
    raw = source_from_config_map(config_map(binary={"k": b"hi"}), [KEY], ENV_VARS)
    assert text.stamp == raw.stamp
    assert text.marks != raw.marks


def test_renamed_annotations_are_kept() -> None:
    """What a flag renames is outside of both domains, and is read all the same."""
    renamed = DialectSettings(names=Names(auto="acme.com/auto"))
    said = {"acme.com/auto": "true", "acme.com/other": "x"}
    who = consumer_from_workload(
        "Deployment", workload(ENV, annotations=said, template_annotations=said), renamed
    )
    assert who.annotations == who.template_annotations == {"acme.com/auto": "true"}
    assert read(OLD, renamed, annotations=said).annotations == {"acme.com/auto": "true"}
    assert read_policy(who, defaults=Defaults(dialect=renamed)).opted_in


# -- what is decided --------------------------------------------------------------------------


def test_mark_that_another_wrote_after_the_change_needs_no_action() -> None:
    """A running Reloader, or hotmap before a crash, applied it already: no action."""
    new = read(NEW, version=2, changed_at=50)
    before = applied_record(marked(""), read(OLD))
    who = marked(new.stamp, generation=2, written_at=51)
    assessment = decide(who, new, before)
    assert assessment.verdict is Verdict.ADOPT
    assert assessment.reason.endswith("is already in the pod template")


@pytest.mark.parametrize(
    ("writing", "observed", "written_at", "counts"),
    [
        pytest.param(Writing.REVISION, True, 51, True, id="a revision after the change"),
        pytest.param(Writing.REVISION, True, 45, False, id="a revision before it"),
        pytest.param(Writing.REVISION, False, 45, False, id="a revision perhaps before it"),
        pytest.param(Writing.ENV_VARS, True, 51, True, id="a mark after the change"),
        pytest.param(Writing.ENV_VARS, True, 45, False, id="a mark before it"),
        pytest.param(Writing.ENV_VARS, False, 45, True, id="a mark after the source's time"),
        pytest.param(Writing.ENV_VARS, False, 39, False, id="a mark before the source's time"),
    ],
)
def test_template_has_to_be_written_after_the_change(
    writing: Writing, observed: bool, written_at: float, counts: bool
) -> None:
    """A source names the time of an unobserved change; a mark of Reloader names its content."""
    new = read(NEW, version=2, changed_at=40)
    who = marked(new.stamp)
    (current,) = take_snapshots(who.uses, {new.key: new}, KEY)
    changes = ChangeSummary(latest=50.0 if observed else None)
    current = current._replace(changed_at=50.0, changed_after=40.0, changes=changes)
    made = snapshot(who, policy=Policy(writing=writing))
    who = msgspec.structs.replace(
        who, template_annotations={REVISION: made.revision}, written_at=written_at
    )
    assert is_written(made._replace(consumer=who), current) is counts


@pytest.mark.parametrize(
    ("owned", "counts"),
    [
        (b'".":{},"f:name":{},"f:value":{}', True),
        (b'".":{},"f:name":{}', False),
    ],
    ids=["written", "undone"],
)
def test_reloaders_own_field_manager_counts(owned: bytes, counts: bool) -> None:
    """What stands in managedFields as Reloader was written as a rollout, by it or by us.

    `kubectl rollout undo` takes over the value of the variable alone.
    """
    item = workload(ENV)
    assert item.metadata.managed_fields is not None
    variable = b'"k:{\\"name\\":\\"STAKATER_A\\"}":{' + owned + b"}"
    fields = msgspec.Raw(b'{"f:spec":{"f:template":{"f:spec":{' + variable + b"}}}}")
    item.metadata.managed_fields.append(
        ManagedFields("Reloader", "2026-01-01T00:00:00Z", fields_v1=fields)
    )
    written_at = consumer_from_workload("Deployment", item, ENV_VARS).written_at
    assert (written_at is not None) == counts
    assert consumer_from_workload("Deployment", item).written_at is None


@pytest.mark.parametrize("right", [True, False])
def test_catching_up_trusts_a_mark(right: bool) -> None:
    """At first sight a right mark is proof; a wrong one leaves it to the pods' starts."""
    source = read(OLD)
    assessment = decide(marked(source.stamp if right else "1"), source, None, catch_up=True)
    assert assessment.verdict is (Verdict.ADOPT if right else Verdict.CHECK_PODS)


def test_first_sight_after_reloader_adopts() -> None:
    """Whatever Reloader left, the first sight of a consumer changes nothing."""
    for digest in ("", "1", read(OLD).stamp):
        assessment = decide(marked(digest), read(OLD), None)
        assert assessment.verdict is Verdict.ADOPT


def test_mark_restored_by_undo_needs_distinct_mark() -> None:
    """The variable says what is present, but its pods may not: a name of its own."""
    old, new = read(OLD), read(NEW, version=2, changed_at=50)
    before = applied_record(marked(new.stamp), new)
    who = marked(old.stamp, generation=1)
    assessment = decide(who, read(OLD, version=3, changed_at=60), before)
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, True)


@pytest.mark.parametrize(
    ("changed", "distinct"),
    [
        pytest.param(False, True, id="the other one needs no mark"),
        pytest.param(True, False, id="the other one is marked again"),
    ],
)
def test_mark_of_one_source_restored_by_undo_needs_distinct_mark(
    changed: bool, distinct: bool
) -> None:
    """A name of its own is needed only where the marks would not change the template."""
    new, first = read(NEW, version=2, changed_at=50), read_other("x")
    second = read_other("y", version=4, changed_at=60)
    before = applied_record(marked(new.stamp, TWO), new, first)
    old = read(OLD, version=3, changed_at=60)
    who = marked(old.stamp, TWO, generation=1)
    assessment = decide(who, old, before, others=[second if changed else first])
    assert (assessment.verdict, assessment.distinct) == (Verdict.FROZEN, distinct)


@pytest.mark.parametrize("wanted", [True, False])
def test_source_that_appears(wanted: bool) -> None:
    """An optional source that was never there is a change, unless flags leave creations alone."""
    optional = ENV.replace("key: LEVEL", "key: LEVEL, optional: true")
    who = marked("", optional)
    old_pod = PodStart("web-1", 100.0, "", (Span(100.0, 100.0),))
    assessment = decide(
        who,
        read(NEW, changed_at=500),
        applied_record(who, None),
        reload_on_create=wanted,
        starts=(old_pod,),
    )
    assert assessment.verdict is (Verdict.FROZEN if wanted else Verdict.ADOPT)


def test_source_that_was_recreated() -> None:
    """Also where creations are left alone, other content under an old name is a change."""
    who = marked("")
    assessment = decide(
        who,
        read(NEW, uid="uid-2", version=9),
        applied_record(who, read(OLD)),
        reload_on_create=False,
    )
    assert assessment.verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("optional", "wanted", "verdict"),
    [
        (True, True, Verdict.FROZEN),
        (True, False, Verdict.UP_TO_DATE),
        (False, True, Verdict.UP_TO_DATE),
    ],
)
def test_deletion_is_a_rollout_only_if_flags_ask_for_it(
    optional: bool, wanted: bool, verdict: Verdict
) -> None:
    """Only where flags ask for it, and never where new pods could not start without it."""
    spec = ENV.replace("key: LEVEL", "key: LEVEL, optional: true") if optional else ENV
    who = marked("1", spec)
    assessment = decide(who, None, applied_record(who, read(OLD)), reload_on_delete=wanted)
    assert assessment.verdict is verdict
    if verdict is Verdict.FROZEN:
        record = record_applied(who, None, assessment.findings, key_id=KEY.id, generation=2)
        assert decide(who, None, record, reload_on_delete=True).verdict is Verdict.UP_TO_DATE


def test_invisible_sources_do_not_hold_a_rollout() -> None:
    """Where a selector hides sources, one that is not seen may exist."""
    both = ENV + "      - {name: OTHER, valueFrom: {secretKeyRef: {name: db, key: p}}}\n"
    who = marked("", both)
    before = applied_record(who, read(OLD))
    new = read(NEW, version=2)
    assert decide(who, new, before).verdict is Verdict.HOLD
    assert decide(who, new, before, visible=False).verdict is Verdict.FROZEN


@pytest.mark.parametrize("live_needs_rollout", [True, False])
@pytest.mark.parametrize("spec", [ENV, FILES])
def test_record_names_content_as_the_snapshot_does(spec: str, live_needs_rollout: bool) -> None:
    """A record names its content as the content itself was named."""
    who = marked("", spec)
    source = read(OLD)
    snapshots = take_snapshots(who.uses, {source.key: source}, KEY)
    assert recorded_revision(
        applied_record(who, source),
        KEY,
        namespace="shop",
        uid=who.uid,
        live_needs_rollout=live_needs_rollout,
    ) == revision_of(snapshots, KEY, uid=who.uid, live_needs_rollout=live_needs_rollout)


def test_plan_names_what_is_to_be_marked() -> None:
    """Each changed source with its digest; none where rollouts are written in hotmap's way."""
    who, new = marked(""), read(NEW, version=2)
    assessment = decide(who, new, applied_record(who, read(OLD)))
    for dialect, stamps in ((ENV_VARS, (Stamp(APP, new.stamp),)), (DialectSettings(), ())):
        policy = read_policy(who, defaults=Defaults(follow="auto", dialect=dialect))
        plan = make_plan(who, policy, assessment, changed={})
        assert plan.actions == (Action(ActionType.ROLLOUT, stamps=stamps),)


SCALED_TO_ZERO = "marking the pod template; no pods are running"
LEFT_ALONE = "no pods are running; new pods read the new content"


@pytest.mark.parametrize(
    ("dialect", "said", "outcome"),
    [
        pytest.param(ENV_VARS, {}, SCALED_TO_ZERO, id="env-vars"),
        pytest.param(ANNOTATIONS, {}, SCALED_TO_ZERO, id="annotations"),
        pytest.param(DialectSettings(), {}, LEFT_ALONE, id="revision"),
        pytest.param(ENV_VARS, {"hotmap.dev/strategy": "nudge"}, LEFT_ALONE, id="nudge"),
        pytest.param(ENV_VARS, {"hotmap.dev/agent": "restart=term"}, LEFT_ALONE, id="agent"),
    ],
)
def test_workload_without_pods_is_marked_as_reloader_does(
    dialect: DialectSettings, said: dict[str, str], outcome: str
) -> None:
    """No pods are affected, and tools wait for the mark; hotmap's own revision is not written."""
    who = msgspec.structs.replace(marked("1", annotations=said, replicas=0), pods=0)
    new = read(NEW, version=2)
    assessment = decide(who, new, applied_record(who, read(OLD)))
    policy = read_policy(who, defaults=Defaults(follow="auto", dialect=dialect))
    plan = make_plan(who, policy, assessment, changed={})
    assert plan.reason.endswith(f": {outcome}")
    writes = (Action(ActionType.ROLLOUT, stamps=(Stamp(APP, new.stamp),)),)
    assert plan.actions == (writes if outcome == SCALED_TO_ZERO else ())
    assert plan.settles


# -- what is written --------------------------------------------------------------------------

PRECONDITION = {"uid": "uid-web", "resourceVersion": "1"}


def patch(who: Consumer, writing: Writing, *, digest: str = "2", distinct: bool = False) -> Any:
    return template_patch(
        who,
        "k.rev",
        writing=writing,
        stamps=[Stamp(APP, digest)],
        distinct=distinct,
        now=7.0,
    )


def test_revision_is_a_merge_patch() -> None:
    """A merge patch of one annotation by hotmap."""
    body = {"template": {"metadata": {"annotations": {"hotmap.dev/revision": "k.rev"}}}}
    assert patch(marked(""), Writing.REVISION) == (
        {"metadata": PRECONDITION, "spec": body},
        "application/merge-patch+json",
        "hotmap",
        "k.rev",
    )


def test_reloaders_variable_is_a_strategic_merge_patch() -> None:
    """A strategic merge patch by Reloader, with preconditions that it does not send."""
    env = [{"name": "STAKATER_APP_CONFIGMAP", "value": "2"}]
    body = {"template": {"spec": {"containers": [{"name": "web", "env": env}]}}}
    assert patch(marked("1"), Writing.ENV_VARS) == (
        {"metadata": PRECONDITION, "spec": body},
        "application/strategic-merge-patch+json",
        "Reloader",
        "",
    )


def test_reloaders_annotation_is_a_strategic_merge_patch() -> None:
    """The same with its annotation."""
    sent = patch(marked("1"), Writing.ANNOTATIONS)
    assert sent.field_manager == "Reloader"
    assert list(sent.body["spec"]["template"]) == ["metadata"]
    assert list(sent.body["spec"]["template"]["metadata"]["annotations"]) == [LAST_RELOADED_FROM]


@pytest.mark.parametrize("digest", ["1", ""])
def test_revision_is_written_without_changed_variable(digest: str) -> None:
    """The revision has the pods replaced that need it, although no variable changes."""
    who = marked("1") if digest else consumer_from_workload("Deployment", workload(ENV), ENV_VARS)
    sent = patch(who, Writing.ENV_VARS, digest=digest, distinct=bool(digest))
    template = {"metadata": {"annotations": {"hotmap.dev/revision": "k.rev"}}}
    assert sent.body["spec"]["template"] == template
    assert (sent.field_manager, sent.revision) == ("hotmap", "k.rev")


def test_content_whose_pods_cannot_be_trusted() -> None:
    """A name of its own goes with the variable, so that no earlier ReplicaSet is used again."""
    template = patch(marked("1"), Writing.ENV_VARS, distinct=True).body["spec"]["template"]
    assert set(template) == {"spec", "metadata"}


def test_annotation_of_custom_resource_is_a_merge_patch() -> None:
    """A Rollout takes merge patches, not strategic ones."""
    who = consumer_from_workload("Rollout", workload(ENV), ANNOTATIONS)
    sent = patch(who, Writing.ANNOTATIONS)
    assert (sent.content_type, sent.field_manager) == ("application/merge-patch+json", "Reloader")
    assert set(sent.body["spec"]["template"]) == {"metadata"}


NO_ENV = """
    volumes: [{name: v, configMap: {name: app}}]
    containers:
    - {name: side}
    - {name: web, volumeMounts: [{name: v, mountPath: /etc/app}]}
"""
AT = "/spec/template/spec/containers"
VARIABLE = {"name": "STAKATER_APP_CONFIGMAP", "value": "2"}
SAME_OBJECT = [
    {"op": "test", "path": "/metadata/uid", "value": "uid-web"},
    {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
]


@pytest.mark.parametrize(
    ("spec", "mark", "digest", "operations"),
    [
        pytest.param(
            ENV, "", "2", [{"op": "add", "path": f"{AT}/0/env/-", "value": VARIABLE}], id="new"
        ),
        pytest.param(
            NO_ENV, "", "2", [{"op": "add", "path": f"{AT}/1/env", "value": [VARIABLE]}], id="first"
        ),
        pytest.param(
            ENV, "1", "2", [{"op": "replace", "path": f"{AT}/0/env/0", "value": VARIABLE}], id="old"
        ),
        pytest.param(ENV, "1", "", [{"op": "remove", "path": f"{AT}/0/env/0"}], id="deleted"),
    ],
)
def test_variable_of_custom_resource_is_written_by_position(
    spec: str, mark: str, digest: str, operations: list[Any]
) -> None:
    """Written by position, in the version that the positions were read from."""
    who = marked(mark, spec) if mark else consumer_from_workload("D", workload(spec), ENV_VARS)
    who = msgspec.structs.replace(who, key=ObjectKey("Rollout", "shop", "web"))
    sent = patch(who, Writing.ENV_VARS, digest=digest)
    assert (sent.content_type, sent.field_manager) == ("application/json-patch+json", "Reloader")
    assert sent.body == [*SAME_OBJECT, *operations]


@pytest.mark.parametrize(
    ("said", "operation"),
    [
        (
            {"a": "b"},
            {
                "op": "add",
                "path": "/spec/template/metadata/annotations/hotmap.dev~1revision",
                "value": "k.rev",
            },
        ),
        (
            None,
            {
                "op": "add",
                "path": "/spec/template/metadata/annotations",
                "value": {"hotmap.dev/revision": "k.rev"},
            },
        ),
    ],
)
def test_distinct_revision_of_custom_resource_is_in_the_same_patch(
    said: Any, operation: dict[str, Any]
) -> None:
    """It goes with the variable, in the same patch."""
    who = consumer_from_workload("Rollout", workload(ENV, template_annotations=said), ENV_VARS)
    assert who.traces is not None
    traces = who.traces._replace(annotated=said is not None)
    who = msgspec.structs.replace(who, traces=traces)
    sent = patch(who, Writing.ENV_VARS, distinct=True)
    assert sent.body[-1] == operation
    assert sent.revision == "k.rev"


def test_custom_resource_without_changed_variable_gets_the_revision() -> None:
    """As any other workload does."""
    who = msgspec.structs.replace(marked("2"), key=ObjectKey("Rollout", "shop", "web"))
    sent = patch(who, Writing.ENV_VARS)
    assert (sent.content_type, sent.field_manager) == ("application/merge-patch+json", "hotmap")
    assert set(sent.body["spec"]["template"]) == {"metadata"}
