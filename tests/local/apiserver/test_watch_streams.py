"""Watches as streams: many of one object, slow clients, large events, failures."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.local.apiserver.api import CONFIGMAPS, configmap

from hotmap.kube import loop_slices
from hotmap.local.apiserver.watch_stream import Dispatcher, WatchStream, in_parts, line, plain

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.watch_stream import Render
    from hotmap.local.apiserver.watches import Frame

LARGE = "x" * 40_000


class Client:
    """A watch of ConfigMaps and what was sent for it; takes nothing while `is_slow`."""

    def __init__(
        self, registry: Registry, dispatcher: Dispatcher, render: Render = plain, **selectors: str
    ) -> None:
        self.watch = registry.watch("configmaps", "default", since="", **selectors)
        self.is_slow = False
        self.taking = asyncio.Event()
        self.taking.set()
        self._sent = b""
        self._stream = WatchStream(
            self.watch,
            self._send,
            has_room=lambda: not self.is_slow,
            render=render,
            dispatcher=dispatcher,
        )

    async def __aenter__(self) -> Self:
        self.running = asyncio.create_task(self._stream.run(timeout=600.0, bookmark_interval=None))
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.watch.close()
        self.running.cancel()
        await asyncio.wait([self.running])

    async def _send(self, lines: bytes | memoryview) -> None:
        if self.is_slow:
            await self.taking.wait()
        self._sent += lines

    @property
    def seen(self) -> list[Any]:
        """What the label `n` of each event's object says."""
        events = [json.loads(line) for line in self._sent.splitlines()]
        return [event["object"]["metadata"]["labels"]["n"] for event in events]


def has_event_and_waits(client: Client) -> bool:
    return len(client.seen) == 2 and client.watch.is_waiting


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(30):
        await asyncio.sleep(0)


async def write(registry: Registry, number: int, **data: str) -> None:
    changed = {"metadata": {"labels": {"n": str(number)}}, "data": data}
    await registry.patch("configmaps", "default", "a", changed, kind="merge", manager="t")


@pytest.fixture
async def edited(registry: Registry) -> Registry:
    await registry.create("configmaps", "default", configmap("a", {"n": "0"}), manager="t")
    return registry


async def test_event_of_many_watches_wakes_no_task_for_each(
    edited: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets it in a turn of its own here, and none waits in turns of others."""
    dispatcher, count = Dispatcher(), 100
    clients = [Client(edited, dispatcher, field_selector="metadata.name=a") for _ in range(count)]
    for client in clients:
        await client.__aenter__()
    monkeypatch.setattr(loop_slices.object_slices, "_seconds", 0.0)
    loop, scheduled = asyncio.get_running_loop(), 0
    call_soon = loop.call_soon

    def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        nonlocal scheduled
        scheduled += 1
        return call_soon(*args, **kwargs)

    monkeypatch.setattr(loop, "call_soon", counted)
    await write(edited, 1)
    while not all(map(has_event_and_waits, clients)):  # noqa: ASYNC110 - counts its turns
        await asyncio.sleep(0)
    assert scheduled < 10 * count
    for client in clients:
        await client.__aexit__()


async def test_slow_client_gets_every_event_in_order(edited: Registry) -> None:
    """Others do not wait for it."""
    dispatcher = Dispatcher()
    async with Client(edited, dispatcher) as slow, Client(edited, dispatcher) as other:
        slow.is_slow = True
        slow.taking.clear()
        for number in range(1, 6):
            await write(edited, number)
            await settle()
        assert (slow.seen, other.seen) == (["0"], ["0", "1", "2", "3", "4", "5"])
        slow.is_slow = False
        await write(edited, 6)
        await settle()
        assert slow.seen == ["0"]
        slow.taking.set()
        await settle()
        assert slow.seen == other.seen == ["0", "1", "2", "3", "4", "5", "6"]


async def test_large_event_is_sent_between_small_ones(edited: Registry) -> None:
    async with Client(edited, Dispatcher()) as client:
        for number, data in enumerate(("", LARGE, ""), start=1):
            await write(edited, number, k=data)
        await settle()
        await write(edited, 4, k=LARGE)
        await write(edited, 5, k="")
        await settle()
        assert client.seen == ["0", "1", "2", "3", "4", "5"]


async def test_failure_of_one_watch_ends_only_that(edited: Registry) -> None:
    """Its request gets the error; the others get the event."""

    def fail(_: str, encoded: bytes) -> bytes:
        if b'"n":"1"' in encoded:
            raise ZeroDivisionError
        return encoded

    dispatcher = Dispatcher()
    async with Client(edited, dispatcher, fail) as failing, Client(edited, dispatcher) as other:
        await write(edited, 1)
        await settle()
        await write(edited, 2)
        await settle()
        assert other.seen == ["0", "1", "2"]
        assert isinstance(failing.running.exception(), ZeroDivisionError)


async def test_watches_of_different_selections_get_their_own_events(edited: Registry) -> None:
    """One write is ADDED for one, DELETED for another, and MODIFIED for a third."""
    dispatcher = Dispatcher()
    clients = [
        Client(edited, dispatcher, label_selector=f"n in ({wanted})")
        for wanted in ("0", "1", "0,1", "2", "0", "1", "3", "4")
    ]
    for client in clients:
        await client.__aenter__()
    await write(edited, 1)
    await settle()
    assert [client.seen for client in clients] == [
        ["0", "0"],
        ["1"],
        ["0", "1"],
        [],
        ["0", "0"],
        ["1"],
        [],
        [],
    ]
    for client in clients:
        await client.__aexit__()


async def test_client_that_reads_late_gets_all_events(api: Api) -> None:
    """More than a connection buffers, over HTTP."""
    await api.post(CONFIGMAPS, configmap("a"))
    async with api.watch(CONFIGMAPS, resourceVersion="0") as watch:
        for number in range(200):
            data = {"k": LARGE[: 10_000 + number * 150], "n": str(number)}
            await api.patch(f"{CONFIGMAPS}/a", {"data": data})
        first = await watch.next()
        lines = [await watch.next() for _ in range(200)]
    assert first is not None
    assert [line and line["object"]["data"]["n"] for line in lines] == [
        str(number) for number in range(200)
    ]


def test_large_object_is_sent_in_parts_without_a_copy() -> None:
    """Two thousand watches of clients that do not read would keep as many copies."""
    small, large = b'{"n":"small"}', b'{"n":"%s"}' % (b"x" * 100_000)
    frames: list[Frame] = [("ADDED", small), ("MODIFIED", large), ("DELETED", small)]
    parts = list(in_parts(frames))
    assert b"".join(parts) == b"".join(line(kind, encoded) for kind, encoded in frames)
    assert max(map(len, parts)) <= 1 << 15
    views = [part for part in parts if isinstance(part, memoryview)]
    assert sum(map(len, views)) == len(large)
    assert all(view.obj is large for view in views)
