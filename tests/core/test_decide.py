"""What a decision says beside its plan: when to act, what to read first, what to correct."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    KEY,
    config_map,
    consumer,
    deployment,
    snapshot,
    with_changes,
)

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.evidence import ContainerStart, PodStart, Span
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.record import Outcome, is_worth_writing, next_record, record_applied
from hotmap.core.decide.snapshot import SentNudge, Snapshot, TemplateChange
from hotmap.core.decide.source_rules import ROLLOUT_WAIT
from hotmap.core.decide.source_snapshot import ChangeSummary, SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck, Record, Window
from hotmap.core.policy.policy import Agent, Policy, Strategy
from hotmap.core.target import Target

APP = ObjectKey("ConfigMap", "shop", "app")
BEFORE = config_map("app", {"LEVEL": "info"})
AFTER = config_map("app", {"LEVEL": "debug"}, version=2, changed_at=990)
#: A pod spec that reads two ConfigMaps when its container starts.
TWO_SOURCES = ENV + "      envFrom: [{configMapRef: {name: other}}]\n"
SETTLING = Policy(opted_in=True, auto=frozenset(("ConfigMap",)), settle=5.0, settle_max=20.0)


def recorded(who: Consumer) -> Record:
    """Record that BEFORE was applied to a consumer."""
    findings = decide(snapshot(who, BEFORE)).assessment.findings
    return record_applied(who, None, findings, key_id=KEY.id, generation=who.generation)


def edited(*, now: float, first: float | None, last: float | None, policy: Policy) -> Decision:
    """Decide on a Deployment whose ConfigMap was edited, as was seen at two moments."""
    who = deployment(ENV)
    taken = snapshot(who, AFTER, record=recorded(who), policy=policy, now=now)
    seen = ChangeSummary(frozenset(("LEVEL",)), first, last)
    return decide(with_changes(taken, seen))


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        pytest.param(997.0, 997.0, 2.0, id="one edit"),
        pytest.param(990.0, 999.0, 4.0, id="edits go on"),
        pytest.param(982.0, 999.0, 2.0, id="edits go on for longer than the bound"),
        pytest.param(990.0, 994.9, None, id="quiet for long enough"),
        pytest.param(990.0, 995.03, None, id="the clocks differ by a moment"),
        pytest.param(None, None, None, id="change not observed"),
        pytest.param(4600.0, 4600.0, None, id="the clock was set back by an hour"),
    ],
)
def test_settle_time_counts_from_the_changes(
    first: float | None, last: float | None, left: float | None
) -> None:
    """Independent of other triggers of the decision."""
    decision = edited(now=1000.0, first=first, last=last, policy=SETTLING)
    assert decision.starts_new_pods
    assert decision.settle_in == (None if left is None else pytest.approx(left))


def test_settle_time_of_zero_waits_for_nothing() -> None:
    """A change is acted on when it is seen."""
    policy = SETTLING._replace(settle=0.0, settle_max=0.0)
    assert edited(now=1000.0, first=1000.0, last=1000.0, policy=policy).settle_in is None


def stale(waited: float) -> Snapshot:
    """Take a snapshot in which the source is older than the applied version."""
    who = deployment(ENV)
    record = recorded(who)
    (source,) = record.sources
    newer = msgspec.structs.replace(source, resource_version="9")
    record = msgspec.structs.replace(record, sources=(newer,))
    return snapshot(who, AFTER, record=record, waited=waited)


@pytest.mark.parametrize(("waited", "asks"), [(0.0, False), (9.9, False), (10.0, True)])
def test_older_source_is_read_consistently_after_a_while(waited: float, asks: bool) -> None:
    """A watch may lag for a moment; what lasts is looked into."""
    decision = decide(stale(waited))
    assert not decision.plan.actions
    assert bool(decision.stale_sources) is asks


@pytest.mark.parametrize("waited", [0.0, 59.0])
def test_end_of_a_rollout_is_not_polled(waited: float) -> None:
    """It changes the consumer, which is decided on again; a thousand may be waiting."""
    before = deployment(ENV)
    moved = msgspec.structs.replace(before, generation=2, rolling=True)
    decision = decide(snapshot(moved, AFTER, record=recorded(before), waited=waited))
    assert decision.plan.verdict is Verdict.WAIT
    assert decision.plan.requeue_after == ROLLOUT_WAIT - waited


@pytest.mark.parametrize("waited", [0.0, 59.0])
def test_older_source_is_checked_each_second(waited: float) -> None:
    """Nothing announces that a watch will not deliver the version that is missing."""
    assert decide(stale(waited)).plan.requeue_after == 1.0


def test_older_source_counts_once_it_is_confirmed() -> None:
    """After a restore of etcd the older version is what there is."""
    taken = stale(10.0)
    confirmed = taken._replace(confirmed=frozenset(source.source for source in taken.sources))
    decision = decide(confirmed)
    assert decision.starts_new_pods
    assert not decision.stale_sources


def test_deletion_is_not_followed_at_once() -> None:
    """It may be undone in a moment, and a nudge would empty the files."""
    optional = FILES.replace("{name: app}", "{name: app, optional: true}")
    who = deployment(optional)
    policy = Policy(opted_in=True, auto=frozenset(("ConfigMap",)), rereads=True)
    before = config_map("app", {"app.yaml": "a"})
    findings = decide(snapshot(who, before, policy=policy)).assessment.findings
    record = record_applied(who, None, findings, key_id=KEY.id, generation=1)
    gone = decide(snapshot(who, record=record, policy=policy))
    assert (gone.only_nudges, gone.follows_deletion) == (True, True)
    other = config_map("app", {"app.yaml": "b"}, version=2)
    edit = decide(snapshot(who, other, record=record, policy=policy))
    assert (edit.only_nudges, edit.follows_deletion) == (True, False)


def test_outdated_nudge_is_corrected() -> None:
    """An edit that is taken back before anything is recorded leaves no other trace."""
    who = deployment(FILES)
    policy = Policy(opted_in=True, auto=frozenset(("ConfigMap",)), rereads=True)
    taken = snapshot(who, config_map("app", {"app.yaml": "a"}), policy=policy)
    assert not decide(taken).corrects_nudge
    told = taken._replace(sent=SentNudge(Target(0, "other", "-")))
    record = record_applied(
        who, None, decide(taken).assessment.findings, key_id=KEY.id, generation=1
    )
    told = told._replace(record=record)
    assert decide(told).corrects_nudge
    reports = policy._replace(strategy=Strategy.NOTIFY)
    assert not decide(told._replace(policy=reports)).corrects_nudge


def created(at: float) -> PodStart:
    """Make the start of a pod that was created, and started, at a moment."""
    return PodStart("web-1", at, "", created=at)


@pytest.mark.parametrize(
    ("version", "generation", "verdict"),
    [
        pytest.param("3", 2, Verdict.ADOPT, id="template written after the source"),
        pytest.param("1", 2, Verdict.FROZEN, id="template written before, and observed later"),
        pytest.param("", 2, Verdict.ADOPT, id="unknown"),
        pytest.param("3", 1, Verdict.FROZEN, id="template written by hotmap"),
    ],
)
def test_template_change_has_to_be_written_after_the_source(
    version: str, generation: int, verdict: Verdict
) -> None:
    """Two watches deliver in another order after a pause of the controller."""
    who = msgspec.structs.replace(deployment(ENV), generation=2)
    old = msgspec.structs.replace(recorded(deployment(ENV)), generation=1)
    taken = snapshot(who, AFTER, record=old, policy=SETTLING, now=1000.0)
    taken = with_changes(taken, ChangeSummary(frozenset(("LEVEL",)), 990.1, 990.1))
    taken = taken._replace(template=TemplateChange(990.2, generation, version))
    assessment = decide(taken, [created(990.0)]).assessment
    assert assessment.verdict is verdict
    assert assessment.proven_since == (990.2 if verdict is Verdict.ADOPT else 0.0)


@pytest.mark.parametrize(
    ("changed_at", "since"),
    [
        pytest.param(900.0, 990.2, id="long before the template"),
        pytest.param(989.0, 0.0, id="within the margin"),
        pytest.param(995.0, 0.0, id="after the template"),
        pytest.param(None, 0.0, id="at an unknown time"),
    ],
)
def test_template_change_proves_pods_only_if_no_other_source_changed_later(
    changed_at: float | None, since: float
) -> None:
    """One source was edited before the template; the other one is as it was in the record."""
    who = msgspec.structs.replace(deployment(TWO_SOURCES), generation=2)
    other = config_map("other", {"x": "1"}, changed_at=changed_at)
    first = decide(snapshot(deployment(TWO_SOURCES), BEFORE, other)).assessment
    old = record_applied(who, None, first.findings, key_id=KEY.id, generation=1)
    taken = snapshot(who, AFTER, other, record=old, now=1000.0)
    edits = {APP: ChangeSummary(frozenset(("LEVEL",)), 990.1, 990.1)}
    taken = taken._replace(
        template=TemplateChange(990.2, 2),
        sources=tuple(s._replace(changes=edits.get(s.source, s.changes)) for s in taken.sources),
    )
    assessment = decide(taken, [created(990.2)]).assessment
    assert (assessment.verdict, assessment.proven_since) == (Verdict.ADOPT, since)


@pytest.mark.parametrize(
    ("starts", "rolling", "since"),
    [
        pytest.param([created(990.2)], False, 990.2, id="all pods were created since"),
        pytest.param([created(980.0), created(990.2)], False, 0.0, id="a pod is from before"),
        pytest.param([created(990.2)], True, 0.0, id="pods are being replaced"),
        pytest.param(None, False, 0.0, id="the pods were not checked"),
    ],
)
def test_template_change_proves_only_pods_that_were_created_since(
    starts: list[PodStart] | None, rolling: bool, since: float
) -> None:
    """A source is adopted without a check of pods if its uses alone have changed."""
    before = deployment(ENV.replace("key: LEVEL", "key: other"))
    config = config_map("app", {"LEVEL": "info", "other": "x"}, changed_at=900)
    first = decide(snapshot(before, config)).assessment
    old = record_applied(before, None, first.findings, key_id=KEY.id, generation=1)
    who = msgspec.structs.replace(deployment(ENV), generation=2, rolling=rolling)
    taken = snapshot(who, config, record=old, now=1000.0)
    assessment = decide(taken._replace(template=TemplateChange(990.2, 2)), starts).assessment
    assert (assessment.verdict, assessment.proven_since) == (Verdict.ADOPT, since)


@pytest.mark.parametrize(
    ("deleted_at", "visible", "since"),
    [
        pytest.param(None, True, 990.2, id="never existed"),
        pytest.param(900.0, True, 990.2, id="deleted long before the template"),
        pytest.param(995.0, True, 0.0, id="deleted after the template"),
        pytest.param(None, False, 0.0, id="not visible"),
    ],
)
def test_template_change_proves_pods_though_an_optional_source_does_not_exist(
    deleted_at: float | None, visible: bool, since: float
) -> None:
    """Helm has edited a ConfigMap and the template in the second in which the pods started."""
    spec = TWO_SOURCES.replace("{name: other}", "{name: other, optional: true}")
    assert spec != TWO_SOURCES
    who = msgspec.structs.replace(deployment(spec), generation=2)
    first = decide(snapshot(deployment(spec), BEFORE)).assessment
    old = record_applied(who, None, first.findings, key_id=KEY.id, generation=1)
    taken = snapshot(who, AFTER, record=old, now=1000.0)
    edit = ChangeSummary(frozenset(("LEVEL",)), 990.1, 990.1)
    deletion = ChangeSummary(latest=deleted_at)

    def changed(source: SourceSnapshot) -> SourceSnapshot:
        if source.source == APP:
            return source._replace(changes=edit)
        return source._replace(changes=deletion, changed_at=deleted_at, visible=visible)

    taken = taken._replace(
        template=TemplateChange(990.2, 2), sources=tuple(map(changed, taken.sources))
    )
    assessment = decide(taken, [created(990.0)]).assessment
    assert (assessment.verdict, assessment.proven_since) == (Verdict.ADOPT, since)


@pytest.mark.parametrize(
    ("spec", "after", "window", "kept"),
    [
        pytest.param(ENV, {"LEVEL": "info", "other": "x"}, None, True, id="unused data key"),
        pytest.param(ENV, {"LEVEL": "debug"}, None, False, id="used data key"),
        pytest.param(FILES, {"LEVEL": "info"}, Window(995.0, 995.1), False, id="and changed back"),
    ],
)
def test_proof_of_pods_is_kept_as_long_as_what_they_use_is_unchanged(
    spec: str, after: dict[str, str], window: Window | None, kept: bool
) -> None:
    """Kubelets may have written content that came and went into files."""
    who = deployment(spec)
    policy = SETTLING._replace(rereads=True)
    before = snapshot(who, config_map(data={"LEVEL": "info"}), policy=policy)
    record = record_applied(
        who, None, decide(before).assessment.findings, key_id=KEY.id, generation=who.generation
    )
    record = msgspec.structs.replace(record, proven_since=990.0)
    taken = snapshot(who, config_map(data=after, version=2), record=record, policy=policy)
    decision = decide(with_changes(taken, ChangeSummary(window=window)))
    following = next_record(decision, Outcome(generation=who.generation, revision="", at=1000.0))
    assert following is not None
    assert (following.proven_since == 990.0) is kept


@pytest.mark.parametrize("at", [995.0, 1100.0], ids=["in between", "after"])
def test_pod_that_started_with_content_that_came_and_went_is_replaced(at: float) -> None:
    """Its agent has been told of the present content before, and would restart nothing for it."""
    who = deployment(ENV)
    agent = Agent("term", containers=frozenset(("web",)), unnamed=0)
    policy = SETTLING._replace(agent=agent)
    record = msgspec.structs.replace(recorded(who), windows=(Window(994.0, 996.0),))
    taken = snapshot(who, BEFORE, record=record, policy=policy, now=1200.0)
    span = Span(at, at + 1)
    start = PodStart("web-1", at, "", (span,), at_start=(ContainerStart(span, frozenset([APP])),))
    decision = decide(taken, [start])
    types = [action.type for action in decision.plan.actions]
    assert types == ([ActionType.ROLLOUT] if at < 1000 else [])


EVERY_KEY = "containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]"


@pytest.mark.parametrize(
    ("before", "type"),
    [(ENV, ActionType.NUDGE), (EVERY_KEY, ActionType.ROLLOUT)],
    ids=["used as before", "used in another way"],
)
def test_agent_restarts_only_for_content_that_is_known_to_differ(
    before: str, type: ActionType
) -> None:
    """Its pod is told what it started with, which is not known of other data keys."""
    who = msgspec.structs.replace(deployment(ENV), generation=2)
    record = msgspec.structs.replace(recorded(deployment(before)), generation=1)
    agent = Agent("term", containers=frozenset(("web",)), unnamed=0)
    policy = SETTLING._replace(agent=agent)
    taken = snapshot(who, AFTER, record=record, policy=policy, now=1000.0)
    span = Span(900.0, 901.0)
    decision = decide(taken, [PodStart("web-1", 900.0, "", (span,), created=900.0)])
    assert [action.type for action in decision.plan.actions] == [type]


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        pytest.param(995.0, Verdict.FROZEN, id="created just now"),
        pytest.param(1200.0, Verdict.ADOPT, id="followed only now"),
    ],
)
def test_new_source_is_rolled_out_and_newly_followed_one_adopted(
    now: float, verdict: Verdict
) -> None:
    """Naming it in an annotation does not change the generation of a StatefulSet."""
    who = consumer("StatefulSet", ENV)
    record = msgspec.structs.replace(recorded(who), sources=())
    taken = snapshot(who, AFTER, record=record, now=now)
    taken = with_changes(taken, ChangeSummary(latest=990.0, created=True))
    start = created(900.0)._replace(containers=(Span(900.0, 901.0),))
    assert decide(taken, [start]).assessment.verdict is verdict


@pytest.mark.parametrize(
    ("started", "verdict"),
    [
        pytest.param(980.0, Verdict.UP_TO_DATE, id="before it was recreated"),
        pytest.param(990.0, Verdict.HOLD, id="while it had other content"),
    ],
)
def test_immutable_source_that_has_its_content_again(started: float, verdict: Verdict) -> None:
    """It was recreated with other content, which a kubelet may keep, and then as it was before."""
    who = deployment(ENV)
    record = recorded(who)
    was = msgspec.structs.replace(record.sources[0], immutable=True, uid="uid-0")
    record = msgspec.structs.replace(record, sources=(was,))
    taken = snapshot(who, BEFORE, record=record, now=1000.0)
    keys = frozenset(("LEVEL",))
    taken = with_changes(taken, ChangeSummary(keys, 985, 994, Window(985, 994), latest=994))
    assert decide(taken).needs_pod_starts
    start = created(started)._replace(containers=(Span(started, started + 1),))
    assert decide(taken, [start]).assessment.verdict is verdict


def test_pod_that_started_while_a_recreated_source_had_other_content_is_replaced() -> None:
    """It has its frozen content again; an immutable one would be held, by what kubelets keep."""
    who, policy = deployment(ENV_AND_FILES), SETTLING._replace(rereads=True)
    before = config_map("app", {"LEVEL": "info", "app.yaml": "a: 1"})
    first = next_record(
        decide(snapshot(who, before, policy=policy)), Outcome(who.generation, "", 900.0)
    )
    again = config_map("app", {"LEVEL": "info", "app.yaml": "a: 2"}, uid="uid-2", version=9)
    taken = snapshot(who, again, record=first, policy=policy)
    seen = ChangeSummary(
        frozenset(("LEVEL", "app.yaml")), 985, 994, Window(985, 994), latest=994, edited=True
    )
    taken = with_changes(taken, seen)
    for at, verdict in ((990.0, Verdict.FROZEN), (970.0, Verdict.LIVE)):
        start = created(at)._replace(containers=(Span(at, at + 1),))
        assert decide(taken, [start]).assessment.verdict is verdict


@pytest.mark.parametrize(
    ("before", "after", "checked"),
    [
        pytest.param(True, False, False, id="it does not re-read its files after all"),
        pytest.param(False, True, False, id="it re-reads them"),
        pytest.param(True, True, True, id="as before"),
        pytest.param(None, False, True, id="a record of an earlier version"),
    ],
)
def test_pods_are_checked_again_when_files_are_read_in_another_way(
    before: bool | None, after: bool, checked: bool
) -> None:
    """The same pods have the current content or not, by what their annotation says."""
    who = deployment(FILES)
    taken = snapshot(who, BEFORE, policy=SETTLING._replace(rereads=bool(before)))
    record = next_record(decide(taken), Outcome(who.generation, "", 900.0))
    assert record is not None
    record = msgspec.structs.replace(record, pods_checked=PodCheck.CURRENT)
    if before is None:
        record = msgspec.structs.replace(record, files_at_start=None)
    policy = SETTLING._replace(rereads=after)
    decision = decide(snapshot(who, BEFORE, record=record, policy=policy))
    following = next_record(decision, Outcome(who.generation, "", 1000.0))
    assert following is not None
    assert (following.pods_checked is PodCheck.CURRENT) is checked
    assert is_worth_writing(decision, following) is not checked
