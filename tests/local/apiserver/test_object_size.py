"""Objects are bounded by what etcd takes in one request."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import CONFIGMAPS, SECRETS, configmap, pod

from hotmap.core.errors import ApiError

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

MIB = 1 << 20


def large_pod(size: int) -> dict[str, Any]:
    return pod("a", hostname="a", containers=[{"name": "c", "image": "i", "args": ["x" * size]}])


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (MIB * 8 // 5, "etcdserver: request is too large"),
        (MIB * 5 // 2, "code = ResourceExhausted desc = trying to send message larger than max"),
    ],
)
async def test_too_large_object_is_refused(registry: Registry, size: int, text: str) -> None:
    """A write of more than 1.5 MiB gets etcd's answer, and nothing is stored."""
    with pytest.raises(ApiError, match=text) as error:
        await registry.create("pods", "default", large_pod(size), manager="t")
    assert error.value.code == 500
    assert (await registry.list("pods", "default")).items == []


async def test_update_to_a_too_large_object_is_refused(registry: Registry) -> None:
    """Many small writes cannot make what one could not."""
    await registry.create("configmaps", "default", configmap("a"), manager="t")
    finalizers = [f"example.com/{'x' * 50}{number}" for number in range(25_000)]
    patch = {"metadata": {"finalizers": finalizers}}
    with pytest.raises(ApiError, match="etcdserver: request is too large"):
        await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="t")


async def test_managed_fields_give_way(registry: Registry) -> None:
    """Upstream tries once more without managedFields, which may be most of an object."""
    body = configmap("a") | {"data": {f"{number:0200}": "" for number in range(4_000)}}
    made = await registry.create("configmaps", "default", body, manager="t")
    assert "managedFields" not in made["metadata"]


async def test_size_is_that_of_protobuf(api: Api) -> None:
    """A Secret's data counts decoded: base64 in JSON is a third longer."""
    data = {"a": base64.b64encode(bytes(MIB)).decode()}
    body = {"metadata": {"name": "a", "annotations": {"a": "x" * 200_000}}, "data": data}
    assert (await api.post(SECRETS, body)).status == 201


async def test_data_of_a_config_map_is_bounded_first(api: Api) -> None:
    reply = await api.post(CONFIGMAPS, configmap("a", a="x" * (MIB + 1)))
    assert reply.status == 422
    assert "Too long: may not be more than 1048576 bytes" in reply.message
