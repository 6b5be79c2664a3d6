"""A watch as a stream of lines: what goes out when.

Independent of HTTP: it needs a `send` that takes bytes. Bookmarks go out about once a
minute and shortly before the end (apiserver/pkg/storage/cacher/cacher.go), so that a client
that saw nothing else can resume where the server has not forgotten yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.kube.loop_slices import SHORT_SLICE, share_loop
from hotmap.local.apiserver.tables import bookmark_table, partial_metadata, table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from hotmap.local.apiserver.watches import Frame, RegistryWatch
    from hotmap.local.client import EventType
    from hotmap.local.scheme import Kind

    Render = Callable[[EventType, bytes], bytes]

# Seconds before the end of a stream (cacher: bookmarkFrequency's counterpart).
_LAST_BOOKMARK = 2.0
# Bytes that a connection takes at once; asyncio's high-water mark is 64 KiB.
_SMALL = 1 << 15

_Part = bytes | memoryview


class Dispatcher:
    """Sends events to the streams that have some, one after the other.

    A task switch and a timer for each of a thousand watches take longer than the event itself.
    """

    def __init__(self) -> None:
        self._ready: deque[WatchStream] = deque()
        self._running: asyncio.Task[None] | None = None

    def add(self, stream: WatchStream) -> None:
        """Send what a stream has, soon."""
        self._ready.append(stream)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._ready:
                await self._ready.popleft().send_events()
                await share_loop(SHORT_SLICE)
        finally:
            self._running = None


class WatchStream:
    """A watch and the client that it is sent to.

    `has_room` says whether the client has taken nearly all that was sent, so that `send` does not
    wait for it. `render` turns an object's JSON into what this client reads.
    """

    def __init__(
        self,
        watch: RegistryWatch,
        send: Callable[[_Part], Awaitable[None]],
        *,
        has_room: Callable[[], bool],
        render: Render,
        dispatcher: Dispatcher,
    ) -> None:
        self._watch = watch
        self._send = send
        self._has_room = has_room
        self._render = render
        self._dispatcher = dispatcher
        self._is_queued = False
        # Events that are too large to be sent by the dispatcher.
        self._left: list[Frame] = []
        watch.on_event(self._on_event)

    async def run(self, *, timeout: float, bookmark_interval: float | None) -> None:
        """Send until the watch ends or `timeout` seconds have passed.

        `bookmark_interval` is in seconds, None for a client that wants no bookmarks.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        due = _next_bookmark(clock(), end, bookmark_interval)
        while True:
            frames, self._left = self._left or self._take(), []
            for part in in_parts(frames):
                await self._send(part)
            if frames:
                await share_loop()
            try:
                async with asyncio.timeout_at(min(due, end)):
                    if not await self._watch.wait():
                        return
            except TimeoutError:
                if clock() >= end:
                    return
                await self._send(line("BOOKMARK", self._render("BOOKMARK", self._watch.bookmark())))
                due = _next_bookmark(clock(), end, bookmark_interval)

    async def send_events(self) -> None:
        """Send what there is if it takes no time; otherwise `run` sends it."""
        self._is_queued = False
        if not self._watch.is_waiting:
            return
        try:
            if self._has_room():
                frames = self._take()
                if sum(len(encoded) for _, encoded in frames) <= _SMALL:
                    for part in in_parts(frames):
                        await self._send(part)
                    return
                self._left = frames
            self._watch.wake()
        except Exception as error:
            # It is the failure of this watch; the others go on.
            self._watch.wake(error)

    def _on_event(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._dispatcher.add(self)

    def _take(self) -> list[Frame]:
        return [(kind, self._render(kind, obj)) for kind, obj in self._watch.take()]


def in_parts(frames: Iterable[Frame]) -> Iterator[_Part]:
    """Write watch events in parts that a connection takes at once.

    Large objects are not copied, so that a client that reads nothing costs little, however many
    watches it has.
    """
    lines: list[bytes] = []
    size = 0
    for event_type, encoded in frames:
        if len(encoded) > _SMALL:
            yield b"".join((*lines, _head(event_type)))
            for start in range(0, len(encoded), _SMALL):
                yield memoryview(encoded)[start : start + _SMALL]
            lines, size = [b"}\n"], 0
            continue
        lines.append(line(event_type, encoded))
        size += len(encoded)
        if size > _SMALL:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def line(event_type: str, encoded: bytes) -> bytes:
    """Write one watch event."""
    return b"%b%b}\n" % (_head(event_type), encoded)


def _head(event_type: str) -> bytes:
    return b'{"type":"%b","object":' % event_type.encode()


def plain(_: EventType, encoded: bytes) -> bytes:
    """Show objects as they are."""
    return encoded


def as_metadata(kind: Kind) -> Render:
    """Return what shows the metadata of objects alone."""

    def render(_: EventType, encoded: bytes) -> bytes:
        return msgspec.json.encode(partial_metadata(kind, msgspec.json.decode(encoded)))

    return render


def as_tables(kind: Kind, now: Callable[[], float], include: str) -> Render:
    """Show each object as a Table of one row; only the first says what the columns are."""
    columns_sent = False

    def render(event_type: EventType, encoded: bytes) -> bytes:
        nonlocal columns_sent
        obj: dict[str, Any] = msgspec.json.decode(encoded)
        if event_type == "BOOKMARK":
            shown = bookmark_table(kind, obj, now=now(), include=include)
        else:
            shown = table(kind, [obj], now=now(), include=include)
        shown["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        if columns_sent:
            shown["columnDefinitions"] = None
        columns_sent = True
        return msgspec.json.encode(shown)

    return render


def _next_bookmark(now: float, end: float, interval: float | None) -> float:
    if interval is None:
        return end
    last = end - _LAST_BOOKMARK
    if now + interval < last:
        return now + interval
    return last if now < last else end
