"""Creates Jobs again in such a way that none is lost, whenever we crash and whoever leads then.

A Job cannot be replaced: it has to be gone before its name is free, and its pods may take their
time to end. So

1. its manifest is kept in a Secret of our own
2. it is deleted, and with it its pods, before it is gone itself (propagation Foreground): the new
   pods never run beside the old ones
3. it is created again as soon as its name is free, tried for as long as that takes
4. the manifest is dropped

Whoever leads next goes on at 3. A manifest whose Job exists and is not being deleted is dropped:
either somebody was faster, or the deletion never came to be and the decision is made anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import msgspec

from hotmap.controller.report.reasons import Reason
from hotmap.controller.storage.owned_secret import OwnedSecret
from hotmap.core.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    HotmapError,
    Invalid,
    NotFound,
    Unavailable,
    Unreachable,
)
from hotmap.core.model.objects import Job, ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.recorder import Recorder
from hotmap.kube.resources import JOBS
from hotmap.kube.retry import Backoff

__all__ = ["PENDING_SECRET", "JobRecreations"]

#: In the controller's namespace.
PENDING_SECRET = "hotmap-pending"

#: Bytes of all manifests together; a Secret holds 1 MiB.
_MOST = 1_000_000

#: Seconds between two tries to create one Job, at first and at most. A Job with pods that end at
#: once is gone after about half a second; pods may take 30 s and more.
_PAUSE_FIRST = 0.2
_PAUSE_LAST = 5.0

_log = logging.getLogger(__name__)


class _Pending(msgspec.Struct, frozen=True):
    """One Job between its deletion and its return."""

    uid: str
    #: Why it is created again, in words.
    reason: str
    #: What is created.
    job: dict[str, Any]

    @property
    def key(self) -> ObjectKey:
        metadata = self.job["metadata"]
        return ObjectKey("Job", metadata["namespace"], metadata["name"])


_decoder = msgspec.json.Decoder(list[_Pending])


class JobRecreations:
    """The Jobs that are on their way from their deletion to their return."""

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
        #: By uid: when to try next, on the monotonic clock, and the pauses.
        self._next: dict[str, float] = {}
        self._backoffs: dict[str, Backoff] = {}
        #: uids that were dropped; another replica's copy must not bring them back.
        self._dropped: set[str] = set()
        self._wake = asyncio.Event()
        #: Held by whoever deletes or creates a Job; gone when nobody does.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._writing = asyncio.Lock()
        self._secret = OwnedSecret(
            client, namespace, PENDING_SECRET, type="hotmap.dev/pending", data_key="jobs"
        )
        #: Changes so far, and how many of them are encoded and written.
        self._changes = self._encoded = self._written = 0

    async def load(self) -> None:
        """Read what an earlier leader left; none of it is kept from before.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        for kept in (self._pending, self._next, self._backoffs, self._dropped):
            kept.clear()
        with suppress(Forbidden):  # said when a Job is to be created again
            await self._read()

    async def again(self, uid: str, resource_version: str, job: dict[str, Any], why: str) -> None:
        """Delete a Job and see to it that `job` is created in its place.

        Returns when its deletion has begun. `uid` and `resource_version` are its own.

        Raises:
            Conflict, NotFound: it is not the Job any more that was decided on; nothing is done.
            HotmapError: too many are under way; try again later.
            ApiError, Unreachable: the manifest was not kept, or the Job not deleted. Try again.
        """
        pending = _Pending(uid, why, job)
        async with self._locks.setdefault(uid, asyncio.Lock()):
            self._keep(pending)
            try:
                await self._write()
                await self._client.delete(
                    JOBS,
                    pending.key.namespace,
                    pending.key.name,
                    uid=uid,
                    resource_version=resource_version,
                    propagation="Foreground",
                )
            except HotmapError as error:
                if not isinstance(error, Unreachable | Unavailable):  # else it may be deleted
                    self._drop(uid)
                raise
            finally:
                self._wake.set()

    async def run(self) -> NoReturn:
        """Create what is to be created, for ever; what fails is tried again."""
        while True:
            self._wake.clear()
            due = [uid for uid, at in self._next.items() if at <= loop_time()]
            for uid in due:
                await self._try(uid)
            if self._written < self._changes and self._may_write():
                await self._write_or_wait()
            next_at = min(self._next.values(), default=None)
            pause = None if next_at is None else max(0.0, next_at - loop_time())
            if self._written < self._changes:
                pause = _PAUSE_LAST if pause is None else min(pause, _PAUSE_LAST)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    def __len__(self) -> int:
        """Count the Jobs that are not back yet."""
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
                self._tell_failure(pending, error)
                done = False
            if done:
                self._drop(uid)
            else:
                self._next[uid] = loop_time() + self._backoffs[uid].next()

    async def _create(self, pending: _Pending) -> bool:
        """Try to create a Job; False while its name is not free."""
        namespace = pending.key.namespace
        try:
            made = await self._client.create(
                JOBS, namespace, pending.job, type=Job, idempotent=True, attempts=1
            )
        except NotFound:
            _log.warning("%s is not recreated: its namespace is gone", pending.key)
            return True
        except (AlreadyExists, Forbidden, Invalid) as error:
            # Also a refused one may be there, put there by somebody who may.
            return await self._is_settled(pending, error)
        _log.info("%s", pending.reason, extra={"workload": str(pending.key)})
        self._recorder.event(
            pending.key,
            api_version=JOBS.api_version,
            uid=made.metadata.uid,
            type="Normal",
            reason=Reason.RECREATED,
            message=pending.reason,
        )
        return True

    async def _is_settled(self, pending: _Pending, refusal: ApiError) -> bool:
        """Return whether a Job has this name that is not going; nothing more is to be done then.

        Raises:
            ApiError: none has; the refusal was for another reason.
        """
        namespace, name = pending.key.namespace, pending.key.name
        try:
            there = await self._client.get(JOBS, namespace, name, type=Job)
        except NotFound:
            if isinstance(refusal, AlreadyExists):
                return False  # gone by now
            raise refusal from None
        if there.metadata.uid != pending.uid or not there.metadata.deletion_timestamp:
            return True
        if isinstance(refusal, AlreadyExists):
            return False
        raise refusal

    def _tell_failure(self, pending: _Pending, error: HotmapError) -> None:
        """Say once what keeps a Job from its return."""
        message = f"is not recreated yet; retrying: {error}"
        if self._recorder.event(
            pending.key,
            api_version=JOBS.api_version,
            uid=pending.uid,
            type="Warning",
            reason=Reason.FAILED,
            message=f"{pending.reason}; the Job {message}",
            once=True,
        ):
            _log.warning("%s %s", pending.key, message)

    # -- what is kept --------------------------------------------------------------------------

    def _keep(self, pending: _Pending) -> None:
        self._pending[pending.uid] = pending
        self._backoffs[pending.uid] = Backoff(_PAUSE_FIRST, _PAUSE_LAST)
        self._next[pending.uid] = loop_time() + _PAUSE_FIRST
        self._dropped.discard(pending.uid)
        self._changes += 1

    def _drop(self, uid: str) -> None:
        for kept in (self._pending, self._next, self._backoffs):
            kept.pop(uid, None)
        self._dropped.add(uid)
        self._changes += 1

    async def _read(self) -> None:
        """Take over what the Secret holds and we do not know of."""
        self._merge(await self._secret.read() or b"")

    def _merge(self, content: bytes) -> None:
        for pending in _read_pending(content):
            if pending.uid not in self._pending and pending.uid not in self._dropped:
                self._keep(pending)

    async def _write_or_wait(self) -> None:
        """Write that something was dropped; a failure is met again, and harms nobody."""
        try:
            await self._write()
        except HotmapError as error:
            _log.warning("%s: %s", self._secret, error)

    async def _write(self) -> None:
        """Write what is pending; what others changed in the meantime is written along."""
        wanted = self._changes
        async with self._writing:
            if self._written >= wanted:
                return
            await self._secret.write(self._content, merge=self._merge)
            self._written = self._encoded

    def _content(self) -> bytes:
        """Encode what is pending, and note up to which change that is.

        Raises:
            HotmapError: it would not fit into a Secret.
        """
        self._encoded = self._changes
        text = msgspec.json.encode(list(self._pending.values()))
        if len(text) > _MOST:
            raise HotmapError("too many Jobs are being created again at once")
        return text


def _read_pending(content: bytes) -> list[_Pending]:
    """Read manifests; what cannot be read was not written by us."""
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return []
