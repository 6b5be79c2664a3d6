"""Determines when a source changed, as precisely as the available information permits.

There are three sources of information: the changes that a controller observed on its watch, the
record, and managedFields. A time in managedFields is not an upper bound: removing a data key does
not update it, whichever manager removes the key (observed on Kubernetes 1.36). Therefore:

* an observed change happened when it was observed; if nothing was removed, at its written time
* content that equals the record changed at the time in the record
* content that changed while no controller was watching had changed by the time of the next list;
  its written time is used only if no used data key can have been removed unnoticed
* a resourceVersion that changed while no controller was watching may have been an edit and its
  revert: a window. That applies between two controllers, and to a controller whose watch
  was interrupted until it lists again; what a resumed watch delivers late happened at any time of
  the interruption

Everything else is an estimate and is never reported as proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from hotmap.core.decide.snapshot import TemplateChange
from hotmap.core.decide.source_snapshot import ChangeSummary, SourceSnapshot, StartBound
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.state import ObservedChange, SourceRecord, StartRecord, Window
from hotmap.core.resource_version import version_number

__all__ = [
    "SourceHistory",
    "WatchGap",
    "add_changes",
    "bound_change",
    "bound_start",
    "replaces_immutable",
    "summarize_changes",
]


class WatchGap(NamedTuple):
    """A period in which no controller watched the sources; POSIX seconds of the API server."""

    #: The time until which an earlier controller observed every change; None: unknown.
    since: float | None
    #: When this controller had listed the sources.
    until: float


class SourceHistory(NamedTuple):
    """What is known of one source's changes."""

    #: The changes that an earlier controller stored, and those that this one observed; oldest
    #: first.
    saved: Sequence[ObservedChange] = ()
    own: Sequence[ObservedChange] = ()
    #: The resourceVersion in the first list of this controller, and its time in managedFields; ""
    #: if the source did not exist then. None: the current version.
    listed: tuple[str, float | None] | None = None
    #: None: not determined yet.
    gap: WatchGap | None = None
    #: When an immutable source of this name was last deleted, POSIX seconds; None: never, as far as
    #: this controller knows.
    immutable_until: float | None = None


def summarize_changes(
    source: SourceSnapshot,
    recorded: SourceRecord | None,
    history: SourceHistory,
    *,
    is_known: bool = True,
) -> ChangeSummary:
    """Summarize what is known of a source's changes since the last applied version.

    `is_known` is as in `add_changes`.
    """
    listed = history.listed or (source.resource_version, source.changed_at)
    last_saved = history.saved[-1].resource_version if history.saved else ""
    latest, latest_by = _latest(source, history.own)
    if not source.exists and not history.own:
        latest = latest_by = _bound_unobserved_deletion(history, recorded)
    elif latest is None and version_number(listed[0]) <= version_number(last_saved):
        latest, latest_by = _latest(source, history.saved)
    kept = [*history.saved, *history.own]
    affected = [item for item in kept if _concerns(item, source)]
    edited = any(_may_replace_content(change, source) for change in affected[-1:])
    summary = ChangeSummary(latest=latest, latest_by=latest_by, edited=edited)
    if recorded is None:
        was_watched = history.gap is not None and history.gap.since is not None
        moved = not last_saved or version_number(listed[0]) > version_number(last_saved)
        gap = history.gap if is_known and was_watched and moved else None
        return summary._replace(
            last=affected[-1].at if affected else None,
            unobserved_by=_bound_unobserved(source, listed[1], gap.until) if gap else None,
            created=_was_created_last(source, history.own),
        )
    known = max(version_number(recorded.resource_version), version_number(last_saved))
    gap = history.gap if version_number(listed[0]) > known else None
    unobserved_by = _bound_unobserved(source, listed[1], gap.until) if gap else None
    unobserved = _unobserved_windows(gap, history.saved, unobserved_by)
    return _with_changes(
        summary._replace(unobserved_by=unobserved_by),
        source,
        _since(kept, recorded, source),
        unobserved,
    )


def _with_changes(
    summary: ChangeSummary,
    source: SourceSnapshot,
    changes: Sequence[ObservedChange],
    unobserved: Sequence[Window],
) -> ChangeSummary:
    """Add the changes since the last applied version, observed or in `unobserved` windows."""
    used = [change for change in changes if _concerns(change, source)]
    first = [item.began for item in used] + [window.start for window in unobserved]
    last = [item.at for item in used[-1:]] + [window.end for window in unobserved]
    contents = [item for item in used if _may_have_been_read(item, source)]
    is_window = (
        len(contents) > 1 or bool(unobserved) or any(item.same or item.several for item in contents)
    )
    return summary._replace(
        keys=frozenset().union(*(change.keys for change in changes)),
        first=min(first, default=None),
        last=max(last, default=None),
        window=Window(min(first), max(last)) if is_window else None,
        interrupted_by=max((item.at for item in used if item.same), default=None),
    )


def _was_created_last(source: SourceSnapshot, observed: Sequence[ObservedChange]) -> bool:
    """Return whether the last observed change of a source is its creation or recreation.

    A source that came into sight, as by a label, was written after the second of its creation, or
    long before it was seen.
    """
    if source.modified or not observed or observed[-1].written is None:
        return False
    return observed[-1].created or any(not item.resource_version for item in observed[-2:-1])


def _bound_unobserved_deletion(
    history: SourceHistory, recorded: SourceRecord | None
) -> float | None:
    """Return by when a source was deleted that was not in the first list.

    None: not known, or nothing shows that it ever existed. The stored changes show the deletion if
    an earlier controller observed it. Otherwise the last of them is older, and pods that started
    since may have read the source.
    """
    last = history.saved[-1] if history.saved else None
    if last is not None and not last.resource_version:
        return last.at
    has_existed = last is not None or (recorded is not None and bool(recorded.uid))
    return history.gap.until if history.gap and has_existed else None


def _bound_unobserved(source: SourceSnapshot, written: float | None, listed_at: float) -> float:
    """Return an upper bound for the time of a change in a gap, from the source's state after it."""
    if written is None or may_lack_keys(source):
        return listed_at
    return min(written + 1, listed_at)  # times are cut to whole seconds


def _unobserved_windows(
    gap: WatchGap | None, saved: Sequence[ObservedChange], until: float | None
) -> list[Window]:
    """Return the window in which the source may have had other content unobserved, if any."""
    if gap is None or until is None:
        return []
    # A controller that stored a change was watching at that time.
    known = [at for at in (gap.since, *(item.at for item in saved[-1:])) if at is not None]
    since = max(known, default=None)
    return [] if since is None or until < since else [Window(since, until)]


def _latest(
    source: SourceSnapshot, changes: Sequence[ObservedChange]
) -> tuple[float | None, float | None]:
    """Return when a used data key was last observed to change, and by when; None: never."""
    for change in reversed(changes):
        if _concerns(change, source) and not change.same:
            return change.at if change.written is None else change.written, change.at
    return None, None


def _since(
    kept: Sequence[ObservedChange], recorded: SourceRecord, source: SourceSnapshot
) -> Sequence[ObservedChange]:
    """Select the changes after a recorded resourceVersion, or after a recorded deletion.

    A deletion has no resourceVersion; it counts as part of the change before it.
    """
    if not recorded.uid and recorded.changed_by is not None:
        return [change for change in kept if change.at > recorded.changed_by]
    version = version_number(recorded.resource_version)
    if 0 < version_number(source.resource_version) < version:
        # As after etcd was restored from a backup: versions went back, and times did not.
        since = recorded.changed_by or 0.0
        return [
            change
            for change in kept
            if change.at > since and change.resource_version != recorded.resource_version
        ]
    for position, change in enumerate(kept):
        if change.resource_version and version_number(change.resource_version) > version:
            start = position
            while start > 0 and not kept[start - 1].resource_version:
                start -= 1
            return kept[start:]
    tail = len(kept)
    while tail > 0 and not kept[tail - 1].resource_version:
        tail -= 1
    return kept[tail:]


def _concerns(change: ObservedChange, source: SourceSnapshot) -> bool:
    """Return whether a used data key may have changed; without names, any may have."""
    return not change.keys or _reads_any(source.uses, change.keys)


def _may_have_been_read(change: ObservedChange, source: SourceSnapshot) -> bool:
    """Return whether a container may have started with what was there after a change.

    None starts without a source that it requires.
    """
    is_deletion = not change.resource_version and not change.several
    return not is_deletion or any(use.optional for use in source.uses)


def _may_replace_content(change: ObservedChange, source: SourceSnapshot) -> bool:
    """Return whether containers that run may have been without what a change brought.

    A container may have started without an optional source before it was created.
    """
    optional = [use for use in source.uses if use.optional]
    return not change.created or (
        bool(optional) and (not change.keys or _reads_any(optional, change.keys))
    )


def _reads_any(uses: Iterable[Use], keys: Iterable[str]) -> bool:
    wanted = tuple(keys)
    return any(use.keys.reads(key) for use in uses for key in wanted)


def replaces_immutable(
    history: SourceHistory, template: TemplateChange | None, recorded: SourceRecord | None
) -> bool:
    """Return whether pods of this template may have used an immutable source that was deleted.

    One that was deleted before the recorded content came has been judged.
    """
    until = history.immutable_until
    known = [template.at] if template else []
    if recorded is not None and recorded.changed_by is not None:
        known.append(recorded.changed_by)
    return until is not None and bool(known) and until > max(known)


def add_changes(
    source: SourceSnapshot,
    recorded: SourceRecord | None,
    history: SourceHistory,
    *,
    is_known: bool,
) -> SourceSnapshot:
    """Add what is known of a source's changes, and bound the time of the last one.

    `is_known` means that the consumer has a record; otherwise its sources were not watched.
    """
    changes = summarize_changes(source, recorded, history, is_known=is_known)
    return bound_start(bound_change(source._replace(changes=changes), recorded), recorded, history)


def bound_change(source: SourceSnapshot, recorded: SourceRecord | None) -> SourceSnapshot:
    """Set the bounds of the time of a source's last change; see the module."""
    changes, written = source.changes, source.changed_at
    if not source.exists:
        # Containers that require it keep what they read, and no time says which content that is.
        return source if source.required else source._replace(changed_at=changes.latest)
    same = recorded is not None and _is_unchanged(source, recorded)
    moved = recorded is not None and bool(recorded.content and recorded.uid) and not same
    was_edited = same and recorded is not None and recorded.edited
    if source.mounts is None:  # the mounts of a class show which pods have older versions
        source = source._replace(edited=was_edited or moved or changes.edited)
    # The recorded bound is for the data keys that were used then. It is more precise than the
    # latest change, which may be a reverted edit for which the pods were examined already.
    bound = None
    if same and recorded is not None and recorded.uses == source.digest:
        bound = recorded.changed_by
        unobserved = max(changes.unobserved_by or 0.0, changes.interrupted_by or 0.0)
        if source.live and unobserved:
            # Kubelets may have written other files meanwhile into pods that were already running.
            at = max(unobserved, changes.latest or 0.0)
            return source._replace(changed_at=at, changed_after=written)
    if bound is not None or changes.latest is not None:
        source = source._replace(modified=False)  # by other data keys, or `edited` has it
    if changes.latest is not None and (bound is None or changes.last is not None):
        after = changes.latest if written is None else min(written, changes.latest)
        return source._replace(changed_at=changes.latest, changed_after=after)
    if bound is not None:
        assert recorded is not None, "with a bound"
        # Later changes were of other data keys, or were reverted and read by no pod.
        edited = source.edited and recorded.edited
        return source._replace(changed_at=bound, edited=edited, estimated=recorded.estimated)
    if not same and (moved or changes.unobserved_by is not None) and may_lack_keys(source):
        return source._replace(changed_at=changes.unobserved_by, changed_after=written)
    return source._replace(estimated=True) if may_lack_keys(source) else source


def bound_start(
    source: SourceSnapshot, recorded: SourceRecord | None, history: SourceHistory
) -> SourceSnapshot:
    """Bound the last change of the data keys in frozen use, if the source is in live use as well.

    An edit of the mounted files alone also moves the source's time, but what containers read at
    start is not older for that. Applies only while the frozen content is the recorded one; other
    content that came and went while no controller watched is a window.
    """
    if recorded is None or recorded.pinned or not (source.frozen and source.live):
        return source
    same = (recorded.uses, recorded.uid, recorded.frozen)
    if source.mounts is not None or same != (source.digest, source.uid, source.frozen):
        return source
    known = recorded.start or StartRecord(recorded.changed_by, recorded.edited, recorded.estimated)
    before = msgspec.structs.replace(
        recorded,
        live="",
        changed_by=known.changed_by,
        edited=known.edited,
        estimated=known.estimated,
    )
    read = tuple(use for use in source.uses if use.kind is UseKind.FROZEN)
    part = source._replace(uses=read, live="")
    changes = summarize_changes(part, before, history._replace(gap=None))
    part = bound_change(part._replace(changes=changes), before)
    bound = StartBound(part.changed_at, part.changed_after, part.edited, part.estimated)
    return source._replace(start=bound)


def _is_unchanged(source: SourceSnapshot, recorded: SourceRecord) -> bool:
    """Return whether the used data keys have had the recorded content ever since."""
    if (recorded.content, recorded.uid) == (source.content, source.uid):
        return True
    recorded_uses = (recorded.uses, recorded.uid, recorded.frozen, recorded.live)
    used = (source.digest, source.uid, source.frozen, source.live)
    changes = source.changes
    return recorded_uses == used and changes.unobserved_by is None and changes.window is None


def may_lack_keys(source: SourceSnapshot) -> bool:
    """Return whether a used data key may have been removed without an error or a new time."""
    if source.mounts is not None:
        return False
    return bool(source.missing) or any(
        use.keys.names is None or use.optional for use in source.uses
    )
