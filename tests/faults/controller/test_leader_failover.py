"""Several replicas, of which one acts: whatever becomes of the leader, all is done, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.cluster.proxy import FaultProxy
from tests.faults.controller.conftest import Through
from tests.support.control_plane import ControlPlane
from tests.support.controller_process import ControllerProcess
from tests.support.scenario import CANARY, Scenario

from hotmap.core.errors import api_error

#: Consumers of one source, and how many of them are rolled when the leader dies.
CROWD, ROLLED = 40, 20


async def _roles(*both: ControllerProcess) -> tuple[ControllerProcess, ControllerProcess]:
    """Wait for two replicas; returns the leader, then the standby."""
    for item in both:
        await item.ready()
    first, second = both
    return (first, second) if await first.leads() else (second, first)


async def test_standby_finishes_fan_out_after_kill(
    plane: ControlPlane, podless_scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    """The standby finishes it, every consumer once, and rolls out what changed in between."""
    await podless_scenario.set_up()
    await podless_scenario.config_map("late", LEVEL="info")
    await podless_scenario.deployment("late", source="late")
    names = [f"web-{number:03}" for number in range(CROWD)]
    await podless_scenario.deployments(names)

    dead, asked = asyncio.Event(), set()

    async def hold_back(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        """Let no more than so many consumers be rolled before the leader is dead."""
        if plural == "deployments" and name in names and "spec" in patch and not dead.is_set():
            asked.add(name)
            if len(asked) > ROLLED:
                await dead.wait()
                raise api_error(500, "the response is lost")

    def rolled() -> list[str]:
        return [name for name in names if podless_scenario.rollouts.of(name)]

    async def half_done() -> bool:
        return len(rolled()) == ROLLED and len(asked) > ROLLED

    async def all_done() -> bool:
        return len(rolled()) == CROWD

    flags = ("--leader-elect", "--workers=2")
    async with (
        podless_scenario.controller(*flags) as first,
        podless_scenario.controller(*flags) as second,
    ):
        leader, standby = await _roles(first, second)
        await podless_scenario.wait_until_handled()
        plane.registry.guards.append(hold_back)
        await podless_scenario.edit(LEVEL="debug")
        await podless_scenario.until(half_done, "the fan-out is in its middle")
        await leader.kill()
        killed = time.monotonic()
        dead.set()
        await podless_scenario.edit("late", LEVEL="debug")
        await podless_scenario.until(standby.leads, "the standby leads")
        record_property("kill → standby leads", f"{time.monotonic() - killed:.1f} s")
        await podless_scenario.until(all_done, "every consumer is rolled")
        await podless_scenario.wait_for_rollouts("late")
        await podless_scenario.check_invariants({"web": 1, "late": 1, **dict.fromkeys(names, 1)})


async def test_leader_hands_over_on_sigterm(podless_scenario: Scenario) -> None:
    """It gives its Lease away, and the standby acts at once on what was edited meanwhile."""
    await podless_scenario.set_up()
    flags = ("--leader-elect",)
    async with (
        podless_scenario.controller(*flags) as first,
        podless_scenario.controller(*flags) as second,
    ):
        leader, standby = await _roles(first, second)
        await podless_scenario.wait_until_handled()
        ending = asyncio.create_task(leader.stop())
        await podless_scenario.edit(LEVEL="debug")
        assert await ending == 0
        await podless_scenario.until(standby.leads, "the standby leads")
        # It is said of a Lease that was given away, and not of one that ran out.
        assert "there is no leader" in standby.log()
        await podless_scenario.check_invariants({"web": 1})


@pytest.mark.slow
async def test_standby_with_stale_stores_lists_again(
    plane: ControlPlane, through: Through, podless_scenario: Scenario
) -> None:
    """Its watches died unnoticed before two edits; it lists again, and nothing goes backwards."""
    await podless_scenario.set_up()
    with FaultProxy(plane.port) as wire:
        async with podless_scenario.controller("--leader-elect") as leader:
            await leader.ready()
            behind = podless_scenario.controller("--leader-elect", kubeconfig=through(wire.port))
            async with behind as standby:
                await standby.ready()
                await podless_scenario.wait_until_handled()
                wire.half_open()
                await podless_scenario.edit(LEVEL="debug")
                await podless_scenario.wait_for_rollouts()
                await podless_scenario.edit(LEVEL="trace")
                await podless_scenario.wait_for_rollouts(times=2)
                assert await leader.stop() == 0
                await podless_scenario.until(standby.leads, "the standby leads", within=120)
                await podless_scenario.check_invariants({"web": 2})


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((), id="revision"),
        pytest.param(("--reload-strategy=env-vars",), id="env-vars", marks=pytest.mark.slow),
    ],
)
async def test_two_active_controllers_roll_once(
    podless_scenario: Scenario, flags: tuple[str, ...]
) -> None:
    """Without an election both write the same: what one wrote is a conflict to the other.

    Not promised for the strategy `annotations`, whose value carries a time.
    """
    await podless_scenario.set_up()
    names = [f"web-{number}" for number in range(20)]
    await podless_scenario.deployments(names)
    async with (
        podless_scenario.controller(*flags) as first,
        podless_scenario.controller(*flags) as other,
    ):
        await first.ready()
        await other.ready()

        async def idle() -> bool:
            return all([await process.is_idle() for process in (first, other)])

        # What is edited before its users were tracked at the first start is not rolled out.
        await podless_scenario.until(idle, "both track all")
        for times, level in enumerate(("debug", "trace", "warn"), start=1):
            await podless_scenario.edit(LEVEL=level)
            await _written(podless_scenario, names, times=times)
        await podless_scenario.edit_secret("second")
        await _written(podless_scenario, [*names, "web"], times=4)
        await podless_scenario.edit(CANARY, LEVEL="last")
        await _written(podless_scenario, [CANARY], times=2)
        await podless_scenario.until(idle, "both have nothing left to do", within=120)
        assert (await first.stop(), await other.stop()) == (0, 0)
    await _written(podless_scenario, [*names, "web"], times=4)
    await _written(podless_scenario, [CANARY], times=2)


async def _written(scenario: Scenario, names: list[str], *, times: int) -> None:
    """Wait until each template was written so often; fail if one is written more often."""

    async def done() -> bool:
        found = [(await scenario.get("Deployment", name))["metadata"] for name in names]
        written = {item["name"]: item["generation"] - 1 for item in found}
        assert max(written.values()) <= times, written
        return bool(min(written.values()) == times)

    await scenario.until(done, f"all are written {times} times")
