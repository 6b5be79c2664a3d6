"""The records of all consumers and the recent changes of their sources, in memory.

`record_shards` writes them to Secrets; without it, as in shadow mode, they are lost at exit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Set
from typing import NamedTuple

import msgspec

from hotmap.controller.storage.recent_changes import RecentChanges
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import SHARDS, UNVOUCHED, Record, SourceChanges, shard_of

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
        #: The immutable sources of deleted consumers, by namespace and uid, oldest first: pods may
        #: go on using them. They are stored, since the next controller knows nothing else of them.
        self._retired: dict[str, dict[str, Record]] = {}
        self._changes = RecentChanges()
        #: Records that were changed in memory and are not to be written yet.
        self._unwritten: set[str] = set()
        #: By when every change of a source had been observed, POSIX seconds of the API server; the
        #: value of an earlier controller until `set_watched_until`. None: unknown.
        self.watched_until: float | None = None
        self._on_change: Callable[[str], None] = lambda name: None
        self._on_watched: Callable[[], None] = lambda: None
        self._on_flush: Callable[[str], Awaitable[None]] | None = None

    def subscribe(
        self,
        on_change: Callable[[str], None],
        on_watched: Callable[[], None],
        on_flush: Callable[[str], Awaitable[None]],
    ) -> None:
        """Call `on_change` with the consumer's uid, or the source's name, that is to be written.

        `on_watched` is called when `watched_until` is to be written, and `on_flush` with the uid of
        a record that must not wait.
        """
        self._on_change, self._on_watched, self._on_flush = on_change, on_watched, on_flush

    @property
    def size(self) -> int:
        """How many entries there are to write."""
        return len(self) + sum(map(len, self._retired.values())) + len(self._changes)

    def __len__(self) -> int:
        """Count the consumers with a record."""
        return sum(map(len, self._records))

    def values(self) -> list[Record]:
        """List all records."""
        return [record for records in self._records for record in records.values()]

    def in_shards(self, shards: Collection[int], number: int) -> list[Record]:
        """List what is in some of `number` shards: records, and what is kept of retired ones."""
        found = [
            record
            for shard, records in enumerate(self._records)
            if shard % number in shards  # see `shard_of`
            for record in records.values()
        ]
        return found + [
            record
            for retired in self._retired.values()
            for uid, record in retired.items()
            if shard_of(uid, number) in shards
        ]

    def retired(self) -> Iterator[Record]:
        """Iterate over what is kept of deleted consumers, oldest first in each namespace."""
        for retired in self._retired.values():
            yield from retired.values()

    def get(self, uid: str) -> Record | None:
        """Return the record of a consumer."""
        return self._records[shard_of(uid)].get(uid)

    def served_instead(self, source: ObjectKey, uid: str) -> Set[str]:
        """Return the content of immutable objects that kubelets may serve in place of a source.

        `uid` is the source's now; "" is content that is not known. A record has such an object: its
        consumer's pods have used it, and were not found to have ended since.
        """
        return {other.content for other in self._immutable.get(source, ()) if other.uid != uid}

    def served_for_deleted(self, source: ObjectKey, uid: str) -> Set[str]:
        """Return the same of deleted consumers."""
        return {
            other.content
            for record in self._retired.get(source.namespace, {}).values()
            for key, other in immutable_objects(record)
            if key == source and other.uid != uid
        }

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

    async def flush(self, uid: str) -> None:
        """Write a record now if it is to be written; one that cannot be is written later."""
        if self._on_flush is not None:
            await self._on_flush(uid)

    def forget(self, uid: str) -> Record | None:
        """Drop the record of a deleted consumer; returns what is kept of it, if anything is.

        These are its immutable sources, until `release` or `drop`.
        """
        self._unwritten.discard(uid)
        record = self._replace(uid, None)
        if record is None:
            return None
        kept = _only_immutable(record)
        if kept is not None:
            self._retired.setdefault(record.namespace, {})[uid] = kept
        self._on_change(uid)
        return kept

    def release(self, source: ObjectKey) -> None:
        """Stop keeping a source of deleted consumers, since no pod uses it any more."""
        name = source.kind_and_name
        for uid, record in list(self._retired.get(source.namespace, {}).items()):
            left = msgspec.structs.replace(
                record,
                former=tuple(each for each in record.former if (each.kind, each.name) != name),
                immutable_uses=tuple(
                    each for each in record.immutable_uses if (each.kind, each.name) != name
                ),
            )
            if left == record:
                continue
            if left.former or left.immutable_uses:
                self._retired[source.namespace][uid] = left
                self._on_change(uid)
            else:
                self.drop(source.namespace, uid)

    def drop(self, namespace: str, uid: str) -> None:
        """Drop what is kept of a deleted consumer."""
        retired = self._retired.get(namespace, {})
        if retired.pop(uid, None) is not None:
            self._on_change(uid)
        if not retired:
            self._retired.pop(namespace, None)

    def retain(self, uids: Collection[str], *, is_visible: Callable[[str], bool]) -> None:
        """Drop the records of all other consumers in the visible namespaces, as `forget` does."""
        for record in self.values():
            if record.uid not in uids and is_visible(record.namespace):
                self.forget(record.uid)

    def keep_deletions(self, is_used: Callable[[ObjectKey], bool]) -> None:
        """Keep that a source was deleted for as long as it is used."""
        self._changes.is_used = is_used

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
        self._retired.clear()
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
        self._retired.get(record.namespace, {}).pop(uid, None)  # it is visible again
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


def _only_immutable(record: Record) -> Record | None:
    """Reduce the record of a deleted consumer to its immutable sources; None: it has none."""
    sources = (*record.sources, *record.former)
    immutable = tuple(source for source in sources if source.pinned or source.immutable)
    if not immutable and not record.immutable_uses:
        return None
    return Record(
        record.uid,
        record.key_id,
        UNVOUCHED,
        namespace=record.namespace,
        former=immutable,
        immutable_uses=record.immutable_uses,
    )
