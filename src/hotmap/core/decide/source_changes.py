"""When a source changed, as far as anybody can know.

Three things tell: what a controller saw on its watch, what the record says, and managedFields. Of
these the times in managedFields bound nothing from above by themselves, since the removal of a data
key, by any manager, moves none (seen on Kubernetes 1.36). So

* a change that was seen happened when it was seen, or at its written time where nothing was removed
* content that is what was recorded changed when the record says
* content that moved while no controller watched had moved by the time the next one listed it; its
  written time counts only where no data key that is used can have been removed unnoticed
* a version that moved while nobody watched may have been an edit and its revert: a window

Everything else is an estimate, which is never called proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hotmap.core.decide.snapshot import ChangeSummary, SourceSnapshot
from hotmap.core.model.references import Use
from hotmap.core.model.source import Source
from hotmap.core.model.state import ObservedChange, SourceRecord, Window
from hotmap.core.text import parse_number

__all__ = ["SourceHistory", "WatchGap", "bound_change", "make_observed_change", "summarize_changes"]

#: Seconds between a write and the watch event of it, at most, for both to be the same.
_SAME_WRITE = 2.0


class WatchGap(NamedTuple):
    """A time in which no controller watched the sources; POSIX seconds of the API server."""

    #: By when an earlier controller had seen every change; None: unknown.
    since: float | None
    #: When this one had listed them.
    until: float


class SourceHistory(NamedTuple):
    """What is known of one source's changes."""

    #: What an earlier controller saw and kept, and what this one saw; oldest first.
    saved: Sequence[ObservedChange] = ()
    own: Sequence[ObservedChange] = ()
    #: The resourceVersion that this controller listed first, and when managedFields said that it
    #: was written; "" where the source did not exist then. None: the present one.
    listed: tuple[str, float | None] | None = None
    #: None: nobody has asked yet.
    gap: WatchGap | None = None


def make_observed_change(
    new: Source | None, keys: frozenset[str], *, removed: bool, created: bool, now: float
) -> ObservedChange:
    """Note a change that is seen now.

    `removed` says that a data key is not there any more, `created` that nothing is known of the
    source before.
    """
    written = new.changed_at if new is not None and not removed else None
    if written is not None and not 0 <= now - written < _SAME_WRITE:
        written = None  # of another write, or by a clock that is wrong
    return ObservedChange(now, new.resource_version if new else "", keys, written, created)


def summarize_changes(
    source: SourceSnapshot,
    recorded: SourceRecord | None,
    history: SourceHistory,
    *,
    is_known: bool = True,
) -> ChangeSummary:
    """Say what is known of a source's changes since the version that was last asked for.

    `is_known` says that the consumer has a record; without one, nobody watched for it.
    """
    listed = history.listed or (source.resource_version, source.changed_at)
    last_saved = history.saved[-1].resource_version if history.saved else ""
    latest = _latest(source, history.own)
    if latest is None and _number(listed[0]) <= _number(last_saved):
        latest = _latest(source, history.saved)
    kept = [*history.saved, *history.own]
    affected = [one for one in kept if _concerns(one, source)]
    # A container may have started without an optional source before it was created.
    optional = any(use.optional for use in source.uses)
    edited = any(optional or not one.created for one in affected[-1:])
    if recorded is None:
        was_watched = history.gap is not None and history.gap.since is not None
        moved = not last_saved or _number(listed[0]) > _number(last_saved)
        gap = history.gap if is_known and was_watched and moved else None
        return ChangeSummary(
            last=affected[-1].at if affected else None,
            latest=latest,
            unobserved_by=_bound_unobserved(source, listed[1], gap.until) if gap else None,
            edited=edited,
        )
    changes = _since(kept, recorded.resource_version)
    used = [one for one in changes if _concerns(one, source)]
    known = max(_number(recorded.resource_version), _number(last_saved))
    gap = history.gap if _number(listed[0]) > known else None
    unobserved_by = _bound_unobserved(source, listed[1], gap.until) if gap else None
    unobserved = _unobserved_windows(gap, history.saved, unobserved_by)
    first = [one.at for one in used[:1]] + [window.start for window in unobserved]
    last = [one.at for one in used[-1:]] + [window.end for window in unobserved]
    is_window = len(used) > 1 or bool(unobserved)
    return ChangeSummary(
        keys=frozenset().union(*(one.keys for one in changes)),
        first=min(first, default=None),
        last=max(last, default=None),
        window=Window(min(first), max(last)) if is_window else None,
        latest=latest,
        unobserved_by=unobserved_by,
        edited=edited,
    )


def _bound_unobserved(source: SourceSnapshot, written: float | None, listed_at: float) -> float:
    """Bound from above what changed in a gap, by the source's state at its end."""
    if written is None or may_lack_keys(source):
        return listed_at
    return min(written + 1, listed_at)  # times are cut to whole seconds


def _unobserved_windows(
    gap: WatchGap | None, saved: Sequence[ObservedChange], until: float | None
) -> list[Window]:
    """Say when other content may have been there that nobody saw: one window, or none."""
    if gap is None or until is None:
        return []
    # Whoever kept a change of the source watched until then.
    known = [at for at in (gap.since, *(one.at for one in saved[-1:])) if at is not None]
    since = max(known, default=None)
    return [] if since is None or until < since else [Window(since, until)]


def _latest(source: SourceSnapshot, changes: Sequence[ObservedChange]) -> float | None:
    """Say by when a data key that is used was last seen to change."""
    for change in reversed(changes):
        if _concerns(change, source):
            return change.at if change.written is None else change.written
    return None


def _since(kept: Sequence[ObservedChange], resource_version: str) -> Sequence[ObservedChange]:
    """Select what was seen after a resourceVersion.

    A deletion carries none; it belongs to what was seen before it.
    """
    version = _number(resource_version)
    for position, change in enumerate(kept):
        if change.resource_version and _number(change.resource_version) > version:
            start = position
            while start > 0 and not kept[start - 1].resource_version:
                start -= 1
            return kept[start:]
    tail = len(kept)
    while tail > 0 and not kept[tail - 1].resource_version:
        tail -= 1
    return kept[tail:]


def _number(resource_version: str) -> int:
    return parse_number(resource_version) or 0


def _concerns(change: ObservedChange, source: SourceSnapshot) -> bool:
    """Tell whether a data key that is used may have changed; without names, any may have."""
    return not change.keys or _reads_any(source.uses, change.keys)


def _reads_any(uses: Iterable[Use], keys: Iterable[str]) -> bool:
    wanted = tuple(keys)
    return any(use.keys.reads(key) for use in uses for key in wanted)


def bound_change(
    source: SourceSnapshot, recorded: SourceRecord | None, changes: ChangeSummary
) -> SourceSnapshot:
    """Set by when the last change of a source had happened, and after when; see the module."""
    written = source.changed_at
    if not source.exists:
        return source
    same = recorded is not None and _is_unchanged(source, recorded, changes)
    moved = recorded is not None and bool(recorded.content and recorded.uid) and not same
    was_edited = same and recorded is not None and recorded.edited
    source = source._replace(edited=was_edited or moved or changes.edited)
    if changes.latest is not None:
        after = changes.latest if written is None else min(written, changes.latest)
        return source._replace(changed_at=changes.latest, changed_after=after)
    if recorded is not None and same:
        if recorded.changed_by is not None:
            return source._replace(changed_at=recorded.changed_by)
    elif (moved or changes.unobserved_by is not None) and may_lack_keys(source):
        return source._replace(changed_at=changes.unobserved_by, changed_after=written)
    return source._replace(estimated=True) if may_lack_keys(source) else source


def _is_unchanged(source: SourceSnapshot, recorded: SourceRecord, changes: ChangeSummary) -> bool:
    """Tell whether the data keys that are used have had what was recorded ever since."""
    if (recorded.content, recorded.uid) == (source.content, source.uid):
        return True
    recorded_uses = (recorded.uses, recorded.uid, recorded.frozen, recorded.live)
    used = (source.digest, source.uid, source.frozen, source.live)
    return recorded_uses == used and changes.unobserved_by is None and changes.window is None


def may_lack_keys(source: SourceSnapshot) -> bool:
    """Tell whether a data key that is used may have been removed without anybody missing it."""
    return bool(source.missing) or any(
        use.keys.names is None or use.optional for use in source.uses
    )
