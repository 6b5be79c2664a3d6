"""The in-process cache: equal to the Registry, whatever happens to its watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.informer import Informer, Informers
from hotmap.local.store import MVCCStore

Object = dict[str, Any]


def _configmap(name: str, value: str = "1", **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"value": value}}


async def _registry(**store: Any) -> Registry:
    registry = Registry(MVCCStore(**store))
    await create_system_namespaces(registry)
    return registry


async def _create(registry: Registry, name: str, **metadata: Any) -> Object:
    obj = _configmap(name, **metadata)
    return await registry.create("configmaps", "default", obj, manager="test")


async def _set(registry: Registry, name: str, value: str) -> Object:
    patch = {"data": {"value": value}}
    return await registry.patch("configmaps", "default", name, patch, kind="merge", manager="test")


@asynccontextmanager
async def _running(informer: Informer) -> AsyncIterator[list[tuple[str | None, str | None]]]:
    """Run an informer, and note what its listeners are told: the values before and after."""
    told: list[tuple[str | None, str | None]] = []

    def value(obj: Object | None) -> str | None:
        return None if obj is None else str(obj["data"]["value"])

    informer.subscribe(lambda old, new: told.append((value(old), value(new))))
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(60):
            await informer.wait_for_sync()
            yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_informer_reports_existing_and_new_objects() -> None:
    """Present objects, creations, changes and deletions reach the cache and the listeners."""
    registry = await _registry()
    await _create(registry, "a")
    informer = Informer(registry, "configmaps", "default")
    async with _running(informer) as told:
        await _create(registry, "b")
        changed = await _set(registry, "a", "2")
        await informer.wait_for_version(changed["metadata"]["resourceVersion"])
        assert informer.objects["default", "a"] == changed
        await registry.delete("configmaps", "default", "a")
        await informer.until(lambda: ("default", "a") not in informer.objects)
        assert told == [(None, "1"), (None, "1"), ("1", "2"), ("2", None)]
        assert informer.statistics() == (1, 1, 1)


async def test_informer_ignores_other_namespaces_and_fields() -> None:
    """A namespace and a field selector restrict what is cached."""
    registry = await _registry()
    informer = Informer(registry, "configmaps", "default", field_selector="metadata.name=a")
    async with _running(informer):
        await registry.create("configmaps", "kube-system", _configmap("a"), manager="test")
        await _create(registry, "b")
        await _create(registry, "a")
        await informer.until(lambda: bool(informer.objects))
        assert list(informer.objects) == [("default", "a")]


async def test_informer_lists_again_after_compaction() -> None:
    """When history is compacted under the watch, the difference is told, also deletions."""
    registry = await _registry(history_events=8, watch_buffer=4)
    await _create(registry, "stays")
    await _create(registry, "goes")
    informer = Informer(registry, "configmaps", "default")
    async with _running(informer) as told:
        told.clear()
        # Without a pause for the informer to read: it is cut off and cannot resume.
        await registry.delete("configmaps", "default", "goes")
        for i in range(40):
            last = await _set(registry, "stays", str(i))
        await informer.wait_for_version(last["metadata"]["resourceVersion"])
        assert informer.statistics().lists == 2
        assert told[-1][1] == "39"
        assert ("1", None) in told
        assert list(informer.objects) == [("default", "stays")]


async def test_informer_resumes_ended_watch_without_list() -> None:
    """A reader that was cut off while history reaches back misses nothing and lists nothing."""
    registry = await _registry(watch_buffer=4)
    await _create(registry, "a")
    informer = Informer(registry, "configmaps", "default")
    async with _running(informer) as told:
        for i in range(40):
            last = await _set(registry, "a", str(i))
        await informer.wait_for_version(last["metadata"]["resourceVersion"])
        values = ["1", *map(str, range(40))]
        assert told == [(None, "1"), *pairwise(values)]
        assert informer.statistics().lists == 1
        assert informer.statistics().watches > 1


async def test_informer_reports_recreated_object_as_deleted_and_added() -> None:
    """Deleted and created between two lists: the same name, but not the same object."""
    registry = await _registry(history_events=4, watch_buffer=2)
    await _create(registry, "a")
    informer = Informer(registry, "configmaps", "default")
    async with _running(informer) as told:
        told.clear()
        await registry.delete("configmaps", "default", "a")
        for i in range(8):
            await _create(registry, f"filler-{i}")
        again = await _create(registry, "a")
        await informer.wait_for_version(again["metadata"]["resourceVersion"])
        assert ("1", None) in told
        assert informer.objects["default", "a"] == again


async def test_indexes_follow_changes() -> None:
    """An index holds exactly the objects that have a value now, also those from before it."""
    registry = await _registry()
    await _create(registry, "a", labels={"tier": "one"})
    informer = Informer(registry, "configmaps", "default")
    early = informer.index(lambda obj: [obj["metadata"].get("labels", {}).get("tier")])
    async with _running(informer):
        late = informer.index(lambda obj: [obj["metadata"].get("labels", {}).get("tier")])
        await _create(registry, "b", labels={"tier": "one"})
        patch = {"metadata": {"labels": {"tier": "two"}}}
        moved = await registry.patch(
            "configmaps", "default", "a", patch, kind="merge", manager="test"
        )
        await informer.wait_for_version(moved["metadata"]["resourceVersion"])
        for index in (early, late):
            assert [obj["metadata"]["name"] for obj in index.get("one")] == ["b"]
            assert index.get("two") == [moved]
            assert index.get("three") == []


@pytest.mark.internal_errors
async def test_object_that_trips_a_listener_or_an_index_stops_nothing() -> None:
    """Of the others, both are told."""
    registry = await _registry()
    informer = Informer(registry, "configmaps")
    index = informer.index(lambda obj: [1 // int(obj["data"]["value"])])

    def listen(_: Object | None, new: Object | None) -> None:
        assert new is not None
        assert 1 // int(new["data"]["value"])

    informer.subscribe(listen)
    async with _running(informer) as seen:
        await _create(registry, "first")
        await _set(registry, "first", "0")
        await _set(registry, "first", "1")
        await informer.until(lambda: len(seen) == 3)
    assert [obj["metadata"]["name"] for obj in index.get(1)] == ["first"]


async def test_informers_share_one_informer_per_kind() -> None:
    """Who asks for the same kind gets the same cache."""
    informers = Informers(await _registry())
    assert informers["pods"] is informers["pods"]
    assert informers["pods"] is not informers["nodes"]
    assert len(list(informers)) == 2
