"""The client and the reflector against hotmap's own API server: real parts on both ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from hotmap.core.errors import AlreadyExists, Conflict, NotFound
from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.events import EventWriter
from hotmap.kube.recorder import Recorder
from hotmap.kube.reflector import Reflector
from hotmap.kube.reflector_timing import Timing
from hotmap.kube.resources import CONFIGMAPS, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.server import APIServer
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens

#: The server ends each watch after a second, so that resuming is part of the test.
SHORT = Timing(watch_shortest=1, watch_longest=1, pause_first=0.01, pause_last=0.05)


class Plane(NamedTuple):
    registry: Registry
    store: MVCCStore
    server: APIServer
    port: int
    client: Client

    async def content(self) -> dict[str, str]:
        """What a store that is equal to the server holds."""
        items = (await self.registry.list("configmaps", "default")).items
        return {item["metadata"]["name"]: item["data"]["value"] for item in items}

    async def put(self, name: str, value: str) -> None:
        body = {"metadata": {"name": name}, "data": {"value": value}}
        try:
            await self.client.create(CONFIGMAPS, "default", body, type=ConfigMap)
        except AlreadyExists:
            await self.client.patch(CONFIGMAPS, "default", name, body, type=ConfigMap)


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    store = MVCCStore()
    registry = Registry(store)
    await create_system_namespaces(registry)
    tokens = Tokens()
    tokens.add("t", "admin")
    server = APIServer(registry, tls=None, tokens=tokens, bookmark_interval=0.1)
    port = await server.start()
    config = ClusterConfig(f"http://127.0.0.1:{port}", "the test", BearerToken("t"))
    async with Client(config) as client:
        yield Plane(registry, store, server, port, client)
    await server.stop()
    store.close()


def value_of(configmap: ConfigMap) -> str | None:
    return (configmap.data or {}).get("value")


@asynccontextmanager
async def reflecting(
    plane: Plane, transform: Callable[[ConfigMap], Any] = value_of, **options: Any
) -> AsyncIterator[tuple[Store[Any], Reflector[ConfigMap, Any]]]:
    store: Store[Any] = Store()
    reflector = Reflector(
        plane.client,
        Selection(CONFIGMAPS, "default"),
        type=ConfigMap,
        writer=StoreWriter(store, transform, **options),
        timing=SHORT,
    )
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(60):
            await store.synced.wait()
        yield store, reflector
    finally:
        task.cancel()
        await asyncio.wait([task])


async def becomes(store: Store[Any], expected: dict[str, Any]) -> None:
    """Wait until the store holds exactly this, by name."""
    changed = asyncio.Event()
    unsubscribe = store.subscribe(lambda key, old, new: changed.set())
    async with asyncio.timeout(60):
        while {key.name: store.get(key) for key in store} != expected:
            changed.clear()
            await changed.wait()
    unsubscribe()


@pytest.mark.parametrize("seed", [1, 2])
async def test_store_follows_every_edit(plane: Plane, seed: int) -> None:
    """Random creates, edits and deletes, with watches that end in between."""
    dice = random.Random(seed)
    await plane.put("first", "0")
    async with reflecting(plane) as (store, reflector):
        for number in range(150):
            name = dice.choice("abcdef")
            if dice.random() < 0.3:
                try:
                    await plane.client.delete(CONFIGMAPS, "default", name)
                except NotFound:
                    continue
            else:
                await plane.put(name, str(number))
            await asyncio.sleep(0.01)
        await becomes(store, await plane.content())
        statistics = reflector.statistics()
    assert statistics.lists == 0
    assert statistics.watches >= 2
    assert statistics.errors == 0


async def test_changes_beyond_history_are_caught_up(plane: Plane) -> None:
    """The server is away, objects change, the history is compacted: deletions are told too."""
    for name in "abc":
        await plane.put(name, "1")
    deleted = []
    async with reflecting(plane) as (store, reflector):
        store.subscribe(lambda key, old, new: deleted.append(key.name) if new is None else None)
        await plane.server.stop()
        await plane.registry.delete("configmaps", "default", "a")
        body = {"metadata": {"name": "b"}, "data": {"value": "2"}}
        await plane.registry.update("configmaps", "default", "b", body, manager="test")
        plane.store.compact(plane.store.revision)
        assert await plane.server.start(port=plane.port) == plane.port
        await becomes(store, {"b": "2", "c": "1"})
        statistics = reflector.statistics()
    assert deleted == ["a"]
    assert statistics.watches <= 20


async def test_unwanted_object_is_not_stored(plane: Plane) -> None:
    """A transform that gives None, then something, then None: as if created and deleted."""
    heard = []

    def even(configmap: ConfigMap) -> str | None:
        value = (configmap.data or {})["value"]
        return value if int(value) % 2 == 0 else None

    await plane.put("a", "1")
    async with reflecting(plane, even) as (store, _):
        store.subscribe(lambda key, old, new: heard.append((old, new)))
        assert len(store) == 0
        await plane.put("a", "2")
        await becomes(store, {"a": "2"})
        await plane.put("a", "3")
        await becomes(store, {})
    assert heard == [(None, "2"), ("2", None)]


async def test_known_object_reuses_unchanged_value(plane: Plane) -> None:
    """The second transform gets what is kept, for a change; not for what was deleted between."""

    def longer(configmap: ConfigMap, known: str) -> str:
        return known + (value_of(configmap) or "")

    await plane.put("a", "1")
    async with reflecting(plane, transform_known=longer) as (store, _):
        await plane.put("a", "2")
        await becomes(store, {"a": "12"})
        await plane.registry.delete("configmaps", "default", "a")
        await becomes(store, {})
        await plane.put("a", "3")
        await becomes(store, {"a": "3"})


async def test_value_with_key_is_stored_under_it(plane: Plane) -> None:
    """The store holds the very key of the value, not one like it."""
    made: list[ObjectKey] = []

    def keyed(configmap: ConfigMap) -> tuple[ObjectKey, str]:
        made.append(ObjectKey("ConfigMap", "default", configmap.metadata.name))
        return made[-1], "x"

    await plane.put("a", "1")
    async with reflecting(plane, keyed, key_of=lambda value: value[0]) as (store, _):
        (key,) = store
        assert key is made[0]


async def test_object_with_failing_transform_is_skipped(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, its content is not; the others arrive."""
    await plane.put("bad", "geheim")
    await plane.put("good", "1")
    async with reflecting(plane, lambda configmap: int((configmap.data or {})["value"])) as (
        store,
        reflector,
    ):
        await becomes(store, {"good": 1})
        assert reflector.statistics().unreadable == 1
    assert "ignoring ConfigMap default/bad, which cannot be decoded" in caplog.text
    assert "geheim" not in caplog.text


async def test_preconditions_hold_against_a_real_store(plane: Plane) -> None:
    """A stale resourceVersion or a foreign uid is a Conflict, and nothing is written."""
    await plane.put("a", "1")
    seen = await plane.client.get(CONFIGMAPS, "default", "a", type=ConfigMap)
    await plane.put("a", "2")
    stale = {
        "metadata": {"resourceVersion": seen.metadata.resource_version},
        "data": {"value": "3"},
    }
    with pytest.raises(Conflict, match="the object has been modified"):
        await plane.client.patch(CONFIGMAPS, "default", "a", stale, type=ConfigMap)
    with pytest.raises(Conflict):
        await plane.client.delete(CONFIGMAPS, "default", "a", uid="foreign")
    assert await plane.content() == {"a": "2"}


async def test_events_reach_the_server(plane: Plane) -> None:
    """Created once and counted afterwards, as `kubectl describe` reads them."""
    recorder = Recorder(EventWriter(plane.client), component="hotmap")
    for _ in range(2):
        recorder.event(
            ObjectKey("ConfigMap", "default", "a"),
            api_version="v1",
            uid="u",
            type="Normal",
            reason="Adopted",
            message="first sight",
        )
        await recorder.aclose()
    [event] = (await plane.registry.list("events", "default")).items
    assert (event["reason"], event["message"], event["count"]) == ("Adopted", "first sight", 2)


async def test_listed_objects_are_read_without_earlier_values(plane: Plane) -> None:
    """An equal generation says nothing across a gap, in which an etcd may have been restored."""
    await plane.put("app", "1")
    key = ObjectKey("ConfigMap", "default", "app")
    store: Store[str] = Store()
    store.put(key, "of an earlier watch")
    reused: list[str] = []

    def transform_known(item: ConfigMap, known: str) -> str:
        reused.append(known)
        return str(value_of(item))

    reflector = Reflector(
        plane.client,
        Selection(CONFIGMAPS, "default"),
        type=ConfigMap,
        writer=StoreWriter(
            store, lambda item: str(value_of(item)), transform_known=transform_known
        ),
        timing=SHORT,
    )
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(60):
            await store.synced.wait()
        assert reused == []
        await plane.put("app", "2")
        await becomes(store, {"app": "2"})
        assert set(reused) == {"1"}
    finally:
        task.cancel()
        await asyncio.wait([task])
