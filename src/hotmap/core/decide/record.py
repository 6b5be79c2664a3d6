"""Builds the record of a consumer after an action, or at its adoption.

`next_record` is what the controller calls after it carried out a decision, and `first_record`
when it sees a consumer for the first time; the other functions are their steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hotmap.core.decide.assessment import Finding, Verdict
from hotmap.core.decide.conflicts import record_reported
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.flap_breaker import add_rollout, release
from hotmap.core.decide.immutable_uses import remaining_immutable_uses
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.record_evidence import with_evidence, with_first_evidence
from hotmap.core.decide.revisions import name_content, name_recorded_content
from hotmap.core.decide.rollout_records import Replacement, record_reloader_write, record_rollout
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_records import build_source_record, former_immutable, stays_pinned
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.annotations import RELEASE
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.state import (
    UNVOUCHED,
    ForeignWrites,
    PodCheck,
    Record,
    SourceRecord,
    Window,
    records_by_source,
)
from hotmap.core.reloader.annotations import Writing
from hotmap.core.resource_version import is_newer

__all__ = [
    "Outcome",
    "first_record",
    "is_worth_writing",
    "merge_windows",
    "next_record",
    "record_applied",
    "with_windows",
]


class Outcome(NamedTuple):
    """The state of a consumer after a plan was carried out."""

    #: Its generation.
    generation: int
    #: The revision that its pod template carries.
    revision: str
    #: POSIX seconds of the API server.
    at: float


#: How many windows a record keeps; of more, the first ones become one.
_WINDOWS = 8


def next_record(decision: Decision, outcome: Outcome) -> Record | None:
    """Build the record of a consumer after a decision on it was carried out.

    Returns the unchanged record if the plan has no actions and nothing is new; None if there is no
    record and none is needed.
    """
    record = _record_settled(decision, outcome) if decision.plan.settles else None
    record = record or _with_resumed_generation(decision, outcome) or _with_release(decision)
    if record is not None and decision.conflict is not None and decision.reports_conflict:
        # Also while the decision waits: it is reported now, and found again at the end of the wait.
        record = record_reported(record, decision.conflict)
    held = any(f.verdict is Verdict.HOLD for f in decision.assessment.findings)
    if record is not None and not decision.starts_new_pods and (held or not decision.plan.settles):
        return with_windows(record, decision)
    return record


def _record_settled(decision: Decision, outcome: Outcome) -> Record:
    snapshot, before = decision.snapshot, decision.snapshot.record
    consumer = snapshot.consumer
    generation = outcome.generation
    if not decision.starts_new_pods and consumer.rolling:
        # Pods of a rollout in progress may have read older content, so the generation is not
        # recorded.
        generation = before.generation if before else UNVOUCHED
    findings, key_id = _findings_for_record(decision)
    record = record_applied(consumer, before, findings, key_id=key_id, generation=generation)
    if before is None:
        record = _with_inherited_rollouts(record, snapshot)
    record = with_evidence(record, decision)
    record = msgspec.structs.replace(record, rollouts=release(record.rollouts, _request(snapshot)))
    record = _with_written_revision(record, decision, outcome)
    if decision.starts_new_pods and snapshot.policy.is_paused:
        return record  # replaces no pods: that follows with the rollout that was counted
    if decision.starts_new_pods:
        return _with_counted_rollout(record, decision, at=outcome.at)
    record = _with_unrecorded_rollout(record, decision, findings)
    if _leaves_older_pods(decision):
        return msgspec.structs.replace(record, pods_checked=PodCheck.LATENT)
    if decision.assessment.verdict is Verdict.LIVE:
        # The agents load or refuse it, so the pods are checked again; without agents, the kubelet
        # updates the files later.
        return msgspec.structs.replace(record, pods_checked=PodCheck.NOT_YET)
    return record


def _with_written_revision(record: Record, decision: Decision, outcome: Outcome) -> Record:
    """Record the revision that a rollout has written, if there was one."""
    snapshot = decision.snapshot
    rollout = next((a for a in decision.plan.actions if a.type is ActionType.ROLLOUT), None)
    if rollout is None:
        return record
    record = record_rollout(
        record,
        previous=decision.previous_revision,
        revision=snapshot.revision,
        distinct=rollout.distinct,
        replaced=Replacement(
            snapshot.earliest_change or outcome.at,
            observed=snapshot.first_observed is not None,
            unmarked=_unmarked_content(snapshot),
        ),
        now=outcome.at,
    )
    record = msgspec.structs.replace(record, revision=outcome.revision)
    if snapshot.policy.writing is not Writing.REVISION:
        record = record_reloader_write(record, now=outcome.at)
    return record


def _unmarked_content(snapshot: Snapshot) -> str:
    """Name the content of pods whose template has no revision; "" unless all are known to have it.

    Pods that were adopted may have older content until they are checked.
    """
    record, has_mark = snapshot.record, bool(snapshot.consumer.revision)
    if record is None or has_mark or snapshot.policy.writing is not Writing.REVISION:
        return ""
    is_known = not record.revision and record.pods_checked is PodCheck.CURRENT
    return snapshot.recorded_revision if is_known else ""


def _with_unrecorded_rollout(
    record: Record, decision: Decision, findings: Sequence[Finding]
) -> Record:
    """Record when Reloader, or we before a crash, wrote marks of all content that has changed.

    They name no other content, so the pods of that rollout are known by this time.
    """
    snapshot = decision.snapshot
    at = snapshot.consumer.written_at
    is_whole = all(f.written or f.verdict is Verdict.UP_TO_DATE for f in findings)
    is_written = is_whole and any(f.written for f in findings)
    if at is None or not is_written or snapshot.policy.writing is Writing.REVISION:
        return record
    return _with_counted_rollout(record, decision, at=at)


def _with_counted_rollout(record: Record, decision: Decision, *, at: float) -> Record:
    """Count new pods for the flap breaker, with the content before and after.

    `at` is when the rollout was written, POSIX seconds of the API server.
    """
    snapshot, before = decision.snapshot, decision.snapshot.record
    live = snapshot.live_needs_rollout
    rollouts = add_rollout(
        record.rollouts,
        at,
        content=name_content(snapshot.sources, live_needs_rollout=live),
        previous=name_recorded_content(before, live_needs_rollout=live) if before else "",
        since=snapshot.earliest_change,
        limit=snapshot.flap_limit,
    )
    return msgspec.structs.replace(record, rollouts=rollouts)


def with_windows(record: Record, decision: Decision) -> Record:
    """Keep the windows that are not examined yet and that only this controller knows of."""
    if not decision.assessment.windows:
        return record
    windows = merge_windows((*record.windows, *decision.assessment.windows))
    return msgspec.structs.replace(record, windows=windows)


def merge_windows(windows: Iterable[Window]) -> tuple[Window, ...]:
    """Unite windows that overlap; if too many are left, unite the earliest ones."""
    merged: list[Window] = []
    for window in sorted(windows, key=lambda w: (w.start, w.end)):
        if merged and window.start <= merged[-1].end:
            merged[-1] = Window(merged[-1].start, max(merged[-1].end, window.end))
        else:
            merged.append(window)
    if len(merged) > _WINDOWS:
        first = Window(merged[0].start, merged[-_WINDOWS].end)
        merged[: 1 - _WINDOWS] = [first]
    return tuple(merged)


def _with_release(decision: Decision) -> Record | None:
    """Record which release request was applied, even if the plan has no actions."""
    record = decision.snapshot.record
    if record is None or record.rollouts == decision.rollouts:
        return record
    return msgspec.structs.replace(record, rollouts=decision.rollouts)


def _with_resumed_generation(decision: Decision, outcome: Outcome) -> Record | None:
    """Vouch for the generation after a Deployment was resumed, which changes no template.

    Not if a change is waiting to be written: the pods that start when the pause ends have read it,
    so their starts decide.
    """
    snapshot = decision.snapshot
    record, consumer = snapshot.record, snapshot.consumer
    resumed = any(action.type is ActionType.RESUME for action in decision.plan.actions)
    if record is None or not resumed or record.generation != consumer.generation:
        return None
    if snapshot.content != snapshot.recorded_content:
        return None
    return msgspec.structs.replace(record, generation=outcome.generation)


def _request(snapshot: Snapshot) -> str | None:
    return snapshot.consumer.annotations.get(RELEASE)


def first_record(decision: Decision) -> Record | None:
    """Record the initial content, so that an edit within the settle time is a change.

    A source that does not exist stays unknown until the settle time is over: objects of one
    manifest may be created in any order, and that is not a change. None: there is nothing to record
    yet, or some source is not adopted by what is known without a record of the others.
    """
    snapshot, assessment = decision.snapshot, decision.assessment
    is_successor = snapshot.predecessor is not None
    if assessment.changed() or (is_successor and assessment.verdict is not Verdict.ADOPT):
        return None
    adopted = tuple(
        finding
        for finding in decision.assessment.findings
        if finding.verdict is Verdict.ADOPT and finding.current.exists
    )
    if not snapshot.policy.opted_in or not adopted:
        return None
    consumer = snapshot.consumer
    generation = UNVOUCHED if consumer.rolling else consumer.generation
    record = record_applied(consumer, None, adopted, key_id=snapshot.key_id, generation=generation)
    record = with_first_evidence(record, decision)
    return _with_inherited_rollouts(record, snapshot)


def is_worth_writing(decision: Decision, record: Record) -> bool:
    """Return whether a record says more than the one before, apart from resourceVersions."""
    before = decision.snapshot.record
    return (
        before is None
        or decision.used_starts
        or decision.starts_new_pods
        or decision.reports_conflict
        or _leaves_older_pods(decision)
        or before.files_at_start not in (None, record.files_at_start)
        or _content(before) != _content(record)
    )


def _content(record: Record) -> tuple[object, ...]:
    sources = [(s.kind, s.name, s.uses, s.uid, s.frozen, s.live, s.pinned) for s in record.sources]
    return (
        record.key_id,
        record.generation,
        record.windows,
        record.rollouts.release,
        sources,
        [(source.kind, source.name, source.uid) for source in record.former],
        record.immutable_uses,
    )


def _with_inherited_rollouts(record: Record, snapshot: Snapshot) -> Record:
    if snapshot.inherited_rollouts is None:
        return record
    return msgspec.structs.replace(record, rollouts=snapshot.inherited_rollouts)


def _findings_for_record(decision: Decision) -> tuple[tuple[Finding, ...], str]:
    """Return the findings with fingerprints of the newest key, and the id of that key.

    Fingerprints of a held or deleted source were made with the older key and cannot be made again,
    so such a record keeps the older key. The same applies to other content that it has: what an
    immutable source that was replaced, or pods of an earlier template, may have.
    """
    snapshot, findings = decision.snapshot, decision.assessment.findings
    kept = _has_earlier_content(decision) or any(
        f.verdict is Verdict.HOLD or not f.current.exists or f.current.is_unknown for f in findings
    )
    if kept or not snapshot.newest_sources:
        return findings, snapshot.key_id
    pairs = zip(findings, snapshot.newest_sources, strict=True)
    return tuple(_with_newest_key(*pair) for pair in pairs), snapshot.newest_key_id


def _with_newest_key(finding: Finding, newest: SourceSnapshot) -> Finding:
    """Replace the fingerprints alone: what is known of changes is in the finding only."""
    current = finding.current._replace(
        frozen=newest.frozen, live=newest.live, content=newest.content
    )
    return finding._replace(current=current)


def _has_earlier_content(decision: Decision) -> bool:
    """Return whether a record has fingerprints of content that is not there now."""
    record = decision.snapshot.record
    if record is None or decision.starts_new_pods:
        return record is not None and bool(record.former)
    pairs = decision.snapshot.recorded_sources()
    return bool(record.former) or any(
        recorded.content not in ("", source.content) for source, recorded in pairs
    )


def _leaves_older_pods(decision: Decision) -> bool:
    """Return whether a change takes effect at the next restart only, and was reported."""
    reported = any(action.type is ActionType.NOTIFY for action in decision.plan.actions)
    return reported and decision.assessment.verdict is Verdict.FROZEN


def record_applied(
    consumer: Consumer,
    record: Record | None,
    findings: Sequence[Finding],
    *,
    key_id: str,
    generation: int,
) -> Record:
    """Build the record that the current content was applied to this consumer.

    `generation` is the consumer's generation with this content. A held or deleted source keeps what
    was applied before, so that its recreation with other content is a change and with equal content
    is none; only new pods are certainly without an optional one. While a source is held, the
    generation and the windows stay unchanged, and a rollout has windows of its own
    (`record_rollout`). Otherwise windows count as examined. New pods and adopted consumers are to
    be checked afterwards. `record` None: there was none before.
    """
    before = record or _new_record(consumer, key_id)
    earlier = records_by_source(before)
    known = earlier if before.key_id == key_id else {}
    verdicts = {finding.verdict for finding in findings}
    new_pods = Verdict.FROZEN in verdicts
    held = Verdict.HOLD in verdicts and not new_pods
    recorded = _record_sources(consumer, findings, known, before=earlier)
    results = zip((f.current for f in findings), recorded, strict=True)
    followed = {f.current.source.kind_and_name for f in findings}
    used = {use.source.kind_and_name for use in consumer.uses}

    def is_served(name: tuple[str, str]) -> bool:
        # Pods of others may use one that was recreated long after ours have ceased to.
        is_pinned = name in known and known[name].pinned
        return name not in followed and (consumer.rolling or name in used or is_pinned)

    return Record(
        uid=consumer.uid,
        key_id=key_id,
        generation=before.generation if held else generation,
        sources=tuple(item for item in recorded if item is not None),
        windows=before.windows if held or new_pods else (),
        retired=before.retired,
        serial=before.serial,
        rollouts=before.rollouts,
        revision=consumer.revision if Verdict.ADOPT in verdicts else before.revision,
        foreign_writes=before.foreign_writes,
        pods_checked=PodCheck.NOT_YET
        if _raises_doubt(before, findings, earlier)
        else before.pods_checked,
        namespace=consumer.key.namespace,
        former=former_immutable(known.values(), is_served),
        immutable_uses=remaining_immutable_uses(before, results, is_served),
    )


def _new_record(consumer: Consumer, key_id: str) -> Record:
    """Return the record of a consumer to which nothing was applied yet."""
    return Record(
        consumer.uid,
        key_id,
        UNVOUCHED,
        revision=consumer.revision,
        foreign_writes=_initial_foreign_writes(consumer),
    )


def _record_sources(
    consumer: Consumer,
    findings: Sequence[Finding],
    known: Mapping[tuple[str, str], SourceRecord],
    *,
    before: Mapping[tuple[str, str], SourceRecord],
) -> list[SourceRecord | None]:
    """Build the record of each source; None: it stays unknown.

    `known` are the earlier records with comparable fingerprints, `before` those with any.
    """
    new_pods = any(finding.verdict is Verdict.FROZEN for finding in findings)
    recorded = []
    for finding in findings:
        name = finding.current.source.kind_and_name
        is_unused = consumer.has_no_pods and finding.verdict is Verdict.ADOPT
        recorded.append(
            build_source_record(
                finding,
                known.get(name),
                new_pods=new_pods,
                rolling=consumer.rolling or consumer.behind > 0,
                pinned=not is_unused and stays_pinned(finding, before.get(name)),
            )
        )
    return recorded


def _raises_doubt(
    record: Record, findings: Sequence[Finding], known: Mapping[tuple[str, str], SourceRecord]
) -> bool:
    """Return whether the result of the last pod check no longer holds; `known`: its sources."""
    was_good = record.pods_checked in (PodCheck.CURRENT, PodCheck.DELIVERED)
    return any(
        finding.verdict in (Verdict.ADOPT, Verdict.FROZEN)
        or _may_have_returned(finding.current, known.get(finding.current.source.kind_and_name))
        or (finding.verdict is Verdict.LIVE and finding.current.source.kind == PROVIDER_CLASS)
        or (was_good and finding.deleted)
        for finding in findings
    )


def _may_have_returned(current: SourceSnapshot, recorded: SourceRecord | None) -> bool:
    """Return whether a class had other versions since the recorded ones, which it has again.

    While no controller runs, only the pods show it that were updated to these versions. Those of
    applications that re-read files show it after each rotation.
    """
    if current.mounts is None or recorded is None:
        return False
    is_later = is_newer(current.resource_version, recorded.resource_version)
    return is_later and any(pod.current and pod.updated for pod in current.mounts.pods)


def _initial_foreign_writes(consumer: Consumer) -> ForeignWrites | None:
    return None if consumer.reloaded_at is None else ForeignWrites(consumer.reloaded_at)
