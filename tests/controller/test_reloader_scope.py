"""Which namespaces and sources flags leave out, and what that means for the rest."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.controller.world import FOLLOW, PLURALS, SETTLE, World, env

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings


def controller(world: World, **settings: Any) -> Controller:
    dialect = settings.pop("dialect", DialectSettings())
    return Controller(
        world.client,
        Settings(
            defaults=Defaults(settle=SETTLE, settle_max=1.0, dialect=dialect),
            listen=("127.0.0.1", 0),
            **settings,
        ),
    )


async def shops(world: World, *names: str) -> None:
    """Namespaces with a consumer each."""
    for name in names:
        await world.namespace(name)
        await world.config_map(LEVEL="info", namespace=name)
        await world.workload(namespace=name)


async def label(world: World, plural: str, namespace: str | None, name: str, **labels: str) -> None:
    def write(obj: dict[str, Any]) -> dict[str, Any]:
        obj["metadata"]["labels"] = labels
        return obj

    await world.registry.modify(plural, namespace, name, write, manager="kubectl")


async def test_list_of_namespaces(world: World) -> None:
    """Each is watched by itself, so that Roles are enough; a change in any of them counts."""
    world.registry.withheld |= {*PLURALS.values(), "namespaces"}
    await shops(world, "bank", "mill", "shop")
    async with controller(world, watch_namespaces=("shop", "mill"), namespace="shop") as running:
        for name in ("bank", "shop", "mill"):
            await world.edit(LEVEL="debug", namespace=name)
        await world.rollout(namespace="shop")
        await world.rollout(namespace="mill")
        statistics = {statistic.resource: statistic for statistic in running.reflector_statistics()}
    assert await world.revision(namespace="bank") == ""
    assert statistics["deployments"].synced
    assert statistics["deployments"].lists + statistics["deployments"].watches >= 2
    assert "namespaces" not in statistics


async def test_namespaces_that_are_ignored(world: World) -> None:
    """What lies in them is not even sent by the API server."""
    await shops(world, "bank", "shop")
    async with controller(world, ignored_namespaces=("bank", "kube-system")) as running:
        kept = {key.namespace for store in running.index.sources.values() for key in store}
        assert kept.isdisjoint(("bank", "kube-system"))
        await world.edit(LEVEL="debug", namespace="bank")
        await world.edit(LEVEL="debug", namespace="shop")
        await world.rollout(namespace="shop")
    assert await world.revision(namespace="bank") == ""


async def test_namespace_selector_limits_rollouts(world: World) -> None:
    """Those that match are served, from the moment on that they do."""
    await shops(world, "bank", "shop")
    await label(world, "namespaces", None, "shop", team="a")
    async with controller(world, namespace_selector="team=a") as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug", namespace="bank")
        await world.edit(LEVEL="debug", namespace="shop")
        await world.rollout(namespace="shop")
        await world.quiet(running)
        assert await world.revision(namespace="bank") == ""
        await label(world, "namespaces", None, "bank", team="a")

        async def selected() -> bool:
            return ObjectKey("Namespace", "", "bank") in running.index.namespaces

        await world.until(selected, "the Namespace is selected")
        await world.quiet(running)
        assert await world.revision(namespace="bank") == ""
        await world.edit(LEVEL="trace", namespace="bank")
        await world.rollout(namespace="bank")


async def test_resource_selector_limits_sources(world: World) -> None:
    """Others are not watched; that they are not seen prevents no rollout."""
    await world.config_map("app", LEVEL="info")
    await world.config_map("other", LEVEL="info")
    await label(world, "configmaps", "default", "app", reload="yes")
    spec = env("LEVEL")
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "other"}}]
    await world.workload(spec=spec)
    async with controller(world, source_selector="reload=yes") as running:
        assert [key.name for key in running.index.sources["ConfigMap"]] == ["app"]
        await world.edit("other", LEVEL="debug")
        await world.edit("app", LEVEL="debug")
        await world.rollout()
    assert len(await world.events("RolledOut")) == 1


async def test_creation_of_a_source_with_the_label_is_a_change(world: World) -> None:
    """It is a change for pods that run without it; that a label is added is none."""
    await world.config_map("app", LEVEL="info")
    spec = env("LEVEL", optional=True)
    other = {"configMapRef": {"name": "other", "optional": True}}
    spec["containers"][0]["envFrom"] = [other]
    await world.workload(spec=spec)
    await world.pod("web-1", started=time.time() - 60)
    await world.passes_a_second()
    async with controller(world, source_selector="reload=yes") as running:

        async def seen() -> bool:
            return [key.name for key in running.index.sources["ConfigMap"]] == ["app"]

        await asyncio.sleep(5)
        await label(world, "configmaps", "default", "app", reload="yes")
        await world.until(seen, "the label is seen")
        await asyncio.sleep(5)
        assert await world.events("RolledOut") == []
        body = {"metadata": {"name": "other", "labels": {"reload": "yes"}}, "data": {"A": "b"}}
        await world.registry.create("configmaps", "default", body, manager="kubectl")
        await world.rollout()
    (event,) = await world.messages("RolledOut")
    assert event.startswith("ConfigMap default/other was created")


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_kinds_of_sources_that_are_ignored(world: World, kind: str) -> None:
    """Nothing of them is read from the API server, so no right to read them is needed."""
    world.registry.withheld |= {PLURALS[kind]} if kind == "ConfigMap" else set()
    await world.config_map(LEVEL="info")
    await world.secret("login", password="old")
    spec = env("LEVEL")
    spec["containers"][0]["envFrom"] = [{"secretRef": {"name": "login"}}]
    await world.workload(spec=spec, annotations=FOLLOW)
    dialect = DialectSettings(ignored_sources=frozenset((kind,)))
    async with controller(world, dialect=dialect) as running:
        assert len(running.index.sources[kind]) == 0
        await world.edit(LEVEL="debug")
        await world.edit("login", kind="Secret", password="new")
        await world.rollout()
    (message,) = await world.messages("RolledOut")
    assert ("ConfigMap" in message) is (kind == "Secret")
    assert ("Secret" in message) is (kind == "ConfigMap")
