"""Endpoints and EndpointSlices say which pods of a Service can be reached, and where."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.run import Controllers
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SERVICE = {
    "metadata": {"name": "web", "labels": {"team": "a"}},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
}


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    async with Controllers(registry):
        yield registry


async def run_pod(registry: Registry, name: str, ip: str, *, ready: bool = True) -> None:
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}
    pod = {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container]},
    }
    await registry.create("pods", "default", pod, manager="t")
    await set_ready(registry, name, ip, ready=ready)


async def set_ready(registry: Registry, name: str, ip: str, *, ready: bool) -> None:
    condition = {"type": "Ready", "status": str(ready)}
    patch = {"status": {"phase": "Running", "podIP": ip, "conditions": [condition]}}
    await registry.patch(
        "pods", "default", name, patch, kind="merge", subresource="status", manager="t"
    )


async def slice_of(registry: Registry) -> dict[str, Any]:
    selector = "kubernetes.io/service-name=web"
    found = (await registry.list("endpointslices", "default", label_selector=selector)).items
    assert len(found) <= 1
    return found[0] if found else {}


async def eventually(condition: Callable[[], Any]) -> Any:
    async with asyncio.timeout(60):
        while not (found := await condition()):  # noqa: ASYNC110 - others change it
            await asyncio.sleep(0.01)
    return found


async def addresses(registry: Registry) -> dict[str, bool]:
    endpoints = (await slice_of(registry)).get("endpoints") or []
    return {e["addresses"][0]: e["conditions"]["ready"] for e in endpoints}


async def test_ready_pods_are_endpoints(registry: Registry) -> None:
    await run_pod(registry, "a", "127.1.0.1")
    await run_pod(registry, "b", "127.1.0.2", ready=False)
    await registry.create("services", "default", SERVICE, manager="t")

    async def is_written() -> bool:
        return await addresses(registry) == {"127.1.0.1": True, "127.1.0.2": False}

    await eventually(is_written)
    part = await slice_of(registry)
    assert part["ports"] == [{"name": "", "protocol": "TCP", "port": 8080}]
    assert part["metadata"]["labels"]["team"] == "a"
    endpoints = await eventually(lambda: registry.get("endpoints", "default", "web"))
    subset = endpoints["subsets"][0]
    assert [address["ip"] for address in subset["addresses"]] == ["127.1.0.1"]
    assert [address["ip"] for address in subset["notReadyAddresses"]] == ["127.1.0.2"]
    await set_ready(registry, "b", "127.1.0.2", ready=True)

    async def are_both_ready() -> bool:
        return all((await addresses(registry)).values())

    await eventually(are_both_ready)


async def test_pod_that_leaves_is_no_endpoint(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    await run_pod(registry, "a", "127.1.0.1")

    async def is_there() -> bool:
        return bool(await addresses(registry))

    await eventually(is_there)
    labels = {"metadata": {"labels": {"app": "other"}}}
    await registry.patch("pods", "default", "a", labels, kind="merge", manager="t")

    async def is_gone() -> bool:
        return not await addresses(registry)

    await eventually(is_gone)
    assert "subsets" not in await registry.get("endpoints", "default", "web")


async def test_endpoints_end_with_their_service(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    await eventually(lambda: slice_of(registry))
    await registry.delete("services", "default", "web")

    async def are_gone() -> bool:
        try:
            await registry.get("endpoints", "default", "web")
        except NotFound:
            return not await slice_of(registry)
        return False

    await eventually(are_gone)


async def test_deleted_slice_is_written_again(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    first = await eventually(lambda: slice_of(registry))
    await registry.delete("endpointslices", "default", first["metadata"]["name"])

    async def is_another() -> bool:
        found = await slice_of(registry)
        return bool(found) and found["metadata"]["uid"] != first["metadata"]["uid"]

    await eventually(is_another)


async def test_service_without_selector_is_left_alone(registry: Registry) -> None:
    spec = {"ports": [{"port": 80}]}
    await registry.create(
        "services", "default", {"metadata": {"name": "web"}, "spec": spec}, manager="t"
    )
    part = {"metadata": {"name": "web"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}
    await registry.create("endpoints", "default", part, manager="t")
    await asyncio.sleep(0.2)
    assert not await slice_of(registry)
    assert (await registry.get("endpoints", "default", "web"))["subsets"] == part["subsets"]
