"""SecretProviderClasses where the integration is not enabled, or kinds cannot be read."""

from __future__ import annotations

from tests.controller.provider_classes import (
    NAMED,
    controller,
    known,
    set_up,
    settled,
)
from tests.controller.world import World, env
from tests.support.provider_classes import (
    CLASSES,
    STATUSES,
    Driver,
    class_volume,
    playing_driver,
)


async def test_missing_flag_is_reported_once(world: World, driver: Driver) -> None:
    """For what uses a class, or asks for one; other workloads hear nothing."""
    await set_up(world, driver)
    await world.workload("asks", env("A", optional=True), annotations={NAMED: "vault"})
    await world.workload("plain", env("A", optional=True))
    async with controller(world, enabled=False) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await settled(world, running)
    found = {
        event["involvedObject"]["name"]: event for event in await world.events("InvalidAnnotation")
    }
    assert set(found) == {"web", "asks"}
    assert all("--enable-csi-integration" in event["message"] for event in found.values())
    assert await world.revision() == ""


async def test_enabling_it_later_rolls_nothing(world: World, driver: Driver) -> None:
    """Pods whose files were updated long ago are not a change, also of a workload with a record."""
    spec = class_volume()
    spec["containers"][0]["env"] = env("LEVEL")["containers"][0]["env"]
    await world.config_map(LEVEL="info")
    await driver.provider_class()
    await world.workload(spec=spec)
    await world.pod("web-1")
    await driver.mount("web-1", password="1")
    async with controller(world, enabled=False) as running:
        await known(running, world)
    await driver.update("web-1", password="2")
    await world.merge("Deployment", "web", {"spec": {"minReadySeconds": 1}})
    await world.rolled_out()
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""
        await driver.update("web-1", password="3")
        await world.rollout()


async def test_kinds_that_appear_or_disappear_roll_nothing(world: World) -> None:
    """The driver may be installed later, and removed; neither rolls anything."""
    await world.workload(spec=class_volume())
    for pod in ("web-1", "web-2"):
        await world.pod(pod)
    async with (
        playing_driver(world.registry, installed=False) as driver,
        controller(world) as running,
    ):
        await known(running, world)
        await driver.install()
        await driver.provider_class()
        for pod in ("web-1", "web-2"):
            await driver.mount(pod, password="1")
        store = running.index.provider_classes.statuses

        async def watched() -> bool:
            return len(store) == 2

        await world.until(watched, "the statuses are known", within=120)
        await settled(world, running)
        assert await world.revision() == ""
        await driver.update("web-1", password="2")
        first = await world.rollout()
        await driver.remove()

        async def gone() -> bool:
            return not len(store)

        await world.until(gone, "the statuses are gone", within=300)
        await settled(world, running)
        assert await world.revision() == first


async def test_forbidden_statuses_leave_content_unknown(world: World, driver: Driver) -> None:
    """Nothing is known then, and nothing else is harmed."""
    world.registry.withheld.add(STATUSES)
    await set_up(world, driver)
    await world.config_map(LEVEL="info")
    await world.workload("api")
    async with controller(world) as running:
        await known(running, world)
        assert not len(running.index.provider_classes.statuses)
        await driver.update("web-1", password="2")
        await world.edit(LEVEL="debug")
        await world.rollout("api")
        await settled(world, running)
        assert await world.revision() == ""
        assert await world.messages("InvalidAnnotation") == []


async def test_classes_that_may_not_be_read(world: World, driver: Driver) -> None:
    """The statuses are sufficient, but for annotations of the class."""
    world.registry.withheld.add(CLASSES)
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
        assert not len(running.index.provider_classes.classes)
        await driver.update("web-1", password="2")
        first = await world.rollout()
        await driver.update("web-2", password="2")
        await settled(world, running)
        assert await world.revision() == first


async def test_each_served_namespace_has_watches_of_its_own(world: World, driver: Driver) -> None:
    """Each served namespace has watches of its own."""
    world.registry.withheld |= {CLASSES, STATUSES}
    await set_up(world, driver)
    async with controller(world, watch_namespaces=("default", "hotmap")) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout()


async def test_unreadable_status_costs_only_itself(world: World, driver: Driver) -> None:
    """Missing fields, a giant, and other classes' pods."""
    await set_up(world, driver)
    for name, body in (
        ("none", {}),
        ("classless", {"podName": "x"}),
        ("podless", {"secretProviderClassName": "vault"}),
        (
            "giant",
            {
                "secretProviderClassName": "vault",
                "objects": [{"id": f"{i}", "version": "1" * 100} for i in range(900)],
            },
        ),
    ):
        await driver.write_status({"metadata": {"name": name}, "status": body})
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout()
        assert len(running.index.provider_classes.statuses.unreadable) == 1
        assert "characters" in await world.event("ObjectUnreadable")
