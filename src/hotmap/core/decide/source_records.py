"""What the record of a consumer keeps of one source."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from hotmap.core.decide.assessment import Finding, Verdict
from hotmap.core.decide.immutable_rules import may_be_pinned
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.fingerprint import ABSENT
from hotmap.core.model.state import (
    SourceRecord,
    StartRecord,
)

__all__ = [
    "build_source_record",
    "former_immutable",
    "stays_pinned",
]

#: How many immutable sources that are not followed now a record keeps, the latest: a template that
#: never rolls out may use others forever.
_FORMER = 64


def former_immutable(
    known: Iterable[SourceRecord], is_served: Callable[[tuple[str, str]], bool]
) -> tuple[SourceRecord, ...]:
    """Select the recorded sources that are not followed and that kubelets may go on to serve."""
    former = [
        source
        for source in known
        if (source.immutable or source.pinned) and is_served((source.kind, source.name))
    ]
    return tuple(former[-_FORMER:])


def stays_pinned(finding: Finding, recorded: SourceRecord | None) -> bool:
    """Return whether kubelets may still serve an immutable source in place of its successor.

    Other content is adopted only when no pod can have the old one; equal content says nothing.
    """
    if recorded is None:
        return finding.current.replaces_immutable
    if not may_be_pinned(recorded, finding.current):
        return False
    current = finding.current
    if not current.exists:
        return True
    return finding.verdict is not Verdict.ADOPT or recorded.content == current.content


def build_source_record(
    finding: Finding, recorded: SourceRecord | None, *, new_pods: bool, rolling: bool, pinned: bool
) -> SourceRecord | None:
    """Build the record of one source; None: it stays unknown.

    While pods of an earlier template run (`rolling`), what was changed without new pods keeps the
    content from before: an undo keeps those pods, and they may use other data keys. What
    kubelets may serve in place of its successor (`pinned`), also to new pods, keeps it too.
    """
    current = finding.current
    if not current.visible:
        return recorded
    if finding.verdict is Verdict.HOLD:
        return _record_held(finding, recorded, pinned=pinned)
    if recorded is not None and recorded.uses != current.digest:
        current = _with_former_uid(current, recorded)
        recorded = None
    if recorded is not None and current.is_unknown:
        return recorded
    if recorded is not None and not current.exists:
        if current.required:
            return recorded
        if not new_pods and finding.verdict is not Verdict.ADOPT:
            gone = finding.verdict is Verdict.LIVE
            return msgspec.structs.replace(recorded, live=ABSENT) if gone else recorded
    content = current.content
    same = recorded is not None and finding.verdict in (Verdict.UP_TO_DATE, Verdict.LIVE)
    if same and recorded is not None and (rolling or pinned):
        content = recorded.content
    made = _record_current(current, content, pinned=pinned, shared_at=finding.shared_at)
    return made if recorded is None or new_pods else _with_replaced(made, recorded, finding)


def _with_former_uid(current: SourceSnapshot, recorded: SourceRecord) -> SourceSnapshot:
    """Keep that an optional source existed that was deleted unobserved, and is used otherwise.

    Pods of the template that uses it in this way may have started before that.
    """
    if current.exists or current.required or current.changes.last is not None:
        return current
    return current._replace(uid=recorded.uid, resource_version=recorded.resource_version)


def _record_held(
    finding: Finding, recorded: SourceRecord | None, *, pinned: bool
) -> SourceRecord | None:
    """Build the record of a held source, of which nothing was applied."""
    current = finding.current
    if pinned and _is_as_recorded(current, recorded):
        recorded = None  # equal to what was applied, and kubelets may serve another one
    if recorded is not None:
        shared_at = finding.shared_at or recorded.shared_at
        recorded = msgspec.structs.replace(recorded, shared_at=shared_at)
        return _with_pin(recorded) if pinned else recorded
    if not pinned:
        return None
    # What kubelets serve in its place is not known.
    frozen, live = ABSENT if current.frozen else "", ABSENT if current.live else ""
    current = current._replace(uid="", frozen=frozen, live=live)
    return _record_current(current, "", pinned=True, shared_at=finding.shared_at)


def _record_current(
    current: SourceSnapshot, content: str, *, pinned: bool, shared_at: float
) -> SourceRecord:
    """Record that a source was applied as it is now; `content` is that of all its data keys."""
    return SourceRecord(
        current.source.kind,
        current.source.name,
        current.digest,
        current.uid,
        current.resource_version,
        current.frozen,
        current.live,
        current.immutable,
        content,
        current.changed_at,
        current.edited or current.modified,
        pinned,
        current.estimated,
        shared_at,
        start=current.start
        and StartRecord(current.start.changed_at, current.start.edited, current.start.estimated),
    )


def _is_as_recorded(current: SourceSnapshot, recorded: SourceRecord | None) -> bool:
    """Return whether a source has the content that was last applied."""
    if recorded is None or not current.exists:
        return False
    if recorded.uses != current.digest:  # its fingerprints are over other data keys
        return bool(recorded.content) and recorded.content == current.content
    return (recorded.frozen, recorded.live) == (current.frozen, current.live)


def _with_pin(recorded: SourceRecord) -> SourceRecord:
    """Note that kubelets may serve another source, also when it is not used for a while."""
    return recorded if recorded.pinned else msgspec.structs.replace(recorded, pinned=True)


def _with_replaced(made: SourceRecord, recorded: SourceRecord, finding: Finding) -> SourceRecord:
    """Keep what running containers read of a source that others of their environment replace.

    An edit of a data key that is replaced, by recreation too, stays a difference of the whole
    content, so that it is a change as soon as the source that replaces it is deleted.
    """
    current = finding.current
    if finding.verdict not in (Verdict.UP_TO_DATE, Verdict.LIVE):
        return made
    if current.uncovered:
        live = recorded.live if finding.verdict is Verdict.UP_TO_DATE else made.live
        return msgspec.structs.replace(made, frozen=recorded.frozen, live=live)
    if not current.overridden or made.frozen != recorded.frozen:
        return made
    if current.immutable and made.uid != recorded.uid and made.content != recorded.content:
        # Neither's: the former would say what kubelets serve of the new object.
        return msgspec.structs.replace(made, content="")
    return msgspec.structs.replace(made, content=recorded.content)
