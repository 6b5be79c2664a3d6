"""An edit and its revert, a pod recreated in between, and a controller that is killed meanwhile."""

from __future__ import annotations

import enum
from base64 import b64decode

import pytest
from tests.support.scenario import Scenario

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import read_changes
from hotmap.kube.resources import PODS


class Moment(enum.Enum):
    """When it is killed; the value is the settle time that makes room for that."""

    BEFORE_THE_REVERT = "5s"
    AFTER_THE_REVERT = "4s"
    AFTER_THE_SETTLE_TIME = "1s"


async def _seen(scenario: Scenario) -> int:
    """Count the changes of app that outlive a controller."""
    texts = [b64decode(item["data"]["state"]).decode() for item in await scenario.state_secrets()]
    app = ObjectKey("ConfigMap", scenario.namespace, "app")
    return sum(
        len(seen.changes)
        for text in texts
        for source, seen in read_changes(text).items()
        if source == app
    )


async def _made_anew(scenario: Scenario, level: str) -> None:
    """Have one of three pods recreated, which reads what is there now."""
    victim = next(name for name in scenario.pods.read if name.startswith("web-"))
    await scenario.client.delete(PODS, scenario.namespace, victim, grace_period=0)

    async def mixed() -> bool:
        levels = [read["LEVEL"] for name, read in scenario.pods.read.items() if "web-" in name]
        return sorted(levels) == sorted([level, "info", "info"])

    await scenario.until(mixed, "the pod was recreated")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(Moment.BEFORE_THE_REVERT, marks=pytest.mark.slow),
        pytest.param(Moment.AFTER_THE_REVERT, marks=pytest.mark.slow),
        Moment.AFTER_THE_SETTLE_TIME,
    ],
)
async def test_next_controller_finds_pod_started_in_between(shop: Scenario, moment: Moment) -> None:
    """What was seen is kept with the records, so the suspect pod is replaced: once, for good."""
    await shop.set_up(replicas=3)
    async with shop.controller(f"--settle={moment.value}", "--settle-max=9s") as controller:
        await controller.ready()
        await shop.wait_until_pods_are_older()
        await shop.edit(LEVEL="debug")
        await _made_anew(shop, "debug")
        if moment is Moment.AFTER_THE_SETTLE_TIME:
            await shop.edit(LEVEL="info")
            await controller.wait_for_output("re-checking pods")

        async def kept() -> bool:
            return await _seen(shop) > 0

        await shop.until(kept, "the edit is kept")
        if moment is Moment.AFTER_THE_REVERT:
            await shop.edit(LEVEL="info")
        await controller.kill()
    if moment is Moment.BEFORE_THE_REVERT:
        await shop.edit(LEVEL="info")
    assert shop.rollouts.of("web") == []
    async with shop.controller() as controller:
        await controller.ready()
        await shop.wait_for_rollouts()
        await shop.wait_until_current()
        assert await controller.stop() == 0
    async with shop.controller() as controller:
        await controller.ready()
        await shop.check_invariants({"web": 1})


@pytest.mark.slow
async def test_revert_without_new_pod_rolls_nothing(shop: Scenario) -> None:
    """The same without a suspect: a restart finds the window again, and nothing is done."""
    await shop.set_up(replicas=3)
    async with shop.controller("--settle=4s", "--settle-max=5s") as controller:
        await controller.ready()
        await shop.wait_until_pods_are_older()
        await shop.edit(LEVEL="debug")

        async def kept() -> bool:
            return await _seen(shop) == 1

        await shop.until(kept, "the edit is kept")
        await controller.kill()
    await shop.edit(LEVEL="info")
    async with shop.controller() as controller:
        await controller.ready()
        await shop.check_invariants({"web": 0})


async def test_pods_started_between_unseen_edit_and_revert_are_replaced(shop: Scenario) -> None:
    """The source's version moved while no controller watched, so what started then is suspect."""
    await shop.set_up(replicas=3)
    async with shop.started_controller() as controller:
        await shop.until(shop.state_secrets, "the records are written")
        await controller.kill()
    await shop.wait_until_pods_are_older()
    await shop.edit(LEVEL="debug")
    await _made_anew(shop, "debug")
    await shop.edit(LEVEL="info")
    async with shop.controller() as controller:
        await controller.ready()
        await shop.wait_for_rollouts()
        await shop.wait_until_current()
        await shop.check_invariants({"web": 1})
