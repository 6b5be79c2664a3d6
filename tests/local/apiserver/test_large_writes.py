"""Writes of large objects let other requests run, and lose nothing that these write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import configmap

from hotmap.core.errors import AlreadyExists, Conflict
from hotmap.local.apiserver.registry import Registry

if TYPE_CHECKING:
    from hotmap.local.client import PatchKind

Writing = Coroutine[Any, Any, dict[str, Any]]

KEYS = 20_000


def large(name: str = "large", value: str = "") -> dict[str, Any]:
    keys = {f"key-{number:05}": value for number in range(KEYS)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": keys}


@pytest.fixture
async def stored(registry: Registry) -> Registry:
    await registry.create("configmaps", "default", large(), manager="test")
    return registry


def patch(registry: Registry, body: object, kind: PatchKind) -> Writing:
    return registry.patch(
        "configmaps", "default", "large", body, kind=kind, manager="test", force=kind == "apply"
    )


WRITES: dict[str, Callable[[Registry], Writing]] = {
    "create": lambda r: r.create("configmaps", "default", large("new"), manager="test"),
    "update": lambda r: r.update("configmaps", "default", "large", large(value="x"), manager="t"),
    "merge": lambda r: patch(r, {"data": {"key-1": "x"}}, "merge"),
    "json": lambda r: patch(r, [{"op": "add", "path": "/data/key-1", "value": "x"}], "json"),
    "strategic": lambda r: patch(r, {"data": {"key-1": "x"}}, "strategic"),
    "apply": lambda r: patch(r, large(value="x"), "apply"),
}


@pytest.mark.parametrize("write", WRITES)
async def test_others_write_meanwhile(stored: Registry, write: str) -> None:
    """A write of many keys is computed beside the event loop."""
    task = asyncio.create_task(WRITES[write](stored))
    others = 0
    while not task.done():
        obj = configmap(f"small-{others}")
        await stored.create("configmaps", "default", obj, manager="other")
        others += 1
        await asyncio.sleep(0.001)
    await task
    assert others > 2


@pytest.mark.parametrize("write", ["merge", "json", "strategic", "apply"])
async def test_what_others_write_to_the_same_object_is_kept(stored: Registry, write: str) -> None:
    """A write that finds its object changed is decided again."""
    other = patch(stored, {"metadata": {"labels": {"by": "other"}}}, "merge")
    await asyncio.gather(WRITES[write](stored), other)
    found = await stored.get("configmaps", "default", "large")
    assert found["metadata"]["labels"] == {"by": "other"}
    assert "x" in found["data"].values()


async def test_update_of_a_version_that_is_replaced_meanwhile_is_refused(stored: Registry) -> None:
    obj = await stored.get("configmaps", "default", "large")
    obj["data"]["key-1"] = "mine"
    update = stored.update("configmaps", "default", "large", obj, manager="test")
    other = patch(stored, {"metadata": {"labels": {"by": "other"}}}, "merge")
    _, refused = await asyncio.gather(other, update, return_exceptions=True)
    assert isinstance(refused, Conflict)
    assert "the object has been modified" in str(refused)


async def test_name_that_is_taken_meanwhile_is_refused(registry: Registry) -> None:
    create = asyncio.create_task(registry.create("configmaps", "default", large(), manager="test"))
    await asyncio.sleep(0)
    await registry.create("configmaps", "default", configmap("large"), manager="other")
    with pytest.raises(AlreadyExists, match='configmaps "large" already exists'):
        await create
    assert "data" not in await registry.get("configmaps", "default", "large")
