"""Limits the share of the event loop that changes of sources of one namespace take.

A change of a source enqueues its followers, at tens of microseconds each. A tenant who edits a
source of thousands of workloads many times a second would leave no time for the changes of others.
So after a change with many followers, the next changes in its namespace wait for some times as long
as that took, one source after the other. They are recorded at once, and several of one source
become one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from hotmap.core.model.objects import ObjectKey

__all__ = ["FanOuts"]

#: Followers from which on a change delays the next ones in its namespace.
MANY: Final = 100

#: How many times as long as a change took the next ones wait: a namespace has a fifth of the loop.
_REST: Final = 4.0

#: Seconds of the longest pause: a change may take long since the process was stopped meanwhile.
_LONGEST_PAUSE: Final = 5.0

_log = logging.getLogger(__name__)


class FanOuts:
    """Enqueues the followers of changed sources, those of large namespaces with pauses."""

    def __init__(
        self,
        enqueue_followers: Callable[[ObjectKey, bool], int],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`enqueue_followers` takes a source, and whether it was or is offered; returns a count.

        `clock` measures how long that takes, in seconds.
        """
        self._enqueue_followers = enqueue_followers
        self._clock = clock
        #: The end of the pause of each namespace that has one.
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        #: Sources whose followers are to be enqueued after the pause of their namespace.
        self._waiting: dict[str, dict[ObjectKey, bool]] = {}

    @property
    def waiting_namespaces(self) -> Collection[str]:
        """The namespaces of changed sources whose followers are not enqueued yet."""
        return self._waiting.keys()

    def add(self, source: ObjectKey, *, offered: bool) -> None:
        """Enqueue the followers of a changed source, now or after a pause.

        `offered` tells whether it was or is offered to consumers that search.
        """
        waiting = self._waiting.setdefault(source.namespace, {})
        waiting[source] = offered or waiting.get(source, False)
        if source.namespace not in self._pauses:
            self._enqueue(source.namespace)

    def clear(self) -> None:
        """Forget what waits."""
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        self._waiting.clear()

    def _enqueue(self, namespace: str) -> None:
        """Enqueue the followers of what waits, up to the next pause.

        The others wait for another turn: together they may take seconds of the event loop.
        """
        waiting = self._waiting[namespace]
        began, count = self._clock(), 0
        while waiting and count < MANY:
            source = next(iter(waiting))
            offered = waiting.pop(source)
            try:
                count += self._enqueue_followers(source, offered)
            except Exception:  # as in the stores' listeners: the others go on
                _log.exception("internal error enqueuing the workloads that follow %s", source)
        if not waiting:
            del self._waiting[namespace]
        if count >= MANY:
            pause = min(_REST * (self._clock() - began), _LONGEST_PAUSE)
            loop = asyncio.get_running_loop()
            self._pauses[namespace] = loop.call_later(pause, self._end_pause, namespace)

    def _end_pause(self, namespace: str) -> None:
        del self._pauses[namespace]
        if namespace in self._waiting:
            self._enqueue(namespace)
