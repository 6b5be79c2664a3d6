"""Nudges that a controller or leader before has left out, or of which it knew no answer."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from tests.controller.pages import get_json
from tests.controller.sent_nudges import hurried, nudged, rereading_workload
from tests.controller.world import REREADS, World, files

from hotmap.controller.reconcile import nudges as nudging
from hotmap.controller.settings import PodCheckSettings
from hotmap.core.decide import nudge_choice
from hotmap.core.errors import api_error


@pytest.mark.parametrize("optional", [False, True])
async def test_revert_of_a_nudged_edit_is_told_by_the_next_controller(
    world: World, optional: bool
) -> None:
    """The edit was not recorded, and its revert came while no controller was running."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(optional=optional), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller(settle=30, settle_max=30) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        told = await nudged(world, "web-1")
    await world.edit(LEVEL="info")
    async with world.controller() as controller:
        assert (await nudged(world, "web-1", after=told)).split("/")[1] != told.split("/")[1]
        await world.quiet(controller)
        assert await world.messages("Refreshed")


async def test_recreation_while_no_controller_runs_is_reported(world: World) -> None:
    """With the same content again: a kubelet may have shown another one to pods in between."""
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="info")
    async with world.controller() as controller:
        first = await nudged(world, "web-1")
        second = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
    async with world.controller() as controller:
        await world.quiet(controller)
    assert await world.target("web-1") == second, "it was recorded, so the next one is content"


async def test_second_nudge_that_a_leader_before_did_not_send_is_sent(world: World) -> None:
    """It led only until the first; without another, a late kubelet would keep the old files."""
    await rereading_workload(world, "web-1")
    async with world.controller(settle=30, settle_max=30) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
    async with world.controller() as controller:
        second = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
    assert (first[:2], second[:2]) == ("1/", "2/")
    assert await world.target("web-1") == second


async def test_second_nudge_of_a_recorded_change_is_sent_by_the_next_leader(
    world: World, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to decide; that pods may have old files shows when it checks them."""
    monkeypatch.setattr(nudging, "SECOND_NUDGE", 60.0)
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        await world.event("Refreshed")
    checks = PodCheckSettings(rate=100.0, initial_delay=3.0)
    async with world.controller(pod_checks=checks) as controller:
        second = await nudged(world, "web-1", after=first)
        status, body = await get_json(http, controller, "/v1/status?workload=default/web")
        await world.quiet(controller)
    assert status == 200
    assert body["workloads"][0]["state"] in ("unverified", "waiting")
    assert (first[:2], second[:2]) == ("1/", "2/")
    assert await world.target("web-1") == second


@hurried
async def test_nudge_of_which_the_answer_was_lost_is_sent_again(world: World) -> None:
    """It was carried out, so the retry finds the pod told; a second nudge follows all the same."""
    await rereading_workload(world)
    pod = await world.pod("web-1")
    lost: list[str] = []

    async def lose(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods" and not lost:
            lost.append(name)
            target = patch["metadata"]["annotations"]["hotmap.dev/target"]
            annotations = {"metadata": {"annotations": {"hotmap.dev/target": target}}}
            await world.merge("Pod", pod["metadata"]["name"], annotations)
            raise api_error(503, "the answer is lost", retry_after=0.01)

    world.registry.guards.append(lose)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        second = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
    assert lost
    assert (first[:2], second[:2]) == ("1/", "2/")


async def test_content_that_came_back_while_no_controller_ran_is_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods were told of it before, and a kubelet may have shown what was there in between."""
    monkeypatch.setattr(nudge_choice, "_RECENT", 0.0)
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await nudged(world, "web-1")
        second = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
    await asyncio.sleep(2)  # times of nudges are whole seconds
    await world.edit(LEVEL="info")
    await world.edit(LEVEL="debug")
    async with world.controller() as controller:
        third = await nudged(world, "web-1", after=second)
        await world.quiet(controller)
    assert second.split("/")[1:] == third.split("/")[1:]
