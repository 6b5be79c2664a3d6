"""Another hotmap or a Reloader rolls the same consumer: who is left to it, and for how long."""

from __future__ import annotations

import pytest
from tests.controller.world import NAMESPACE, REREADS, Object, World, both

#: What each writes into a pod template, and under which field manager.
ANOTHER = ("hotmap", {"metadata": {"annotations": {"hotmap.dev/revision": "zzzz.theirs"}}})
RELOADER = ("Reloader", {"metadata": {"annotations": {"reloader.stakater.com/x": "1"}}})
RELOADER_2 = ("reloader", RELOADER[1])


async def _write(world: World, by: tuple[str, Object], *, ago: float) -> None:
    """Write into web's pod template as another field manager, some seconds ago."""
    manager, template = by
    world.registry.ahead = -ago
    try:
        await world.registry.patch(
            "deployments",
            NAMESPACE,
            "web",
            {"spec": {"template": template}},
            kind="merge",
            manager=manager,
        )
    finally:
        world.registry.ahead = 0.0
    await world.rolled_out()


@pytest.mark.parametrize("by", [ANOTHER, RELOADER, RELOADER_2])
async def test_change_is_left_to_running_reloader(world: World, by: tuple[str, Object]) -> None:
    """Within ten minutes after its write nothing is rolled, and the Warning says why."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await _write(world, by, ago=540)
        assert "also rolls it out" in await world.event("OtherController")
        before = await world.revision()
        await world.edit(LEVEL="debug")
        assert "also rolls it out" in await world.event("Held")
        assert await world.revision() == before


@pytest.mark.parametrize("by", [ANOTHER, RELOADER, RELOADER_2])
async def test_change_is_rolled_after_reloader_is_gone(
    world: World, by: tuple[str, Object]
) -> None:
    """Ten minutes after its last write the next change is ours."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await _write(world, by, ago=660)
        await world.quiet(controller)
        before = await world.revision()
        await world.edit(LEVEL="debug")
        await world.rollout(after=before)
        assert await world.messages("Held") == []


async def test_earlier_reloader_writes_do_not_count(world: World) -> None:
    """Moving over: what it wrote before the first sight is adopted, and holds nothing."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await _write(world, RELOADER, ago=30)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        assert await world.messages("OtherController") == []


async def test_files_are_nudged_beside_reloader(world: World) -> None:
    """A nudge disrupts no pods, so it does not wait."""
    await world.config_map(LEVEL="info", page="one")
    await world.workload(spec=both("LEVEL"), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await _write(world, ANOTHER, ago=60)
        await world.event("OtherController")
        await world.edit(page="two")
        await world.event("Refreshed")
        assert await world.target("web-1")
