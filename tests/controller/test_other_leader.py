"""Two controllers of one cluster: who leads, and who is warned."""

from __future__ import annotations

import asyncio

import pytest
from tests.controller.world import World

from hotmap.kube.leaderelection import LeaseTiming

LEASE = "hotmap-controller"


async def test_second_controller_says_who_is_the_leader(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It stands by and rolls nothing out."""
    caplog.set_level("INFO")
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller(identity="first"), world.controller(identity="second"):
        await asyncio.sleep(2)
        await world.edit(LEVEL="debug")
        await world.rollout()
    assert "standby; first is the leader" in caplog.text


async def test_times_of_the_lease_can_be_set(world: World) -> None:
    """The standby waits for the duration that the Lease has."""
    timing = LeaseTiming(duration=45, renew_deadline=30.0, retry=5.0)
    async with world.controller(identity="first", lease=timing):
        lease = await world.registry.get("leases", "hotmap", LEASE)
        assert lease["spec"]["leaseDurationSeconds"] == 45
        await asyncio.sleep(8)
        renewed = await world.registry.get("leases", "hotmap", LEASE)
        assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]


async def test_controller_without_election_warns_of_the_leader(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for each leader; one that is gone is none."""
    async with world.controller(identity="first"):
        async with world.controller(warns_of_leader=True) as second:
            await asyncio.sleep(150)
            await world.quiet(second)
        assert caplog.text.count("first is the leader (Lease hotmap/hotmap-controller)") == 1
        assert "leave out --no-leader-elect here" in caplog.text
    caplog.clear()
    async with world.controller(warns_of_leader=True):
        await asyncio.sleep(1)
    assert "is the leader" not in caplog.text


async def test_leader_that_does_not_renew_is_none(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its Lease stays when it is killed."""
    await world.namespace("hotmap")
    spec = {
        "holderIdentity": "dead",
        "leaseDurationSeconds": 15,
        "renewTime": "2020-01-01T00:00:00.000000Z",
    }
    body = {"metadata": {"name": LEASE}, "spec": spec}
    await world.registry.create("leases", "hotmap", body, manager="t")
    async with world.controller(warns_of_leader=True):
        await asyncio.sleep(1)
    assert "is the leader" not in caplog.text
