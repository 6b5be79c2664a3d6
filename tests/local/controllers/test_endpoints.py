"""Endpoints and EndpointSlices say which pods of a Service can be reached, and where."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import wait_until

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.endpoint_slices import plan_slices
from hotmap.local.controllers.run import Controllers
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


async def endpoints_of(registry: Registry) -> dict[str, Any]:
    with suppress(NotFound):  # another controller writes them
        return await registry.get("endpoints", "default", "web")
    return {}


async def addresses(registry: Registry) -> dict[str, bool]:
    endpoints = (await slice_of(registry)).get("endpoints") or []
    return {e["addresses"][0]: e["conditions"]["ready"] for e in endpoints}


async def test_ready_pods_are_endpoints(registry: Registry) -> None:
    await run_pod(registry, "a", "127.1.0.1")
    await run_pod(registry, "b", "127.1.0.2", ready=False)
    await registry.create("services", "default", SERVICE, manager="t")

    async def is_written() -> bool:
        return await addresses(registry) == {"127.1.0.1": True, "127.1.0.2": False}

    await wait_until(is_written)
    part = await slice_of(registry)
    assert part["ports"] == [{"name": "", "protocol": "TCP", "port": 8080}]
    assert part["metadata"]["labels"]["team"] == "a"
    endpoints = await wait_until(lambda: endpoints_of(registry))
    subset = endpoints["subsets"][0]
    assert [address["ip"] for address in subset["addresses"]] == ["127.1.0.1"]
    assert [address["ip"] for address in subset["notReadyAddresses"]] == ["127.1.0.2"]
    await set_ready(registry, "b", "127.1.0.2", ready=True)

    async def are_both_ready() -> bool:
        return all((await addresses(registry)).values())

    await wait_until(are_both_ready)


async def test_pod_that_leaves_is_not_an_endpoint(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    await run_pod(registry, "a", "127.1.0.1")

    async def is_there() -> bool:
        return bool(await addresses(registry))

    await wait_until(is_there)
    labels = {"metadata": {"labels": {"app": "other"}}}
    await registry.patch("pods", "default", "a", labels, kind="merge", manager="t")

    async def is_gone() -> bool:
        return not await addresses(registry)

    await wait_until(is_gone)
    assert "subsets" not in await registry.get("endpoints", "default", "web")


async def test_endpoints_end_with_their_service(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    await wait_until(lambda: slice_of(registry))
    await registry.delete("services", "default", "web")

    async def are_gone() -> bool:
        try:
            await registry.get("endpoints", "default", "web")
        except NotFound:
            return not await slice_of(registry)
        return False

    await wait_until(are_gone)


async def test_deleted_slice_is_written_again(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    first = await wait_until(lambda: slice_of(registry))
    await registry.delete("endpointslices", "default", first["metadata"]["name"])

    async def is_another() -> bool:
        found = await slice_of(registry)
        return bool(found) and found["metadata"]["uid"] != first["metadata"]["uid"]

    await wait_until(is_another)


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


async def slices_of(registry: Registry) -> dict[tuple[int, ...], list[str]]:
    """Return the addresses in each slice, by its ports."""
    selector = "kubernetes.io/service-name=web"
    found = (await registry.list("endpointslices", "default", label_selector=selector)).items
    return {
        tuple(port["port"] for port in part.get("ports") or ()): [
            endpoint["addresses"][0] for endpoint in part.get("endpoints") or ()
        ]
        for part in found
    }


async def test_named_port_with_several_numbers_has_several_slices(registry: Registry) -> None:
    """As kube-controller-manager divides them; Endpoints have a subset for each."""
    ports: dict[str, list[dict[str, Any]]] = {
        "a": [{"name": "http", "containerPort": 8080}],
        "b": [{"name": "http", "containerPort": 8081}],
        "c": [{"name": "http", "containerPort": 8080}, {"name": "opt", "containerPort": 7}],
        "d": [],
    }
    for number, (name, its) in enumerate(ports.items(), 1):
        container = {"name": "c", "image": "i", "ports": its}
        pod = {
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [container]},
        }
        await registry.create("pods", "default", pod, manager="t")
        await set_ready(registry, name, f"127.1.0.{number}", ready=True)
    service = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"app": "web"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": "http"},
                {"name": "fixed", "port": 81, "targetPort": 9000},
                {"name": "opt", "port": 82, "targetPort": "opt"},
            ],
        },
    }
    await registry.create("services", "default", service, manager="t")

    async def is_divided() -> bool:
        return await slices_of(registry) == {
            (8080, 9000): ["127.1.0.1"],
            (8081, 9000): ["127.1.0.2"],
            (8080, 9000, 7): ["127.1.0.3"],
            (9000,): ["127.1.0.4"],
        }

    await wait_until(is_divided)

    async def subsets() -> list[tuple[str, list[int]]]:
        endpoints = await registry.get("endpoints", "default", "web")
        return [
            (subset["addresses"][0]["ip"], [port["port"] for port in subset["ports"]])
            for subset in endpoints.get("subsets") or ()
        ]

    async def has_subsets() -> bool:
        try:
            return len(await subsets()) == 4
        except NotFound:
            # They are written after the slices.
            return False

    await wait_until(has_subsets)
    assert ("127.1.0.3", [8080, 9000, 7]) in await subsets()
    for name in "bcd":
        await registry.delete("pods", "default", name, grace_period=0)

    async def is_single() -> bool:
        return await slices_of(registry) == {(8080, 9000): ["127.1.0.1"]}

    await wait_until(is_single)


async def test_service_without_pods_has_one_empty_slice(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")

    async def is_empty() -> bool:
        return await slices_of(registry) == {(): []}

    await wait_until(is_empty)
    await run_pod(registry, "a", "127.1.0.1")

    async def is_filled() -> bool:
        return await slices_of(registry) == {(8080,): ["127.1.0.1"]}

    await wait_until(is_filled)


async def test_labels_of_service_are_those_of_its_slices(registry: Registry) -> None:
    await registry.create("services", "default", SERVICE, manager="t")
    patch = {"metadata": {"labels": {"team": "b"}}}
    await registry.patch("services", "default", "web", patch, kind="merge", manager="t")

    async def is_labelled() -> bool:
        part = await slice_of(registry)
        return bool(part) and part["metadata"]["labels"]["team"] == "b"

    await wait_until(is_labelled)


def _pod(number: int) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": f"p{number}", "uid": f"u{number}"},
        "spec": {"containers": []},
        "status": {"podIP": f"127.1.1.{number}"},
    }


def test_slice_has_a_hundred_endpoints_at_most() -> None:
    """Endpoints stay in their slice when others go."""
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    pods = [_pod(number) for number in range(250)]
    plan = plan_slices(service, pods, [], {})
    assert [len(part["endpoints"]) for part in plan.creates] == [100, 100, 50]
    known = [
        {**part, "metadata": {"name": f"s{place}", "labels": {}}}
        for place, part in enumerate(plan.creates)
    ]
    assert plan_slices(service, pods, known, {}) == ([], [], [])
    fewer = plan_slices(service, [*pods[:20], *pods[90:], _pod(250)], known, {})
    assert (fewer.creates, fewer.deletes) == ([], [])
    (changed,) = fewer.updates
    assert changed["metadata"]["name"] == "s0"
    assert len(changed["endpoints"]) == 31
    none = plan_slices(service, pods[:100], known, {})
    assert [part["metadata"]["name"] for part in none.deletes] == ["s1", "s2"]
