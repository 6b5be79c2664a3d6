"""A Deployment that was paused for a change is resumed, also when the controller is killed."""

from __future__ import annotations

import time

import pytest
from tests.support.scenario import Scenario

from hotmap.kube.resources import REPLICASETS

PERIOD = "deployment.reloader.stakater.com/pause-period"
PAUSED_AT = "deployment.reloader.stakater.com/paused-at"
COMPAT = ("--reloader-compat", "--reload-strategy=revision")


async def is_paused(scenario: Scenario) -> bool:
    obj = await scenario.get("Deployment", "web")
    assert (PAUSED_AT in obj["metadata"]["annotations"]) is obj["spec"].get("paused", False)
    return PAUSED_AT in obj["metadata"]["annotations"]


async def set_up(scenario: Scenario, period: str) -> None:
    annotations = {"reloader.stakater.com/auto": "true", PERIOD: period}
    await scenario.set_up(annotations=annotations)


async def wait_until_resumed(scenario: Scenario) -> None:
    async def is_resumed() -> bool:
        return not await is_paused(scenario)

    await scenario.until(is_resumed, "web is resumed")


@pytest.mark.parametrize("period", ["1s", "4s"], ids=["over", "not over"])
async def test_killed_controller_leaves_nothing_paused(
    podless_scenario: Scenario, period: str
) -> None:
    """The next one finds a pause that is over, or waits for its end, counted from the change."""
    await set_up(podless_scenario, period)
    async with podless_scenario.started_controller(*COMPAT) as controller:
        await podless_scenario.edit(LEVEL="debug")

        async def paused() -> bool:
            return await is_paused(podless_scenario)

        await podless_scenario.until(paused, "web is paused")
        at = time.time()
        await controller.kill()
    revision = await podless_scenario.revision()
    assert revision, "the template changes in the write that pauses"
    if period == "1s":
        await podless_scenario.until(lambda: _passed(at + 2), "the period passes")
    assert await is_paused(podless_scenario)
    async with podless_scenario.controller(*COMPAT) as controller:
        await wait_until_resumed(podless_scenario)
        assert time.time() >= at + float(period[:-1]) - 1
        await podless_scenario.check_invariants({"web": 1})
        assert await controller.stop() == 0
    assert await podless_scenario.revision() == revision


async def _passed(at: float) -> bool:
    return time.time() >= at


@pytest.mark.slow
async def test_next_leader_resumes(podless_scenario: Scenario) -> None:
    """A standby takes over from a killed leader with its pauses."""
    await set_up(podless_scenario, "3s")
    flags = (*COMPAT, "--leader-elect")
    async with (
        podless_scenario.started_controller(*flags) as leader,
        podless_scenario.controller(*flags) as standby,
    ):
        await standby.ready()
        await podless_scenario.edit(LEVEL="debug")

        async def paused() -> bool:
            return await is_paused(podless_scenario)

        await podless_scenario.until(paused, "web is paused")
        await leader.kill()
        await wait_until_resumed(podless_scenario)
        await podless_scenario.check_invariants({"web": 1})


@pytest.mark.slow
async def test_pods_are_replaced_once_at_the_end_of_the_pause(shop: Scenario) -> None:
    """By the Deployment's own controller: two edits within the pause are one rollout."""
    annotations = {"reloader.stakater.com/auto": "true", PERIOD: "4s"}
    await shop.set_up(annotations=annotations, replicas=2)
    await shop.wait_until_pods_are_older()
    pods = {name for name in shop.pods.read if name.startswith("web-")}
    async with shop.started_controller(*COMPAT):
        for times, level in enumerate(("debug", "trace"), 1):
            await shop.edit(LEVEL=level)
            await shop.wait_for_rollouts(times=times)
        assert await is_paused(shop)
        assert {name for name in shop.pods.read if name.startswith("web-")} == pods
        await wait_until_resumed(shop)
        await shop.wait_until_current()
        sets = await shop.client.list_page(
            REPLICASETS, shop.namespace, type=dict, resource_version="0"
        )
        names = [item["metadata"]["name"] for item in sets.items]
        assert len([name for name in names if name.startswith("web-")]) == 2
        await shop.check_invariants({"web": 2})
