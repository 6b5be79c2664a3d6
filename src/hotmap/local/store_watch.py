"""The watches of a store: the writes under one prefix, in order and without a gap."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["StoreEvent", "Watch", "WatchedStore"]


class StoreEvent(NamedTuple):
    """One write, as watches see it: `prev_value` is None for a key that did not exist."""

    type: Literal["PUT", "DELETE"]
    key: str
    value: bytes | None
    prev_value: bytes | None
    revision: int


class WatchedStore(Protocol):
    """What a watch needs of its store."""

    @property
    def revision(self) -> int: ...

    def forget_watch(self, watch: Watch) -> None: ...


class Watch:
    """The writes under one prefix, read by one reader as an async iterator or with `take`.

    A reader that falls behind by more than the buffer is cut off: it still gets what was
    buffered, then the end, and can resume from the last revision it saw. So a watch never has
    a gap, and never grows.
    """

    def __init__(
        self,
        store: WatchedStore,
        prefix: str,
        since: int,
        backlog: Iterable[StoreEvent],
        buffer: int,
    ) -> None:
        self.prefix = prefix
        self._store = store
        self._since = since
        self._events = deque(backlog)
        # Replayed history does not count as falling behind.
        self._limit = len(self._events) + buffer
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        #: Called instead of waking a reader that waits; it has to call `take` or `wake`.
        self.on_event: Callable[[], None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a reader waits for an event."""
        return self._waiter is not None and not self._waiter.done()

    @property
    def ended(self) -> bool:
        """Whether no event will follow the buffered ones."""
        return self._ended

    @property
    def progress(self) -> int:
        """The revision up to which everything was taken: safe to resume from."""
        if self._events:
            return self._events[0].revision - 1
        return self._since if self._ended else max(self._since, self._store.revision)

    def push(self, event: StoreEvent) -> None:
        """Add a write; only the store calls this."""
        if event.revision <= self._since:
            return
        if len(self._events) >= self._limit:
            self._end()
            return
        self._events.append(event)
        if self.on_event is not None and self.is_waiting:
            self.on_event()
        else:
            self.wake()

    def take(self) -> list[StoreEvent]:
        """Take every buffered event, without waiting."""
        events = list(self._events)
        self._events.clear()
        if events:
            self._since = events[-1].revision
        return events

    async def wait(self) -> bool:
        """Wait for an event or a `wake`; False means that the watch has ended.

        One reader at a time. A cancelled wait loses nothing.
        """
        if not self._events and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return bool(self._events) or not self._ended

    def wake(self, error: Exception | None = None) -> None:
        """End the present wait, with an error if there is one."""
        if self._waiter is None or self._waiter.done():
            return
        if error is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(error)

    def close(self) -> None:
        """End the watch and drop what was not taken."""
        self._events.clear()
        self._end()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> StoreEvent:
        while not self._events:
            if not await self.wait():
                raise StopAsyncIteration
        event = self._events.popleft()
        self._since = event.revision
        return event

    def _end(self) -> None:
        self._ended = True
        self._store.forget_watch(self)
        self.wake()
