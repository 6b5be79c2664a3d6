"""What a consumer was asked for: its record after an action, or after a first look."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import msgspec

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.decide.freshness import Finding, Verdict
from hotmap.core.decide.snapshot import content_of
from hotmap.core.fingerprint import ABSENT
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import (
    UNVOUCHED,
    ForeignWrites,
    PodCheck,
    Record,
    RetiredRevision,
    RolloutTimes,
    SourceRecord,
    Window,
)

__all__ = ["distinct_revision", "record_applied", "record_reloader_write", "record_rollout"]

#: How many earlier revisions a record remembers, to notice a return to one of them.
_LEFT = 3


def record_applied(
    consumer: Consumer,
    record: Record | None,
    findings: Sequence[Finding],
    *,
    key_id: str,
    generation: int,
) -> Record:
    """Make the record that says: this consumer was asked for what is present.

    `generation` is the consumer's that this vouches for. A source that is held back, or gone,
    keeps what was asked of it before, so that its return with other content is a change and with
    the same is none; only new pods are certainly without an optional one. While something is held
    back, the generation and the windows stay what they were, and a rollout has windows of its own
    (`record_rollout`). Otherwise windows count as examined. New pods, and what is adopted, are to
    be looked at afterwards.
    `record` None: nothing was known before.
    """
    known = {}
    if record is not None and record.key_id == key_id:
        known = {(s.kind, s.name): s for s in record.sources}
    verdicts = {finding.verdict for finding in findings}
    new_pods = Verdict.FROZEN in verdicts
    held = Verdict.HOLD in verdicts and not new_pods
    adopts = Verdict.ADOPT in verdicts
    if held:
        generation = record.generation if record else UNVOUCHED
    asked = (
        _asked_source(f, known.get((f.present.source.kind, f.present.source.name)), new_pods)
        for f in findings
    )
    return Record(
        uid=consumer.uid,
        key_id=key_id,
        generation=generation,
        sources=tuple(one for one in asked if one is not None),
        windows=record.windows if record and (held or new_pods) else (),
        left=record.left if record else (),
        serial=record.serial if record else 0,
        rolls=record.rolls if record else RolloutTimes(),
        revision=consumer.revision if adopts or record is None else record.revision,
        others=record.others if record else _others_at_first_sight(consumer),
        pods_checked=PodCheck.NOT_YET
        if adopts or new_pods or record is None
        else record.pods_checked,
        namespace=consumer.key.namespace,
    )


def _others_at_first_sight(consumer: Consumer) -> ForeignWrites | None:
    return None if consumer.reloaded_at is None else ForeignWrites(consumer.reloaded_at)


def distinct_revision(revision: str, record: Record | None, *, previous: str) -> str:
    """Give content that had a name before another one: `<revision>.<n>`.

    `previous` is what the template carries now. n rises in the record, and above what the
    template shows, should the record have been lost.
    """
    return f"{revision}.{_next_serial(record, previous)}"


def _next_serial(record: Record | None, previous: str) -> int:
    number = previous.split(".")[2:3]
    shown = int(number[0]) if number and number[0].isdigit() else 0
    return max(record.serial if record else 0, shown) + 1


def record_rollout(
    record: Record,
    *,
    previous: str,
    revision: str,
    distinct: bool,
    left_at: float,
    now: float,
) -> Record:
    """Add to the record of an asked rollout what a later return to old content has to know.

    `previous` and `revision` are the template's revisions before and after, `left_at` is when the
    previous content went away (POSIX seconds, as early as it may have been). A return to a
    revision that was left not long ago uses its ReplicaSet again, and a pod of that may have
    started in between, so it opens a window; a `distinct` name makes new pods instead.

    The window, widened by MARGIN, ends before the second of `now`: what this rollout itself
    starts reads the content that came back, and its first pod may run within that second.
    """
    wanted = content_of(revision)
    end = floor(now) - 1 - MARGIN
    windows = tuple(Window(one.at, end) for one in record.left if one.revision == wanted)
    # Under a name of its own the content leaves its earlier pods behind, as suspect as before: the
    # next rollout may come before they are replaced, and a return to their name find them again.
    left = tuple(one for one in record.left if distinct or one.revision != wanted)
    # What was not examined of it stays to be examined, should it come back.
    since = min([left_at, *(window.start for window in record.windows)])
    # Somebody may have taken the name that was asked for out of the template.
    for before in map(content_of, (record.revision, previous)):
        if before and (distinct or before != wanted) and before not in {o.revision for o in left}:
            left = (*left, RetiredRevision(before, since))
    return msgspec.structs.replace(
        record,
        windows=() if distinct else windows,
        left=left[-_LEFT:],
        serial=_next_serial(record, previous) if distinct else record.serial,
        revision=distinct_revision(revision, record, previous=previous) if distinct else revision,
    )


def record_reloader_write(record: Record, *, now: float) -> Record:
    """Add to a record that we wrote a mark as Reloader does, lest it be taken for another's.

    `now` is POSIX seconds of the API server, to about a second.
    """
    told = record.others.told if record.others else ""
    return msgspec.structs.replace(record, others=ForeignWrites(now + MARGIN, told))


def _asked_source(
    finding: Finding, asked: SourceRecord | None, new_pods: bool
) -> SourceRecord | None:
    """Say what is asked of one source from now on; None: it goes on being unknown."""
    present = finding.present
    kind, _, name = present.source
    if asked is not None and asked.uses != present.digest:
        asked = None
    if finding.verdict is Verdict.HOLD:
        return asked
    if asked is not None and not present.exists:
        if present.required:
            return asked
        if not new_pods:
            gone = finding.verdict is Verdict.LIVE
            return msgspec.structs.replace(asked, live=ABSENT) if gone else asked
    return SourceRecord(
        kind,
        name,
        present.digest,
        present.uid,
        present.resource_version,
        present.frozen,
        present.live,
        present.immutable,
    )
