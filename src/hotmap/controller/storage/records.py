"""Keeps the records of all consumers, in memory and in a few Secrets.

A change that comes alone is written at once. Those that follow it are gathered until none came for
a second, five at most, and the shards that they touch are written together; a crash in between
costs what was gathered, which the freshness rules make good. Only one controller writes; should
another have written in between, its records of consumers that we have not changed since are taken
over.

There are as many shards as the records want, and never fewer than there were. When they become
more, the ones that are new are written first: who reads after a crash in between may find a record
twice, and the later shard has the newer one.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, NoReturn

from hotmap.core.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from hotmap.core.model.objects import ObjectKey, Secret
from hotmap.core.model.state import (
    SHARDS,
    Record,
    SeenSource,
    read_shard,
    read_sightings,
    shard_of,
    shards_for,
    write_shard,
)
from hotmap.kube.client import Client
from hotmap.kube.resources import SECRETS

__all__ = ["Records", "RecordsStatistics"]

_PREFIX = "hotmap-state-"
_DATA_KEY = "state"

#: Seconds without a change that end a burst, and the longest that one is waited for.
_LULL = 1.0
_LONGEST = 5.0

#: Shards read at once: each wants a connection of its own, and 32 TLS handshakes cost more time
#: than the reads.
_READ_AT_ONCE = 4

#: Seconds for which changes of sources are kept; a revert that comes later meets consumers that
#: were rolled, or were told of.
_SEEN_FOR = 3600.0

#: Sources whose changes are kept at most, a few hundred bytes each.
_SEEN_AT_MOST = 4096

#: Seconds of pause after a write that failed.
_FAILED_PAUSE = 5.0

_log = logging.getLogger(__name__)


class RecordsStatistics(NamedTuple):
    #: consumers that something is known of
    records: int
    #: shards that are not written yet
    dirty: int
    #: shard writes since the start
    writes: int
    #: writes that failed since the start
    failures: int


class Records:
    """What was last asked of each consumer, by uid."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._records: dict[str, Record] = {}
        #: Those that changed last come last.
        self._seen: dict[ObjectKey, SeenSource] = {}
        #: Per shard: the uids, and names of sources, that changed since it was written.
        self._dirty: dict[int, set[str]] = {}
        self._versions: dict[int, str] = {}
        self._shards = 1
        #: Shards that records have to move to before they may go from where they were.
        self._new: set[int] = set()
        #: Changes since the start; tells that a burst goes on.
        self._changes = 0
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._writes = self._failures = 0

    async def load(self) -> None:
        """Read all shards; what cannot be read is not known, and its consumers are adopted anew.

        Raises:
            ApiError, Unreachable: as the client raises them; nothing is known then.
        """
        reading = asyncio.Semaphore(_READ_AT_ONCE)
        found: dict[int, tuple[dict[str, Record], dict[ObjectKey, SeenSource]]] = {}

        async def read(shard: int) -> None:
            async with reading:
                text = await self._read(shard)
            if text is not None:
                found[shard] = read_shard(text), read_sightings(text)

        self._records, self._seen, self._dirty, self._versions = {}, {}, {}, {}
        self._new = set()
        try:
            async with asyncio.TaskGroup() as reads:  # the first failure cancels the others
                for shard in range(SHARDS):
                    reads.create_task(read(shard))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        for shard in sorted(found):  # of two copies the later shard's is newer
            records, seen = found[shard]
            self._records |= records
            self._seen |= seen
        self._seen = {one.source: one for one in sorted(self._seen.values(), key=_last_seen)}
        self._shards = shards_for(self._size(), least=max(found, default=0) + 1)
        for shard, (records, seen) in found.items():
            if any(self._shard_of(name) != shard for name in (*records, *map(str, seen))):
                self._dirty[shard] = set()  # a move was not finished
                self._wake.set()

    def get(self, uid: str) -> Record | None:
        """Return what was last asked of a consumer."""
        return self._records.get(uid)

    def put(self, record: Record) -> None:
        """Keep what was asked; it is written at once, or when a burst is over."""
        if self._records.get(record.uid) != record:
            self._records[record.uid] = record
            self._touch(record.uid)

    def note(self, record: Record) -> None:
        """Keep in memory what is not worth a write of its own; the next one takes it along."""
        self._records[record.uid] = record

    def write(self, uids: Iterable[str]) -> None:
        """Have the records of some consumers written that were only noted so far."""
        for uid in uids:
            if uid in self._records:
                self._touch(uid)

    def forget(self, uid: str) -> None:
        """Drop the record of a consumer that is gone."""
        if self._records.pop(uid, None) is not None:
            self._touch(uid)

    def seen(self) -> Collection[SeenSource]:
        """Return what was read of sources' changes, or noted since."""
        return self._seen.values()

    def note_seen(self, seen: SeenSource) -> None:
        """Keep what was seen of a source's changes; it is written as `put` says."""
        if not seen.sightings or self._seen.get(seen.source) == seen:
            return
        self._seen.pop(seen.source, None)
        self._seen[seen.source] = seen
        oldest = seen.sightings[-1].at - _SEEN_FOR
        # What is dropped goes from its shard with the next write of that.
        first = self._first_seen()
        while len(self._seen) > _SEEN_AT_MOST or _last_seen(first) < oldest:
            del self._seen[first.source]
            first = self._first_seen()
        self._touch(str(seen.source))

    def _first_seen(self) -> SeenSource:
        return next(iter(self._seen.values()))

    def retain(self, uids: Collection[str], *, is_seen: Callable[[str], bool]) -> None:
        """Drop the records of all consumers but these, in the namespaces that are seen."""
        gone = [
            uid
            for uid, record in self._records.items()
            if uid not in uids and is_seen(record.namespace)
        ]
        for uid in gone:
            self.forget(uid)

    def statistics(self) -> RecordsStatistics:
        """Count records and writes."""
        return RecordsStatistics(len(self._records), len(self._dirty), self._writes, self._failures)

    async def run(self) -> NoReturn:
        """Write what changed, for ever; a failed write is tried again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not await self.flush():
                self._wake.set()
                await asyncio.sleep(_FAILED_PAUSE)
            await self._lull()

    async def _lull(self) -> None:
        """Wait until a burst of changes is over, or has lasted long enough."""
        for _ in range(round(_LONGEST / _LULL)):
            before = self._changes
            await asyncio.sleep(_LULL)
            if self._changes == before:
                return

    async def flush(self) -> bool:
        """Write all dirty shards now; False when some could not be written and stay dirty."""
        async with self._writing:
            good, shards = True, self._shards
            for shard in sorted(self._dirty, reverse=True):  # see the module: new ones first
                if self._shards != shards or (not good and self._new):
                    break  # what is left would take records away that are nowhere else yet
                good &= await self._write_dirty(shard)
            return good

    async def _write_dirty(self, shard: int) -> bool:
        """Write one shard; False when it could not be written and stays dirty."""
        changed = self._dirty.pop(shard)
        written = False
        try:
            await self._write(shard, changed)
            written = True
            self._writes += 1
            self._new.discard(shard)
        except (ApiError, Unreachable) as error:
            self._failures += 1
            _log.warning("records of shard %02d are not written yet: %s", shard, error)
        finally:
            # Also when cancelled: the last flush, at the end, has to know of it.
            if not written:
                self._dirty.setdefault(shard, set()).update(changed)
        return written

    def _touch(self, uid: str) -> None:
        self._changes += 1
        if (wanted := shards_for(self._size(), least=self._shards)) > self._shards:
            self._move_to(wanted)
        self._dirty.setdefault(self._shard_of(uid), set()).add(uid)
        self._wake.set()

    def _move_to(self, shards: int) -> None:
        """Lay the records out in more shards; all of them are to be written."""
        changed = set().union(*self._dirty.values())
        self._new |= set(range(self._shards, shards))
        self._shards = shards
        self._dirty = {shard: set() for shard in range(shards)}
        for uid in changed:
            self._dirty[self._shard_of(uid)].add(uid)

    def _size(self) -> int:
        return len(self._records) + len(self._seen)

    def _shard_of(self, uid: str) -> int:
        return shard_of(uid, self._shards)

    async def _read(self, shard: int) -> str | None:
        """Read the text of a shard; None when it was never written, or is gone."""
        try:
            secret = await self._client.get(SECRETS, self._namespace, _name(shard), type=Secret)
        except NotFound:
            self._versions.pop(shard, None)
            return None
        self._versions[shard] = secret.metadata.resource_version
        return _text(secret)

    def _take_over(self, shard: int, text: str, changed: Collection[str]) -> None:
        """Take over what another has written of the records here but for those in `changed`."""
        for uid, record in read_shard(text).items():
            if uid not in changed and self._shard_of(uid) == shard:
                self._records[uid] = record
        for source, seen in read_sightings(text).items():
            if str(source) not in changed and self._shard_of(str(source)) == shard:
                self._seen[source] = seen

    async def _write(self, shard: int, changed: set[str]) -> None:
        try:
            await self._send(shard)
        except (AlreadyExists, Conflict, NotFound):
            # Somebody deleted or wrote it: take over what we did not change ourselves.
            text = await self._read(shard)
            self._take_over(shard, text or "", changed)
            await self._send(shard)

    async def _send(self, shard: int) -> None:
        """Write one shard with a precondition.

        Only an answered write counts as done, so a lost answer is met again as a Conflict.
        """
        records = [one for one in self._records.values() if self._shard_of(one.uid) == shard]
        seen = [one for one in self._seen.values() if self._shard_of(str(one.source)) == shard]
        text = write_shard(records, seen)
        version = self._versions.get(shard)
        name = _name(shard)
        metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "hotmap"}}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata if version is None else {**metadata, "resourceVersion": version},
            "type": "hotmap.dev/state",
            "data": {_DATA_KEY: b64encode(text.encode()).decode()},
        }
        if version is None:
            secret = await self._client.create(SECRETS, self._namespace, body, type=Secret)
        else:
            secret = await self._client.replace(SECRETS, self._namespace, name, body, type=Secret)
        self._versions[shard] = secret.metadata.resource_version


def _last_seen(seen: SeenSource) -> float:
    return seen.sightings[-1].at


def _name(shard: int) -> str:
    return f"{_PREFIX}{shard:02d}"


def _text(secret: Secret) -> str:
    try:
        return b64decode((secret.data or {}).get(_DATA_KEY) or "").decode()
    except (Base64Error, UnicodeDecodeError):
        return ""
