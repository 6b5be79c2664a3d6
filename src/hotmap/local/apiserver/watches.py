"""Watches of one kind: writes of the store, seen through a selector.

The watch event of a write depends on the watch's selector: an object that leaves the selection
is DELETED in its last selected state, one that enters is ADDED (apiserver/pkg/storage/cacher).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Self

import msgspec

from hotmap.local.apiserver.encoding import at_revision, in_version
from hotmap.local.client import EventType, WatchEvent
from hotmap.local.json_object import JsonObject
from hotmap.local.selectors import EVERYTHING, Selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hotmap.local.scheme import Kind
    from hotmap.local.store_watch import StoreEvent, Watch

# A watch event as (type, object as JSON).
Frame = tuple[EventType, bytes]

# Initial objects that are taken at once.
_INITIAL_SLICE = 100
# Bytes of encoded writes that are kept for other watches of the same write.
_SHARED_BYTES = 16 << 20
# Selectors for which what they see of a write is kept, too.
_SHARED_FRAMES = 4


class RegistryWatch:
    """A stream of WatchEvents; close it, or use it as a context manager."""

    def __init__(
        self,
        kind: Kind,
        selector: Selector,
        events: Watch,
        changes: Changes,
        initial: Iterable[Frame | None],
    ) -> None:
        """Prepare; `initial` comes first, None in it stands for what the selector leaves out."""
        self._kind = kind
        self._selector = selector
        self._events = events
        self._changes = changes
        # Made as it is taken, since there may be many objects.
        self._initial: Iterator[Frame | None] | None = iter(initial)
        # Reversed, so that the next one is at the end.
        self._ready: list[Frame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._ready:
            if not await self.wait():
                raise StopAsyncIteration
            self._ready = self.take()[::-1]
        event_type, encoded = self._ready.pop()
        return WatchEvent(event_type, msgspec.json.decode(encoded))

    async def wait(self) -> bool:
        """Wait until `take` has events, or for `wake`; False means that the stream has ended."""
        return bool(self._ready or self._initial) or await self._events.wait()

    def take(self) -> list[Frame]:
        """Take what is ready, without waiting; may be empty even after a `wait`.

        The initial objects come a few at a time, so that the caller can let others run.
        """
        frames = self._ready[::-1]
        self._ready = []
        if self._initial is not None:
            taken = list(islice(self._initial, _INITIAL_SLICE))
            frames += [frame for frame in taken if frame is not None]
            if len(taken) == _INITIAL_SLICE:
                return frames
            self._initial = None
        for event in self._events.take():
            frame = self._changes.of(event).frame_for(self._kind, self._selector)
            if frame is not None:
                frames.append(frame)
        return frames

    @property
    def is_waiting(self) -> bool:
        """Whether `wait` waits."""
        return self._events.is_waiting

    def on_event(self, notify: Callable[[], None]) -> None:
        """Call `notify` for an event instead of ending a wait; it has to `take` or to `wake`."""
        self._events.on_event = notify

    def wake(self, error: Exception | None = None) -> None:
        """End a wait, with an error if there is one."""
        self._events.wake(error)

    def bookmark(self) -> bytes:
        """Return the object of a bookmark for everything that was taken so far."""
        return bookmark(self._kind, self._events.progress)

    def close(self) -> None:
        """End the stream; what was not taken is dropped."""
        self._ready, self._initial = [], None
        self._events.close()


class Changes:
    """The latest writes, prepared once for all watches that see them."""

    def __init__(self) -> None:
        # By revision, oldest first; a cache that may lose anything at any time.
        self._changes: dict[int, _Change] = {}
        self._size = 0

    def of(self, event: StoreEvent) -> _Change:
        """Return the prepared form of a write."""
        change = self._changes.get(event.revision)
        if change is None:
            change = self._changes[event.revision] = _Change(event)
            self._size += change.size
            while self._size > _SHARED_BYTES:
                self._size -= self._changes.pop(next(iter(self._changes))).size
        return change


class _State:
    """An object before or after a write: its JSON, and decoded when a selector needs it."""

    def __init__(self, value: bytes, revision: int) -> None:
        self.encoded = at_revision(value, revision)
        self._object: JsonObject | None = None

    def matches(self, selector: Selector) -> bool:
        if selector is EVERYTHING:
            return True
        if self._object is None:
            self._object = msgspec.json.decode(self.encoded)
        return selector.matches(self._object)


class _Change:
    """One write: the state before, under the revision of the write as well, and after."""

    def __init__(self, event: StoreEvent) -> None:
        before, after = event.prev_value, event.value
        self.size = len(before or b"") + len(after or b"")
        self._before = _State(before, event.revision) if before is not None else None
        self._after = _State(after, event.revision) if after is not None else None
        self._frames: dict[tuple[str, Selector], Frame | None] = {}

    def frame_for(self, kind: Kind, selector: Selector) -> Frame | None:
        """Return the event of the write for a watch with a selector, None for none."""
        key = kind.api_version, selector
        if key in self._frames:
            return self._frames[key]
        frame = self._frame(selector)
        if frame is not None:
            frame = frame[0], in_version(kind, frame[1])
        if len(self._frames) < _SHARED_FRAMES:
            self._frames[key] = frame
        return frame

    def _frame(self, selector: Selector) -> Frame | None:
        before = self._before if self._before and self._before.matches(selector) else None
        if self._after and self._after.matches(selector):
            return ("MODIFIED" if before else "ADDED", self._after.encoded)
        return ("DELETED", before.encoded) if before else None


def bookmark(kind: Kind, revision: int, *, initial_events_end: bool = False) -> bytes:
    """Make the object of a BOOKMARK; the annotation ends the initial objects (KEP-3157)."""
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return msgspec.json.encode(
        {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    )
