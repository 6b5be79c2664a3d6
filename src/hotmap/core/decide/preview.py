"""What an edit of a source would do: a decision on a snapshot in which the edit was made.

No content is needed for that, only the names of the data keys. Changes that are not applied yet are
part of the decision, as they would be of the one on a real edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import Plan
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_rules import ROLLOUT_WAIT
from hotmap.core.decide.source_snapshot import ChangeSummary, SourceSnapshot
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Keys, Use, UseKind

__all__ = ["Edit", "preview_edit"]

#: Stands for content that does not exist yet; no fingerprint has this form.
_EDITED = "edited"


class Edit(NamedTuple):
    """An edit of one source, which creates it if it does not exist."""

    source: ObjectKey
    #: The data keys that get another value, added ones included; None: every one.
    changed: frozenset[str] | None = None
    removed: frozenset[str] = frozenset()
    #: Those of `changed` that move from `data` to `binaryData`, or back.
    moved: frozenset[str] = frozenset()
    #: The data keys that are in `binaryData` before, which environments do not read.
    binary: frozenset[str] = frozenset()

    def touches(self, keys: Keys) -> bool:
        """Return whether some of these data keys are edited."""
        if self.changed is None:
            return True
        return any(keys.reads(name) for name in self.changed | self.removed)


def preview_edit(snapshot: Snapshot, edit: Edit) -> Decision:
    """Decide on a consumer as if a source that it uses had just been edited.

    The pods of a consumer started before an edit that is yet to be made, so no pods are read, and
    its own rollout in progress does not matter. A source that the consumer does not use, or that is
    not followed, changes nothing.
    """
    before = _decided(snapshot)
    if any(source.source == edit.source and source.immutable for source in before.sources):
        return _refused(before, edit.source)
    sources = tuple(
        _edited(source, edit, now=snapshot.now) if source.source == edit.source else source
        for source in before.sources
    )
    target = snapshot.target._replace(live=_EDITED, frozen=_EDITED)
    return decide(
        before._replace(
            sources=sources,
            revision=f"{snapshot.key_id}.{_EDITED}",
            content=f"{snapshot.key_id}.{_EDITED}",
            target=target,
            newest_sources=(),
            waited=ROLLOUT_WAIT,
        )
    )


def _refused(before: Snapshot, source: ObjectKey) -> Decision:
    """Hold what the API server refuses; new pods may get the old content of a recreated source."""
    reason = f"{source} is immutable: an edit is refused; give other content another name"
    assessment = Assessment(Verdict.HOLD, reason, ())
    return Decision(before, assessment, Plan(Verdict.HOLD, (), reason, warning=True))


def _decided(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with a record that vouches for the current pod template."""
    record, generation = snapshot.record, snapshot.consumer.generation
    if record is None:
        record = next_record(decide(snapshot), Outcome(generation, snapshot.revision, snapshot.now))
    if record is None:
        return snapshot
    return snapshot._replace(
        record=msgspec.structs.replace(record, generation=generation, windows=())
    )


def _edited(current: SourceSnapshot, edit: Edit, *, now: float) -> SourceSnapshot:
    changed = edit.changed or frozenset()
    keys = changed | edit.removed
    current = current._replace(uses=tuple(_without_binary(use, edit) for use in current.uses))
    required = _required(current.uses)
    in_environment = _required(use for use in current.uses if not use.keys.binary)
    hidden = in_environment & (edit.moved - edit.binary)
    missing = (required & edit.removed) | hidden | (frozenset(current.missing) - changed)
    if not current.exists and edit.changed is not None:
        missing = (required - changed) | hidden
    return current._replace(
        exists=True,
        visible=True,
        uid=current.uid or _EDITED,
        changed_at=now,
        changed_after=None,
        estimated=False,
        edited=current.exists,
        frozen=_content(current, UseKind.FROZEN, current.frozen, edit),
        live=_content(current, UseKind.LIVE, current.live, edit),
        content=_EDITED,
        missing=tuple(sorted(missing)),
        stamp=current.stamp and _EDITED,
        changes=ChangeSummary(keys=keys, first=now, last=now, latest=now, edited=True),
        start=None,
    )


def _without_binary(use: Use, edit: Edit) -> Use:
    """Hide what an environment reads neither before the edit nor after it."""
    hidden = edit.binary - edit.moved
    if use.keys.binary or not hidden:
        return use
    return use._replace(keys=use.keys._replace(hidden=use.keys.hidden | hidden))


def _content(current: SourceSnapshot, kind: UseKind, before: str, edit: Edit) -> str:
    """Return the fingerprint of one kind of use after the edit; a placeholder if it changes."""
    touched = any(edit.touches(use.keys) for use in current.uses if use.kind is kind)
    return _EDITED if touched else before


def _required(uses: Iterable[Use]) -> frozenset[str]:
    """Return the data keys without which a container does not start."""
    return frozenset().union(*(use.keys.names or () for use in uses if not use.optional))
