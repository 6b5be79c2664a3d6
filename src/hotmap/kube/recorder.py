"""Writes Kubernetes Events in the background, so that `kubectl describe` tells what was done.

An Event is a courtesy: it never delays or fails the work it tells of, and is dropped rather
than allowed to burden the server. What to tell, and in which words, is the caller's matter.
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
from hotmap.kube.resources import EVENTS

__all__ = ["Recorder", "RecorderStatistics"]

#: Seconds within which a repetition is counted instead of told anew, and how many different
#: Events are remembered for it (client-go: tools/record/events_cache.go).
REPEAT_WITHIN: Final = 600.0
REMEMBERED: Final = 4096

#: Per regarded object: calls at once, and seconds until one more is heard (the same file,
#: defaultSpamBurst and defaultSpamQPS).
BURST: Final = 25
REFILL: Final = 300.0

#: Seconds between two writes, so that a change with 5,000 consumers is no storm: 20 a second.
SPACING: Final = 0.05

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
    #: Events given up because one object had too many, or the server did not take them
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
    """A token bucket per object; `take` says whether one more Event is allowed."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._left = float(BURST)
        self._at = now

    def take(self, now: float) -> bool:
        self._left = min(BURST, self._left + (now - self._at) / REFILL)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Recorder:
    """Tells what `component` did as core/v1 Events; must be used on a running event loop.

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
        #: Series with something to write, oldest first; each is in `_series` or was pushed out.
        self._pending: dict[_SeriesKey, _Series] = {}
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
    ) -> None:
        """Tell that something happened to an object; returns at once and never fails.

        The same words about the same object within ten minutes become a higher count of the
        same Event. Beyond 25 calls an object gets one more per five minutes.
        """
        now = self._clock()
        key = _SeriesKey(regarding, uid, type, reason, message[:LONGEST_MESSAGE])
        if not self._allow((regarding, uid), now):
            self._dropped += 1
            return
        series = self._series.get(key)
        if series is None or now - series.last > REPEAT_WITHIN:
            body = self._body(key, api_version=api_version, resource_version=resource_version)
            series = self._series[key] = _Series(body)
        self._series.move_to_end(key)
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        series.count += 1
        series.last = now
        self._pending[key] = series
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_pending())

    async def aclose(self, *, within: float = LAST_WORDS) -> None:
        """Write what is pending, for `within` seconds at most; the rest is dropped."""
        if self._writer is None:
            return
        _, late = await asyncio.wait([self._writer], timeout=within)
        if late:
            self._writer.cancel()
            await asyncio.wait([self._writer])
            lost = 1 + len(self._pending)  # with the one that was being written
            self._dropped += len(self._pending)
            self._pending.clear()
            _log.warning("%d Events are lost, the API server has not taken them in time", lost)

    def statistics(self) -> RecorderStatistics:
        """Count Events by what became of them."""
        return RecorderStatistics(self._created, self._counted, self._dropped, len(self._pending))

    def _allow(self, key: tuple[ObjectKey, str], now: float) -> bool:
        tokens = self._tokens.get(key)
        if tokens is None:
            tokens = self._tokens[key] = _Tokens(now)
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
            key = next(iter(self._pending))
            series = self._pending.pop(key)
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
            await asyncio.sleep(SPACING)

    async def _write(self, series: _Series) -> None:
        count = series.count
        if series.written:
            try:
                await self._count(series, count)
            except NotFound:
                series.written = 0  # the server forgets Events after an hour; tell it anew
            else:
                self._counted += 1
        if not series.written:
            await self._create(series, count)
            self._created += 1
        series.written = count

    async def _create(self, series: _Series, count: int) -> None:
        at = _timestamp(series.last)
        body = {**series.body, "firstTimestamp": at, "lastTimestamp": at, "count": count}
        # The name is nobody else's: if it is taken, an attempt whose answer was lost took it.
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
    """The answer to a write that nobody reads."""


def _namespace(series: _Series) -> str:
    namespace: str = series.body["metadata"]["namespace"]
    return namespace


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
