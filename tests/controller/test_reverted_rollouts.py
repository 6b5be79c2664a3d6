"""A bad value whose rollout stalls and is reverted: pods from before it are not replaced."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.controller.pod_check_results import SOON, wait_for_state
from tests.controller.world import Object, World, files, rfc3339

from hotmap.controller.run import Controller


async def stall(world: World, *, updated: int = 1) -> None:
    """Play a Deployment controller that waits for the first new pods."""

    def report(obj: Object) -> Object:
        observed = {"observedGeneration": obj["metadata"]["generation"]}
        counts = {"replicas": 2 + updated, "updatedReplicas": updated}
        counts |= {"readyReplicas": 2, "availableReplicas": 2}
        return {**obj, "status": {**observed, **counts}}

    await world.registry.modify(
        "deployments", "default", "web", report, subresource="status", manager="kube"
    )


async def revert(world: World) -> None:
    """Write the content from before, and wait until the template has no revision."""

    async def has_none() -> bool:
        return not await world.revision()

    await world.edit(LEVEL="info")
    await world.until(has_none, "the template has no revision")


async def restart_container(world: World, pod: str) -> None:
    """Report that the container of a pod has started again just now."""

    def report(obj: Object) -> Object:
        (status,) = obj["status"]["containerStatuses"]
        running = {"running": {"startedAt": rfc3339(time.time())}}
        again = {**status, "restartCount": 1, "state": running}
        return {**obj, "status": {**obj["status"], "containerStatuses": [again]}}

    await world.registry.modify(
        "pods", "default", pod, report, subresource="status", manager="kubelet"
    )


async def template(world: World) -> Object:
    found: Object = (await world.get("Deployment", "web"))["spec"]["template"]
    return found


async def adopt(world: World, controller: Controller) -> None:
    """Create a workload with two pods that are known to be current."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=2)
    for name in ("web-1", "web-2"):
        await world.pod(name, started=time.time() + 5)
    await wait_for_state(world, controller, "current")


async def roll_out_bad_value(world: World) -> str:
    """Edit the source, and wait for a rollout that stalls; returns its revision."""
    await asyncio.sleep(30)
    await world.edit(LEVEL="bad")
    revision = await world.rollout()
    await world.pod("web-3", annotations={"hotmap.dev/revision": revision}, started=time.time() + 1)
    await stall(world)
    await asyncio.sleep(30)
    return revision


async def crash_after_the_revert(world: World) -> None:
    """Leave a template without a revision, and the records of the bad value."""
    async with world.controller(pod_checks=SOON) as controller:
        await adopt(world, controller)
        await roll_out_bad_value(world)
    records = await world.records()
    async with world.controller(pod_checks=SOON):
        await revert(world)
    await world.put_records_back(records)


async def end_rollout(world: World) -> None:
    await world.registry.delete("pods", "default", "web-3", grace_period=0)
    await world.rolled_out()


async def test_first_rollout_that_is_reverted_brings_the_first_template_back(world: World) -> None:
    """It had no revision; without it, the Deployment keeps the pods from before."""
    async with world.controller(pod_checks=SOON) as controller:
        await adopt(world, controller)
        before = await template(world)
        await roll_out_bad_value(world)
        await revert(world)
        assert await template(world) == before
        await end_rollout(world)
        document = await wait_for_state(world, controller, "current")
        assert document["reason"] == "content is up to date"
        await asyncio.sleep(60)
        assert await template(world) == before


async def test_pod_that_started_before_the_revert_is_replaced(world: World) -> None:
    """A pod of the first template that replaced another one meanwhile has read the bad value."""
    async with world.controller(pod_checks=SOON) as controller:
        await adopt(world, controller)
        await roll_out_bad_value(world)
        await world.registry.delete("pods", "default", "web-2", grace_period=0)
        await world.pod("web-4", started=time.time())
        await asyncio.sleep(10)
        await revert(world)
        await end_rollout(world)
        assert (await world.rollout(after="")).endswith(".1")


async def test_rollout_that_has_ended_is_reverted_with_a_revision(world: World) -> None:
    """No pod from before is left, and the revision proves what the new ones have."""
    async with world.controller(pod_checks=SOON) as controller:
        await adopt(world, controller)
        revision = await roll_out_bad_value(world)
        await world.rolled_out()
        await asyncio.sleep(1)
        await world.edit(LEVEL="info")
        assert await world.rollout(after=revision)


@pytest.mark.parametrize("started", [-10, -3600])
async def test_pods_that_may_have_older_content_are_replaced(world: World, started: float) -> None:
    """They were adopted, and started before the last change."""
    async with world.controller(pod_checks=SOON) as controller:
        await world.config_map(LEVEL="info")
        await world.workload(replicas=2)
        await world.pod("web-1", started=time.time() + started)
        await wait_for_state(world, controller, "latent")
        revision = await roll_out_bad_value(world)
        await world.edit(LEVEL="info")
        assert await world.rollout(after=revision)


async def test_next_leader_brings_the_first_template_back(world: World) -> None:
    """The record keeps which content had no revision."""
    async with world.controller(pod_checks=SOON) as controller:
        await adopt(world, controller)
        before = await template(world)
        await roll_out_bad_value(world)
    async with world.controller(pod_checks=SOON) as controller:
        await revert(world)
        assert await template(world) == before
    async with world.controller(pod_checks=SOON) as controller:
        await end_rollout(world)
        await wait_for_state(world, controller, "current")


async def test_same_bad_value_again_is_rolled_out_again(world: World) -> None:
    """Also after its revert has taken the revision away."""
    async with world.controller(pod_checks=SOON) as controller:
        await adopt(world, controller)
        for _ in range(2):
            before = await template(world)
            await roll_out_bad_value(world)
            await revert(world)
            await end_rollout(world)
            await wait_for_state(world, controller, "current")
            assert await template(world) == before


async def test_crash_after_the_return_is_decided_again(world: World) -> None:
    """The template has no revision by then, so the return gets one."""
    await crash_after_the_revert(world)
    async with world.controller(pod_checks=SOON):
        await end_rollout(world)
        assert await world.rollout()
        assert not await world.messages("RolloutFailed")


async def test_crash_after_the_return_hides_no_further_edit(world: World) -> None:
    """The bad value is back, as recorded, and the pods are still those from before it."""
    await crash_after_the_revert(world)
    await end_rollout(world)
    await world.edit(LEVEL="bad")
    async with world.controller(pod_checks=SOON):
        assert await world.rollout()


async def test_kept_pod_that_may_have_restarted_with_reverted_files_is_replaced(
    world: World,
) -> None:
    """Its kubelet may not have restored the files when the container started again."""
    async with world.controller(pod_checks=SOON) as controller:
        await world.config_map(LEVEL="first")
        await world.workload(spec=files(), replicas=2)
        await world.pod("web-1", started=time.time() + 5)
        await wait_for_state(world, controller, "current")
        await asyncio.sleep(30)
        await world.edit(LEVEL="info")
        revision = await world.rollout()
        await world.registry.delete("pods", "default", "web-1", grace_period=0)
        mark = {"hotmap.dev/revision": revision}
        await world.pod("web-2", annotations=mark, started=time.time() + 5)
        await world.rolled_out()
        await wait_for_state(world, controller, "current")
        await roll_out_bad_value(world)
        bad = await world.revision()
        await world.edit(LEVEL="info")
        assert await world.rollout(after=bad) == revision
        await asyncio.sleep(5)
        await restart_container(world, "web-2")
        await end_rollout(world)
        assert await world.rollout(after=revision) == f"{revision}.1"
