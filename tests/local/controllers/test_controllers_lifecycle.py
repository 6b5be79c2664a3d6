"""Starting and stopping the controllers: what happened meanwhile is caught up, nothing is left."""

from __future__ import annotations

import asyncio

import pytest
from tests.local.controllers.plane import FakeNode, Plane, template_change, web

from hotmap.core.errors import Unavailable
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.run import Controllers
from hotmap.local.store import MVCCStore


async def test_controllers_catch_up_after_restart() -> None:
    """An edit, a scaling and a deletion without controllers converge when they start."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    node = FakeNode(registry, lambda: 1_800_000_000.0)
    plane = Plane(registry, node)
    running = asyncio.create_task(node.run())
    await node.register()
    try:
        async with Controllers(registry):
            await plane.create("deployments", web(3))
            gone = web(1)
            gone["metadata"]["name"] = "gone"
            gone["spec"]["selector"]["matchLabels"] = {"app": "gone"}
            gone["spec"]["template"]["metadata"]["labels"] = {"app": "gone"}
            await plane.create("deployments", gone)

            async def both() -> bool:
                return len(await plane.items("pods")) == 4

            await plane.until(both)
        await registry.delete("deployments", "default", "gone")
        await plane.patch("deployments", "web", template_change("2"))
        await plane.patch("deployments", "web", {"spec": {"replicas": 5}})
        await plane.create("namespaces", {"metadata": {"name": "late"}}, namespace=None)
        async with Controllers(registry):
            await plane.wait_until_complete()
            assert await plane.sizes() == {"2": 5}
            assert "default" in await plane.names("serviceaccounts", "late")
            assert {rs["metadata"]["labels"]["app"] for rs in await plane.items("replicasets")} == {
                "web"
            }
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_rollout_continues_after_restart() -> None:
    """Stopped after any step and started again, the rollout ends as if nothing had been."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    node = FakeNode(registry, lambda: 1_800_000_000.0)
    plane = Plane(registry, node)
    running = asyncio.create_task(node.run())
    await node.register()
    try:
        async with Controllers(registry):
            await plane.create("deployments", web(3))
            await plane.wait_until_complete()
        await plane.patch("deployments", "web", template_change("2"))
        for turns in (1, 2, 4, 8, 16, 32):
            async with Controllers(registry):
                for _ in range(turns):
                    await asyncio.sleep(0)
        async with Controllers(registry):
            await plane.wait_until_complete()
            assert await plane.sizes() == {"2": 3}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_stop_leaves_no_tasks() -> None:
    """After stop every task is over; stopping twice, or before starting, does nothing."""
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    controllers = Controllers(registry)
    await controllers.stop()
    await controllers.start()
    await controllers.stop()
    await controllers.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_failed_start_raises_its_cause() -> None:
    """A cache that cannot be filled ends the start with its error, and nothing runs on."""
    registry = Registry(MVCCStore())

    async def refuse(*args: object, **options: object) -> None:
        raise Unavailable("the store is gone")

    registry.list = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(ExceptionGroup) as raised:
        await Controllers(registry).start()
    assert raised.group_contains(Unavailable, match="the store is gone")
    assert asyncio.all_tasks() == {asyncio.current_task()}
