"""The recent changes of sources that hotmap has observed on its watches.

Observed times are more precise than those in the objects (managedFields have whole seconds and
change with every write). They also detect edits that were reverted before hotmap acted, and give
the names of the changed data keys for reasons. No decision depends on them alone, and losing them
loses no change. Nevertheless the changes of followed sources are stored with the records: only they
show that a pod started between an edit and its revert, even if the controller was killed in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from hotmap.core.decide.source_changes import SourceHistory, WatchGap
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.observed_changes import (
    MAX_NAMED_KEYS,
    append_change,
    make_observed_change,
    make_unobserved_write,
    thin_changes,
)
from hotmap.core.model.source import Marks, Source, changed_keys, has_removed_keys
from hotmap.core.model.state import ObservedChange
from hotmap.core.resource_version import version_number

__all__ = ["History"]

#: Changes kept per source: a window begins with the first since the last applied version.
_KEPT = 32

#: Seconds for which the changes of a deleted source are kept, in case that it returns, and how many
#: deleted sources at most: names that do not come back must not fill the memory. Of one that is
#: still in use the deletion is kept: only that shows which pods may have its content.
_DELETED_FOR = 3600.0
_DELETED_AT_MOST = 4096

#: Deleted immutable sources that are kept by name, the last ones with different content. Two are
#: enough: any other content differs from one of them.
_IMMUTABLE = 2

#: Deleted sources that are examined at each deletion, which adds one.
_EXAMINED = 2


class _Deleted(NamedTuple):
    """An immutable source that was deleted, and when (POSIX seconds)."""

    at: float
    marks: tuple[Marks, ...]


class History:
    """The latest data changes of each source."""

    def __init__(self, clock: Callable[[], float], *, is_used: Callable[[ObjectKey], bool]) -> None:
        """`clock` returns POSIX seconds of the API server.

        `is_used` returns whether a consumer uses or follows a source, which may not exist.
        """
        self._clock = clock
        self._is_used = is_used
        self._changes: dict[ObjectKey, tuple[ObservedChange, ...]] = {}
        #: The changes that an earlier controller stored.
        self._saved: dict[ObjectKey, tuple[ObservedChange, ...]] = {}
        #: The first listed version of each source that was written since: the resourceVersion,
        #: and its time in managedFields.
        self._listed: dict[ObjectKey, tuple[str, float | None]] = {}
        #: When the first lists were complete, and the time until which an earlier controller
        #: observed every change.
        self._listed_at: float | None = None
        self._watched_until: float | None = None
        #: The time of a source's last data change, if later writes changed only its metadata.
        self._changed_at: dict[ObjectKey, float | None] = {}
        #: The last immutable sources that were deleted, and when; see _IMMUTABLE.
        self._immutable: dict[ObjectKey, tuple[_Deleted, ...]] = {}
        #: When sources were deleted that have not been recreated, or were examined since, oldest
        #: first.
        self._deleted: dict[ObjectKey, float] = {}

    def record_list(self) -> None:
        """Record that a first list is complete."""
        self._listed_at = self._clock()

    def record_change(
        self,
        key: ObjectKey,
        old: Source | None,
        new: Source | None,
        *,
        since: float | None = None,
        listed: bool = False,
    ) -> bool:
        """Record a change; False when no data key changed (labels, annotations, the same data).

        If the watch was interrupted, `since` is when, in POSIX seconds: the change happened after
        that. `listed` says that states in between may be missing.
        """
        if listed and old is not None and new is not None and old.uid != new.uid:
            return self._record_recreation(key, old, new, since=since)
        keys = changed_keys(old, new)
        self._deleted.pop(key, None)
        if key not in self._listed:
            self._listed[key] = (old.resource_version, old.changed_at) if old else ("", None)
        now = self._clock()
        if old is not None and new is not None:
            moved = old.resource_version != new.resource_version
            missed = listed and since is not None and moved
            if missed and since is not None:
                # Any data key may have changed and changed back, whatever the others are now.
                self._append_change(key, make_unobserved_write(new, since=since, now=now))
            if not keys:
                self._changed_at.setdefault(key, old.changed_at)
                return missed
        self._changed_at.pop(key, None)
        named = keys if len(keys) <= MAX_NAMED_KEYS else frozenset[str]()
        self._append_change(
            key,
            make_observed_change(
                new,
                named,
                removed=has_removed_keys(old, new),
                created=old is None and not self.changes(key),
                now=now,
                since=since,
            ),
        )
        if new is None:
            self._record_deletion(key, old, now=now)
        return True

    def _record_recreation(
        self, key: ObjectKey, old: Source, new: Source, *, since: float | None
    ) -> bool:
        """Record that a list has another object of the name: the watch has missed the deletion."""
        if since is not None:
            # It may have been recreated with any content, and edited since.
            self._append_change(key, make_unobserved_write(new, since=since, now=self._clock()))
        self.record_change(key, old, None, since=since)
        return self.record_change(key, None, new, since=since)

    def _record_deletion(self, key: ObjectKey, old: Source | None, *, now: float) -> None:
        self._deleted[key] = now
        if old is not None and old.immutable:
            known = (each for each in self._immutable.get(key, ()) if each.marks != old.marks)
            self._immutable[key] = (_Deleted(now, old.marks), *known)[:_IMMUTABLE]
        self._drop_deleted(now)

    def _append_change(self, key: ObjectKey, change: ObservedChange) -> None:
        kept = self._changes.get(key, ())
        self._changes[key] = thin_changes(append_change(kept, change), _KEPT)

    def _drop_deleted(self, now: float) -> None:
        """Drop sources that were deleted long ago, and the oldest if there are too many."""
        for key, at in list(islice(self._deleted.items(), _EXAMINED)):
            if len(self._deleted) <= _DELETED_AT_MOST and now - at <= _DELETED_FOR:
                return
            del self._deleted[key]
            if self._is_used(key):
                self._deleted[key] = now  # its consumers may be deleted too
                self._changes[key] = self.changes(key)[-1:]
                self._saved.pop(key, None)
                continue
            for kept in (self._changes, self._saved, self._listed, self._immutable):
                kept.pop(key, None)

    def with_change_time(self, source: Source) -> Source:
        """Restore the time of the last data change if later writes changed only metadata."""
        if source.key not in self._changed_at:
            return source
        return msgspec.structs.replace(source, changed_at=self._changed_at[source.key])

    def of(self, key: ObjectKey) -> SourceHistory:
        """Return what is known of a source's changes."""
        at = self._listed_at
        return SourceHistory(
            self._saved.get(key, ()),
            self._changes.get(key, ()),
            self._listed.get(key),
            None if at is None else WatchGap(self._watched_until, at),
            max((each.at for each in self._immutable.get(key, ())), default=None),
        )

    def is_like_deleted(self, source: Source) -> bool:
        """Return whether all immutable sources that were deleted under its name had its content."""
        return all(each.marks == source.marks for each in self._immutable.get(source.key, ()))

    def changes(self, key: ObjectKey) -> tuple[ObservedChange, ...]:
        """Return what is known of a source's latest changes, oldest first."""
        return (*self._saved.get(key, ()), *self._changes.get(key, ()))

    def restore(
        self, saved: Mapping[ObjectKey, Sequence[ObservedChange]], *, until: float | None
    ) -> None:
        """Prepend the changes that another controller stored.

        `until` is the time until which that controller observed every change, POSIX seconds of the
        API server; None: unknown. Where both observed the same period, this controller's own
        changes are used.
        """
        self._watched_until = until
        for key, changes in saved.items():
            own = self._changes.get(key, ())
            begun = self._find_begin(key, own) if own else 0
            earlier = [s for s in changes if not own or version_number(s.resource_version) < begun]
            self._saved[key] = tuple(earlier)

    def record_missing(self, key: ObjectKey) -> bool:
        """Record that a source does not exist which an earlier controller has applied.

        Returns whether its deletion is news. The deletion is kept, since pods that start before the
        source is created again have nothing of it.
        """
        known = self.changes(key)
        if self._listed_at is None or (known and not known[-1].resource_version):
            return False
        deleted = ObservedChange(self._listed_at, "", frozenset(), since=self._watched_until)
        self._saved[key] = (*self._saved.get(key, ()), deleted)
        return True

    def _find_begin(self, key: ObjectKey, own: Sequence[ObservedChange]) -> int:
        """Return the least version that this controller observed as a change.

        The first one may be a deletion, which has no version; then it followed the listed one.
        """
        listed, _ = self._listed[key]
        return version_number(listed) + 1 if listed else version_number(own[0].resource_version)
