"""What the record of a consumer keeps as evidence of the content that its pods have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hotmap.core.decide.assessment import CHANGED, Verdict
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.evidence import MARGIN, PodStart
from hotmap.core.decide.snapshot import Snapshot, changed_before
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.state import PodCheck, Record, SourceRecord, StartRecord, records_by_source
from hotmap.core.resource_version import version_number

__all__ = [
    "keep_older_pods",
    "may_be_older",
    "with_evidence",
    "with_first_evidence",
    "with_older_pods",
]


def with_evidence(record: Record, decision: Decision) -> Record:
    """Keep what is known of the pods beside the content that was applied, by a decision.

    `record` is the new one, with that content.
    """
    record = _with_adopted(_with_bounds(_with_proof(record, decision), decision), decision)
    return _with_reading(record, decision.snapshot)


def with_first_evidence(record: Record, decision: Decision) -> Record:
    """Do the same for the first record of a consumer, before a decision on it is carried out."""
    snapshot = decision.snapshot
    record = msgspec.structs.replace(record, proven_since=_proven_since_creation(snapshot))
    return _with_reading(_with_adopted(record, decision), snapshot)


def with_older_pods(record: Record, pods: Sequence[PodStart]) -> Record:
    """Note which pods are older than a source that was adopted; the same record if none is new."""
    sources = tuple(_with_older_starts(source, pods) for source in record.sources)
    if sources == record.sources:
        return record
    return msgspec.structs.replace(record, sources=sources)


def may_be_older(record: Record, version: str) -> bool:
    """Return whether `with_older_pods` may note a pod of this resourceVersion."""
    number = version_number(version)
    return any(
        0 < number < version_number(source.adopted)
        for source in record.sources
        if _is_compared(source)
    )


def keep_older_pods(record: Record, latest: Record | None) -> Record:
    """Keep in a new record which pods were found to be older than a source while it was made.

    `latest` is what was in its place when it was done.
    """
    known = records_by_source(latest)

    def with_found(source: SourceRecord) -> SourceRecord:
        found = known.get((source.kind, source.name))
        if found is None or not source.adopted or found.adopted != source.adopted:
            return source
        until = max(found.older_starts_until, source.older_starts_until)
        return msgspec.structs.replace(source, older_starts_until=until)

    sources = tuple(map(with_found, record.sources))
    return record if sources == record.sources else msgspec.structs.replace(record, sources=sources)


def _is_compared(source: SourceRecord) -> bool:
    """Return whether pods are compared with it: no time shows which of them are older."""
    return bool(source.adopted) and source.estimated


def _with_older_starts(source: SourceRecord, pods: Iterable[PodStart]) -> SourceRecord:
    if not _is_compared(source):
        return source
    adopted = version_number(source.adopted)
    older = [pod for pod in pods if 0 < pod.version < adopted]
    starts = [span.earliest for pod in older for span in pod.containers]
    until = max((pod.created for pod in older), default=0.0)
    until = max((until, source.older_starts_until, *starts))
    if until == source.older_starts_until:
        return source
    return msgspec.structs.replace(source, older_starts_until=until)


def _with_proof(record: Record, decision: Decision) -> Record:
    """Keep what proves the content of pods apart from their starts, while the content is the same.

    A reverted edit of files ends it: kubelets may have written the other content meanwhile.
    """
    before, snapshot = decision.snapshot.record, decision.snapshot
    since, replaced_at = decision.assessment.proven_since, 0.0
    is_same = decision.assessment.verdict not in CHANGED
    if is_same and before is not None and _same_used_content(before, record, snapshot):
        since, replaced_at = since or before.proven_since, before.replaced_at
    if before is None:
        since = since or _proven_since_creation(snapshot)
    healed = before.healed if before else ""
    if decision.assessment.heals:
        healed = snapshot.revision
    return msgspec.structs.replace(
        record, proven_since=since, replaced_at=replaced_at, healed=healed
    )


def _same_used_content(before: Record, after: Record, snapshot: Snapshot) -> bool:
    """Return whether two records have the same content.

    The first record of a consumer lacks optional sources that do not exist (`first_record`). Pods
    are without them as well, unless one was deleted since the consumer was created.
    """
    absent = {
        source.source.kind_and_name
        for source in _unchanged_since_creation(snapshot)
        if source.visible and not source.exists and not source.required
    }
    absent -= records_by_source(before).keys()

    def content(record: Record) -> list[tuple[str, ...]]:
        return [
            (s.kind, s.name, s.uses, s.frozen, s.live)
            for s in record.sources
            if (s.kind, s.name) not in absent
        ]

    return content(before) == content(after)


def _proven_since_creation(snapshot: Snapshot) -> float:
    """Return when a consumer was created, if that was after every change of its sources; else 0."""
    template, unchanged = snapshot.template, _unchanged_since_creation(snapshot)
    return template.at if template and len(unchanged) == len(snapshot.sources) else 0.0


def _unchanged_since_creation(snapshot: Snapshot) -> list[SourceSnapshot]:
    """List the sources whose last change came before a consumer was created, if that was observed.

    Those that changed before the current record are known by their time alone.
    """
    template = snapshot.template
    if template is None or not template.created:
        return []
    after = template.at - MARGIN
    return [
        item
        for item in snapshot.sources
        if changed_before(template, item)
        or (item.changed_at is not None and item.changed_at <= after)
        or item.has_never_existed
    ]


def _with_bounds(record: Record, decision: Decision) -> Record:
    """Keep the recorded time of a source's last change if a later edit was reverted unnoticed.

    This applies if no pod has read the edit, nor other content that kubelets serve in place of the
    source. It does not apply to files that a process re-reads, since kubelets write them while the
    pod runs; what is read at start beside them keeps its time.
    """
    snapshot, known = decision.snapshot, records_by_source(decision.snapshot.record)
    if snapshot.record is None or decision.assessment.verdict is Verdict.FROZEN:
        return record
    content = {item.source.kind_and_name: item.content for item in snapshot.sources}

    def with_bound(source: SourceRecord) -> SourceRecord:
        before = known.get((source.kind, source.name))
        if (
            before is None
            or before.changed_by is None
            or (source.pinned and source.content != content.get((source.kind, source.name)))
            or (before.uses, before.frozen) != (source.uses, source.frozen)
        ):
            return source
        if source.live and not snapshot.live_needs_rollout:
            return _with_start(source, before)
        if before.live != source.live:
            return source
        return msgspec.structs.replace(
            source,
            changed_by=before.changed_by,
            edited=before.edited,
            estimated=before.estimated,
        )

    return msgspec.structs.replace(record, sources=tuple(map(with_bound, record.sources)))


def _with_start(source: SourceRecord, before: SourceRecord) -> SourceRecord:
    """Keep the time of the last change of what is read at start."""
    if not source.frozen:
        return source
    start = before.start or StartRecord(before.changed_by, before.edited, before.estimated)
    return msgspec.structs.replace(source, start=start)


def _with_adopted(record: Record, decision: Decision) -> Record:
    """Note which sources were adopted as they were, and not changed since (rules 1 and 10).

    None counts as adopted within MARGIN of the workload's creation: an edit may have been delivered
    before the workload was.
    """
    snapshot, known = decision.snapshot, records_by_source(decision.snapshot.record)
    verdicts = {f.current.source.kind_and_name: f.verdict for f in decision.assessment.findings}
    template = snapshot.template
    is_new = template is not None and template.created and snapshot.now - template.at < MARGIN

    def with_adoption(source: SourceRecord) -> SourceRecord:
        name = source.kind, source.name
        before, verdict = known.get(name), verdicts.get(name)
        version, older = "", 0.0
        if before is None or not before.uid:
            # A creation is a change, for which the starts of the pods were compared.
            created = before is not None and not before.pinned and snapshot.policy.reload_on_create
            is_adopted = verdict is Verdict.ADOPT and not created and not is_new
            version = source.resource_version if is_adopted else ""
        elif (before.frozen, before.live) == (source.frozen, source.live) and (
            verdict not in CHANGED
        ):
            version, older = before.adopted, before.older_starts_until
        if (source.adopted, source.older_starts_until) == (version, older):
            return source
        return msgspec.structs.replace(source, adopted=version, older_starts_until=older)

    return msgspec.structs.replace(record, sources=tuple(map(with_adoption, record.sources)))


def _with_reading(record: Record, snapshot: Snapshot) -> Record:
    """Note whether files count as read at start, and have pods checked again if that has changed.

    It changes with the annotation that says that the application re-reads files: the same pods may
    have the content with it and not have it without it.
    """
    if not any(source.live for source in record.sources):
        return record
    before, now = snapshot.record, snapshot.live_needs_rollout
    record = msgspec.structs.replace(record, files_at_start=now)
    if before is None or before.files_at_start in (None, now):
        return record
    return msgspec.structs.replace(record, pods_checked=PodCheck.NOT_YET)
