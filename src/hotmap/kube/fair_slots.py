"""Slots for a bounded number of tasks, shared fairly between groups.

A semaphore is first come, first served: ten thousand requests of one group delay the next request
of any other by all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

__all__ = ["FairSlots", "most_of_one_group"]

#: Every other value may be a group.
_NO_GROUP: Final = object()


def most_of_one_group(total: int) -> int:
    """Return how many of `total` slots one group may have.

    An eighth is left for groups that have none, each of which may take one of these.
    """
    return max(1, total - max(1, total // 8))


class FairSlots:
    """Lets `total` tasks run at once, and fewer of any one group; see `most_of_one_group`.

    Groups that wait take turns; tasks of one group run in the order in which they came.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._most = most_of_one_group(total)
        #: Slots by group; no group has 0.
        self._used: Counter[Hashable] = Counter()
        #: Waiting tasks by group; the group whose turn is next is the first. No group is empty.
        #: Invariant: while a slot is free, each of these groups has as many as it may have.
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def use(self, group: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and have it for the time of the context."""
        await self._acquire(group)
        try:
            yield
        finally:
            self._release(group)

    async def _acquire(self, group: Hashable) -> None:
        if self._free and self._may_take(group):
            self._take(group)
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release(group)
            else:
                self._forget(group, granted)
            raise

    def _may_take(self, group: Hashable) -> bool:
        return group not in self._used or self._used.total() < self._most

    def _take(self, group: Hashable) -> None:
        self._free -= 1
        self._used[group] += 1

    def _release(self, group: Hashable) -> None:
        self._free += 1
        self._used[group] -= 1
        if not self._used[group]:
            del self._used[group]
        self._grant()

    def _forget(self, group: Hashable, granted: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(group)
        if waiting is not None and granted in waiting:
            waiting.remove(granted)
            if not waiting:
                del self._waiting[group]

    def _grant(self) -> None:
        """Give free slots to the groups that wait and may have more."""
        while self._free:
            if (group := next(filter(self._may_take, self._waiting), _NO_GROUP)) is _NO_GROUP:
                return
            waiting = self._waiting.pop(group)
            granted = waiting.popleft()
            if waiting:
                self._waiting[group] = waiting  # the others' turn comes first
            if not granted.cancelled():
                self._take(group)
                granted.set_result(None)
