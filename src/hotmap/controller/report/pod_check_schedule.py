"""When the pods of each consumer are checked; starts no check.

A queue has its keys by time. A key stays there when its time changes or it is dropped; what counts
is the time that is noted beside the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.fair_slots import most_of_one_group
from hotmap.kube.workqueue import WorkQueue

__all__ = ["AgentCheckSchedule", "PodCheckSchedule", "ScheduledCheck"]


class ScheduledCheck:
    """When the pods of one consumer are checked; times on the event loop's clock."""

    __slots__ = ("behind", "due", "pause", "progress_at", "requested_at")

    def __init__(self, now: float, behind: int, requested_at: float = 0.0) -> None:
        self.due = now
        #: Seconds of the last pause.
        self.pause = 0.0
        #: How many pods its own controller still had to update, and since when.
        self.behind = behind
        self.progress_at = now
        #: When its rollout was decided, POSIX seconds; 0: there was none.
        self.requested_at = requested_at


class PodCheckSchedule:
    """The consumers whose pods have to be checked; adopted ones are checked last."""

    def __init__(self, *, workers: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: Adopted consumers, and when they may be checked; keys only, since there may be many.
        self._adopted: dict[ObjectKey, float] = {}
        self._adopted_queue = _make_queue(workers, clock)
        #: Consumers with a time of their own.
        self._checks: dict[ObjectKey, ScheduledCheck] = {}
        self._queue = _make_queue(workers, clock)
        self._wake = asyncio.Event()

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._checks or key in self._adopted

    @property
    def has_keys(self) -> bool:
        """Whether any key is queued, due or not."""
        return bool(self._queue or self._adopted_queue)

    def get(self, key: ObjectKey) -> ScheduledCheck | None:
        """Return the check of a consumer with a time of its own."""
        return self._checks.get(key)

    def ensure(self, key: ObjectKey, behind: int) -> ScheduledCheck:
        """Return the check of a consumer; one that has none gets one that is not queued."""
        return self._checks.setdefault(key, ScheduledCheck(self._clock(), behind))

    def begin(self, key: ObjectKey, behind: int, *, requested_at: float) -> None:
        """Replace the check of a consumer by a new one, for a decision at `requested_at`."""
        self.drop(key)
        self._checks[key] = ScheduledCheck(self._clock(), behind, requested_at)

    def add(self, key: ObjectKey, behind: int, seconds: float) -> None:
        """Check a consumer after some seconds."""
        self.ensure(key, behind).due = self._clock() + seconds
        self._queue.add_after(key, seconds)
        self._wake.set()

    def add_adopted(self, key: ObjectKey, seconds: float) -> None:
        """Check an adopted consumer after some seconds, when none with a time of its own is due."""
        self._adopted[key] = self._clock() + seconds
        self._adopted_queue.add_after(key, seconds)
        self._wake.set()

    def drop_adopted(self, key: ObjectKey) -> None:
        """Take a consumer from the adopted ones."""
        self._adopted.pop(key, None)

    def drop(self, key: ObjectKey) -> None:
        """Cancel the checks of a consumer."""
        self._adopted.pop(key, None)
        self._checks.pop(key, None)

    async def wait(self, seconds: float | None) -> None:
        """Wait until a consumer is added, for some seconds at most."""
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def take_due(self) -> tuple[ObjectKey, WorkQueue[ObjectKey]] | None:
        """Take a key that is due.

        The caller must call `done` of the queue that is returned with it.
        """
        key = _take(self._queue, self._due_time, clock=self._clock)
        if key is not None:
            return key, self._queue
        key = _take(self._adopted_queue, self._adopted.get, clock=self._clock)
        if key is None:
            return None
        del self._adopted[key]
        return key, self._adopted_queue

    def _due_time(self, key: ObjectKey) -> float | None:
        check = self._checks.get(key)
        return check.due if check else None


class AgentCheckSchedule:
    """The consumers whose agents were nudged with other content: the next check of each."""

    def __init__(self, *, workers: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: The time of the next check, and the number of checks before it.
        self._checks: dict[ObjectKey, tuple[float, int]] = {}
        self._queue = _make_queue(workers, clock)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._checks

    def get(self, key: ObjectKey) -> tuple[float, int] | None:
        """Return when a consumer is checked next, and the number of checks before it."""
        return self._checks.get(key)

    def add(self, key: ObjectKey, seconds: float, *, checks: int) -> None:
        """Check a consumer after some seconds, for which there were `checks` before."""
        self._checks[key] = self._clock() + seconds, checks
        self._queue.add_after(key, seconds)

    def suspend(self, key: ObjectKey) -> None:
        """Do not check a consumer until `resume` or `add`."""
        _, checks = self._checks[key]
        self._checks[key] = inf, checks

    def resume(self, key: ObjectKey, seconds: float) -> None:
        """Check a consumer after some seconds if it was suspended."""
        due, checks = self._checks[key]
        if due == inf:
            self.add(key, seconds, checks=checks)

    def drop(self, key: ObjectKey) -> None:
        """Cancel the checks of a consumer."""
        self._checks.pop(key, None)

    async def take_due(self) -> ObjectKey:
        """Wait for a key that is due; `done` must be called with it."""
        while True:
            key = await self._queue.get()
            due, _ = self._checks.get(key, (inf, 0))
            left = due - self._clock()
            if left <= 0:
                return key
            if due != inf:
                self._queue.add_after(key, left)
            self._queue.done(key)

    def done(self, key: ObjectKey) -> None:
        """Record that the check of a key has ended."""
        self._queue.done(key)


def _make_queue(workers: int, clock: Callable[[], float]) -> WorkQueue[ObjectKey]:
    most = most_of_one_group(workers)
    return WorkQueue(clock=clock, group=lambda key: key.namespace, most=most)


def _take(
    queue: WorkQueue[ObjectKey],
    due_time: Callable[[ObjectKey], float | None],
    *,
    clock: Callable[[], float],
) -> ObjectKey | None:
    """Take the next key that is due; keys that were dropped or postponed are skipped."""
    with suppress(asyncio.QueueEmpty):
        while True:
            key = queue.get_nowait()
            due = due_time(key)
            left = 0.0 if due is None else due - clock()
            if due is not None and left <= 0:
                return key
            queue.done(key)
            if due is not None:
                queue.add_after(key, left)
    return None
