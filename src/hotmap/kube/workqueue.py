"""A work queue: keys due at once, later, after a quiet time, or again after a failure.

Queues contain keys; workers read the current state (client-go: util/workqueue). The caller
interprets the keys.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import Generic, NamedTuple, TypeVar

from hotmap.kube.loop_clock import loop_time
from hotmap.kube.retry import Backoff

__all__ = ["QueueShutDown", "WorkQueue", "WorkQueueStatistics"]

K = TypeVar("K", bound=Hashable)

#: Seconds before the first retry of a key, and the most between two.
RETRY_FIRST = 0.2
RETRY_LAST = 300.0


class QueueShutDown(Exception):
    """Raised for a worker when no further key will come (as asyncio.QueueShutDown is)."""


class WorkQueueStatistics(NamedTuple):
    #: keys that are due and wait for a worker
    ready: int
    #: keys that are not due yet
    waiting: int
    #: keys that workers are processing
    processing: int
    #: keys that failed and were not forgotten since
    failing: int
    #: calls of add, add_after, add_settled and retry since the start
    adds: int
    #: keys taken by workers since the start
    delivered: int
    #: retries since the start
    retries: int


class _Entry:
    """When a pending key is due."""

    __slots__ = ("due", "heap_time", "settling_since")

    def __init__(self, due: float, settling_since: float | None) -> None:
        self.due = due
        #: The time of this entry in the heap: never later than `due`, so a due time that moves on
        #: need not be pushed again each time.
        self.heap_time = due
        #: When the quiet time began that determines `due`; None if something else does.
        self.settling_since = settling_since


class WorkQueue(Generic[K]):
    """A queue that gives each key to one worker at a time.

    A key that is added several times before a worker takes it is worked on once. A key that is
    added while a worker has it is worked on again after `done`. Each delivery covers all earlier
    adds: a worker that needs the key again later adds it again.

    Keys of one `group` are delivered in the order in which they became due; groups take turns, so
    that 10,000 keys of one of them delay no other. While workers have `most` keys, they take only
    keys of groups of which none has one: keys that take long, also those of a few groups, leave
    some workers to the others. By default all keys are one group, and `most` is not limited.

    `clock` returns monotonic seconds; `uniform` draws the retry pauses.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = loop_time,
        uniform: Callable[[float, float], float] = random.uniform,
        group: Callable[[K], Hashable] = lambda key: None,
        most: float = inf,
    ) -> None:
        self._clock = clock
        self._uniform = uniform
        self._group = group
        self._most = most
        #: Every pending key, with its time. A key is here or in `_processing`,
        #: in both when it was added again meanwhile.
        self._entries: dict[K, _Entry] = {}
        #: (heap time, sequence, key); an item with another heap time than its entry is stale.
        self._heap: list[tuple[float, int, K]] = []
        #: Keys that are due, in that order, by group; the group whose turn is next is the first.
        #: All of them have an entry, and each group has a key.
        self._ready: dict[Hashable, dict[K, None]] = {}
        #: The keys that workers have.
        self._processing: set[K] = set()
        #: How many keys workers have, by group.
        self._busy: Counter[Hashable] = Counter()
        self._backoffs: dict[K, Backoff] = {}
        self._sequence = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._shut_down = False
        self._adds = self._delivered = self._retries = 0

    # -- nowait --------------------------------------------------------------------------------

    def add(self, key: K) -> None:
        """Make a key due at once, even if it was due later."""
        self._adds += 1
        entry = self._entries.get(key)
        now = self._clock()
        if entry is None or entry.due > now:
            self._set_due(key, now, settling_since=None)

    def add_after(self, key: K, seconds: float) -> None:
        """Make a key due in some seconds, unless it is due earlier or is settling.

        A quiet time is bounded, so an earlier request can wait for its end; otherwise the worker
        would act on a change that is still in progress.
        """
        self._adds += 1
        entry = self._entries.get(key)
        due = self._clock() + seconds
        if entry is None or (entry.settling_since is None and due < entry.due):
            self._set_due(key, due, settling_since=None)

    def add_settled(self, key: K, *, settle: float, settle_max: float) -> None:
        """Make a key due after `settle` seconds without another call for it.

        Every call restarts the quiet time, but a key is never delayed longer than
        `settle_max` seconds after the first of them. A key that is already due stays due.
        """
        self._adds += 1
        entry = self._entries.get(key)
        now = self._clock()
        since = now
        if entry is not None:
            if entry.due <= now:
                return
            if entry.settling_since is not None:
                since = entry.settling_since
        self._set_due(key, min(now + settle, since + settle_max), settling_since=since)

    def retry(self, key: K, *, least: float = 0.0) -> float:
        """Make a key due after its next backoff pause, and return that pause in seconds.

        The pauses of a key grow from 0.2 s to 5 min until `forget`; the number of retries is
        unlimited. `least` is a minimum pause (a Retry-After), up to the longest pause.
        """
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = Backoff(RETRY_FIRST, RETRY_LAST, uniform=self._uniform)
            self._backoffs[key] = backoff
        pause = max(backoff.next(), min(least, RETRY_LAST))
        self._retries += 1
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """Reset the key's backoff after a success."""
        self._backoffs.pop(key, None)

    def get_nowait(self) -> K:
        """Take the key that has been due longest in its group; the caller must call `done`.

        Raises:
            asyncio.QueueEmpty: no key is due, except those that other workers have.
            QueueShutDown: the queue was shut down; the worker ends.
        """
        if self._shut_down:
            raise QueueShutDown
        self._promote(self._clock())
        key = next(self._free_keys(), None)
        if key is None:
            raise asyncio.QueueEmpty
        group = self._group(key)
        others = self._ready.pop(group)
        del others[key]
        if others:
            self._ready[group] = others
        del self._entries[key]
        self._processing.add(key)
        self._busy[group] += 1
        self._delivered += 1
        return key

    def done(self, key: K) -> None:
        """Mark a key as processed: if it was added meanwhile, it can now be taken again."""
        self._processing.remove(key)
        group = self._group(key)
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        self._wake()

    def shutdown(self) -> None:
        """Stop all workers: each finishes its key and gets no other. Later adds are ignored."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            _resolve(self._waiters.popleft())

    def __len__(self) -> int:
        """Count the keys that wait, due or not."""
        return len(self._entries)

    def has(self, key: K) -> bool:
        """Return whether a worker has a key, or will get it now or later."""
        return key in self._processing or key in self._entries

    def is_pending(self, key: K) -> bool:
        """Return whether a key is due, settling or with a worker; a later retry does not count."""
        entry = self._entries.get(key)
        return key in self._processing or (
            entry is not None and (entry.settling_since is not None or entry.due <= self._clock())
        )

    def settles_in(self, key: K) -> float | None:
        """Return the seconds until a key's quiet time ends; None: it has none, or it has ended."""
        entry = self._entries.get(key)
        if entry is None or entry.settling_since is None:
            return None
        left = entry.due - self._clock()
        return left if left > 0 else None

    def has_ready(self) -> bool:
        """Return whether a key is due and waits for a worker.

        Not one that a worker has and that was added again, and none of a group that may have no
        further worker now, however many workers are free.
        """
        self._promote(self._clock())
        return next(self._free_keys(), None) is not None

    def statistics(self) -> WorkQueueStatistics:
        """Return counts of keys by state."""
        self._promote(self._clock())
        ready = sum(map(len, self._ready.values()))
        return WorkQueueStatistics(
            ready=ready,
            waiting=len(self._entries) - ready,
            processing=len(self._processing),
            failing=len(self._backoffs),
            adds=self._adds,
            delivered=self._delivered,
            retries=self._retries,
        )

    # -- async ---------------------------------------------------------------------------------

    async def get(self) -> K:
        """Wait for a key that is due and take it; the caller must call `done` for it.

        Cancelling takes no key.

        Raises:
            QueueShutDown: the queue was shut down; the worker ends.
        """
        while True:
            try:
                return self.get_nowait()
            except asyncio.QueueEmpty:
                await self._wait()

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake()
        try:
            await waiter
        except BaseException:  # usually a cancellation
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                self._wake()  # pass this wake-up on to another worker
            raise

    # -- the schedule --------------------------------------------------------------------------

    def _set_due(self, key: K, due: float, *, settling_since: float | None) -> None:
        if self._shut_down:
            return
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = _Entry(due, settling_since)
        else:
            entry.due, entry.settling_since = due, settling_since
            if due >= entry.heap_time:
                return
            entry.heap_time = due
        self._push(key, due)
        if self._heap[0][0] == due:  # otherwise the timer is for an earlier key
            self._wake()

    def _push(self, key: K, due: float) -> None:
        self._sequence += 1
        heappush(self._heap, (due, self._sequence, key))

    def _promote(self, now: float) -> None:
        """Move every key that is due from the heap to the ready keys."""
        while self._heap and self._heap[0][0] <= now:
            heap_time, _, key = heappop(self._heap)
            entry = self._entries.get(key)
            group = self._group(key)
            if entry is None or entry.heap_time != heap_time or key in self._ready.get(group, ()):
                continue
            if entry.due <= now:
                self._ready.setdefault(group, {})[key] = None
            else:
                entry.heap_time = entry.due
                self._push(key, entry.due)

    def _free_keys(self) -> Iterator[K]:
        """Iterate over the keys that are due, that no worker has, and whose group may have more."""
        for group, keys in self._ready.items():
            if self._busy[group] and len(self._processing) >= self._most:
                continue
            for key in keys:
                if key not in self._processing:
                    yield key

    def _wake(self) -> None:
        """Wake as many waiting workers as there are keys for, or set the timer for the next."""
        if not self._waiters:
            return
        now = self._clock()
        self._promote(now)
        for _ in islice(self._free_keys(), len(self._waiters)):
            _resolve(self._waiters.popleft())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiters and self._heap:
            delay = max(0.0, self._heap[0][0] - now)
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._wake()


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
