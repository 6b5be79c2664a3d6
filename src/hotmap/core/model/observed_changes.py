"""Makes the observed changes of a source, and merges them so that their number is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hotmap.core.model.source import Source
from hotmap.core.model.state import ObservedChange

__all__ = [
    "MAX_NAMED_KEYS",
    "append_change",
    "make_observed_change",
    "make_unobserved_write",
    "thin_changes",
]

#: Data keys that are named in one change; with more, the keys count as unknown.
MAX_NAMED_KEYS = 256

#: Seconds between a write and the watch event of it, at most, for both to be the same.
_SAME_WRITE = 2.0

#: Seconds by which a watch event may be late without being missed: a watch that is silent for
#: longer is given up (kube/reflector_timing). An older time is of an object that came into sight.
_LATE_AT_MOST = 120.0


def make_observed_change(
    new: Source | None,
    keys: frozenset[str],
    *,
    removed: bool,
    created: bool,
    now: float,
    since: float | None = None,
) -> ObservedChange:
    """Describe a change that is observed now.

    `removed`: a data key was removed. `created`: nothing is known of the source from before.
    `since`: the change happened after this time, if the watch was interrupted.
    """
    written = new.changed_at if new is not None and not removed else None
    if written is not None and _SAME_WRITE <= now - written <= _LATE_AT_MOST:
        since = written if since is None else max(since, written)
    if written is not None and not 0 <= now - written < _SAME_WRITE:
        written = None  # of another write, or by a clock that is wrong
    version = new.resource_version if new else ""
    return ObservedChange(
        now, version, keys, written, created, None if since is None else min(since, now)
    )


def make_unobserved_write(new: Source, *, since: float, now: float) -> ObservedChange:
    """Record that a source was written while not watched, and has the same data as before."""
    return ObservedChange(now, new.resource_version, frozenset(), since=min(since, now), same=True)


def append_change(
    changes: Sequence[ObservedChange], change: ObservedChange
) -> tuple[ObservedChange, ...]:
    """Append an observed change to earlier ones, oldest first.

    If it arrives late, as its written time shows, then what arrived just before it was late too: a
    removal or a deletion, which has no time of its own. These happened at any time after the change
    before them, as a watch that is silent for longer than `_LATE_AT_MOST` is given up.
    """
    if change.since is None or change.same:
        return (*changes, change)
    together = len(changes)
    while together and change.at - changes[together - 1].at < _SAME_WRITE:
        together -= 1
    earliest = max([change.since - _LATE_AT_MOST, *(item.at for item in changes[:together])])
    kept = list(changes[:together])
    for item in changes[together:]:
        is_dated = item.written is not None or item.since is not None
        kept.append(item if is_dated else msgspec.structs.replace(item, since=earliest))
    return (*kept, change)


def thin_changes(changes: Sequence[ObservedChange], most: int) -> tuple[ObservedChange, ...]:
    """Merge the changes of a source, oldest first, until there are at most `most` (3 or more).

    Two changes of the same data keys become one that lasts from the first to the second. The two
    that are closest together, compared with their age, are merged first, so a burst keeps its
    begin, and the time of a data key does not move with the edits of another. If no two changes
    have the same data keys, two neighbours become one change of the data keys of both. The newest
    change stays as it is.

    No change is dropped, since it may be the only one that concerns a consumer. A merged change
    begins early and ends late: some pods are examined that need not be, and no pod counts as
    younger than a change that came after its start.
    """
    kept = list(changes)
    while len(kept) > most:
        first, second = _find_closest(kept) or _find_closest_neighbours(kept)
        kept[second] = _merge(kept[first], kept[second])
        del kept[first]
    return tuple(kept)


def _merge(first: ObservedChange, second: ObservedChange) -> ObservedChange:
    """Make one change of two, at the time and version of the second."""
    keys = first.keys | second.keys
    if not first.keys or not second.keys or len(keys) > MAX_NAMED_KEYS:
        keys = frozenset()
    return msgspec.structs.replace(
        second,
        keys=second.keys if keys == second.keys else keys,  # shares the existing one
        since=first.began,
        created=False,
        same=first.same and second.same,
        several=True,
    )


def _find_closest(changes: Sequence[ObservedChange]) -> tuple[int, int] | None:
    """Find the two changes that may become one, and that lose the least by it."""
    newest = changes[-1].at
    closest: tuple[float, int, int] | None = None
    last: dict[frozenset[str], int] = {}
    for second, change in enumerate(changes[:-1]):
        if change.created or change.same or not change.resource_version:
            continue
        first = last.get(change.keys)
        last[change.keys] = second
        if first is None:
            continue
        began = changes[first].began
        span = (change.at - began) / max(newest - began, 1e-3)
        if closest is None or span < closest[0]:
            closest = span, first, second
    return closest[1:] if closest else None


def _find_closest_neighbours(changes: Sequence[ObservedChange]) -> tuple[int, int]:
    """Find the two neighbours that lose the least by becoming one change.

    The newest change is never one of them, nor is a creation: no pod has content from before it.
    """
    newest = changes[-1].at
    pairs = range(1 if changes[0].created else 0, len(changes) - 2)

    def span(first: int) -> float:
        began = changes[first].began
        return (changes[first + 1].at - began) / max(newest - began, 1e-3)

    first = min(pairs, key=span)
    return first, first + 1
