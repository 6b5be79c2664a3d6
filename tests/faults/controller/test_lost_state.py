"""The controller's Secrets are deleted or spoilt: what was known is gone, and nobody is rolled."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable

import pytest
from tests.support.story import CANARY, Object, Story

from hotmap.core.model.state import HEADER
from hotmap.kube.resources import SECRETS

Loss = Callable[[Story, Object], Awaitable[None]]


async def _delete(story: Story, secret: Object) -> None:
    await story.client.delete(SECRETS, story.own, secret["metadata"]["name"])


async def _write(story: Story, secret: Object, text: str) -> None:
    data = {"state": b64encode(text.encode()).decode()}
    await story.client.patch(
        SECRETS, story.own, secret["metadata"]["name"], {"data": data}, type=Object
    )


async def _cut(story: Story, secret: Object) -> None:
    await _write(story, secret, f'{HEADER}\n["0f')


async def _modernize(story: Story, secret: Object) -> None:
    await _write(story, secret, 'hotmap-state/9\n{"uid":"0f"}\n')


LOSSES = [
    pytest.param(_delete, id="deleted"),
    pytest.param(_cut, id="corrupted"),
    pytest.param(_modernize, id="of another version"),
]


@pytest.mark.parametrize("lose", LOSSES)
async def test_records_lost_during_downtime_roll_nothing(crowd: Story, lose: Loss) -> None:
    """Its start rolls nobody, and the next edit is one rollout as ever."""
    await crowd.set_up()
    async with crowd.controller() as controller:
        await controller.ready()
        await crowd.edit(LEVEL="debug")
        await crowd.rolled()
        await crowd.arrived()
        assert await controller.stop() == 0
    await _lose_all(crowd, lose)
    async with crowd.controller() as controller:
        await controller.ready()
        await crowd.arrived()
        assert len(crowd.rollouts.of("web")) == 1
        await crowd.edit(LEVEL="trace")
        await crowd.rolled(times=2)
        await crowd.ends_well({"web": 2})


@pytest.mark.parametrize("lose", LOSSES)
async def test_records_lost_at_run_time_roll_nothing(crowd: Story, lose: Loss) -> None:
    """What it knows is in memory; its next writes make the Secrets whole again."""
    await crowd.set_up()
    async with crowd.controller() as controller:
        await controller.ready()
        await crowd.edit(LEVEL="debug")
        await crowd.rolled()
        await crowd.until(crowd.state_secrets, "records are written")
        await _lose_all(crowd, lose)
        await crowd.edit(LEVEL="trace")
        await crowd.rolled(times=2)
        await crowd.ends_well({"web": 2})


async def test_deleted_key_rolls_nothing(crowd: Story) -> None:
    """Nothing happens: not while it runs, and not when a restart makes another one."""
    await crowd.set_up()
    async with crowd.controller() as controller:
        await controller.ready()
        await crowd.edit(LEVEL="debug")
        await crowd.rolled()
        await crowd.client.delete(SECRETS, crowd.own, "hotmap-key")
        await crowd.edit(LEVEL="trace")
        await crowd.rolled(times=2)
        await crowd.arrived()
        assert await controller.stop() == 0
    async with crowd.controller() as controller:
        await controller.ready()
        await crowd.arrived()
        assert len(crowd.rollouts.of("web")) == 2
        await crowd.edit(LEVEL="info")
        await crowd.rolled(times=3)
        await crowd.ends_well({"web": 3})


async def test_edits_after_kill_are_rolled(shop: Story) -> None:
    """What it had just asked for is not asked for again; what changed meanwhile is."""
    await shop.set_up()
    await shop.config_map("calm", LEVEL="info")
    await shop.deployment("calm", source="calm")
    async with shop.controller() as controller:
        await controller.ready()
        await shop.arrived()
        await shop.edit("calm", LEVEL="debug")
        await shop.rolled("calm")
        await controller.kill()  # within the second that records may be late
    await shop.edit(LEVEL="debug")
    await shop.edit_secret("second")
    async with shop.controller() as controller:
        await controller.ready()
        for name, times in (("web", 1), ("calm", 2), (CANARY, 2)):
            await shop.rolled(name, times)
        await shop.runs_with_the_present_content()
        await shop.ends_well({"web": 1, "calm": 2})


async def _lose_all(story: Story, lose: Loss) -> None:
    found = await story.state_secrets()
    assert found
    for secret in found:
        await lose(story, secret)
