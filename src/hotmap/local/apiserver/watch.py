"""A watch as a stream of lines: what goes out when.

Independent of HTTP: it needs a `send` that takes bytes. Bookmarks go out about once a
minute and shortly before the end (apiserver/pkg/storage/cacher/cacher.go), so that a client
that saw nothing else can resume where the server has not forgotten yet.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.kube.loop_slices import share_loop
from hotmap.local.apiserver.tables import partial_metadata, table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hotmap.local.apiserver.watches import RegistryWatch
    from hotmap.local.client import EventType
    from hotmap.local.scheme import Kind

    Render = Callable[[EventType, bytes], bytes]

# Seconds before the end of a stream (cacher: bookmarkFrequency's counterpart).
_LAST_BOOKMARK = 2.0


async def stream(
    watch: RegistryWatch,
    send: Callable[[bytes], Awaitable[None]],
    *,
    timeout: float,
    bookmark_interval: float | None,
    render: Render,
) -> None:
    """Send a watch until it ends or `timeout` seconds have passed.

    `bookmark_interval` is in seconds, None for a client that wants no bookmarks. `render`
    turns an object's JSON into what this client reads.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + timeout
    due = _next_bookmark(clock(), end, bookmark_interval)
    while True:
        frames = watch.take()
        if frames:
            await send(b"".join([line(kind, render(kind, obj)) for kind, obj in frames]))
            await share_loop()
        try:
            async with asyncio.timeout_at(min(due, end)):
                if not await watch.wait():
                    return
        except TimeoutError:
            if clock() >= end:
                return
            await send(line("BOOKMARK", render("BOOKMARK", watch.bookmark())))
            due = _next_bookmark(clock(), end, bookmark_interval)


def line(event_type: str, encoded: bytes) -> bytes:
    """Write one watch event; the object's JSON is shared by all who watch it."""
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), encoded)


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
        rows = [] if event_type == "BOOKMARK" else [obj]
        shown = table(kind, rows, now=now(), include=include)
        shown["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        if event_type == "BOOKMARK":
            shown["metadata"] = obj["metadata"]
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
