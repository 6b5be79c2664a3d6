"""Recreates Jobs without losing one after a crash or a change of leader.

A Job cannot be replaced: it has to be deleted before its name is free, and its pods may need time
to end. So

1. its manifest is stored in a Secret of our own
2. it is deleted, and with it its pods, before the Job itself (propagation Foreground), so that new
  pods never run beside old ones
3. it is created again as soon as its name is free, with unlimited retries
4. the manifest is dropped

The next leader continues at 3. A manifest whose Job exists and is not being deleted is dropped:
either another client created it, or the deletion failed and the decision is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import msgspec

from hotmap.controller.report.object_events import write_event
from hotmap.controller.report.reasons import Reason
from hotmap.controller.storage.owned_secret import OwnedSecret
from hotmap.core.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    HotmapError,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
    Unreachable,
)
from hotmap.core.model.objects import Job, ObjectKey
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.client import Client
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import JOBS
from hotmap.kube.retry import Backoff

__all__ = ["PENDING_SECRET", "JobRecreations"]

#: In the controller's namespace.
PENDING_SECRET = "hotmap-pending"

#: Bytes of all manifests together; a Secret holds 1 MiB.
_MOST = 1_000_000

#: Namespaces in which Jobs are created at once: those whose admission webhook does not answer delay
#: no other. As many as kube/events.py has.
_NAMESPACES_AT_ONCE = 32

#: Bytes of the manifests of one namespace, where the deletion of Jobs may never end.
_MOST_OF_NAMESPACE = _MOST // 4

#: Uids of dropped Jobs that are kept.
_DROPPED = 10_000

#: Seconds between two attempts to create one Job, at first and at most. A Job with pods that end at
#: once is deleted after about half a second; pods may take 30 s and more.
_PAUSE_FIRST = 0.2
_PAUSE_LAST = 5.0

_log = logging.getLogger(__name__)


class _Pending(msgspec.Struct, frozen=True):
    """One Job between its deletion and its recreation."""

    uid: str
    #: Why it is recreated.
    reason: str
    #: The manifest to create.
    job: dict[str, Any]

    @property
    def key(self) -> ObjectKey:
        metadata = self.job["metadata"]
        return ObjectKey("Job", metadata["namespace"], metadata["name"])


_decoder = msgspec.json.Decoder(list[_Pending])


class JobRecreations:
    """The Jobs between their deletion and their recreation."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        recorder: Recorder,
        may_write: Callable[[], bool],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._may_write = may_write
        self._pending: dict[str, _Pending] = {}
        #: By uid: the time of the next attempt, on the monotonic clock, and the back-off.
        self._next: dict[str, float] = {}
        self._backoffs: dict[str, Backoff] = {}
        #: The namespaces in which Jobs are being created.
        self._busy: set[str] = set()
        #: uids that were dropped, so that another replica's copy does not restore them.
        self._dropped: dict[str, None] = {}
        self._wake = asyncio.Event()
        #: Locks of Jobs in progress.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._writing = asyncio.Lock()
        self._secret = OwnedSecret(
            client, namespace, PENDING_SECRET, type="hotmap.dev/pending", data_key="jobs"
        )
        self._log_throttle = LogThrottle()
        #: Number of changes, and how many of them are encoded and written.
        self._changes = self._encoded = self._written = 0

    async def load(self) -> None:
        """Read the pending Jobs of an earlier leader; drops those in memory.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        for kept in (self._pending, self._next, self._backoffs, self._dropped):
            kept.clear()
        with suppress(Forbidden):  # reported when a Job is to be recreated
            await self._read()

    async def again(self, uid: str, resource_version: str, job: dict[str, Any], why: str) -> None:
        """Delete a Job and have `job` created in its place.

        Returns when its deletion has begun. `uid` and `resource_version` are its own.

        Raises:
            Conflict, NotFound: it is not the Job that was decided on; nothing is done.
            Invalid: its manifest is too large to be kept.
            Throttled: too many are in progress; retry later.
            ApiError, Unreachable: the manifest was not stored, or the Job not deleted. Retry.
        """
        pending = _Pending(uid, why, job)
        self._check_size(pending)
        async with self._locks.setdefault(uid, asyncio.Lock()):
            may_be_deleted = uid in self._pending  # by an attempt whose response was lost
            self._add_pending(pending)
            try:
                await self._write()
                await self._client.delete(
                    JOBS,
                    pending.key.namespace,
                    pending.key.name,
                    uid=uid,
                    resource_version=resource_version,
                    propagation="Foreground",
                    attempts=1,  # a second one could not tell our own deletion from another's
                )
            except HotmapError as error:
                may_be_deleted |= isinstance(error, Unreachable | Unavailable)
                if not may_be_deleted:
                    self._drop(uid)
                raise
            finally:
                self._wake.set()

    async def run(self) -> NoReturn:
        """Create pending Jobs until cancelled; retry failures."""
        self._busy.clear()
        try:
            async with asyncio.TaskGroup() as tries:
                await self._start_tries(tries)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        raise AssertionError

    async def _start_tries(self, tries: asyncio.TaskGroup) -> NoReturn:
        """Start an attempt for each namespace with Jobs that are due, and write what is done."""
        while True:
            self._wake.clear()
            for namespace, uids in self._due().items():
                self._busy.add(namespace)
                tries.create_task(self._try_all(namespace, uids))
            if self._written < self._changes and self._may_write():
                await self._write_or_wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    def _due(self) -> dict[str, list[str]]:
        """Return the uids of the Jobs to create now, by namespace."""
        due: dict[str, list[str]] = {}
        for uid, at in self._waiting():
            if at <= loop_time():
                due.setdefault(self._pending[uid].key.namespace, []).append(uid)
        return dict(islice(due.items(), _NAMESPACES_AT_ONCE - len(self._busy)))

    def _pause(self) -> float | None:
        """Return the seconds until there is something to do; None: until it is said."""
        pauses = [_PAUSE_LAST] if self._written < self._changes else []
        if len(self._busy) < _NAMESPACES_AT_ONCE:
            pauses += (max(0.0, at - loop_time()) for _, at in self._waiting())
        return min(pauses, default=None)

    def _waiting(self) -> Iterator[tuple[str, float]]:
        """Iterate over the Jobs of other namespaces than the busy ones: uid, and next attempt."""
        for uid, pending in self._pending.items():
            if uid in self._next and pending.key.namespace not in self._busy:
                yield uid, self._next[uid]

    async def _try_all(self, namespace: str, uids: Sequence[str]) -> None:
        """Try to create some Jobs of a namespace, one after the other."""
        for uid in uids:
            await self._try(uid)
        self._busy.discard(namespace)
        self._wake.set()

    def __len__(self) -> int:
        """Count the Jobs that are not recreated yet."""
        return len(self._pending)

    # -- one Job -------------------------------------------------------------------------------

    async def _try(self, uid: str) -> None:
        async with self._locks.setdefault(uid, asyncio.Lock()):
            if (pending := self._pending.get(uid)) is None or not self._may_write():
                self._next.pop(uid, None)
                return
            try:
                done = await self._create(pending)
            except (ApiError, Unreachable) as error:
                self._report_failure(pending, error)
                done = False
            if done:
                self._drop(uid)
            else:
                self._next[uid] = loop_time() + self._backoffs[uid].next()

    async def _create(self, pending: _Pending) -> bool:
        """Try to create a Job; return False while its name is not free."""
        namespace = pending.key.namespace
        try:
            made = await self._client.create(
                JOBS, namespace, pending.job, type=Job, idempotent=True, attempts=1
            )
        except NotFound:
            _log.warning("%s is not recreated: its namespace was deleted", pending.key)
            return True
        except (AlreadyExists, Forbidden, Invalid) as error:
            # After a refusal the Job may exist, too, created by another client.
            return await self._is_settled(pending, error)
        _log.info("recreated", extra={"workload": str(pending.key)})
        write_event(
            self._recorder,
            pending.key,
            Reason.RECREATED,
            pending.reason,
            uid=made.metadata.uid,
        )
        return True

    async def _is_settled(self, pending: _Pending, refusal: ApiError) -> bool:
        """Return whether a Job with this name exists and is not being deleted.

        Raises:
            ApiError: there is none; the refusal had another reason.
        """
        namespace, name = pending.key.namespace, pending.key.name
        try:
            job = await self._client.get(JOBS, namespace, name, type=Job)
        except NotFound:
            if isinstance(refusal, AlreadyExists):
                return False  # deleted meanwhile
            raise refusal from None
        if job.metadata.uid != pending.uid or not job.metadata.deletion_timestamp:
            return True
        if isinstance(refusal, AlreadyExists):
            return False
        raise refusal

    def _report_failure(self, pending: _Pending, error: HotmapError) -> None:
        """Report once why a Job cannot be recreated."""
        message = f"is not recreated yet; retrying: {error}"
        if write_event(
            self._recorder,
            pending.key,
            Reason.FAILED,
            f"{pending.reason}; the Job {message}",
            uid=pending.uid,
            type_="Warning",
            once=True,
        ):
            _log.warning("%s %s", pending.key, message)

    # -- storage --------------------------------------------------------------------------

    def _check_size(self, pending: _Pending) -> None:
        """Raise an error if a manifest would leave no room for manifests of other namespaces."""
        size = len(msgspec.json.encode(pending))
        namespace = pending.key.namespace
        if size > _MOST_OF_NAMESPACE:
            raise Invalid(
                f"the manifest has {size >> 10} KiB, and that of a recreated Job at most "
                f"{_MOST_OF_NAMESPACE >> 10} KiB: delete the Job and create it again yourself"
            )
        others = [
            other
            for other in self._pending.values()
            if other.key.namespace == namespace and other.uid != pending.uid
        ]
        if size + len(msgspec.json.encode(others)) > _MOST_OF_NAMESPACE:
            raise Throttled(f"too many Jobs of namespace {namespace} are being recreated at once")

    def _add_pending(self, pending: _Pending) -> None:
        self._pending[pending.uid] = pending
        self._backoffs[pending.uid] = Backoff(_PAUSE_FIRST, _PAUSE_LAST)
        self._next[pending.uid] = loop_time() + _PAUSE_FIRST
        self._dropped.pop(pending.uid, None)
        self._changes += 1

    def _drop(self, uid: str) -> None:
        for kept in (self._pending, self._next, self._backoffs):
            kept.pop(uid, None)
        put_latest(self._dropped, uid, None, most=_DROPPED)
        self._changes += 1

    async def _read(self) -> None:
        """Merge manifests of the Secret that are not known."""
        self._merge(await self._secret.read() or b"")

    def _merge(self, content: bytes) -> None:
        for pending in _read_pending(content):
            if pending.uid not in self._pending and pending.uid not in self._dropped:
                self._add_pending(pending)

    async def _write_or_wait(self) -> None:
        """Write that a manifest was dropped; a failure is retried later."""
        try:
            await self._write()
        except HotmapError as error:
            if self._log_throttle.should_log("write", str(error), now=loop_time()):
                _log.warning("%s: failed to write; retrying: %s", self._secret, error)
        else:
            self._log_throttle.end("write")

    async def _write(self) -> None:
        """Write pending manifests; merges concurrent changes."""
        wanted = self._changes
        async with self._writing:
            if self._written >= wanted:
                return
            await self._secret.write(self._content, merge=self._merge)
            self._written = self._encoded

    def _content(self) -> bytes:
        """Encode pending manifests, and record up to which change.

        Raises:
            Throttled: it would not fit into a Secret.
        """
        self._encoded = self._changes
        text = msgspec.json.encode(list(self._pending.values()))
        if len(text) > _MOST:
            raise Throttled("too many Jobs are being recreated at once")
        return text


def _read_pending(content: bytes) -> list[_Pending]:
    """Read manifests; skip unreadable ones, which we did not write."""
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return []
