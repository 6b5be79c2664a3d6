"""Writes Events to the API server in the background, with a budget for each namespace."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Container
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, NoReturn

from hotmap.core.errors import (
    AlreadyExists,
    ApiError,
    HotmapError,
    NotFound,
    is_namespace_terminating,
)
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.partial_metadata import PartialObjectMetadata
from hotmap.kube.resources import EVENTS
from hotmap.kube.supervisor import Supervisor
from hotmap.kube.token_bucket import TokenBucket

__all__ = ["CLOSE_TIMEOUT", "EventKey", "EventSeries", "EventWriter"]

#: Seconds between two writes, so that a change with 5,000 consumers does not overload the server:
#: 20 a second.
SPACING: Final = 0.05

#: Per namespace: burst, and seconds until one more is written (a quarter of the total rate, so that
#: one tenant leaves capacity for the others); and how many wait before one is dropped.
NAMESPACE_BURST: Final = 50
NAMESPACE_REFILL: Final = 0.2
NAMESPACE_PENDING: Final = 1000

#: Events that are written at once, one of each namespace: a request that waits for an admission
#: webhook, which may take 30 s, delays no other namespace's Events. One webhook may select many
#: namespaces. Otherwise one or two are in flight, since they begin SPACING apart.
WRITES: Final = 32

#: Seconds for which `aclose` waits for Events that are not written yet, by default.
CLOSE_TIMEOUT: Final = 5.0

_log = logging.getLogger(__name__)


class EventKey(NamedTuple):
    """What repetitions of an Event have in common."""

    regarding: ObjectKey
    uid: str
    type: str
    reason: str
    message: str


class EventSeries:
    """One Event and its repetitions; `body` has neither time nor count."""

    __slots__ = ("body", "count", "last", "written")

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.count = 0
        #: When it last happened, POSIX seconds.
        self.last = 0.0
        #: The count that the server has; 0 when it does not have the Event.
        self.written = 0


class _Pending:
    """Series to write, by namespace; round robin, with a budget for each namespace."""

    def __init__(self) -> None:
        #: Namespace → series, oldest first; the namespace that was served last is the last one.
        self._namespaces: dict[str, dict[EventKey, EventSeries]] = {}
        self._tokens: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def put(self, key: EventKey, series: EventSeries) -> bool:
        """Add a series, or keep its place; return False if the oldest one was dropped for it."""
        waiting = self._namespaces.setdefault(key.regarding.namespace, {})
        waiting[key] = series
        if len(waiting) <= NAMESPACE_PENDING:
            return True
        del waiting[next(iter(waiting))]
        return False

    def take(
        self, now: float, *, busy: Container[str], immediately: bool
    ) -> tuple[EventKey, EventSeries] | float:
        """Take the next series; or return the seconds until a namespace's budget allows one.

        None is taken of the namespaces in `busy`; inf if there are no others. With `immediately`
        budgets are ignored.
        """
        pauses = [inf]
        for namespace, waiting in self._namespaces.items():
            if namespace in busy:
                continue
            tokens = self._tokens.get(namespace)
            if tokens is None:
                tokens = TokenBucket(now, burst=NAMESPACE_BURST, refill=NAMESPACE_REFILL)
                self._tokens[namespace] = tokens
            if immediately or tokens.take(now):
                key = next(iter(waiting))
                series = waiting.pop(key)
                del self._namespaces[namespace]
                if waiting:
                    self._namespaces[namespace] = waiting
                return key, series
            pauses.append(tokens.wait(now))
        return min(pauses)

    def drop_unused_budgets(self, now: float) -> None:
        """Remove the budgets that are full again."""
        for namespace, tokens in tuple(self._tokens.items()):
            tokens.wait(now)
            if tokens.is_full and namespace not in self._namespaces:
                del self._tokens[namespace]

    def clear(self) -> int:
        """Drop everything; return the number."""
        dropped = len(self)
        self._namespaces.clear()
        return dropped


class EventWriter:
    """Writes series of Events; must be used on a running event loop."""

    def __init__(self, client: Client, supervisor: Supervisor | None = None) -> None:
        """`supervisor` reports the failures of the task that writes."""
        self._client = client
        self._tasks = (supervisor or Supervisor()).tasks()
        #: Series to write.
        self._pending = _Pending()
        #: The namespaces of the Events that are being written.
        self._busy: set[str] = set()
        #: Set when there may be something to do, and when everything is written.
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        #: Whether pending Events are written regardless of budgets.
        self._is_closing = False
        #: When the next Event may be written, on the event loop's clock.
        self._next_at = 0.0
        #: Events created, repetitions written as a higher count, Events given up.
        self.created = self.counted = self.dropped = 0
        self._log_throttle = LogThrottle()

    def __len__(self) -> int:
        """Count the Events that wait to be written."""
        return len(self._pending)

    def put(self, key: EventKey, series: EventSeries) -> None:
        """Queue a series for writing; returns at once."""
        if not self._pending.put(key, series):
            self.dropped += 1
        self._wake.set()
        self._idle.clear()
        if not self._tasks:
            self._tasks.start("write Events", self._run)

    async def aclose(self, *, within: float = CLOSE_TIMEOUT) -> None:
        """Write pending Events, for `within` seconds at most; drop the rest."""
        if not self._tasks:
            return
        self._is_closing = True
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._idle.wait()
        self._is_closing = False
        lost = len(self._busy)
        await self._tasks.stop()
        self._busy.clear()
        if not self._idle.is_set():
            dropped = self._pending.clear()
            self.dropped += dropped
            lost += dropped
            _log.warning("dropped %d Events: the API server did not accept them in time", lost)

    async def _run(self) -> NoReturn:
        """Write Events until cancelled."""
        while True:
            self._wake.clear()
            pause = self._write_next()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if pause == inf else pause):
                    await self._wake.wait()

    def _write_next(self) -> float:
        """Begin to write an Event; return the seconds until the next may follow, inf for a wake."""
        while self._pending and len(self._busy) < WRITES:
            now = loop_time()
            if now < self._next_at:
                return self._next_at - now
            taken = self._pending.take(now, busy=self._busy, immediately=self._is_closing)
            if isinstance(taken, float):
                return taken
            key, series = taken
            self._busy.add(key.regarding.namespace)
            self._next_at = now + SPACING
            write = partial(self._write_safely, key, series)
            self._tasks.start("write an Event", write, may_return=True)
        return inf

    async def _write_safely(self, key: EventKey, series: EventSeries) -> None:
        """Write an Event, or drop it."""
        try:
            await self._write(series)
        except asyncio.CancelledError:
            self.dropped += 1
            raise
        except HotmapError as error:
            self.dropped += 1
            self._log_failure(key, error)
        except Exception:
            self.dropped += 1
            _log.exception("internal error writing Event %s", key.reason)
        self._busy.discard(key.regarding.namespace)
        if self._pending:
            self._wake.set()
        elif not self._busy:
            self._pending.drop_unused_budgets(loop_time())
            self._idle.set()

    def _log_failure(self, key: EventKey, error: HotmapError) -> None:
        """Log that an Event is dropped; for each namespace and type of error once a minute.

        A namespace that is being deleted takes no Events, which is no failure (client-go:
        tools/record/event.go, recordEvent). Nor does one that is gone, the only thing that a
        creation may not find.
        """
        kind = f"{key.regarding.namespace} {type(error).__name__}"
        is_expected = isinstance(error, NotFound) or (
            isinstance(error, ApiError) and is_namespace_terminating(error)
        )
        is_logged = not is_expected and self._log_throttle.should_log(
            kind, str(error), now=loop_time()
        )
        _log.log(
            logging.WARNING if is_logged else logging.DEBUG,
            "failed to write Event %s for %s: %s",
            key.reason,
            key.regarding,
            error,
        )

    async def _write(self, series: EventSeries) -> None:
        count = series.count
        if series.written:
            try:
                await self._count(series, count)
            except NotFound:
                series.written = 0  # the server deletes Events after an hour; create it again
            else:
                self.counted += 1
        if not series.written:
            await self._create(series, count)
            self.created += 1
        series.written = count

    async def _create(self, series: EventSeries, count: int) -> None:
        at = _timestamp(series.last)
        body = {**series.body, "firstTimestamp": at, "lastTimestamp": at, "count": count}
        # The name is unique: if it exists, an attempt whose response was lost created it.
        with suppress(AlreadyExists):
            await self._client.create(
                EVENTS, _namespace(series), body, type=PartialObjectMetadata, idempotent=True
            )

    async def _count(self, series: EventSeries, count: int) -> None:
        await self._client.patch(
            EVENTS,
            _namespace(series),
            series.body["metadata"]["name"],
            {"count": count, "lastTimestamp": _timestamp(series.last)},
            type=PartialObjectMetadata,
            idempotent=True,
        )


def _namespace(series: EventSeries) -> str:
    namespace: str = series.body["metadata"]["namespace"]
    return namespace


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
