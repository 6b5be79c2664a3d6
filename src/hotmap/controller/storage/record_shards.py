"""Keeps the records of all consumers in a few Secrets.

A single change is written at once. Changes that follow it are collected until there was none for a
second, five at most, and their shards are written together; a crash in between loses the collected
changes, which the freshness rules handle. Only one controller writes; if another client has written
in between, such as an earlier leader or a user who restored a backup, its records of consumers that
we have not changed in this term are merged.

The number of shards follows the number and bytes of the records, and never decreases. When it
increases, the new shards are written first, and until that has succeeded a record stays in its old
shard: after a crash in between it may be in two, and the later shard has the newer one. A shard
that cannot be written does not delay the others.

A record that is too large for a shard is kept in memory only: after a restart its consumer is
adopted again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heapreplace
from typing import NamedTuple, NoReturn, TypeAlias

from hotmap.controller.storage.owned_secret import OwnedSecret
from hotmap.controller.storage.recent_changes import last_changed_at
from hotmap.controller.storage.records import Records
from hotmap.core.errors import ApiError, HotmapError, Unreachable
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import (
    SHARDS,
    Record,
    SourceChanges,
    changes_line,
    join_lines,
    read_changes,
    read_shard,
    read_watched_until,
    record_line,
    shard_of,
    shards_for,
)
from hotmap.kube.client import Client
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time

__all__ = ["RecordShards", "RecordShardsStatistics"]

_PREFIX = "hotmap-state-"

#: Seconds without a change that end a burst, and its maximum duration.
_LULL = 1.0
_LONGEST = 5.0

#: Seconds without a change after which all workloads found at the start are adopted.
_ADOPTION_LULL = 0.05

#: Shards read in parallel: each needs a connection, and 32 TLS handshakes take longer than the
#: reads.
_READ_AT_ONCE = 4

#: Seconds of pause after a write that failed.
_FAILED_PAUSE = 5.0

#: Seconds between two checks of a shard, one after the other, for external changes.
_CHECK_EVERY = 5.0

#: Bytes of one record: about 300 sources.
_RECORD_AT_MOST = 64 << 10

#: Bytes of a shard above which more shards are created, and its maximum: a Secret holds 1 MiB,
#: and a request, where it is a third longer, 1.5 MiB (etcd: --max-request-bytes).
_SHARD_SPLIT = 256 << 10
_SHARD_AT_MOST = 768 << 10

#: The shard with the time until which sources were watched; bytes of that line and the header.
_WATCHED_SHARD = 0
_EXTRA = 128

#: The content of one Secret: records by uid, and changes.
_Shard: TypeAlias = tuple[dict[str, Record], dict[ObjectKey, SourceChanges]]

_log = logging.getLogger(__name__)


class RecordShardsStatistics(NamedTuple):
    #: shards that are not written yet
    dirty: int = 0
    #: shard writes since the start
    writes: int = 0
    #: writes that failed since the start
    failures: int = 0
    #: consumers whose record is not written: too large, or in a shard whose last write failed
    unpersisted: int = 0


class _ShardTooLarge(HotmapError):
    """Raised when a shard would not fit into a Secret."""


class _ShardCrowded(HotmapError):
    """Raised when more shards are needed."""


class _Unwritten(NamedTuple):
    """What a term of this process left behind that it could not write."""

    #: True if another client has written or deleted a shard since
    is_modified: bool
    #: by uid
    records: dict[str, Record]
    #: by the name of the source
    changes: dict[str, SourceChanges]
    watched_until: float | None


class RecordShards:
    """Reads and writes `records`, in as few Secrets as they want."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        records: Records,
        *,
        on_too_large: Callable[[Record, int], None] | None = None,
    ) -> None:
        """`on_too_large` is called once for a record that is not written, with its bytes."""
        self.records = records
        records.subscribe(self._mark_record_changed, self._mark_watched_changed, self.flush_record)
        #: The time until which sources were watched, as it is written, and as of the last flush.
        self._written_until: float | None = None
        self._flushed_until: float | None = None
        self._on_too_large = on_too_large
        self._secrets = [
            OwnedSecret(client, namespace, _name(shard), type="hotmap.dev/state", data_key="state")
            for shard in range(SHARDS)
        ]
        #: Per shard: the uids, and names of sources, that changed since it was written.
        self._dirty: dict[int, set[str]] = {}
        #: The uids of records that changed since the load: what others write of them is older.
        self._newer: set[str] = set()
        #: True once a load has found a shard modified; kept until a load succeeds.
        self._is_modified = False
        self._shards = 1
        #: Shards to which records have to move before they are removed from their old ones, and the
        #: old number of shards.
        self._new: set[int] = set()
        self._settled_shards = 1
        #: Records that are too large to be written, by uid: their bytes.
        self._left_out: dict[str, int] = {}
        #: Shards whose last write failed.
        self._failed: set[int] = set()
        self._log_throttle = LogThrottle()
        #: Changes since the start, to detect a burst.
        self._changes = 0
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._writes = self._failures = 0

    async def load(self) -> None:
        """Read all shards; consumers of unreadable records are adopted again.

        What an earlier term of this process could not write, as during an outage, is kept, unless
        another controller has written the same entry since.

        Raises:
            ApiError, Unreachable: as the client raises them; nothing is known then.
        """
        found, until = await self._read_all()
        unwritten = self._take_unwritten()
        self.records.clear()
        self._dirty, self._left_out = {}, {}
        self._newer = set()
        self._new, self._failed = set(), set()
        self.records.watched_until = self._written_until = until
        sources: dict[ObjectKey, SourceChanges] = {}
        for shard in sorted(found):  # of two copies the later shard's is newer
            records, changes = found[shard]
            self.records.restore(records.values(), ())
            sources |= changes
        self.records.restore((), sorted(sources.values(), key=last_changed_at))
        self._shards = shards_for(self.records.size, least=max(found, default=0) + 1)
        self._settled_shards = self._shards
        for shard, (records, changes) in found.items():
            if any(
                shard_of(name, self._shards) != shard for name in (*records, *map(str, changes))
            ):
                self._dirty[shard] = set()  # a move was not finished
                self._wake.set()
        self._keep_unwritten(unwritten)

    async def _read_all(self) -> tuple[dict[int, _Shard], float | None]:
        """Read all shards that exist, and until when every change was observed."""
        reading = asyncio.Semaphore(_READ_AT_ONCE)
        found: dict[int, _Shard] = {}
        until: float | None = None
        known: dict[object, object] = {}

        async def read(shard: int) -> None:
            nonlocal until
            secret = self._secrets[shard]
            before = secret.version
            async with reading:
                content = await secret.read()
            if secret.version != before:
                self._is_modified = True
            if content is not None:
                text = _text(content)
                found[shard] = read_shard(text, known), read_changes(text)
                if shard == _WATCHED_SHARD:
                    until = read_watched_until(text)

        try:
            async with asyncio.TaskGroup() as reads:  # the first failure cancels the others
                for shard in range(SHARDS):
                    reads.create_task(read(shard))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return found, until

    def _take_unwritten(self) -> _Unwritten:
        """Return the entries of an earlier term that are newer than what the shards have."""
        names = set().union(*self._dirty.values())
        records = {name: record for name in names if (record := self.records.get(name))}
        changes = {
            str(change.source): change
            for change in self.records.changes()
            if str(change.source) in names
        }
        unwritten = _Unwritten(self._is_modified, records, changes, self.records.watched_until)
        self._is_modified = False
        return unwritten

    def _keep_unwritten(self, unwritten: _Unwritten) -> None:
        """Put entries that could not be written before over those that were read."""
        known = {str(change.source) for change in self.records.changes()}

        def is_kept(name: str) -> bool:
            is_read = name in known or self.records.get(name) is not None
            return not (is_read and unwritten.is_modified)

        for uid, record in unwritten.records.items():
            if is_kept(uid):
                self.records.put(record)
        for name, changes in unwritten.changes.items():
            if is_kept(name):
                self.records.put_changes(changes)
        if unwritten.watched_until is not None:
            self.records.watched_until = max(
                unwritten.watched_until, self.records.watched_until or 0.0
            )

    def statistics(self) -> RecordShardsStatistics:
        """Count shards and writes."""
        unwritten = sum(len(self._dirty.get(shard, ())) for shard in self._failed)
        return RecordShardsStatistics(
            len(self._dirty),
            self._writes,
            self._failures,
            unwritten + len(self._left_out),
        )

    async def run(self) -> NoReturn:
        """Write changes until cancelled; retry failed writes."""
        if self._dirty:  # what an attempt that failed has left
            self._wake.set()
        # What is adopted at the start is written together: a crash soon after must not lose it.
        await self._wake.wait()
        await self._wait_for_quiet(_ADOPTION_LULL)
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not await self.flush():
                self._wake.set()
                await asyncio.sleep(_FAILED_PAUSE)
            await self._wait_for_quiet()

    async def check(self) -> NoReturn:
        """Write shards again that another client has deleted or written, until cancelled.

        One small read every _CHECK_EVERY seconds, since only `get` is granted on these Secrets.
        """
        while True:
            for shard in range(SHARDS):
                if not self._secrets[shard].is_known:
                    continue
                await asyncio.sleep(_CHECK_EVERY)
                await self._check(shard)
            await asyncio.sleep(_CHECK_EVERY)

    async def _check(self, shard: int) -> None:
        secret = self._secrets[shard]
        writes = self._writes
        try:
            changed = secret.is_known and await secret.was_changed()
        except (ApiError, Unreachable) as error:
            _log.debug("%s cannot be checked: %s", secret, error)
            return
        if self._writing.locked() or self._writes != writes:
            return  # this may be our own write; the next check shows
        if changed and shard not in self._dirty:
            _log.warning("%s was modified or deleted by another client: rewriting it", secret)
            self._dirty[shard] = set()
            self._wake.set()

    async def _wait_for_quiet(self, lull: float = _LULL) -> None:
        """Wait until a burst of changes is over, or has lasted long enough."""
        for _ in range(round(_LONGEST / lull)):
            before = self._changes
            await asyncio.sleep(lull)
            if self._changes == before:
                return

    async def flush(self) -> bool:
        """Write all dirty shards now; return False if some could not be written and stay dirty."""
        async with self._writing:
            # What is observed from here on may stay unwritten, so the time must not include it.
            self._flushed_until = self.records.watched_until
            failed: set[int] = set()
            done: set[int] = set()
            while left := self._dirty.keys() - failed - done:
                shard = max(left)  # new ones first, see the module docstring
                shards = self._shards
                (done if await self._write_dirty(shard) else failed).add(shard)
                if self._shards != shards:
                    done.clear()
                    failed.clear()
            if self.records.watched_until != self._flushed_until:
                self._mark_watched_changed()
            return not failed

    async def flush_record(self, uid: str) -> None:
        """Write one record now, if it is to be written and the last write of its shard succeeded.

        One write is for all records that wait for it.
        """
        if shard_of(uid, self._shards) in self._failed:
            return
        async with self._writing:
            shard = shard_of(uid, self._shards)
            if shard not in self._failed and uid in self._dirty.get(shard, ()):
                await self._write_dirty(shard)

    async def _write_dirty(self, shard: int) -> bool:
        """Write one shard; return False if it could not be written and stays dirty."""
        changed = self._dirty.pop(shard)
        written = False
        try:
            await self._secrets[shard].write(
                lambda: self._content(shard),
                merge=lambda content: self._merge_shard(
                    shard, _text(content), changed | self._newer
                ),
            )
            written = True
            self._writes += 1
        except _ShardCrowded:
            self._dirty.setdefault(shard, set()).update(changed)
            self._move_to(self._shards * 2)
            return False
        except (ApiError, Unreachable, _ShardTooLarge) as error:
            self._failures += 1
            news = self._log_throttle.should_log(f"{shard}", str(error), now=loop_time())
            _log.log(
                logging.WARNING if news else logging.DEBUG,
                "%s: failed to write %s; retrying: %s",
                self._secrets[shard],
                self._describe(changed),
                error,
            )
        finally:
            # Also when cancelled: the last flush, at the end, needs it.
            if not written:
                self._failed.add(shard)
                self._dirty.setdefault(shard, set()).update(changed)
        if written:
            self._on_written(shard)
        return written

    def _describe(self, changed: Collection[str]) -> str:
        """Say what is to be written: records, beside changes of sources and a time."""
        count = sum(self.records.get(name) is not None for name in changed)
        if not count:
            return "records"
        return f"the records of {'1 workload' if count == 1 else f'{count} workloads'}"

    def _on_written(self, shard: int) -> None:
        self._failed.discard(shard)
        if self._log_throttle.end(f"{shard}"):
            _log.info("%s: records are written again", self._secrets[shard])
        if shard in self._new:
            self._new.discard(shard)
            # They can be removed from their old shards now.
            self._dirty.setdefault(shard % self._settled_shards, set())
            self._wake.set()
        if not self._new:
            self._settled_shards = self._shards

    def _mark_record_changed(self, uid: str) -> None:
        """Mark a record as changed or dropped; it is written at once, or after the burst."""
        self._changes += 1
        if self.records.get(uid) is None:
            self._left_out.pop(uid, None)
            self._newer.discard(uid)
        else:
            self._newer.add(uid)
        if (wanted := shards_for(self.records.size, least=self._shards)) > self._shards:
            self._move_to(wanted)
        self._dirty.setdefault(shard_of(uid, self._shards), set()).add(uid)
        self._wake.set()

    def _mark_watched_changed(self) -> None:
        self._dirty.setdefault(_WATCHED_SHARD, set())
        self._wake.set()

    def _move_to(self, shards: int) -> None:
        """Distribute the records over more shards; mark all of them dirty."""
        if not self._new:
            self._settled_shards = self._shards
        changed = set().union(*self._dirty.values())
        self._new |= set(range(self._shards, shards))
        self._shards = shards
        self._dirty = {shard: set() for shard in range(shards)}
        for uid in changed:
            self._dirty[shard_of(uid, self._shards)].add(uid)

    def _merge_shard(self, shard: int, text: str, changed: Collection[str]) -> None:
        """Merge records that another client has written, except those in `changed`."""
        records, changes = read_shard(text).values(), read_changes(text).values()
        self.records.restore(
            [r for r in records if self._is_taken_over(r.uid, shard, changed)],
            [s for s in changes if self._is_taken_over(str(s.source), shard, changed)],
        )

    def _is_taken_over(self, name: str, shard: int, changed: Collection[str]) -> bool:
        return name not in changed and shard_of(name, self._shards) == shard

    # -- the content of a shard ----------------------------------------------------------------

    def _content(self, shard: int) -> bytes:
        """Encode a shard, including records that are not in their new shard yet.

        Raises:
            _ShardCrowded: there should be more shards.
            _ShardTooLarge: with records that have not moved yet it would not fit into a Secret.
        """
        own, changes = self._in({shard})
        lines = {record.uid: record_line(record) for record in own}
        for record in own:
            if len(lines[record.uid]) >= _RECORD_AT_MOST:
                self._exclude(record, len(lines.pop(record.uid)) + 1)
        seen = {each.source: changes_line(each) for each in changes}
        total = sum(map(len, (*lines.values(), *seen.values()))) + len(lines) + len(seen)
        if total > _SHARD_SPLIT and self._shards < SHARDS:
            raise _ShardCrowded
        if total > _SHARD_AT_MOST:
            self._exclude_largest(own, lines, seen, total - _SHARD_AT_MOST)
        for uid in lines:
            self._left_out.pop(uid, None)
        coming = {new for new in self._new if new % self._settled_shards == shard != new}
        if coming:
            records, more = self._in(coming)
            encoded = {record.uid: record_line(record) for record in records}
            lines |= {uid: line for uid, line in encoded.items() if len(line) < _RECORD_AT_MOST}
            seen |= {each.source: changes_line(each) for each in more}
            size = sum(map(len, (*lines.values(), *seen.values()))) + len(lines) + len(seen)
            _drop_largest(seen, size - _SHARD_AT_MOST)
        until = None
        if shard == _WATCHED_SHARD:
            if not self._failed - {shard}:  # nor what another shard should have of it
                self._written_until = self._flushed_until
            until = self._written_until
        ordered = [*(lines[uid] for uid in sorted(lines)), *(seen[key] for key in sorted(seen))]
        content = join_lines(ordered, watched_until=until)
        if len(content) > _SHARD_AT_MOST + _EXTRA:
            raise _ShardTooLarge(
                "it would exceed 768 KiB until other Secrets of records can be written"
            )
        return content

    def _in(self, shards: Collection[int]) -> tuple[list[Record], list[SourceChanges]]:
        """Return the entries of some shards."""
        return (
            self.records.in_shards(shards, self._shards),
            [s for s in self.records.changes() if shard_of(str(s.source), self._shards) in shards],
        )

    def _exclude_largest(
        self,
        records: Iterable[Record],
        lines: dict[str, bytes],
        seen: dict[ObjectKey, bytes],
        excess: int,
    ) -> None:
        """Remove the largest lines of a shard that is too large by some bytes.

        Those of the namespace that has most of the shard first, and of these its changes before its
        records: thousands of small workloads of one tenant leave out nothing of another.
        """
        by_namespace: dict[str, list[Record | ObjectKey]] = {}
        used: Counter[str] = Counter()
        written = (record for record in records if record.uid in lines)
        for record in sorted(written, key=lambda each: (len(lines[each.uid]), each.uid)):
            by_namespace.setdefault(record.namespace, []).append(record)
            used[record.namespace] += len(lines[record.uid]) + 1
        for key in sorted(seen, key=lambda key: (len(seen[key]), key)):
            by_namespace.setdefault(key.namespace, []).append(key)
            used[key.namespace] += len(seen[key]) + 1
        most = [(-count, namespace) for namespace, count in used.items()]
        heapify(most)
        while excess > 0:
            count, namespace = most[0]
            entry = by_namespace[namespace].pop()
            if isinstance(entry, ObjectKey):
                size = len(seen.pop(entry)) + 1
            else:
                size = len(lines.pop(entry.uid)) + 1
                self._exclude(entry, size)
            heapreplace(most, (count + size, namespace))
            excess -= size

    def _exclude(self, record: Record, size: int) -> None:
        is_logged = record.uid in self._left_out
        self._left_out[record.uid] = size
        if not is_logged:
            _log.warning(
                "the record of a workload in namespace %s is too large to store (%d KiB, %d"
                " sources): after a restart the workload is adopted again",
                record.namespace,
                size >> 10,
                len(record.sources),
            )
            if self._on_too_large is not None:
                self._on_too_large(record, size)


def _drop_largest(lines: dict[ObjectKey, bytes], excess: int) -> None:
    """Remove the largest lines until they have so many bytes less."""
    dropped = 0
    for key in sorted(lines, key=lambda key: (-len(lines[key]), key)):
        if dropped >= excess:
            break
        dropped += len(lines.pop(key)) + 1


def _name(shard: int) -> str:
    return f"{_PREFIX}{shard:02d}"


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
