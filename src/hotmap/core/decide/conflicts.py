"""Detects other writers of the parts of a pod template that a rollout writes.

| observed since the last record | writer | result |
|---|---|---|
| our annotation was removed | a user or a GitOps tool; its name is a guess | reported once |
| it has a value that we never wrote | the same; managedFields name it | reported once |
| it has a value that no hotmap writes, by hotmap | a mutating admission webhook | reported once |
| it has a value with a foreign fingerprint key, by hotmap | another hotmap | reported, and held |
| Reloader's mark was written | Reloader, or a hotmap with its strategy | reported, and held |

Writes of others never cause a rollout, so two writers cannot loop; a writer that reverts a rollout
has replaced the pods by that, and these read the current content. Held means that no rollout is
written for HELD seconds after the other's last write: the other writer delivers the change, which
the freshness rules then detect. If it does not, hotmap continues after that time. So it recovers by
itself once the other is gone, and two that hold for one another are late, not stuck.

An undo that restores a revision of ours is not a conflict, and neither are marks that existed at
the adoption. If a mark was only removed, managedFields do not name the writer (kubernetes:
structured-merge-diff drops removed fields from every manager), so the last writer of any part since
our last rollout is reported instead, if there is one.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from math import floor
from typing import NamedTuple

import msgspec

from hotmap.core.decide.plan import Plan
from hotmap.core.decide.revisions import content_of
from hotmap.core.model.consumer import FIELD_MANAGER, Consumer
from hotmap.core.model.state import ForeignWrites, Record

__all__ = [
    "HELD",
    "ConflictKind",
    "WriterConflict",
    "defer_to",
    "find_writer_conflict",
    "is_reported",
    "record_reported",
]

#: Seconds after a write of another hotmap, or of Reloader, in which no rollout is written. As long
#: as the flap breaker's first window, so that both cost as many rollouts.
HELD = 600.0


class ConflictKind(enum.Enum):
    """The kind of a conflict; its text is a metric's label."""

    REMOVED = "removed"
    OVERWRITTEN = "overwritten"
    HOTMAP = "hotmap"
    RELOADER = "reloader"


class WriterConflict(NamedTuple):
    """A write of another writer to a consumer's pod template."""

    kind: ConflictKind
    #: One sentence that does not change while the conflict persists, so that Events are counted.
    reason: str
    #: Identifies this write, so that it is reported once.
    mark: str
    #: Until when no rollout is written, POSIX seconds of the API server; 0: nothing is held.
    until: float = 0.0


#: The field manager of `kubectl rollout undo`, which brings an earlier pod template back, maybe one
#: from before hotmap. apply, edit, patch and replace have names of their own (kubernetes:
#: kubectl/pkg/polymorphichelpers/rollback.go).
_UNDO = "kubectl"

_AGAIN = "hotmap sets it again with the next change."
_ADVICE = "configure GitOps tools to ignore that annotation: see docs/guides/gitops.md"


def find_writer_conflict(
    consumer: Consumer, record: Record | None, *, own_keys: Collection[str], now: float
) -> WriterConflict | None:
    """Find a write of another writer into a pod template since a record was made.

    For consumers whose rollouts are written as a revision; with Reloader's strategies its marks are
    ours. `own_keys` are the ids of our fingerprint keys, `now` is POSIX seconds of the API server.
    Writes older than the record (a stale store) are ignored, as are those from before the adoption.
    """
    if record is None or consumer.generation < record.generation:
        return None
    if found := _another_hotmap(consumer, record, own_keys):
        return found if found.until > now or not is_reported(record, found) else None
    if found := _reloader(consumer, record):
        return found if found.until > now else None
    return _changed_mark(consumer, record, own_keys)


def _another_hotmap(
    consumer: Consumer, record: Record, own_keys: Collection[str]
) -> WriterConflict | None:
    key_id, is_revision, _ = consumer.revision.partition(".")
    mark = _mark(ConflictKind.HOTMAP, consumer.revision)
    if (
        not is_revision
        or key_id in own_keys
        or consumer.revision_owner != FIELD_MANAGER
        or (consumer.revision == record.revision and _reported_mark(record) != mark)
    ):
        return None
    return WriterConflict(
        ConflictKind.HOTMAP,
        f"another hotmap also rolls it out, with the fingerprint key {key_id}. Rollouts are "
        "suppressed here for 10m after each of its writes; let each serve other "
        "namespaces (--namespaces), or let both share one --namespace with --leader-elect",
        mark,
        (consumer.written_at or 0.0) + HELD,
    )


def _reloader(consumer: Consumer, record: Record) -> WriterConflict | None:
    at = consumer.reloaded_at
    if at is None or (record.foreign_writes and at <= record.foreign_writes.reloaded_at):
        return None
    return WriterConflict(
        ConflictKind.RELOADER,
        "Reloader also rolls it out, or another hotmap with a strategy of Reloader's, so a change "
        "may cause two rollouts. Changes are left to it for 10m after each of its writes; stop it, "
        "or remove Reloader's annotations",
        _mark(ConflictKind.RELOADER, f"{at:.0f}"),
        at + HELD,
    )


def _changed_mark(
    consumer: Consumer, record: Record, own_keys: Collection[str]
) -> WriterConflict | None:
    now, before = consumer.revision, record.revision
    ours = {content_of(before), *(revision.revision for revision in record.retired)}
    is_ours = now.partition(".")[0] in own_keys
    if now == before or (is_ours and content_of(now) in ours):
        return None
    if not now and consumer.template_writer == _UNDO:
        return None
    if not now:
        writer = _last_writer(consumer, record)
        who = f" ({writer} last modified it)" if writer else ""
        reason = (
            f"hotmap.dev/revision was removed from its pod template{who}. {_AGAIN} If that was "
            f"not a rollback, {_ADVICE}"
        )
        return WriterConflict(ConflictKind.REMOVED, reason, _mark(ConflictKind.REMOVED, before))
    if is_ours and consumer.revision_owner in (FIELD_MANAGER, _UNDO):
        return None  # a crash between the patch and the record, or an earlier one of ours
    owner = consumer.revision_owner or "another client"
    if owner == FIELD_MANAGER:  # admission changes a write under the name of its writer
        owner = "a mutating admission policy or webhook"
    reason = (
        f"hotmap.dev/revision in its pod template was overwritten by {owner}. {_AGAIN} To avoid "
        f"that, {_ADVICE}"
    )
    return WriterConflict(ConflictKind.OVERWRITTEN, reason, _mark(ConflictKind.OVERWRITTEN, now))


def _mark(kind: ConflictKind, write: str) -> str:
    """Identify a write, by its kind and by what tells it from others of this kind."""
    return f"{kind.value} {write}"


def _last_writer(consumer: Consumer, record: Record) -> str:
    """Name the writer of a template since our last rollout; "" if nothing shows one.

    One that only removed our annotation, as `kubectl rollout undo` does, leaves no trace.
    """
    rolled_at = max(record.rollouts.times[-1:], default=0.0)
    return consumer.template_writer if consumer.template_written_at >= floor(rolled_at) else ""


def _reported_mark(record: Record) -> str:
    """Return the write of others that was last reported, "" for none."""
    return record.foreign_writes.reported if record.foreign_writes else ""


def is_reported(record: Record | None, found: WriterConflict | None) -> bool:
    """Return whether a conflict was reported before."""
    return record is not None and found is not None and _reported_mark(record) == found.mark


def record_reported(record: Record, found: WriterConflict) -> Record:
    """Add to a record that a conflict was reported."""
    seen = record.foreign_writes.reloaded_at if record.foreign_writes else 0.0
    return msgspec.structs.replace(record, foreign_writes=ForeignWrites(seen, found.mark))


def defer_to(plan: Plan, found: WriterConflict | None, *, reported: bool, now: float) -> Plan:
    """Apply a conflict to a plan; `reported` means that it was reported before.

    A rollout is held until the other writer has had its time. A held plan always names the
    conflict, any other plan only the first time.
    """
    if found is None:
        return plan
    if plan.starts_new_pods and found.until > now:
        return plan.without_new_pods(
            f"rollout suppressed: {found.reason}", recheck_in=found.until - now
        )
    if reported and not plan.warning:
        return plan
    if plan.actions or plan.warning or plan.requeue_after is not None:
        return plan._replace(reason=f"{plan.reason}; {found.reason}")
    return plan._replace(reason=found.reason, confirms=False)
