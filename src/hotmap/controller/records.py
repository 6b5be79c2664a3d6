"""Keeps the records of all consumers, in memory and in a few Secrets.

Changes are gathered and the shards they touch are written together, at most once a second; a
crash in between costs the last second, which the freshness rules make good. Only one controller
writes; should another have written in between, its records of consumers that we have not changed
since are taken over.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, NoReturn

from hotmap.core.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from hotmap.core.objects import ObjectKey, Secret
from hotmap.core.state import (
    SHARDS,
    Record,
    SeenSource,
    read_shard,
    read_sightings,
    shard_of,
    write_shard,
)
from hotmap.kube.client import Client
from hotmap.kube.resources import SECRETS

__all__ = ["Records", "RecordsStatistics"]

_PREFIX = "hotmap-state-"
_DATA_KEY = "state"

#: Seconds between two writes of the dirty shards.
_PACE = 1.0

#: Shards read at once: each wants a connection of its own, and 32 TLS handshakes cost more time
#: than the reads.
_READ_AT_ONCE = 4

#: Seconds for which changes of sources are kept; a revert that comes later meets consumers that
#: were rolled, or were told of.
_SEEN_FOR = 3600.0

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
        self._seen: dict[ObjectKey, SeenSource] = {}
        #: Per shard: the uids, and names of sources, that changed since it was written.
        self._dirty: dict[int, set[str]] = {}
        self._versions: dict[int, str] = {}
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._writes = self._failures = 0

    async def load(self) -> None:
        """Read all shards; what cannot be read is not known, and its consumers are adopted anew.

        Raises:
            ApiError, Unreachable: as the client raises them; nothing is known then.
        """
        reading = asyncio.Semaphore(_READ_AT_ONCE)

        async def read(shard: int) -> None:
            async with reading:
                await self._read(shard, frozenset())

        self._records, self._seen, self._dirty, self._versions = {}, {}, {}, {}
        try:
            async with asyncio.TaskGroup() as reads:  # the first failure cancels the others
                for shard in range(SHARDS):
                    reads.create_task(read(shard))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    def get(self, uid: str) -> Record | None:
        """Return what was last asked of a consumer."""
        return self._records.get(uid)

    def put(self, record: Record) -> None:
        """Keep what was asked; it is written within a second."""
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
        """Keep what was seen of a source's changes; it is written within a second."""
        if not seen.sightings or self._seen.get(seen.source) == seen:
            return
        self._seen[seen.source] = seen
        oldest = seen.sightings[-1].at - _SEEN_FOR
        for old in [one for one in self._seen.values() if one.sightings[-1].at < oldest]:
            del self._seen[old.source]  # goes from its shard with the next write of that
        self._touch(str(seen.source))

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
            await asyncio.sleep(_PACE)

    async def flush(self) -> bool:
        """Write all dirty shards now; False when some could not be written and stay dirty."""
        async with self._writing:
            good = True
            for shard in sorted(self._dirty):
                changed = self._dirty.pop(shard)
                written = False
                try:
                    await self._write(shard, changed)
                    written = True
                    self._writes += 1
                except (ApiError, Unreachable) as error:
                    self._failures += 1
                    good = False
                    _log.warning("records of shard %02d are not written yet: %s", shard, error)
                finally:
                    # Also when cancelled: the last flush, at the end, has to know of it.
                    if not written:
                        self._dirty.setdefault(shard, set()).update(changed)
            return good

    def _touch(self, uid: str) -> None:
        self._dirty.setdefault(shard_of(uid), set()).add(uid)
        self._wake.set()

    async def _read(self, shard: int, changed: Collection[str]) -> None:
        """Take over a shard's records but for those in `changed`, where ours are newer."""
        try:
            secret = await self._client.get(SECRETS, self._namespace, _name(shard), type=Secret)
        except NotFound:
            self._versions.pop(shard, None)
            return
        self._versions[shard] = secret.metadata.resource_version
        text = _text(secret)
        for uid, record in read_shard(text).items():
            if uid not in changed:
                self._records[uid] = record
        for source, seen in read_sightings(text).items():
            if str(source) not in changed:
                self._seen[source] = seen

    async def _write(self, shard: int, changed: set[str]) -> None:
        try:
            await self._send(shard)
        except (AlreadyExists, Conflict, NotFound):
            # Somebody deleted or wrote it: take over what we did not change ourselves.
            await self._read(shard, changed)
            await self._send(shard)

    async def _send(self, shard: int) -> None:
        """Write one shard with a precondition.

        Only an answered write counts as done, so a lost answer is met again as a Conflict.
        """
        records = [record for record in self._records.values() if shard_of(record.uid) == shard]
        seen = [one for one in self._seen.values() if shard_of(str(one.source)) == shard]
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


def _name(shard: int) -> str:
    return f"{_PREFIX}{shard:02d}"


def _text(secret: Secret) -> str:
    try:
        return b64decode((secret.data or {}).get(_DATA_KEY) or "").decode()
    except (Base64Error, UnicodeDecodeError):
        return ""
