"""Kubernetes Events written by the control plane's own components.

Recording never blocks and never raises: Events are written in the background, in order, and repeats
are counted on the first one (client-go: tools/record, eventLogger). The spam filter of client-go
and its joining of similar texts are left out: one process on one machine needs no such protection.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, NamedTuple

from hotmap.core.errors import HotmapError, NotFound
from hotmap.local.client import Client
from hotmap.local.meta import Object, timestamp

__all__ = ["Recorder"]

_log = logging.getLogger(__name__)

# Seconds for which a repeat is counted on the earlier Event, and how many Events are
# remembered (client-go: maxLruCacheEntries 4096, defaultAggregateIntervalInSeconds 600).
_REPEAT_WINDOW = 600.0
_REMEMBERED = 4096

_LONGEST_NAME = 253


class _Occurrence(NamedTuple):
    """One occurrence that an Event reports."""

    obj: Object
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    #: POSIX seconds.
    at: float
    #: The part of the object that it is about, such as `spec.containers{web}`; "" for the whole.
    field_path: str = ""


class _Written(NamedTuple):
    """An Event that was written, how often it was counted and when last (POSIX seconds)."""

    name: str
    times: int
    at: float


class Recorder:
    """Write Events about objects for one component."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Record for a component; `host` is the node that it runs on, "" for none."""
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._pending: asyncio.Queue[_Occurrence] = asyncio.Queue()
        #: (uid, part, type, reason, message) → the Event that counts it; least recently used first.
        self._written: OrderedDict[tuple[str, ...], _Written] = OrderedDict()

    def event(
        self,
        obj: Object,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        field_path: str = "",
    ) -> None:
        """Queue an Event about *obj* or a part of it; `run` writes it.

        *reason* is CamelCase and stable, *message* is prose without any Secret value.
        """
        found = _Occurrence(obj, type, reason, message, self._clock(), field_path)
        self._pending.put_nowait(found)

    async def run(self) -> None:
        """Write queued Events until cancelled; what is still queued then is lost."""
        while True:
            occurrence = await self._pending.get()
            try:
                await self._write(occurrence)
            except HotmapError as error:
                # The namespace may be terminating, and the object with it.
                _log.debug("failed to write event %s: %s", occurrence.reason, error)

    async def _write(self, occurrence: _Occurrence) -> None:
        metadata = occurrence.obj["metadata"]
        _, type, reason, message, _, field_path = occurrence
        key = (metadata["uid"], field_path, type, reason, message)
        known = self._written.pop(key, None)
        namespace = metadata.get("namespace") or "default"
        written = None
        if known is not None and occurrence.at - known.at < _REPEAT_WINDOW:
            written = await self._count_up(namespace, known, occurrence.at)
        self._written[key] = written or await self._create(namespace, occurrence)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    async def _count_up(self, namespace: str, known: _Written, at: float) -> _Written | None:
        again = _Written(known.name, known.times + 1, at)

        def count(event: Object) -> Object:
            return {**event, "count": again.times, "lastTimestamp": timestamp(at)}

        try:
            await self._client.modify(
                "events", namespace, known.name, count, manager=self._component
            )
        except NotFound:
            return None
        return again

    async def _create(self, namespace: str, occurrence: _Occurrence) -> _Written:
        obj, at = occurrence.obj, occurrence.at
        metadata = obj["metadata"]
        involved = {
            "kind": obj["kind"],
            "apiVersion": obj["apiVersion"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if "namespace" in metadata:
            involved["namespace"] = metadata["namespace"]
        if occurrence.field_path:
            involved["fieldPath"] = occurrence.field_path
        source = {"component": self._component}
        if self._host:
            source["host"] = self._host
        event = {
            "metadata": {
                "name": _event_name(metadata["name"]),
                "namespace": namespace,
            },
            "involvedObject": involved,
            "reason": occurrence.reason,
            "message": occurrence.message,
            "type": occurrence.type,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
            "firstTimestamp": timestamp(at),
            "lastTimestamp": timestamp(at),
            "count": 1,
            "eventTime": None,
        }
        created = await self._client.create("events", namespace, event, manager=self._component)
        return _Written(created["metadata"]["name"], 1, at)


def _event_name(name: str) -> str:
    """Name an Event about an object (client-go: util.GenerateEventName).

    Nanoseconds distinguish those of one object; what would be too long is a random name instead.
    """
    stamped = f"{name}.{time.time_ns():x}"
    return stamped if len(stamped) <= _LONGEST_NAME else str(uuid.uuid4())
