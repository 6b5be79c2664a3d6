"""The records of all consumers and what was lately seen of their sources, in memory.

`record_shards` writes them to Secrets; without it, as in shadow mode, they end with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Record, SeenSource

__all__ = ["Records", "last_seen"]

#: Seconds for which changes of sources are kept; at a later revert the consumers were already
#: rolled out or reported.
_SEEN_FOR = 3600.0

#: Sources whose changes are kept at most, a few hundred bytes each.
_SEEN_AT_MOST = 4096

#: Data keys that are named in the changes of one source; with more, the keys count as unknown.
_SEEN_KEYS = 256


class Records:
    """The records of what was last applied to each consumer, by uid."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        #: Those that changed last are last.
        self._seen: dict[ObjectKey, SeenSource] = {}
        #: Records that were changed in memory and are not to be written yet.
        self._noted: set[str] = set()
        #: By when every change of a source had been observed, POSIX seconds of the API server; the
        #: value of an earlier controller until `note_watched`. None: unknown.
        self.watched_until: float | None = None
        self._on_change: Callable[[str], None] = _ignore
        self._on_watched: Callable[[], None] = _ignore_watched

    def subscribe(self, on_change: Callable[[str], None], on_watched: Callable[[], None]) -> None:
        """Call `on_change` with the uid, or the name of a source, of what is to be written.

        `on_watched` is called when `watched_until` is to be written.
        """
        self._on_change, self._on_watched = on_change, on_watched

    @property
    def size(self) -> int:
        """How many entries there are to write."""
        return len(self._records) + len(self._seen)

    def __len__(self) -> int:
        """Count the consumers with a record."""
        return len(self._records)

    def values(self) -> Collection[Record]:
        """Return all records."""
        return self._records.values()

    def get(self, uid: str) -> Record | None:
        """Return the record of a consumer."""
        return self._records.get(uid)

    def put(self, record: Record) -> None:
        """Keep what was asked; it is to be written."""
        if self._records.get(record.uid) != record:
            self._records[record.uid] = record
            self._noted.discard(record.uid)
            self._on_change(record.uid)

    def note(self, record: Record) -> None:
        """Store a record in memory only; it is written with the next change."""
        self._records[record.uid] = record
        self._noted.add(record.uid)

    def note_watched(self, until: float) -> None:
        """Write by when every change of a source had been observed, and what was only noted.

        Without any record nothing is written.
        """
        self.watched_until = until
        if self._records:
            self._on_watched()
            self.write(tuple(self._noted))

    def write(self, uids: Iterable[str]) -> None:
        """Schedule the records of some consumers to be written that were only noted so far."""
        for uid in uids:
            self._noted.discard(uid)
            if uid in self._records:
                self._on_change(uid)

    def forget(self, uid: str) -> None:
        """Drop the record of a deleted consumer."""
        self._noted.discard(uid)
        if self._records.pop(uid, None) is not None:
            self._on_change(uid)

    def retain(self, uids: Collection[str], *, is_seen: Callable[[str], bool]) -> None:
        """Drop the records of all other consumers in the visible namespaces."""
        gone = [
            uid
            for uid, record in self._records.items()
            if uid not in uids and is_seen(record.namespace)
        ]
        for uid in gone:
            self.forget(uid)

    def seen(self) -> Collection[SeenSource]:
        """Return the observed changes of sources."""
        return self._seen.values()

    def note_seen(self, seen: SeenSource) -> None:
        """Keep what was seen of a source's changes; it is to be written."""
        if sum(len(sighting.keys) for sighting in seen.sightings) > _SEEN_KEYS:
            unnamed = tuple(
                msgspec.structs.replace(sighting, keys=frozenset()) for sighting in seen.sightings
            )
            seen = SeenSource(seen.source, unnamed)
        if not seen.sightings or self._seen.get(seen.source) == seen:
            return
        self._seen.pop(seen.source, None)
        self._seen[seen.source] = seen
        oldest = seen.sightings[-1].at - _SEEN_FOR
        # A dropped entry is removed from its shard at the next write.
        first = self._first_seen()
        while len(self._seen) > _SEEN_AT_MOST or last_seen(first) < oldest:
            del self._seen[first.source]
            first = self._first_seen()
        self._on_change(str(seen.source))

    def clear(self) -> None:
        """Know nothing."""
        self._records.clear()
        self._seen.clear()
        self._noted.clear()
        self.watched_until = None

    def restore(self, records: Iterable[Record], seen: Iterable[SeenSource]) -> None:
        """Take over what was read from where it is written."""
        self._records.update((record.uid, record) for record in records)
        self._seen.update((source.source, source) for source in seen)

    def _first_seen(self) -> SeenSource:
        return next(iter(self._seen.values()))


def last_seen(seen: SeenSource) -> float:
    """Return when a source was last seen to change, POSIX seconds."""
    return seen.sightings[-1].at


def _ignore(name: str) -> None:
    """Write nothing."""


def _ignore_watched() -> None:
    """Write nothing."""
