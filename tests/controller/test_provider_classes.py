"""SecretProviderClasses: what the CSI driver reports of pods is followed as other sources are."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON, status, wait_for_state
from tests.controller.provider_classes import (
    AUTO,
    CLASS_AUTO,
    EXCLUDED,
    NAMED,
    controller,
    known,
    replace_pods,
    set_up,
    settled,
)
from tests.controller.world import FOLLOW, REREADS, World, env
from tests.support.provider_classes import (
    Driver,
    class_volume,
)

# -- one rotation is one rollout --------------------------------------------------------------


async def test_rotation_is_one_rollout(world: World, driver: Driver) -> None:
    """The first updated pod shows it; pods that follow, and new pods, change nothing."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""
        await driver.update("web-1", password="2")
        first = await world.rollout()
        await settled(world, running)
        await driver.update("web-2", password="2")
        await settled(world, running)
        await replace_pods(world, driver, web_3="2", web_4="2")
        await settled(world, running)
        assert await world.revision() == first
        assert "SecretProviderClass default/vault password changed" in await world.event(
            "RolledOut"
        )
        await driver.update("web-3", password="3")
        await world.rollout(after=first)


async def test_metadata_and_order_are_not_a_change(world: World, driver: Driver) -> None:
    """Labels, the time, other fields, and the order of the objects."""
    await set_up(world, driver)

    def annotate(obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {**obj["metadata"], "annotations": {"a": "b"}}
        return {**obj, "metadata": metadata, "status": {**obj["status"], "targetPath": "/x"}}

    for pod in ("web-1", "web-2"):
        await driver.update(pod, password="1", tls="1")
    async with controller(world) as running:
        await known(running, world)
        await driver.modify("web-1", annotate)
        await driver.modify("web-1", _reversed)
        await settled(world, running)
        assert await world.revision() == ""


def _reversed(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "status": {**obj["status"], "objects": obj["status"]["objects"][::-1]}}


async def test_new_pods_are_not_a_change(world: World, driver: Driver) -> None:
    """Neither the first pods of all, nor more of them, nor pods with versions of their own."""
    await driver.provider_class()
    await world.workload(spec=class_volume())
    async with controller(world) as running:
        await known(running, world)
        for number in (1, 2, 3):
            await world.pod(f"web-{number}")
            await driver.mount(f"web-{number}", password="1")
            await settled(world, running)
        await world.pod("web-4")
        await driver.mount("web-4", password="lease-4")
        await settled(world, running)
        for number in (1, 2, 3):
            await driver.end_pod(f"web-{number}")
            await settled(world, running)
        assert await world.revision() == ""
        await driver.update("web-4", password="lease-5")
        await world.rollout()


async def test_scaling_to_zero_and_back_is_not_a_change(world: World, driver: Driver) -> None:
    """Its new pods start with what is current then."""
    await set_up(world, driver, "web-1")
    async with controller(world) as running:
        await known(running, world)
        await driver.end_pod("web-1")
        await settled(world, running)
        await world.pod("web-5")
        await driver.mount("web-5", password="2")
        await settled(world, running)
        assert await world.revision() == ""


async def test_pods_of_other_workloads_show_a_rotation_too(world: World, driver: Driver) -> None:
    """A workload whose own nodes lag is behind the store all the same."""
    await set_up(world, driver, "web-1")
    await world.workload("other", class_volume())
    await world.pod("other-1", of="other")
    await driver.mount("other-1", password="1")
    async with controller(world) as running:
        await known(running, world)
        await driver.update("other-1", password="2")
        await world.rollout("other")
        await world.rollout("web")


# -- downtime ---------------------------------------------------------------------------------


async def test_first_start_rolls_nothing(world: World, driver: Driver) -> None:
    """Whatever pods have mounted, and whether they were updated."""
    await set_up(world, driver)
    world.registry.ahead = 60.0
    await driver.update("web-1", password="2")
    world.registry.ahead = 0.0
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""


async def test_rotation_while_the_controller_is_down(world: World, driver: Driver) -> None:
    """It is applied at the next start, once."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
    world.registry.ahead = 60.0
    await driver.update("web-1", password="2")
    world.registry.ahead = 0.0
    async with controller(world) as running:
        first = await world.rollout()
        await replace_pods(world, driver, web_3="2", web_4="2")
        await settled(world, running)
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == first


async def test_restarts_without_a_change_roll_nothing(world: World, driver: Driver) -> None:
    """Also while pods differ, and after all pods were replaced in between."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
    await world.pod("web-3")
    await driver.mount("web-3", password="2")  # rotation is off
    for _ in range(2):
        async with controller(world) as running:
            await known(running, world)
    await replace_pods(world, driver, web_4="2")
    await driver.end_pod("web-3")
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""
        await driver.update("web-4", password="3")
        await world.rollout()


async def test_restart_does_not_take_an_earlier_update_for_the_last(
    world: World, driver: Driver
) -> None:
    """The pod that showed the last of two updates was replaced; others are still behind."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
        for at, pod, version in ((60, "web-1", "2"), (120, "web-2", "2"), (180, "web-1", "3")):
            world.registry.ahead = at
            await driver.update(pod, password=version)
            world.registry.ahead = 0.0
            await settled(world, running)
        last = await world.revision()
        await driver.end_pod("web-1")
        await world.pod("web-3", started=time.time() + 240)
        world.registry.ahead = 240
        await driver.mount("web-3", password="3")
        world.registry.ahead = 0.0
        await settled(world, running)
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == last
        world.registry.ahead = 300
        await driver.update("web-2", password="3")
        world.registry.ahead = 0.0
        await settled(world, running)
        assert await world.revision() == last


# -- references and annotations ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "said", "rolls"),
    [
        pytest.param(AUTO, {}, True, id="auto"),
        pytest.param(CLASS_AUTO, {}, True, id="auto of classes"),
        pytest.param({NAMED: "va.*"}, {}, True, id="an expression"),
        pytest.param({NAMED: "va"}, {}, False, id="anchored"),
        pytest.param(AUTO | {EXCLUDED: "vault"}, {}, False, id="excluded"),
        pytest.param(AUTO, {"reloader.stakater.com/ignore": "true"}, False, id="ignored"),
        pytest.param(FOLLOW, {"hotmap.dev/ignore": "true"}, False, id="ignored by hotmap"),
        pytest.param(
            {"reloader.stakater.com/search": "true"},
            {"reloader.stakater.com/match": "true"},
            True,
            id="search and match",
        ),
        pytest.param({"reloader.stakater.com/search": "true"}, {}, False, id="no match"),
        pytest.param({"hotmap.dev/follow": "spc/v*"}, {}, True, id="a glob"),
        pytest.param(
            FOLLOW | {"hotmap.dev/exclude": "secretproviderclass/vault"},
            {},
            False,
            id="excluded by hotmap",
        ),
        pytest.param({"configmap.reloader.stakater.com/auto": "true"}, {}, False, id="others"),
    ],
)
async def test_which_classes_are_followed(
    world: World, driver: Driver, annotations: dict[str, str], said: dict[str, str], rolls: bool
) -> None:
    """All annotations, on the workload and on the class."""
    await set_up(world, driver, annotations=annotations, said=said)
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        if rolls:
            await world.rollout()
        await settled(world, running)
        assert bool(await world.revision()) is rolls
        assert await world.messages("InvalidAnnotation") == []


async def test_class_that_is_named_but_not_mounted(world: World, driver: Driver) -> None:
    """Nothing shows what its pods read, so their starts decide."""
    await set_up(world, driver)
    await world.workload("api", env("A", optional=True), annotations={NAMED: "vault"})
    await world.pod("api-1", of="api")
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout("api")


async def test_application_that_rereads_is_left_alone(world: World, driver: Driver) -> None:
    """Its files are updated by the driver; pods need nothing."""
    await set_up(world, driver, annotations=REREADS)
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await settled(world, running)
        (entries,) = running.decision_log.history().values()
    assert await world.revision() == ""
    assert await world.target("web-1") == ""
    assert any("the CSI driver updates mounted files" in entry.reason for entry in entries)


async def test_init_container_does_not_reread_a_class(world: World, driver: Driver) -> None:
    """What it has read is fixed."""
    spec = class_volume()
    spec["initContainers"] = [{**spec["containers"][0], "name": "init"}]
    del spec["containers"][0]["volumeMounts"]
    await driver.provider_class()
    await world.workload(spec=spec, annotations=REREADS)
    await world.pod("web-1")
    await driver.mount("web-1", password="1")
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout()


async def test_deleted_class_holds_a_rollout(world: World, driver: Driver) -> None:
    """Its pods run on, new ones could not start; it may return with other content."""
    await set_up(world, driver)
    await world.config_map(LEVEL="info")
    spec = class_volume() | {"containers": [env("LEVEL")["containers"][0]]}
    spec["containers"][0]["volumeMounts"] = class_volume()["containers"][0]["volumeMounts"]
    await world.merge("Deployment", "web", {"spec": {"template": {"spec": spec}}})
    await world.rolled_out()
    async with controller(world) as running:
        await known(running, world)
        await driver.delete_class()
        await settled(world, running)
        await world.edit(LEVEL="debug")

        async def held() -> list[str]:
            events = await world.messages()
            return [
                message
                for message in events
                if "vault does not exist and is not optional" in message
            ]

        await world.until(held, "the rollout is held")
        assert await world.revision() == ""
        await driver.provider_class()
        await world.rollout()


# -- the status -------------------------------------------------------------------------------


async def test_status_of_pods_is_what_the_driver_reports(world: World, driver: Driver) -> None:
    """A workload is current when each pod started with the versions, and not before."""
    await set_up(world, driver)
    async with controller(world, pod_checks=SOON) as running:
        document = await wait_for_state(world, running, "current")
        assert document["reason"].startswith("content is up to date")
        await driver.update("web-1", password="2")
        await world.rollout()
        await world.rolled_out()
        document = await wait_for_state(world, running, "latent")
        assert "files of SecretProviderClass default/vault were updated" in document["reason"]
        await replace_pods(world, driver, web_3="2")
        await world.pod("web-4")
        document = await wait_for_state(world, running, "latent")
        await driver.mount("web-4", password="2")
        await wait_for_state(world, running, "current")
        document = await status(running, "?workload=default/web")
    assert "SecretProviderClass default/vault" in str(document)


async def test_versions_that_came_and_went_while_down_are_not_current(
    world: World, driver: Driver
) -> None:
    """A pod that started in between has the files of the others, and has not read them."""
    await set_up(world, driver)
    async with controller(world, pod_checks=SOON) as running:
        await wait_for_state(world, running, "current")
    for at, version in ((60, "2"), (120, "1")):
        world.registry.ahead = at
        for pod in ("web-1", "web-2"):
            await driver.update(pod, password=version)
        world.registry.ahead = 0.0
    async with controller(world, pod_checks=SOON) as running:
        document = await wait_for_state(world, running, "latent")
    assert "files of SecretProviderClass default/vault were updated" in document["reason"]
    assert await world.revision() == ""


async def test_status_of_reread_files_follows_each_pod(world: World, driver: Driver) -> None:
    """Files that the driver has not updated in a pod are not current there."""
    await set_up(world, driver, annotations=REREADS)
    async with controller(world, pod_checks=SOON) as running:
        await wait_for_state(world, running, "current")
        await driver.update("web-1", password="2")
        document = await wait_for_state(world, running, "latent")
        assert "(web-2: it has mounted other versions" in document["reason"]
        await driver.update("web-2", password="2")
        await wait_for_state(world, running, "delivered")
    assert await world.revision() == ""


async def test_status_of_pods_that_differ_is_not_current(world: World, driver: Driver) -> None:
    """Nothing shows which versions are newer."""
    await set_up(world, driver, "web-1")
    await world.pod("web-2")
    await driver.mount("web-2", password="2")
    async with controller(world, pod_checks=SOON) as running:
        document = await wait_for_state(world, running, "latent")
    assert "different versions" in document["reason"]
    assert await world.revision() == ""
