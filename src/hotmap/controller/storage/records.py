"""The records of all consumers and the recent changes of their sources, in memory.

`record_shards` writes them to Secrets; without it, as in shadow mode, they are lost at exit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from typing import NamedTuple

import msgspec

from hotmap.controller.storage.recent_changes import RecentChanges
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import SHARDS, Record, SourceChanges, shard_of

__all__ = ["Records", "ServedObject", "immutable_objects"]

#: Data keys that are named in the changes of one source; with more, the keys count as unknown.
_MAX_KEYS = 256


class ServedObject(NamedTuple):
    """An immutable object that kubelets may serve."""

    #: "" if it is not known.
    uid: str
    #: Fingerprint over all its data keys; "" if it is not known.
    content: str


class Records:
    """The records of what was last applied to each consumer, by uid."""

    def __init__(self) -> None:
        #: By their shard of the most that there may be; with fewer, a shard has several of these.
        self._records: tuple[dict[str, Record], ...] = tuple({} for _ in range(SHARDS))
        #: By source, the immutable objects that kubelets may serve for it, as the records tell.
        self._immutable: dict[ObjectKey, Counter[ServedObject]] = {}
        #: The same of consumers that were deleted while no controller was running.
        self._formerly_immutable: dict[ObjectKey, set[ServedObject]] = {}
        self._changes = RecentChanges()
        #: Records that were changed in memory and are not to be written yet.
        self._unwritten: set[str] = set()
        #: By when every change of a source had been observed, POSIX seconds of the API server; the
        #: value of an earlier controller until `set_watched_until`. None: unknown.
        self.watched_until: float | None = None
        self._on_change: Callable[[str], None] = _ignore
        self._on_watched: Callable[[], None] = _ignore_watched

    def subscribe(self, on_change: Callable[[str], None], on_watched: Callable[[], None]) -> None:
        """Call `on_change` with the consumer's uid, or the source's name, that is to be written.

        `on_watched` is called when `watched_until` is to be written.
        """
        self._on_change, self._on_watched = on_change, on_watched

    @property
    def size(self) -> int:
        """How many entries there are to write."""
        return len(self) + len(self._changes)

    def __len__(self) -> int:
        """Count the consumers with a record."""
        return sum(map(len, self._records))

    def values(self) -> list[Record]:
        """List all records."""
        return self.in_shards((0,), 1)

    def in_shards(self, shards: Collection[int], number: int) -> list[Record]:
        """List the records that are in some of `number` shards."""
        return [
            record
            for shard, records in enumerate(self._records)
            if shard % number in shards  # see `shard_of`
            for record in records.values()
        ]

    def get(self, uid: str) -> Record | None:
        """Return the record of a consumer."""
        return self._records[shard_of(uid)].get(uid)

    def served_instead(self, source: ObjectKey, uid: str) -> Set[str]:
        """Return the content of immutable objects that kubelets may serve in place of a source.

        `uid` is the source's now; "" is content that is not known. A record has such an object: its
        consumer's pods have used it, and were not found to have ended since.
        """
        return {other.content for other in self._immutable.get(source, ()) if other.uid != uid}

    def served_before_start(self, source: ObjectKey, uid: str) -> Set[str]:
        """Return the same of unobserved workloads.

        They were deleted while no controller was running; nothing shows when their pods ended.
        """
        served = self._formerly_immutable.get(source, ())
        return {other.content for other in served if other.uid != uid}

    def put(self, record: Record) -> None:
        """Store a record and schedule it to be written."""
        if self.get(record.uid) != record:
            self._replace(record.uid, record)
            self._unwritten.discard(record.uid)
            self._on_change(record.uid)

    def put_in_memory(self, record: Record) -> None:
        """Store a record in memory only; it is written with the next change."""
        self._replace(record.uid, record)
        self._unwritten.add(record.uid)

    def set_watched_until(self, until: float | None) -> None:
        """Schedule the time and all records that are only in memory to be written.

        Every change of a source before `until`, POSIX seconds of the API server, was observed. None
        leaves the time unchanged. Without any record nothing is written.
        """
        if until is not None:
            self.watched_until = until
        if len(self):
            self._on_watched()
            self.write(tuple(self._unwritten))

    def write(self, uids: Iterable[str]) -> None:
        """Schedule records to be written that were only stored in memory so far."""
        for uid in uids:
            self._unwritten.discard(uid)
            if self.get(uid) is not None:
                self._on_change(uid)

    def forget(self, uid: str) -> None:
        """Drop the record of a deleted consumer."""
        self._unwritten.discard(uid)
        if self._replace(uid, None) is not None:
            self._on_change(uid)

    def retain(self, uids: Collection[str], *, is_visible: Callable[[str], bool]) -> None:
        """Drop the records of all other consumers in the visible namespaces."""
        gone = [
            record
            for record in self.values()
            if record.uid not in uids and is_visible(record.namespace)
        ]
        for record in gone:
            for source, immutable in immutable_objects(record):
                self._formerly_immutable.setdefault(source, set()).add(immutable)
            self.forget(record.uid)

    def changes(self) -> Collection[SourceChanges]:
        """Return the observed changes of sources."""
        return self._changes.values()

    def put_changes(self, changes: SourceChanges) -> None:
        """Store the observed changes of a source and schedule them to be written."""
        if sum(len(change.keys) for change in changes.changes) > _MAX_KEYS:
            unnamed = tuple(
                msgspec.structs.replace(change, keys=frozenset()) for change in changes.changes
            )
            changes = SourceChanges(changes.source, unnamed)
        if not changes.changes or self._changes.get(changes.source) == changes:
            return
        self._changes.put(changes)  # what it drops is removed from its shard at the next write
        self._on_change(str(changes.source))

    def clear(self) -> None:
        """Drop everything."""
        for records in self._records:
            records.clear()
        self._immutable.clear()
        self._formerly_immutable.clear()
        self._changes.clear()
        self._unwritten.clear()
        self.watched_until = None

    def restore(self, records: Iterable[Record], changes: Iterable[SourceChanges]) -> None:
        """Add records and changes that were read from the Secrets."""
        for record in records:
            self._replace(record.uid, record)
        self._changes.restore(changes)

    def _replace(self, uid: str, record: Record | None) -> Record | None:
        """Set the record of a consumer, or drop it; returns the one before."""
        records = self._records[shard_of(uid)]
        before = records.get(uid)
        if before is not None:
            for source, immutable in immutable_objects(before):
                left = self._immutable[source]
                left[immutable] -= 1
                if not left[immutable]:
                    del left[immutable]
                if not left:
                    del self._immutable[source]
        if record is None:
            records.pop(uid, None)
            return before
        records[uid] = record
        for source, immutable in immutable_objects(record):
            self._immutable.setdefault(source, Counter())[immutable] += 1
        return before


def immutable_objects(record: Record) -> Iterator[tuple[ObjectKey, ServedObject]]:
    """List the sources that kubelets may serve an immutable object for, with that object."""
    for source in (*record.sources, *record.former):
        if source.pinned or source.immutable:
            served = ServedObject("" if source.pinned else source.uid, source.content)
            yield ObjectKey(source.kind, record.namespace, source.name), served
    for use in record.immutable_uses:
        yield ObjectKey(use.kind, record.namespace, use.name), ServedObject(use.uid, "")


def _ignore(name: str) -> None:
    """Write nothing."""


def _ignore_watched() -> None:
    """Write nothing."""
