"""What the rollouts that we wrote prove: of a pod template, and of pods."""

from __future__ import annotations

from math import floor

from hotmap.core.decide.evidence import MARGIN, PodStart
from hotmap.core.decide.revisions import content_of
from hotmap.core.decide.snapshot import ANSWER_DELAY, Snapshot
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.reloader.annotations import Writing
from hotmap.core.reloader.patch import Stamp, carries

__all__ = [
    "has_current_revision",
    "has_unrecorded_rollout",
    "is_already_applied",
    "is_written",
    "was_made_for",
    "was_rolled_out_after",
]


def is_already_applied(snapshot: Snapshot, current: SourceSnapshot) -> bool:
    """Rule 0: a crash between the patch and the record.

    An undo can restore an old revision, so the revision alone proves nothing: our field manager
    must have written at or after the change. Both times are the API server's. If an Argo Rollout's
    restartAt is after the change, all its pods were replaced.
    """
    if current.changed_at is None:
        return False
    argo = snapshot.consumer.argo
    restart_at = argo.restart_at if argo else None
    if restart_at is not None and current.changed_at < restart_at <= snapshot.now + MARGIN:
        return True
    return is_written(snapshot, current)


def is_written(snapshot: Snapshot, current: SourceSnapshot) -> bool:
    """Return whether a rollout wrote the current content at or after the last change.

    With Reloader's strategies, Reloader may have marked the template while no controller watched.
    Then the source's time in managedFields counts, although the removal of a data key updates none:
    the mark names the content. It misses a data key that was added and removed again, by a manager
    that owns nothing else of the source, after the mark and while neither was running.
    """
    writing, written_at = snapshot.policy.writing, snapshot.consumer.written_at
    is_unobserved = writing is not Writing.REVISION and current.changes.latest is None
    changed_at = current.changed_since if is_unobserved else current.changed_at
    return (
        has_current_revision(snapshot, current)
        and written_at is not None
        and changed_at is not None
        and written_at >= floor(changed_at)
    )


def has_unrecorded_rollout(snapshot: Snapshot, current: SourceSnapshot) -> bool:
    """Rule 3: return whether we applied other content than the current one since the record.

    This happens after a crash between the patch and the record, followed by a return to the
    recorded content. Then the template has a revision that is not in the record, with the same key
    and written by us (an undo would take the annotation over).
    """
    consumer, record = snapshot.consumer, snapshot.record
    before, _, _ = consumer.revision.partition(".")
    key_id, _, _ = snapshot.revision.partition(".")
    return (
        record is not None
        and bool(current.frozen or snapshot.live_needs_rollout)
        and before == key_id
        and consumer.revision != record.revision
        and content_of(consumer.revision) != snapshot.revision
        and consumer.written_at is not None
        and consumer.generation != record.generation
    )


def has_current_revision(snapshot: Snapshot, current: SourceSnapshot) -> bool:
    """Return whether the template has the revision of the current content."""
    consumer, writing = snapshot.consumer, snapshot.policy.writing
    if writing is Writing.REVISION:
        return content_of(consumer.revision) == snapshot.revision
    return carries(consumer.traces, Stamp(current.source, current.stamp), writing)


def was_made_for(start: PodStart, revision: str, *, applied_at: float) -> bool:
    """Return whether a pod's template was written by us for some content.

    `revision` names that content ("" where no template does), and `applied_at` is when a rollout
    wrote it (POSIX seconds of the API server; 0: unknown). With Reloader's strategies no template
    names its content, so a pod counts that was created since then, with what the template is
    marked with now.
    """
    if revision and content_of(start.revision) == revision:
        return True
    return (
        start.is_marked and bool(applied_at) and start.created >= floor(applied_at) - ANSWER_DELAY
    )


def was_rolled_out_after(
    start: PodStart, changed_at: float | None, revision: str, *, rolled_at: float
) -> bool:
    """Return whether our last rollout made a pod, and came after a change.

    That rollout wrote `revision` at `rolled_at` (POSIX seconds of the API server; 0: unknown). A
    return to earlier content reuses its name, so the pod has to be as young as the rollout.
    """
    if changed_at is None or not rolled_at or rolled_at < changed_at:
        return False
    is_younger = start.created >= floor(rolled_at) - ANSWER_DELAY
    return is_younger and was_made_for(start, revision, applied_at=rolled_at)
