"""Widgets: the custom resource that tests define."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.custom_resources import CustomResources
from hotmap.local.apiserver.registry import Registry
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["FREE", "OBJECT", "create", "definition", "establish", "registry"]

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 3},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"k": {"type": "string"}, "v": {"type": "string", "default": "x"}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"spec": SPEC}}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(**version: Any) -> dict[str, Any]:
    first: dict[str, Any] = {"name": "v1", "served": True, "storage": True, **version}
    first.setdefault("subresources", {"status": {}})
    first.setdefault("schema", {"openAPIV3Schema": OBJECT})
    other = {"name": "v1beta1", "served": True, "storage": False}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [first, {**other, "schema": {"openAPIV3Schema": FREE}}],
        },
    }


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    custom = CustomResources(registry)
    await custom.load()
    running = asyncio.create_task(custom.run())
    yield registry
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def establish(registry: Registry, obj: dict[str, Any]) -> None:
    """Create a definition and wait until its kind is served."""
    await registry.create("customresourcedefinitions", None, obj, manager="t")
    name = obj["metadata"]["name"]
    while True:
        made = await registry.get("customresourcedefinitions", None, name)
        conditions = {c["type"]: c["status"] for c in made["status"]["conditions"] or ()}
        if conditions.get("Established") == "True":
            return
        await asyncio.sleep(0.01)


async def create(registry: Registry, spec: Any, name: str = "a") -> dict[str, Any]:
    obj = {"metadata": {"name": name}, "spec": spec}
    return await registry.create("widgets.example.com", "default", obj, manager="t")
