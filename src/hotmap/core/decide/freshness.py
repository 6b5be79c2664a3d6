"""Decides whether a consumer is behind its sources. The rules, in order of evaluation.

The record (what was last applied) is compared with the current content. Watch events are not used,
so downtime, failover, lost watches and recreated objects all converge.

    0  the template already has the current revision, written by us after the change → applied
    1  nothing is known of a source (no record, key lost, other uses)     → adopt; with catch-up,
       check the pods first and act unless they are proven younger. The consumer was created and
       the source edited in a short gap without a controller → check the pods: one started before
       the edit → frozen change. The same where a workload of its name was deleted, perhaps without
       its pods, to which other content had been applied
    2  the source's resourceVersion is smaller than the applied one       → wait: a stale store
    3  equal                                                              → fresh, unless a pod
       started while the content was different: then frozen change, under a distinct name, or as
       rule 7 where kubelets may keep that content. Too early → act by the other rules,
       record nothing as applied, check again. Equal to a record that lacks our last rollout because
       of a crash → as rule 6
    4  only what is in live use differs, or it differed in between        → live change
    5  what is in frozen use differs, generation as recorded              → frozen change
    6  … and the generation increased → wait for the consumer's own rollout, then check the pods:
       proven younger, or created after an observed change of the template that came after the
       source's → adopt. Else frozen change. An Argo Rollout may be in progress for days: the pods
       of its newest template decide then, and it is adopted at the end
    7  the source was immutable and was recreated → hold: kubelets keep serving the old content
       while a pod on the node uses it, of any workload. The hold ends when no pod of the namespace
       uses it; and with new pods where a node has one pod of the consumer at a time, and no other
       pod has used it since
    8  the source is used in another way than before: unchanged as a whole → adopt, else as rule 6.
       It is new to a template that changed → check the pods: one started before → frozen change
    9  the source is not visible (no permission, a selector) or not readable → nothing is concluded
       or recorded
    10 pods were found to have older content after an observed change, although all is equal →
       frozen change, once. Not for content with which a source was adopted (rule 1), nor for a
       creation that is ignored
    11 a SecretProviderClass: what each pod has mounted decides, instead of rules 5 and 6. A pod
       with other versions than the class's, or with ones that were updated after it started →
       frozen change. All started with them → adopt. While the current versions are not known,
       nothing is concluded

In addition: what is in frozen use leaves out the data keys that a later envFrom of the same
container replaces (docs/decisions/0029), variables that a later entry of `env` replaces, and files
that a later source of the same projected volume replaces. A required source or data key that was
deleted changes nothing by itself (running pods keep their content, new ones could not start); a
deleted optional source empties its files, which is a live change for applications that re-read
them, and does not change what was read at start. A source that pods waited for changes nothing when
it is created, unless containers were running already; those that the consumer's own rollout
replaces do not count, so that is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

from hotmap.core.decide.assessment import (
    CHANGED,
    Assessment,
    Case,
    Finding,
    OtherUse,
    Verdict,
    join_findings,
    join_reasons,
)
from hotmap.core.decide.evidence import (
    MARGIN,
    PodStart,
    all_created_since,
    all_started_after,
    find_pods_started_within,
)
from hotmap.core.decide.immutable_rules import assess_recreated_immutable, may_be_pinned
from hotmap.core.decide.own_rollouts import has_current_revision, was_made_for, was_rolled_out_after
from hotmap.core.decide.revisions import content_of
from hotmap.core.decide.rollout_records import was_unmarked
from hotmap.core.decide.snapshot import Snapshot, changed_before_template
from hotmap.core.decide.source_rules import ROLLOUT_WAIT, assess_source, reads_at_start
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.decide.windows import find_windows
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck, Record, SourceRecord, records_by_source
from hotmap.core.policy.policy import ROLLABLE, Strategy
from hotmap.core.text import join_names

__all__ = ["assess"]

#: Seconds within which a window's two margins and the truncated second at its end would overlap.
_INDISTINGUISHABLE = 2 * MARGIN + 2

#: Seconds until a kubelet has reported the start of a container: it looks at its containers every
#: second (kubernetes: pkg/kubelet, genericPlegRelistPeriod), and takes longer for many.
_REPORTED = 3.0

#: The verdict on a consumer is the first of these that any source has.
_URGENCY = (
    Verdict.WAIT,
    Verdict.CHECK_OTHERS,
    Verdict.FROZEN,
    Verdict.CHECK_PODS,
    Verdict.LIVE,
    Verdict.HOLD,
    Verdict.ADOPT,
    Verdict.UP_TO_DATE,
)

#: Verdicts that leave the pods in place, so that windows have to be examined.
_WITHOUT_NEW_PODS = frozenset((Verdict.LIVE, Verdict.HOLD, Verdict.ADOPT, Verdict.UP_TO_DATE))


def assess(
    snapshot: Snapshot,
    starts: Sequence[PodStart] | None,
    others: Mapping[ObjectKey, OtherUse | None],
) -> Assessment:
    """Compare what was applied to a consumer with the current content, by the rules above.

    After CHECK_PODS call again with `starts`, after CHECK_OTHERS also with `others` of the sources
    with that verdict, after WAIT later.
    """
    record = snapshot.record
    known = records_by_source(record)
    findings = [
        assess_source(
            Case(snapshot, current, known.get(current.source.kind_and_name), starts, others)
        )
        for current in snapshot.sources
    ]
    verdict = _most_urgent(findings)
    urgent = [f for f in findings if f.verdict is verdict]
    reason = join_findings(urgent) if urgent else "uses no source that it follows"
    if verdict in _WITHOUT_NEW_PODS and record is not None:
        since = _proven_since(snapshot, findings, starts) if verdict is Verdict.ADOPT else 0.0
        by_content = Assessment(verdict, reason, tuple(findings), proven_since=since)
        examined = _assess_windows(snapshot, record, by_content, starts, others)
        return _assess_older_pods(snapshot, record, examined, starts, others)
    if verdict is not Verdict.FROZEN:
        return Assessment(verdict, reason, tuple(findings))
    # An undo may have restored the current revision; writing it again would change nothing.
    distinct = all(
        has_current_revision(snapshot, f.current) for f in findings if f.verdict is Verdict.FROZEN
    )
    if starts is not None:
        # It would not replace pods that still have this revision, as after a reverted rollout.
        unmarked = was_unmarked(record, snapshot.revision)
        distinct |= any(
            content_of(start.revision) == snapshot.revision or (unmarked and not start.revision)
            for start in starts
        )
    elif record is not None and not distinct and _was_recently_retired(snapshot, record):
        return Assessment(
            Verdict.CHECK_PODS, f"{reason}; this content was current moments ago", tuple(findings)
        )
    return _new_pods(reason, findings, distinct=distinct)


def _proven_since(
    snapshot: Snapshot, findings: Sequence[Finding], starts: Sequence[PodStart] | None
) -> float:
    """Return since when pods were created by a template change after every change; 0: unknown."""
    if (
        snapshot.consumer.rolling
        or starts is None
        or not all_created_since(starts, snapshot.template_at)
    ):
        return 0.0
    after = snapshot.template_at - MARGIN
    proven = all(
        changed_before_template(snapshot, f.current)
        or (f.current.changed_at is not None and f.current.changed_at <= after)
        or f.current.has_never_existed
        for f in findings
    )
    return snapshot.template_at if proven else 0.0


def _assess_older_pods(
    snapshot: Snapshot,
    record: Record,
    by_content: Assessment,
    starts: Sequence[PodStart] | None,
    others: Mapping[ObjectKey, OtherUse | None],
) -> Assessment:
    """Rule 10: pods were found to have older content after a change that was observed.

    Whatever prevented their replacement (an undo of our rollout, a strategy that only reports, a
    start within the second of the change) no longer does. This is done once for the same content:
    pods that stay as they are have another reason then, which their status gives.
    """
    known = records_by_source(record)
    affected = [
        f
        for f in by_content.findings
        if _read_at_start(snapshot, f.current).edited
        and reads_at_start(snapshot, f.current)
        and not _is_adopted(known.get(f.current.source.kind_and_name))
    ]
    if (
        not affected
        or by_content.verdict is not Verdict.UP_TO_DATE
        or by_content.early
        or snapshot.consumer.rolling
        or not _may_heal(snapshot, record)
    ):
        return by_content
    if starts is None:
        reason = "some pods may run with older content: checking when they started"
        return by_content._replace(verdict=Verdict.CHECK_PODS, reason=reason)
    read = [_read_at_start(snapshot, f.current) for f in affected]
    applied = snapshot.revision, snapshot.applied_at
    older = [
        start.name for start in starts if not _has_current_content(start, read, record, applied)
    ]
    if not older:
        return by_content
    if (pinned := _find_pinned(snapshot, affected, starts, others)) is not None:
        return _with_finding(by_content, pinned)
    reason = f"{join_names(older)} may run with older content"
    return _new_pods(reason, _as_frozen(by_content, affected), distinct=True)._replace(heals=True)


def _has_current_content(
    start: PodStart, read: Sequence[SourceSnapshot], record: Record, applied: tuple[str, float]
) -> bool:
    """Return whether it is known that a pod has read the current content of sources at its start.

    `applied` is the revision of the current content, and when a rollout wrote it. That of other
    sources may differ by now, for example of a deleted one.
    """
    if record.proven_since and start.created >= floor(record.proven_since):
        return True
    revision, applied_at = applied
    is_of_content = was_made_for(start, revision, applied_at=applied_at)
    if is_of_content and not _may_have_reverted_files(start, read):
        return True
    rolled_at = max(record.rollouts.times[-1:], default=0.0)
    rolled_revision = content_of(record.revision)
    return all(
        all_started_after((start,), source.changed_at, files=source.is_mounted)
        or was_rolled_out_after(start, source.changed_at, rolled_revision, rolled_at=rolled_at)
        for source in read
    )


def _may_have_reverted_files(start: PodStart, read_at_start: Sequence[SourceSnapshot]) -> bool:
    """Return whether a pod that was made for the content may have files of a reverted edit.

    A container that starts again reads them if the kubelet has not restored them yet.
    """
    if start.mounted is None or not start.containers:
        return False
    mounted_by, latest = start.mounted + 1, max(span.latest for span in start.containers)
    edits = (read.changed_since for read in read_at_start if read.is_mounted)
    return any(edit is not None and mounted_by <= edit <= latest for edit in edits)


def _read_at_start(snapshot: Snapshot, current: SourceSnapshot) -> SourceSnapshot:
    return current if snapshot.live_needs_rollout else current.at_start


def _is_adopted(recorded: SourceRecord | None) -> bool:
    """Return whether a source has the content with which it was adopted (rule 1)."""
    return recorded is not None and bool(recorded.adopted)


def _may_heal(snapshot: Snapshot, record: Record) -> bool:
    """Return whether pods with older content may be replaced, and were not for this content."""
    policy = snapshot.policy
    return (
        record.pods_checked is PodCheck.LATENT
        and record.healed != snapshot.revision
        and policy.agent is None
        and policy.strategy in (Strategy.AUTO, Strategy.ROLLOUT)
        and snapshot.consumer.key.kind in ROLLABLE
    )


def _was_recently_retired(snapshot: Snapshot, record: Record) -> bool:
    """Return whether the current revision was replaced too recently to examine its window.

    Whole seconds do not distinguish a pod that started in between from one that this return starts,
    so if a pod has the revision now, the return gets a distinct name.
    """
    return any(
        revision.revision == snapshot.revision and snapshot.now - revision.at < _INDISTINGUISHABLE
        for revision in record.retired
    )


def _new_pods(reason: str, findings: Sequence[Finding], *, distinct: bool) -> Assessment:
    """Return that new pods are needed, unless they could not start."""
    if blocked := _find_start_blocker(findings):
        held = tuple(
            f._replace(verdict=Verdict.HOLD) if f.verdict in CHANGED else f for f in findings
        )
        return Assessment(Verdict.HOLD, blocked, held)
    return Assessment(Verdict.FROZEN, reason, tuple(findings), distinct)


def _most_urgent(findings: Sequence[Finding]) -> Verdict:
    """Return the verdict on a consumer.

    Where another source needs new pods, a rollout in progress is not waited for: they will start
    with what was created, too, and the present ones may not run at all before a correction.
    """
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FROZEN in verdicts:
        verdicts = {finding.verdict for finding in findings if not finding.awaits_rollout}
    return next((verdict for verdict in _URGENCY if verdict in verdicts), Verdict.UP_TO_DATE)


def _assess_windows(
    snapshot: Snapshot,
    record: Record,
    by_content: Assessment,
    starts: Sequence[PodStart] | None,
    others: Mapping[ObjectKey, OtherUse | None],
) -> Assessment:
    """Rule 3's exception: an edit and its revert, with a container that started in between.

    `by_content` is the verdict by content alone. If all pods were created by a template change,
    none has content that was replaced before it.
    """
    since = by_content.proven_since
    known = (*record.windows, *find_windows(snapshot))
    windows = [window for window in known if not since or window.end >= since]
    affected = [
        f
        for f in by_content.findings
        if f.verdict is not Verdict.HOLD and reads_at_start(snapshot, f.current)
    ]
    if not windows or not affected:
        return by_content
    came_back = _describe_return(snapshot, by_content)
    if snapshot.consumer.rolling and snapshot.waited < ROLLOUT_WAIT:
        reason = f"{came_back}; re-checking pods when the rollout ends"
        left = ROLLOUT_WAIT - snapshot.waited
        return by_content._replace(reason=reason, early=True, recheck_in=left)
    if snapshot.now <= max(window.end for window in windows) + MARGIN + _REPORTED:
        # A container that starts now may still read the other content from its kubelet's cache, and
        # one that has started may not be reported yet.
        reason = f"{came_back}; re-checking pods"
        return by_content._replace(reason=reason, early=True)
    if starts is None:
        return by_content._replace(
            verdict=Verdict.CHECK_PODS, reason=f"{came_back}: checking when its pods started"
        )
    if pods := find_pods_started_within(starts, windows):
        if (pinned := _find_pinned(snapshot, affected, starts, others)) is not None:
            return _with_finding(by_content, pinned)
        reason = f"{join_names(pods)} may have started while other content was current"
        return _new_pods(reason, _as_frozen(by_content, affected), distinct=True)
    if snapshot.consumer.rolling and snapshot.consumer.argo is not None:
        # These are the pods of its newest template; others stay if that is undone.
        reason = f"{came_back}; re-checking pods when the rollout ends"
        return by_content._replace(reason=reason, early=True, recheck_in=ROLLOUT_WAIT)
    return by_content


def _find_pinned(
    snapshot: Snapshot,
    affected: Sequence[Finding],
    starts: Sequence[PodStart] | None,
    others: Mapping[ObjectKey, OtherUse | None],
) -> Finding | None:
    """Find a source for which kubelets might serve an earlier immutable one (rule 7)."""
    known = records_by_source(snapshot.record)
    for finding in affected:
        recorded = known.get(finding.current.source.kind_and_name)
        if recorded is None or not may_be_pinned(recorded, finding.current):
            continue
        found = assess_recreated_immutable(
            Case(snapshot, finding.current, recorded, starts, others)
        )
        if found.verdict in (Verdict.HOLD, Verdict.CHECK_OTHERS):
            return found
    return None


def _with_finding(by_content: Assessment, found: Finding) -> Assessment:
    """Replace the finding on one source, and make its verdict that of the consumer."""
    source = found.current.source
    findings = [found if f.current.source == source else f for f in by_content.findings]
    return Assessment(found.verdict, found.reason, tuple(findings))


def _as_frozen(by_content: Assessment, affected: Sequence[Finding]) -> list[Finding]:
    """Return all findings, with frozen changes of the affected sources."""
    sources = {f.current.source for f in affected}
    return [
        f._replace(verdict=Verdict.FROZEN) if f.current.source in sources else f
        for f in by_content.findings
    ]


def _describe_return(snapshot: Snapshot, by_content: Assessment) -> str:
    """Return what a window has ended with: the content is back, or a source does not exist.

    A write that was not observed need not have changed anything, such as one that encrypts Secrets
    again.
    """
    absent = [
        f.reason
        for f in by_content.findings
        if not f.current.exists and f.verdict is by_content.verdict
    ]
    if absent:
        return join_reasons(absent)
    if by_content.verdict is not Verdict.UP_TO_DATE:
        return by_content.reason
    unobserved = snapshot.has_unobserved_write
    return "same content, but written while not watched" if unobserved else "reverted"


def _find_start_blocker(findings: Sequence[Finding]) -> str:
    """Return why new pods could not start, or "" if nothing is known."""
    for finding in findings:
        current = finding.current
        if not current.exists and current.required and current.visible:
            return f"{current.source} does not exist and is not optional: new pods could not start"
        if current.missing:
            missing = join_names(current.missing)
            return (
                f"{current.source} lacks {missing}, which is not optional: new pods could not start"
            )
    return ""
