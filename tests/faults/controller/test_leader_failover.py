"""Several replicas, of which one acts: whatever becomes of the leader, all is done, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.cluster.proxy import FaultProxy
from tests.faults.controller.conftest import Through
from tests.support.control_plane import ControlPlane
from tests.support.controller_process import ControllerProcess
from tests.support.story import CANARY, Story

#: Consumers of one source; with two workers their rollouts take long enough to be interrupted.
CROWD = 200


async def _roles(*both: ControllerProcess) -> tuple[ControllerProcess, ControllerProcess]:
    """Wait for two replicas; returns the leader, then the standby."""
    for one in both:
        await one.ready()
    first, second = both
    return (first, second) if await first.leads() else (second, first)


async def test_standby_finishes_fan_out_after_kill(
    crowd: Story, record_property: Callable[[str, object], None]
) -> None:
    """The standby finishes it, every consumer once, and does what nobody was there to see."""
    await crowd.set_up()
    await crowd.config_map("late", LEVEL="info")
    await crowd.deployment("late", source="late")
    names = [f"web-{number:03}" for number in range(CROWD)]
    await crowd.deployments(names)

    async def rolled() -> list[str]:
        return [name for name in names if crowd.rollouts.of(name)]

    async def half_done() -> bool:
        return len(await rolled()) >= 20

    async def all_done() -> bool:
        return len(await rolled()) == CROWD

    flags = ("--leader-elect", "--workers=2")
    async with crowd.controller(*flags) as first, crowd.controller(*flags) as second:
        leader, standby = await _roles(first, second)
        await crowd.arrived()
        await crowd.edit(LEVEL="debug")
        await crowd.until(half_done, "the fan-out is in its middle")
        await leader.kill()
        killed = time.monotonic()
        assert len(await rolled()) < CROWD, "the fan-out was over before the leader was killed"
        await crowd.edit("late", LEVEL="debug")
        await crowd.until(standby.leads, "the standby leads")
        record_property("kill → standby leads", f"{time.monotonic() - killed:.1f} s")
        await crowd.until(all_done, "every consumer is rolled")
        await crowd.rolled("late")
        await crowd.ends_well({"web": 1, "late": 1, **dict.fromkeys(names, 1)})


async def test_leader_hands_over_on_sigterm(crowd: Story) -> None:
    """It gives its Lease away, and the standby acts at once on what was edited meanwhile."""
    await crowd.set_up()
    flags = ("--leader-elect",)
    async with crowd.controller(*flags) as first, crowd.controller(*flags) as second:
        leader, standby = await _roles(first, second)
        await crowd.arrived()
        ending = asyncio.create_task(leader.stop())
        await crowd.edit(LEVEL="debug")
        assert await ending == 0
        await crowd.until(standby.leads, "the standby leads")
        # It is said of a Lease that was given away, and not of one that ran out.
        assert "there is no leader" in standby.log()
        await crowd.ends_well({"web": 1})


async def test_standby_with_stale_stores_lists_again(
    plane: ControlPlane, through: Through, crowd: Story
) -> None:
    """Its watches died unnoticed before two edits; it lists anew, and nothing goes backwards."""
    await crowd.set_up()
    with FaultProxy(plane.port) as wire:
        async with crowd.controller("--leader-elect") as leader:
            await leader.ready()
            behind = crowd.controller("--leader-elect", kubeconfig=through(wire.port))
            async with behind as standby:
                await standby.ready()
                await crowd.arrived()
                wire.half_open()
                await crowd.edit(LEVEL="debug")
                await crowd.rolled()
                await crowd.edit(LEVEL="trace")
                await crowd.rolled(times=2)
                assert await leader.stop() == 0
                await crowd.until(standby.leads, "the standby leads", within=120)
                await crowd.ends_well({"web": 2})


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="revision"),
        pytest.param(("--reload-strategy=env-vars",), id="env-vars"),
    ],
)
async def test_two_active_controllers_roll_once(crowd: Story, flags: tuple[str, ...]) -> None:
    """Without an election both write the same: what one wrote is a conflict to the other.

    Not promised for the strategy `annotations`, whose value carries a time.
    """
    await crowd.set_up()
    names = [f"web-{number}" for number in range(20)]
    await crowd.deployments(names)
    async with crowd.controller(*flags) as one, crowd.controller(*flags) as other:
        await one.ready()
        await other.ready()
        for times, level in enumerate(("debug", "trace", "info"), start=1):
            await crowd.edit(LEVEL=level)
            await _written(crowd, names, times=times)
        await crowd.edit_secret("second")
        await _written(crowd, [*names, "web"], times=4)
        await crowd.edit(CANARY, LEVEL="last")
        await _written(crowd, [CANARY], times=2)

        async def idle() -> bool:
            return all([await process.is_idle() for process in (one, other)])

        await crowd.until(idle, "both have nothing left to do", within=120)
        assert (await one.stop(), await other.stop()) == (0, 0)
    await _written(crowd, [*names, "web"], times=4)
    await _written(crowd, [CANARY], times=2)


async def _written(story: Story, names: list[str], *, times: int) -> None:
    """Wait until each template was written so often; whoever is written more often fails."""

    async def done() -> bool:
        found = [(await story.get("Deployment", name))["metadata"] for name in names]
        written = {one["name"]: one["generation"] - 1 for one in found}
        assert max(written.values()) <= times, written
        return bool(min(written.values()) == times)

    await story.until(done, f"all are written {times} times")
