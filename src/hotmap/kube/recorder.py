"""Records what was done as Kubernetes Events, for `kubectl describe`.

Events are best effort: they never delay or fail the work that they report, and are dropped rather
than overload the server. The caller chooses reasons and messages.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.events import CLOSE_TIMEOUT, EventKey, EventSeries, EventWriter
from hotmap.kube.resources import EVENTS
from hotmap.kube.token_bucket import TokenBucket

__all__ = ["Recorder", "RecorderStatistics"]

#: Seconds within which a repetition raises the count of an Event, and how many different Events are
#: remembered for that (client-go: tools/record/events_cache.go).
REPEAT_WITHIN: Final = 600.0
REMEMBERED: Final = 4096

#: Seconds after which a persisting problem is reported again: the server deletes Events after an
#: hour (kube-apiserver: --event-ttl).
REMIND_AFTER: Final = 3600.0

#: How many persisting problems are remembered.
MAX_CONDITIONS: Final = 16384

#: Per regarding object, for its problems and for the rest: burst, and seconds until one more is
#: accepted (the same file, defaultSpamBurst and defaultSpamQPS).
BURST: Final = 25
REFILL: Final = 300.0

#: Characters of a message (kubernetes: events.k8s.io validation, NoteLengthLimit).
LONGEST_MESSAGE: Final = 1024


class RecorderStatistics(NamedTuple):
    #: Events created
    created: int
    #: repetitions written as a higher count
    counted: int
    #: Events dropped because one object had too many, or the server refused them
    dropped: int
    #: Events that wait to be written
    pending: int


class Recorder:
    """Records what `component` did as core/v1 Events; must be used on a running event loop.

    Without a `writer` nothing is written, but repetitions are still detected. `clock` gives POSIX
    seconds. `skips` tells the namespaces in which nothing can be written.
    """

    def __init__(
        self,
        writer: EventWriter | None,
        *,
        component: str,
        clock: Callable[[], float] = time.time,
        skips: Callable[[str], bool] = lambda namespace: False,
    ) -> None:
        self._writer = writer
        self._skips = skips
        self._component = component
        self._clock = clock
        self._series: dict[EventKey, EventSeries] = {}
        self._tokens: dict[tuple[ObjectKey, str, bool], TokenBucket] = {}
        #: Persisting problems, and when each was last reported.
        self._standing: OrderedDict[EventKey, float] = OrderedDict()
        self._dropped = 0

    def event(
        self,
        regarding: ObjectKey,
        *,
        api_version: str,
        uid: str,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        once: bool = False,
    ) -> bool:
        """Record an Event about an object; returns at once and never fails.

        The same message about the same object within ten minutes raises the count of the same
        Event. Beyond 25 calls an object gets one more per five minutes. Each namespace has a budget
        of its own. `once` is for a persisting problem: the same message within REMIND_AFTER neither
        creates nor counts an Event. An object's problems are counted apart from what else happens
        to it, which may be much. Returns False for a problem without an Event, so that the caller
        does not log it: neither again, nor each value of an annotation that changes in a loop.
        """
        now = self._clock()
        key = EventKey(regarding, uid, type, reason, message[:LONGEST_MESSAGE])
        if once and self._is_known(key, now):
            return False
        if not self._allow((regarding, uid, once), now):
            self._dropped += 1
            return not once
        if once:
            put_latest(self._standing, key, now, most=MAX_CONDITIONS)
        series = self._series.get(key)
        if series is None or now - series.last > REPEAT_WITHIN:
            body = self._body(key, api_version)
            series = EventSeries(body)
        put_latest(self._series, key, series, most=REMEMBERED)
        series.count += 1
        series.last = now
        if self._writer is not None and not self._skips(regarding.namespace):
            self._writer.put(key, series)
        return True

    async def aclose(self, *, within: float = CLOSE_TIMEOUT) -> None:
        """Write pending Events, for `within` seconds at most; drop the rest."""
        if self._writer is not None:
            await self._writer.aclose(within=within)

    def statistics(self) -> RecorderStatistics:
        """Return counts of Events by result."""
        writer = self._writer
        if writer is None:
            return RecorderStatistics(0, 0, self._dropped, 0)
        dropped = self._dropped + writer.dropped
        return RecorderStatistics(writer.created, writer.counted, dropped, len(writer))

    def _is_known(self, key: EventKey, now: float) -> bool:
        """Return whether a problem was reported recently."""
        reported_at = self._standing.get(key)
        if reported_at is None or now - reported_at > REMIND_AFTER:
            return False
        self._standing.move_to_end(key)
        return True

    def _allow(self, key: tuple[ObjectKey, str, bool], now: float) -> bool:
        tokens = self._tokens.get(key)
        if tokens is None:
            tokens = TokenBucket(now, burst=BURST, refill=REFILL)
        put_latest(self._tokens, key, tokens, most=REMEMBERED)
        return tokens.take(now)

    def _body(self, key: EventKey, api_version: str) -> dict[str, Any]:
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
