"""What hotmap itself saw of its sources' changes, for the last minutes.

It tightens what the objects say (managedFields have whole seconds and move with every write),
finds edits that were taken back before anybody acted, and names the data keys in reasons.
Nothing is decided on it alone, and losing it loses no change. What was seen of followed sources is
kept with the records all the same, since only it tells that a pod started between an edit and its
revert: a controller that was killed in between goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from hotmap.core.decide.source_changes import SourceHistory, WatchGap, make_observed_change
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source, changed_keys, has_removed_keys
from hotmap.core.model.state import ObservedChange
from hotmap.core.text import parse_number

__all__ = ["History"]

#: Changes kept per source; a window needs the first and the last since something was asked.
_KEPT = 32

#: Data keys that are named in one change; with more, nobody saw which.
_KEYS = 256

#: Seconds for which the changes of a deleted source are kept, in case that it returns, and how many
#: deleted sources at most: names that do not come back must not fill the memory.
_DELETED_FOR = 3600.0
_DELETED_AT_MOST = 4096


class History:
    """The latest data changes of each source."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` tells POSIX seconds as the API server does."""
        self._clock = clock
        self._changes: dict[ObjectKey, list[ObservedChange]] = {}
        #: What an earlier controller saw and kept.
        self._saved: dict[ObjectKey, tuple[ObservedChange, ...]] = {}
        #: What was listed first of the sources that were written since: the resourceVersion, and
        #: when managedFields said that it was written.
        self._listed: dict[ObjectKey, tuple[str, float | None]] = {}
        #: When the last object of the first lists came, and by when an earlier controller had
        #: seen every change.
        self._listed_at: float | None = None
        self._watched_until: float | None = None
        #: What bounds a source's last data change more tightly than its own last write.
        self._changed_at: dict[ObjectKey, float | None] = {}
        #: When sources were deleted that are not back, the first one first.
        self._deleted: dict[ObjectKey, float] = {}

    def record_list(self) -> None:
        """Note that an object came with the first list."""
        self._listed_at = self._clock()

    def record_change(self, key: ObjectKey, old: Source | None, new: Source | None) -> bool:
        """Note a change; False when no data key changed (labels, annotations, the same data)."""
        keys = changed_keys(old, new)
        self._deleted.pop(key, None)
        if key not in self._listed:
            self._listed[key] = (old.resource_version, old.changed_at) if old else ("", None)
        if not keys and old is not None and new is not None:
            self._changed_at.setdefault(key, old.changed_at)
            return False
        self._changed_at.pop(key, None)
        now = self._clock()
        kept = self._changes.setdefault(key, [])
        named = keys if len(keys) <= _KEYS else frozenset[str]()
        kept.append(
            make_observed_change(
                new,
                named,
                removed=has_removed_keys(old, new),
                created=old is None and not kept and key not in self._saved,
                now=now,
            )
        )
        # The first one stays: it is where a window may begin.
        del kept[1 : max(1, len(kept) - _KEPT)]
        if new is None:
            self._deleted[key] = now
            self._drop_deleted(now)
        return True

    def _drop_deleted(self, now: float) -> None:
        """Forget the sources that were deleted long ago, and of too many the first ones."""
        while self._deleted:
            key, at = next(iter(self._deleted.items()))
            if len(self._deleted) <= _DELETED_AT_MOST and now - at <= _DELETED_FOR:
                return
            del self._deleted[key]
            for kept in (self._changes, self._saved, self._listed):
                kept.pop(key, None)

    def bounded(self, source: Source) -> Source:
        """Put back the time that writes of labels and annotations alone have moved on."""
        if source.key not in self._changed_at:
            return source
        return msgspec.structs.replace(source, changed_at=self._changed_at[source.key])

    def of(self, key: ObjectKey) -> SourceHistory:
        """Return what is known of a source's changes."""
        at = self._listed_at
        return SourceHistory(
            self._saved.get(key, ()),
            tuple(self._changes.get(key, ())),
            self._listed.get(key),
            None if at is None else WatchGap(self._watched_until, at),
        )

    def changes(self, key: ObjectKey) -> tuple[ObservedChange, ...]:
        """Return what is known of a source's latest changes, oldest first."""
        return (*self._saved.get(key, ()), *self._changes.get(key, ()))

    def restore(
        self, saved: Mapping[ObjectKey, Sequence[ObservedChange]], *, until: float | None
    ) -> None:
        """Put before what was seen here what another controller saw and kept.

        `until` is by when that one had seen every change, POSIX seconds of the API server; None:
        unknown. What this one saw itself counts, should both have watched for a while.
        """
        self._watched_until = until
        for key, changes in saved.items():
            own = self._changes.get(key, [])
            begun = _number(own[0].resource_version) if own else 0
            earlier = [s for s in changes if not own or _number(s.resource_version) < begun]
            self._saved[key] = tuple(earlier)


def _number(resource_version: str) -> int:
    return parse_number(resource_version) or 0
