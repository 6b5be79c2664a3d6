"""Keys, values and revisions: what etcd is to Kubernetes, in this process.

Each write of the store increments its revision, so a revision identifies one state
(etcd: server/storage/mvcc). The newest state and a bounded history are kept: the history
answers ranges at an older revision and lets a watch start in the past without a gap.

Values are opaque bytes; the registry interprets them. Everything is
synchronous and never waits, so code that reads and writes without awaiting in between is not
interrupted. `store_watch` has the watches.

Without a journal the content is lost at exit; `journal` has a journal on disk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from hotmap.core.errors import AlreadyExists, Conflict, Expired, NotFound
from hotmap.local.store_watch import StoreEvent, Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# The watch cache of kube-apiserver keeps at least 75 s of events; counts and bytes bound
# memory where a duration does not.
HISTORY_EVENTS = 10_000
HISTORY_BYTES = 64 << 20
# kubernetes: staging/src/k8s.io/apiserver/pkg/storage/cacher: a watcher's channel holds 10 to
# 1,000 events; a watcher that is further behind is closed and has to resume.
WATCH_BUFFER = 1_000
# Keys that a reading examines in one step, a fraction of a millisecond.
_PAGE = 500


class Entry(NamedTuple):
    """One version of one key; `value` is None where the key was deleted at `mod_revision`."""

    key: str
    value: bytes | None
    create_revision: int
    mod_revision: int


class Range(NamedTuple):
    """Entries under a prefix in key order, all of one revision; `remaining` more follow them."""

    entries: list[Entry]
    remaining: int
    revision: int


# Sorts behind every character that a key has.
_LAST = "\U0010ffff"


def _size(event: StoreEvent) -> int:
    """Return the bytes that an event keeps in memory, where one of its values is shared."""
    return max(len(event.value or b""), len(event.prev_value or b""))


class StaleRead(Conflict):
    """Raised when a write was decided on a state that another writer of the store had changed.

    By now the store has seen the change: decide again. A store raises it if it has other writers.
    """


class Journal(Protocol):
    """Keeps writes beyond the life of the process."""

    def append(self, write: Entry) -> None:
        """Keep a write before it happens.

        Raises:
            Unavailable: it cannot be kept, so it must not happen.
        """
        ...

    def compact(self, entries: Sequence[Entry], revision: int) -> None:
        """Take notice of the present state, which makes all writes up to it dispensable."""
        ...

    @property
    def is_long(self) -> bool:
        """Whether it is time for `compact`."""
        ...

    @property
    def failure(self) -> str:
        """Why writes cannot be kept at present; "" if they can."""
        ...


class Store(Protocol):
    """The interface of a store; see `MVCCStore` for the guarantees of the methods.

    Synchronous on purpose: a caller that reads and writes without awaiting in between has no races.
    """

    @property
    def revision(self) -> int: ...

    def get(self, key: str) -> Entry | None: ...

    def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int | None = None
    ) -> Range: ...

    def read(self, prefix: str, *, after: str = "", revision: int | None = None) -> Reading: ...

    def create(self, key: str, value: bytes) -> int: ...

    def update(self, key: str, value: bytes, *, expected: int) -> int: ...

    def delete(self, key: str, *, expected: int) -> int: ...

    def watch(self, prefix: str, *, since: int) -> Watch: ...

    def catch_up(self) -> None: ...

    def failure(self) -> str: ...

    def close(self) -> None: ...


class MVCCStore:
    """Keep every key's versions under one revision, and notify watches of each write."""

    def __init__(
        self,
        *,
        history_events: int = HISTORY_EVENTS,
        history_bytes: int = HISTORY_BYTES,
        watch_buffer: int = WATCH_BUFFER,
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal
        self._history_events = history_events
        self._history_bytes = history_bytes
        self._watch_buffer = watch_buffer
        # A new etcd has revision 1; the first write is revision 2.
        self._revision = 1
        self._compacted = 1
        # Oldest first, never empty: a key whose last version is forgotten is removed.
        self._versions: dict[str, list[Entry]] = {}
        # The keys of _versions, sorted.
        self._keys: list[str] = []
        # The events of the revisions _compacted + 1 … _revision, in that order.
        self._history: deque[StoreEvent] = deque()
        self._size = 0
        # What `compact` was asked for, and the revisions that are being read meanwhile.
        self._compact_to = 1
        self._held: list[int] = []
        # By prefix; a prefix is a whole key or ends with "/", so an event finds its watches by its
        # key's prefixes.
        self._watches: dict[str, set[Watch]] = {}

    @property
    def revision(self) -> int:
        """The revision of the newest write."""
        return self._revision

    @property
    def compacted(self) -> int:
        """The oldest revision that can still be read; watches may start after it."""
        return self._compacted

    def get(self, key: str) -> Entry | None:
        """Get the newest version of a key, or None where it does not exist."""
        versions = self._versions.get(key)
        if versions is None or versions[-1].value is None:
            return None
        return versions[-1]

    def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int | None = None
    ) -> Range:
        """Read the entries under a prefix, in key order, at one revision.

        `after` is the last key of the page before; `limit` 0 or less means everything.

        Raises:
            Expired: the revision is compacted; start over at the newest one.
        """
        at = self._readable(revision)
        entries = self._entries_at(self._keys_under(prefix, after), at)
        limit = limit if limit > 0 else len(entries)
        return Range(entries[:limit], max(0, len(entries) - limit), at)

    def read(self, prefix: str, *, after: str = "", revision: int | None = None) -> Reading:
        """Read a range a few entries at a time, so that others can write in between.

        Raises:
            Expired: the revision is compacted; start over at the newest one.
        """
        return Reading(self, prefix, after, self._readable(revision))

    def page(self, prefix: str, after: str, revision: int) -> tuple[list[Entry], str]:
        """Read the next entries at a revision, and the last key that was examined, "" at the end.

        Only a reading calls this.
        """
        keys = self._keys_under(prefix, after, _PAGE)
        return self._entries_at(keys, revision), keys[-1] if keys else ""

    def hold(self, revision: int) -> None:
        """Keep a revision readable; only a reading calls this."""
        self._held.append(revision)

    def release(self, revision: int) -> None:
        """Forget what was kept for a reading only."""
        self._held.remove(revision)
        self._trim()

    def create(self, key: str, value: bytes) -> int:
        """Write a key that does not exist; return the new revision.

        Raises:
            AlreadyExists: it does.
        """
        if self.get(key) is not None:
            raise AlreadyExists(f"{key} exists already")
        return self._write(key, value, None)

    def update(self, key: str, value: bytes, *, expected: int) -> int:
        """Replace the version that was written at revision `expected`; return the new revision.

        Raises:
            NotFound: the key does not exist.
            Conflict: it was written since.
            Unavailable: the journal cannot keep the write; nothing has changed.
        """
        return self._write(key, value, self._expect(key, expected))

    def delete(self, key: str, *, expected: int | None = None) -> int:
        """Delete a key, at the version `expected` or at any; return the revision of it.

        Raises:
            NotFound: the key does not exist.
            Conflict: it was written since.
        """
        return self._write(key, None, self._expect(key, expected))

    def watch(self, prefix: str, *, since: int | None = None) -> Watch:
        """Watch a prefix: every write after revision `since`, once, in order, without end.

        `prefix` is a whole key or ends with "/". None means from now on. A future revision is
        allowed: the watch stays silent until it is passed.

        Raises:
            Expired: history does not reach back that far; read the current state and start there.
        """
        start = self._revision if since is None else since
        if start < self._compacted:
            raise Expired(f"too old resource version: {start} ({self._compacted})")
        # One event for each revision is the rule; only another writer's transactions differ.
        contiguous = len(self._history) == self._revision - self._compacted
        skip = min(start - self._compacted, len(self._history)) if contiguous else 0
        backlog = [
            event
            for event in islice(self._history, skip, None)
            if event.revision > start and _is_under(event.key, prefix)
        ]
        watch = Watch(self, prefix, start, backlog, self._watch_buffer)
        self._watches.setdefault(prefix, set()).add(watch)
        return watch

    def restore(self, entries: Iterable[Entry], revision: int) -> None:
        """Begin with a state that was kept: the entries of one revision; history begins there."""
        for entry in entries:
            self._versions[entry.key] = [entry]
        self._keys = sorted(self._versions)
        self._revision = self._compacted = revision

    def apply(self, key: str, value: bytes | None, revision: int) -> None:
        """Take in a write that was kept elsewhere, at a revision beyond the present one.

        A deletion of a key that does not exist only moves the revision.
        """
        previous = self.get(key)
        if value is None and previous is None:
            self.advance(revision)
            return
        self._apply_write(key, value, previous, revision)

    def advance(self, revision: int) -> None:
        """Move to a later revision that changed nothing here."""
        self._revision = max(self._revision, revision)

    def entries(self) -> list[Entry]:
        """Return the newest version of every key, in no order."""
        newest = (versions[-1] for versions in self._versions.values())
        return [entry for entry in newest if entry.value is not None]

    def catch_up(self) -> None:
        """See every write that was acknowledged so far; there is no other writer here."""

    def failure(self) -> str:
        """Return why writes cannot be kept at present; "" if they can."""
        return "" if self._journal is None else self._journal.failure

    def compact(self, revision: int) -> None:
        """Drop history up to a revision; the state at that revision stays readable."""
        self._compact_to = max(self._compact_to, min(revision, self._revision))
        self._trim()

    def close(self) -> None:
        """End every watch."""
        for watch in [watch for group in self._watches.values() for watch in group]:
            watch.close()

    def _expect(self, key: str, expected: int | None) -> Entry:
        entry = self.get(key)
        if entry is None:
            raise NotFound(f"{key} does not exist")
        if expected is not None and entry.mod_revision != expected:
            raise Conflict(f"{key} is at revision {entry.mod_revision}, not at {expected}")
        return entry

    def _write(self, key: str, value: bytes | None, previous: Entry | None) -> int:
        revision = self._revision + 1
        created = previous.create_revision if previous else revision
        if self._journal is not None:
            self._journal.append(Entry(key, value, created, revision))
        self._apply_write(key, value, previous, revision)
        if self._journal is not None and self._journal.is_long:
            self._journal.compact(self.entries(), revision)
        return revision

    def _apply_write(
        self, key: str, value: bytes | None, previous: Entry | None, revision: int
    ) -> None:
        self._revision = revision
        created = previous.create_revision if previous else revision
        versions = self._versions.get(key)
        if versions is None:
            versions = self._versions[key] = []
            insort(self._keys, key)
        versions.append(Entry(key, value, created, revision))
        event = StoreEvent(
            "DELETE" if value is None else "PUT",
            key,
            value,
            previous.value if previous else None,
            revision,
        )
        self._history.append(event)
        self._size += _size(event)
        self._trim()
        for prefix in _ancestors(key):
            for watch in tuple(self._watches.get(prefix, ())):
                watch.push(event)

    def _trim(self) -> None:
        """Keep the history within its bounds, except for what is being read."""
        held = min(self._held, default=self._revision)
        while self._history and self._history[0].revision <= held:
            is_long = len(self._history) > self._history_events or (
                self._size > self._history_bytes and len(self._history) > 1
            )
            if not is_long and self._history[0].revision > self._compact_to:
                return
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        event = self._history.popleft()
        self._size -= _size(event)
        self._compacted = event.revision
        versions = self._versions[event.key]
        # Revisions are unique, so the versions before this one are those that no readable
        # revision shows any more; a deletion itself shows nothing either.
        keep = bisect_left(versions, event.revision, key=_mod_revision)
        if event.value is None:
            keep += 1
        del versions[:keep]
        if not versions:
            del self._versions[event.key]
            del self._keys[bisect_left(self._keys, event.key)]

    def _readable(self, revision: int | None) -> int:
        at = self._revision if revision is None else revision
        if at < self._compacted:
            raise Expired(f"revision {at} is compacted; the oldest kept is {self._compacted}")
        return at

    def _entries_at(self, keys: Iterable[str], revision: int) -> list[Entry]:
        versions = map(self._versions.__getitem__, keys)
        # In one turn of the event loop however many keys there are, so without a call for each.
        if revision >= self._revision:
            newest = [found[-1] for found in versions]
        else:
            newest = [entry for found in versions if (entry := _version_at(found, revision))]
        return [entry for entry in newest if entry.value is not None]

    def _keys_under(self, prefix: str, after: str, limit: int | None = None) -> Sequence[str]:
        if not prefix.endswith("/"):
            return [prefix] if prefix in self._versions and prefix > after else []
        start = bisect_right(self._keys, max(prefix, after))
        end = bisect_left(self._keys, prefix + _LAST, start)
        return self._keys[start : end if limit is None else min(end, start + limit)]

    def forget_watch(self, watch: Watch) -> None:
        """Stop notifying a watch; it calls this itself when it ends."""
        group = self._watches.get(watch.prefix)
        if group is not None:
            group.discard(watch)
            if not group:
                del self._watches[watch.prefix]


class Reading:
    """The entries under a prefix in key order, all of one revision, in lists of a few hundred.

    As a context manager it keeps its revision readable until the end, so writes and compactions
    may come between two lists. Without, all has to be read before the next write.
    """

    def __init__(self, store: MVCCStore, prefix: str, after: str, revision: int) -> None:
        self.revision = revision
        self._store = store
        self._prefix = prefix
        self._after = after

    def __enter__(self) -> Self:
        self._store.hold(self.revision)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.release(self.revision)

    def __iter__(self) -> Iterator[list[Entry]]:
        after = self._after
        while True:
            entries, after = self._store.page(self._prefix, after, self.revision)
            if not after:
                return
            yield entries


def _mod_revision(entry: Entry) -> int:
    return entry.mod_revision


def _version_at(versions: list[Entry], revision: int) -> Entry | None:
    for entry in reversed(versions):
        if entry.mod_revision <= revision:
            return entry
    return None


def _is_under(key: str, prefix: str) -> bool:
    return key.startswith(prefix) if prefix.endswith("/") else key == prefix


def _ancestors(key: str) -> Iterator[str]:
    yield key
    end = key.rfind("/")
    while end >= 0:
        yield key[: end + 1]
        end = key.rfind("/", 0, end)
