"""Writes Kubernetes Events in the background, for `kubectl describe`.

Events are best effort: they never delay or fail the work that they report, and are dropped rather
than overload the server. The caller chooses reasons and messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

import msgspec

from hotmap.core.errors import AlreadyExists, HotmapError, NotFound
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.resources import EVENTS

__all__ = ["Recorder", "RecorderStatistics"]

#: Seconds within which a repetition raises the count of an Event, and how many different Events are
#: remembered for that (client-go: tools/record/events_cache.go).
REPEAT_WITHIN: Final = 600.0
REMEMBERED: Final = 4096

#: Seconds after which a persisting problem is reported again: the server deletes Events after an
#: hour (kube-apiserver: --event-ttl).
REMIND_AFTER: Final = 3600.0

#: Per regarding object: burst, and seconds until one more is accepted (the same file,
#: defaultSpamBurst and defaultSpamQPS).
BURST: Final = 25
REFILL: Final = 300.0

#: Seconds between two writes, so that a change with 5,000 consumers does not overload the server:
#: 20 a second.
SPACING: Final = 0.05

#: Per namespace: burst, and seconds until one more is written (a quarter of the total rate, so that
#: one tenant leaves capacity for the others); and how many wait before one is dropped.
NAMESPACE_BURST: Final = 50
NAMESPACE_REFILL: Final = 0.2
NAMESPACE_PENDING: Final = 1000

#: Characters of a message (kubernetes: events.k8s.io validation, NoteLengthLimit).
LONGEST_MESSAGE: Final = 1024

#: Seconds for which `aclose` waits for Events that are not written yet, unless told otherwise.
LAST_WORDS: Final = 5.0

_log = logging.getLogger(__name__)


class RecorderStatistics(NamedTuple):
    #: Events created
    created: int
    #: repetitions written as a higher count
    counted: int
    #: Events dropped because one object had too many, or the server refused them
    dropped: int
    #: Events that wait to be written
    pending: int


class _SeriesKey(NamedTuple):
    regarding: ObjectKey
    uid: str
    type: str
    reason: str
    message: str


class _Series:
    """One Event and its repetitions."""

    __slots__ = ("body", "count", "last", "written")

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.count = 0
        #: When it last happened, POSIX seconds.
        self.last = 0.0
        #: The count that the server has; 0 when it does not have the Event.
        self.written = 0


class _Tokens:
    """A token bucket; `take` says whether one more Event is allowed."""

    __slots__ = ("_at", "_burst", "_left", "_refill")

    def __init__(self, now: float, *, burst: int, refill: float) -> None:
        """`refill` is the seconds for one token."""
        self._burst, self._refill = burst, refill
        self._left = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        if self.wait(now) > 0:
            return False
        self._left -= 1
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token."""
        self._left = min(self._burst, self._left + (now - self._at) / self._refill)
        self._at = now
        return max(0.0, (1 - self._left) * self._refill)

    @property
    def is_full(self) -> bool:
        return self._left >= self._burst


class _Pending:
    """Series to write, by namespace; round robin, with a budget for each namespace."""

    def __init__(self) -> None:
        #: Namespace → series, oldest first; the namespace that was served last is the last one.
        self._namespaces: dict[str, dict[_SeriesKey, _Series]] = {}
        self._tokens: dict[str, _Tokens] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def put(self, key: _SeriesKey, series: _Series) -> bool:
        """Add a series, unless it is in; return False if the oldest one was dropped for it."""
        waiting = self._namespaces.setdefault(key.regarding.namespace, {})
        waiting[key] = series
        if len(waiting) <= NAMESPACE_PENDING:
            return True
        del waiting[next(iter(waiting))]
        return False

    def take(self, now: float, *, hurry: bool) -> tuple[_SeriesKey, _Series] | float:
        """Take the next series; or return the seconds until a namespace's budget allows one.

        With `hurry` budgets are ignored. There must be a series.
        """
        pauses = []
        for namespace, waiting in self._namespaces.items():
            tokens = self._tokens.get(namespace)
            if tokens is None:
                tokens = _Tokens(now, burst=NAMESPACE_BURST, refill=NAMESPACE_REFILL)
                self._tokens[namespace] = tokens
            if hurry or tokens.take(now):
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


class Recorder:
    """Records what `component` did as core/v1 Events; must be used on a running event loop.

    `clock` gives POSIX seconds.
    """

    def __init__(
        self, client: Client, *, component: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._series: OrderedDict[_SeriesKey, _Series] = OrderedDict()
        self._tokens: OrderedDict[tuple[ObjectKey, str], _Tokens] = OrderedDict()
        #: Series to write; each is in `_series` or was evicted from it.
        self._pending = _Pending()
        #: Set while pending Events are written regardless of budgets.
        self._hurry = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._created = self._counted = self._dropped = 0

    def event(
        self,
        regarding: ObjectKey,
        *,
        api_version: str,
        uid: str,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        resource_version: str = "",
        once: bool = False,
    ) -> bool:
        """Record an Event about an object; returns at once and never fails.

        The same message about the same object within ten minutes raises the count of the same
        Event. Beyond 25 calls an object gets one more per five minutes. Each namespace has a budget
        of its own. `once` is for a persisting problem: the same message within REMIND_AFTER neither
        creates nor counts an Event. Returns False for those, so that the caller need not log it
        again.
        """
        now = self._clock()
        key = _SeriesKey(regarding, uid, type, reason, message[:LONGEST_MESSAGE])
        if once and (told := self._series.get(key)) and now - told.last <= REMIND_AFTER:
            self._series.move_to_end(key)
            return False
        if not self._allow((regarding, uid), now):
            self._dropped += 1
            return True
        series = self._series.get(key)
        if series is None or now - series.last > REPEAT_WITHIN:
            body = self._body(key, api_version=api_version, resource_version=resource_version)
            series = self._series[key] = _Series(body)
        self._series.move_to_end(key)
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        series.count += 1
        series.last = now
        if not self._pending.put(key, series):
            self._dropped += 1
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_pending())
        return True

    async def aclose(self, *, within: float = LAST_WORDS) -> None:
        """Write pending Events, for `within` seconds at most; drop the rest."""
        if self._writer is None:
            return
        self._hurry.set()
        _, late = await asyncio.wait([self._writer], timeout=within)
        self._hurry.clear()
        if late:
            self._writer.cancel()
            await asyncio.wait([self._writer])
            dropped = self._pending.clear()
            self._dropped += dropped
            lost = 1 + dropped  # including the one that was being written
            _log.warning("%d Events are lost, the API server has not taken them in time", lost)

    def statistics(self) -> RecorderStatistics:
        """Return counts of Events by result."""
        return RecorderStatistics(self._created, self._counted, self._dropped, len(self._pending))

    def _allow(self, key: tuple[ObjectKey, str], now: float) -> bool:
        tokens = self._tokens.get(key)
        if tokens is None:
            tokens = self._tokens[key] = _Tokens(now, burst=BURST, refill=REFILL)
        self._tokens.move_to_end(key)
        if len(self._tokens) > REMEMBERED:
            self._tokens.popitem(last=False)
        return tokens.take(now)

    def _body(self, key: _SeriesKey, *, api_version: str, resource_version: str) -> dict[str, Any]:
        # The name is the regarded object's and the time (client-go: tools/record/event.go,
        # makeEvent), cut so that both fit into the 253 characters of a name.
        stamp = f"{time.time_ns():x}"
        regarding = key.regarding
        reference = {
            "apiVersion": api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": key.uid,
            "resourceVersion": resource_version,
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{regarding.name[: 252 - len(stamp)]}.{stamp}",
                # The Events of a cluster-scoped object live in default (client-go:
                # tools/record/event.go).
                "namespace": regarding.namespace or "default",
            },
            "involvedObject": {name: value for name, value in reference.items() if value},
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }

    # -- writing -------------------------------------------------------------------------------

    async def _write_pending(self) -> None:
        while self._pending:
            taken = self._pending.take(loop_time(), hurry=self._hurry.is_set())
            if isinstance(taken, float):
                with suppress(TimeoutError):
                    async with asyncio.timeout(taken):
                        await self._hurry.wait()
                continue
            key, series = taken
            try:
                await self._write(series)
            except asyncio.CancelledError:
                self._dropped += 1
                raise
            except HotmapError as error:
                self._dropped += 1
                _log.warning(
                    "the Event %s about %s was not written: %s", key.reason, key.regarding, error
                )
            except Exception:
                self._dropped += 1
                _log.exception("internal error writing the Event %s", key.reason)
            await asyncio.sleep(SPACING)
        self._pending.drop_unused_budgets(loop_time())

    async def _write(self, series: _Series) -> None:
        count = series.count
        if series.written:
            try:
                await self._count(series, count)
            except NotFound:
                series.written = 0  # the server deletes Events after an hour; create it again
            else:
                self._counted += 1
        if not series.written:
            await self._create(series, count)
            self._created += 1
        series.written = count

    async def _create(self, series: _Series, count: int) -> None:
        at = _timestamp(series.last)
        body = {**series.body, "firstTimestamp": at, "lastTimestamp": at, "count": count}
        # The name is unique: if it exists, an attempt whose response was lost created it.
        with suppress(AlreadyExists):
            await self._client.create(
                EVENTS, _namespace(series), body, type=_Nothing, idempotent=True
            )

    async def _count(self, series: _Series, count: int) -> None:
        await self._client.patch(
            EVENTS,
            _namespace(series),
            series.body["metadata"]["name"],
            {"count": count, "lastTimestamp": _timestamp(series.last)},
            type=_Nothing,
            idempotent=True,
        )


class _Nothing(msgspec.Struct):
    """A response body that is not decoded."""


def _namespace(series: _Series) -> str:
    namespace: str = series.body["metadata"]["namespace"]
    return namespace


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
