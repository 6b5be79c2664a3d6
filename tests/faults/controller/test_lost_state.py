"""The controller's Secrets are deleted or corrupted: its state is gone, and nothing is rolled."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable

import pytest
from tests.support.scenario import CANARY, Object, Scenario

from hotmap.core.model.state import HEADER
from hotmap.kube.resources import SECRETS

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

Loss = Callable[[Scenario, Object], Awaitable[None]]


async def _delete(scenario: Scenario, secret: Object) -> None:
    await scenario.client.delete(SECRETS, scenario.own, secret["metadata"]["name"])


async def _write(scenario: Scenario, secret: Object, text: str) -> None:
    data = {"state": b64encode(text.encode()).decode()}
    await scenario.client.patch(
        SECRETS, scenario.own, secret["metadata"]["name"], {"data": data}, type=Object
    )


async def _cut(scenario: Scenario, secret: Object) -> None:
    await _write(scenario, secret, f'{HEADER}\n["0f')


async def _modernize(scenario: Scenario, secret: Object) -> None:
    await _write(scenario, secret, 'hotmap-state/9\n{"uid":"0f"}\n')


LOSSES = [
    pytest.param(_delete, id="deleted"),
    pytest.param(_cut, id="corrupted", marks=pytest.mark.slow),
    pytest.param(_modernize, id="of another version", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("lose", LOSSES)
async def test_records_lost_during_downtime_roll_nothing(
    podless_scenario: Scenario, lose: Loss
) -> None:
    """Its start causes no rollout, and the next edit causes one as before."""
    await podless_scenario.set_up()
    async with podless_scenario.controller() as controller:
        await controller.ready()
        await podless_scenario.edit(LEVEL="debug")
        await podless_scenario.wait_for_rollouts()
        await podless_scenario.wait_until_handled()
        assert await controller.stop() == 0
    await _lose_all(podless_scenario, lose)
    async with podless_scenario.started_controller():
        assert len(podless_scenario.rollouts.of("web")) == 1
        await podless_scenario.edit(LEVEL="trace")
        await podless_scenario.wait_for_rollouts(times=2)
        await podless_scenario.check_invariants({"web": 2})


@pytest.mark.parametrize("lose", LOSSES)
async def test_records_lost_at_run_time_roll_nothing(
    podless_scenario: Scenario, lose: Loss
) -> None:
    """What it knows is in memory; its next writes make the Secrets whole again."""
    await podless_scenario.set_up()
    async with podless_scenario.controller() as controller:
        await controller.ready()
        await podless_scenario.edit(LEVEL="debug")
        await podless_scenario.wait_for_rollouts()
        await podless_scenario.until(podless_scenario.state_secrets, "records are written")
        await _lose_all(podless_scenario, lose)
        await podless_scenario.edit(LEVEL="trace")
        await podless_scenario.wait_for_rollouts(times=2)
        await podless_scenario.check_invariants({"web": 2})


async def test_deleted_key_rolls_nothing(podless_scenario: Scenario) -> None:
    """Nothing happens: not while it runs, and not when a restart makes another one."""
    await podless_scenario.set_up()
    async with podless_scenario.controller() as controller:
        await controller.ready()
        await podless_scenario.edit(LEVEL="debug")
        await podless_scenario.wait_for_rollouts()
        await podless_scenario.client.delete(SECRETS, podless_scenario.own, "hotmap-key")
        await podless_scenario.edit(LEVEL="trace")
        await podless_scenario.wait_for_rollouts(times=2)
        await podless_scenario.wait_until_handled()
        assert await controller.stop() == 0
    async with podless_scenario.started_controller():
        assert len(podless_scenario.rollouts.of("web")) == 2
        await podless_scenario.edit(LEVEL="info")
        await podless_scenario.wait_for_rollouts(times=3)
        await podless_scenario.check_invariants({"web": 3})


async def test_edits_after_kill_are_rolled(shop: Scenario) -> None:
    """The content that was just applied is not applied again; later changes are."""
    await shop.set_up()
    await shop.config_map("calm", LEVEL="info")
    await shop.deployment("calm", source="calm")
    async with shop.started_controller() as controller:
        await shop.until(shop.state_secrets, "records are written")
        await shop.edit("calm", LEVEL="debug")
        await shop.wait_for_rollouts("calm")
        await controller.kill()  # within the second that records may be late
    await shop.edit(LEVEL="debug")
    await shop.edit_secret("second")
    async with shop.controller() as controller:
        await controller.ready()
        for name, times in (("web", 1), ("calm", 2), (CANARY, 2)):
            await shop.wait_for_rollouts(name, times)
        await shop.wait_until_current()
        await shop.check_invariants({"web": 1, "calm": 2})


async def _lose_all(scenario: Scenario, lose: Loss) -> None:
    found = await scenario.state_secrets()
    assert found
    for secret in found:
        await lose(scenario, secret)
