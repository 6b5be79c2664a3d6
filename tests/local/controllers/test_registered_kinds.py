"""Controllers follow kinds that are registered and removed while they run."""

from __future__ import annotations

from tests.local.controllers.plane import control_plane

from hotmap.local.apiserver.registry import Registry
from hotmap.local.informer import Informers
from hotmap.local.scheme import Kind, Names
from hotmap.local.store import MVCCStore

WIDGETS = Kind("example.com", ("v1",), Names("widgets", "Widget"))


async def test_garbage_collector_follows_registered_kind() -> None:
    async with control_plane() as plane:
        plane.registry.scheme.register(WIDGETS)
        owner = await plane.create("widgets", {"metadata": {"name": "a"}})
        reference = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "a",
            "uid": owner["metadata"]["uid"],
        }
        await plane.create(
            "configmaps", {"metadata": {"name": "c", "ownerReferences": [reference]}}
        )
        dependent = {"metadata": {"name": "b", "ownerReferences": [reference]}}
        await plane.create("widgets", dependent)
        await plane.registry.delete("widgets", "default", "a")

        async def is_collected() -> bool:
            names = await plane.names("configmaps")
            return "c" not in names and not await plane.names("widgets")

        await plane.until(is_collected, what="the dependents to be deleted")


async def test_namespace_deletion_includes_registered_kind() -> None:
    async with control_plane() as plane:
        plane.registry.scheme.register(WIDGETS)
        await plane.create("namespaces", {"metadata": {"name": "team"}}, None)
        await plane.create("widgets", {"metadata": {"name": "a"}}, "team")
        await plane.registry.delete("namespaces", None, "team")

        async def is_deleted() -> bool:
            return "team" not in await plane.names("namespaces", None)

        await plane.until(is_deleted, what="the namespace to be deleted")
        assert await plane.names("widgets", None) == set()


async def test_controllers_survive_removal_of_kind() -> None:
    async with control_plane() as plane:
        plane.registry.scheme.register(WIDGETS)
        await plane.create("widgets", {"metadata": {"name": "a"}})
        plane.registry.scheme.unregister("example.com", "widgets")
        owner = await plane.create("configmaps", {"metadata": {"name": "owner"}})
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        body = {"metadata": {"name": "dependent", "ownerReferences": [reference]}}
        await plane.create("configmaps", body)
        await plane.registry.delete("configmaps", "default", "owner")

        async def is_collected() -> bool:
            return "dependent" not in await plane.names("configmaps")

        await plane.until(is_collected, what="the dependent to be deleted")
        plane.registry.scheme.register(WIDGETS)
        assert await plane.names("widgets") == {"a"}


async def test_informers_add_and_remove_kinds() -> None:
    registry = Registry(MVCCStore())
    registry.scheme.register(WIDGETS)
    informers = Informers(registry)
    served: list[str] = []
    informers.follow_kinds(
        lambda kind, _: served.append(kind.resource), lambda kind: served.remove(kind.resource)
    )
    assert "widgets.example.com" in served
    assert informers["widgets"] is informers["widgets.example.com"]
    registry.scheme.unregister("example.com", "widgets")
    assert "widgets.example.com" not in served
    assert len(served) == len(list(informers))
