"""The status of a PodDisruptionBudget says how many of its pods may be disrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.run import Controllers
from hotmap.local.store import MVCCStore


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    async with Controllers(registry):
        yield registry


async def create_pods(registry: Registry, count: int, *, ready: int) -> None:
    """Create a Deployment, and report the first pods as Ready."""
    labels = {"app": "web"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {
        "metadata": {"name": "web"},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
    }
    await registry.create("deployments", "default", deployment, manager="t")
    async with asyncio.timeout(20):
        while len(pods := (await registry.list("pods", "default")).items) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for number, pod in enumerate(pods):
        await set_ready(registry, pod["metadata"]["name"], ready=number < ready)


async def set_ready(registry: Registry, name: str, *, ready: bool) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    await registry.patch(
        "pods",
        "default",
        name,
        {"status": status},
        kind="merge",
        subresource="status",
        manager="t",
    )


async def status_of(registry: Registry, expected: dict[str, int]) -> dict[str, Any]:
    """Wait until the status of the budget has the values that are expected."""
    status: dict[str, Any] = {}
    try:
        async with asyncio.timeout(20):
            while {**status, **expected} != status:
                await asyncio.sleep(0.01)
                budget = await registry.get("poddisruptionbudgets", "default", "web")
                status = budget["status"]
    except TimeoutError:
        pytest.fail(f"expected {expected}, the status is {status}")
    return status


@pytest.mark.parametrize(
    ("spec", "ready", "allowed", "required"),
    [
        ({"minAvailable": 2}, 4, 2, 2),
        ({"minAvailable": 2}, 1, 0, 2),
        ({"minAvailable": "60%"}, 4, 1, 3),
        ({"maxUnavailable": 1}, 4, 1, 3),
        ({"maxUnavailable": "30%"}, 4, 2, 2),
        ({"maxUnavailable": 0}, 4, 0, 4),
        ({"maxUnavailable": 1}, 3, 0, 3),
    ],
)
async def test_status_counts_healthy_pods(
    registry: Registry, spec: dict[str, Any], ready: int, allowed: int, required: int
) -> None:
    """Of four pods; percentages are rounded up."""
    await create_pods(registry, 4, ready=ready)
    body = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    await registry.create("poddisruptionbudgets", "default", body, manager="t")
    status = await status_of(
        registry,
        {
            "currentHealthy": ready,
            "desiredHealthy": required,
            "disruptionsAllowed": allowed,
            "expectedPods": 4,
            "observedGeneration": 1,
        },
    )
    (condition,) = status["conditions"]
    assert condition["status"] == ("True" if allowed else "False")


async def test_condition_is_of_the_generation_that_was_seen(registry: Registry) -> None:
    body = {"metadata": {"name": "web"}, "spec": {"selector": {}, "minAvailable": 1}}
    await registry.create("poddisruptionbudgets", "default", body, manager="t")
    (first,) = (await status_of(registry, {"observedGeneration": 1}))["conditions"]
    assert first["observedGeneration"] == 1
    change = {"spec": {"minAvailable": 2}}
    resource = "poddisruptionbudgets"
    await registry.patch(resource, "default", "web", change, kind="merge", manager="t")
    (second,) = (await status_of(registry, {"observedGeneration": 2}))["conditions"]
    assert second == {**first, "observedGeneration": 2}


async def test_status_follows_pods(registry: Registry) -> None:
    """A pod that is not Ready any more, and one that is again."""
    await create_pods(registry, 2, ready=2)
    body = {"metadata": {"name": "web"}, "spec": {"selector": {}, "minAvailable": 1}}
    await registry.create("poddisruptionbudgets", "default", body, manager="t")
    await status_of(registry, {"disruptionsAllowed": 1})
    name = (await registry.list("pods", "default")).items[0]["metadata"]["name"]
    await set_ready(registry, name, ready=False)
    await status_of(registry, {"disruptionsAllowed": 0, "currentHealthy": 1})
    await set_ready(registry, name, ready=True)
    await status_of(registry, {"disruptionsAllowed": 1, "currentHealthy": 2})
