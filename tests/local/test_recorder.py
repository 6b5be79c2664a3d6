"""Events of the control plane's components: complete, in order, repeats counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.recorder import Recorder
from hotmap.local.store import MVCCStore

Object = dict[str, Any]
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@asynccontextmanager
async def _recorder(registry: Registry, now: list[float]) -> AsyncIterator[Recorder]:
    recorder = Recorder(registry, "test-controller", clock=lambda: now[0])
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _written(registry: Registry, total: int) -> list[Object]:
    """Wait until *total* occurrences are counted, and return the Events in order."""
    async with asyncio.timeout(60):
        while True:
            events = (await registry.list("events")).items
            if sum(event["count"] for event in events) >= total:
                return sorted(events, key=lambda e: int(e["metadata"]["resourceVersion"]))
            await asyncio.sleep(0.001)


async def _registry() -> tuple[Registry, Object]:
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    obj = {"metadata": {"name": "app"}}
    return registry, await registry.create("configmaps", "default", obj, manager="test")


async def test_event_describes_object_and_reason() -> None:
    """The fields that kubectl describe and kubectl events read are there."""
    registry, obj = await _registry()
    async with _recorder(registry, [NOW]) as recorder:
        recorder.event(obj, "Warning", "Broken", "it broke")
        (event,) = await _written(registry, 1)
    assert event["metadata"]["name"].startswith("app.")
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "app",
        "uid": obj["metadata"]["uid"],
        "resourceVersion": obj["metadata"]["resourceVersion"],
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Broken", "it broke")
    assert event["source"] == {"component": "test-controller"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_event_of_a_long_name_is_written() -> None:
    """Name and time would be more than a name may have."""
    registry, _ = await _registry()
    obj = {"metadata": {"name": "a" * 253}}
    obj = await registry.create("configmaps", "default", obj, manager="test")
    async with _recorder(registry, [NOW]) as recorder:
        recorder.event(obj, "Normal", "Again", "and again")
        recorder.event(obj, "Normal", "Again", "but differently")
        events = await _written(registry, 2)
    assert {event["involvedObject"]["name"] for event in events} == {"a" * 253}


async def test_repeated_event_is_counted_for_ten_minutes() -> None:
    """The same thing again counts up; after ten quiet minutes it is a new Event."""
    registry, obj = await _registry()
    now = [NOW]
    async with _recorder(registry, now) as recorder:
        recorder.event(obj, "Normal", "Again", "and again")
        now[0] += 60
        recorder.event(obj, "Normal", "Again", "and again")
        recorder.event(obj, "Normal", "Again", "but differently")
        now[0] += 600
        recorder.event(obj, "Normal", "Again", "and again")
        events = await _written(registry, 4)
    assert [(event["message"], event["count"]) for event in events] == [
        ("and again", 2),
        ("but differently", 1),
        ("and again", 1),
    ]
    assert events[0]["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert events[0]["lastTimestamp"] == "2026-01-01T00:01:00Z"


async def test_deleted_event_is_created_again() -> None:
    """A repeat of an Event that someone deleted starts from one."""
    registry, obj = await _registry()
    async with _recorder(registry, [NOW]) as recorder:
        recorder.event(obj, "Normal", "Again", "and again")
        (event,) = await _written(registry, 1)
        await registry.delete("events", "default", event["metadata"]["name"])
        recorder.event(obj, "Normal", "Again", "and again")
        assert [e["count"] for e in await _written(registry, 1)] == [1]


async def test_failed_event_write_is_ignored() -> None:
    """An Event in a namespace that is gone is dropped; the next one is written."""
    registry, obj = await _registry()
    lost = {**obj, "metadata": {**obj["metadata"], "namespace": "gone"}}
    async with _recorder(registry, [NOW]) as recorder:
        recorder.event(lost, "Normal", "Lost", "this is not read")
        recorder.event(obj, "Normal", "Kept", "this is read")
        assert [event["reason"] for event in await _written(registry, 1)] == ["Kept"]
