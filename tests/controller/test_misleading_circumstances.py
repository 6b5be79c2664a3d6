"""Circumstances that look like a change, or hide one: shared labels, slow pulls, missing Roles."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON, pods_checked, wait_for_state
from tests.controller.world import FOLLOW, REREADS, World, env, files, rfc3339


async def config_map_made(world: World, *, ago: float) -> None:
    """Create the ConfigMap some seconds ago, by the API server's clock."""
    world.registry.ahead = -ago
    try:
        await world.config_map(LEVEL="info")
    finally:
        world.registry.ahead = 0.0


async def restart_container(world: World, pod: str, *, at: str) -> None:
    """Report that a container runs since another time than its pod."""
    status = (await world.get("Pod", pod))["status"]
    container = {"name": "main", "ready": True, "state": {"running": {"startedAt": at}}}
    await world.merge_status("Pod", pod, {**status, "containerStatuses": [container]})


async def test_pods_of_another_workload_with_the_same_labels_are_not_nudged(world: World) -> None:
    """Each workload nudges what it controls."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations=REREADS)
    await world.pod("web-6d4f-1")
    await world.pod("canary-7c5b-1")
    for pod, owner in (("web-6d4f-1", "web-6d4f"), ("canary-7c5b-1", "canary-7c5b")):
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner}
        owners = [{**reference, "controller": True}]
        await world.merge("Pod", pod, {"metadata": {"ownerReferences": owners}})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        assert await world.until(lambda: world.target("web-6d4f-1"), "its own pod is nudged")
        await world.quiet(controller)
        assert await world.target("canary-7c5b-1") == ""


async def test_deletion_that_is_undone_within_the_settle_time_empties_no_files(
    world: World,
) -> None:
    """`kubectl replace --force` deletes and creates: pods are not told of the moment between.

    They are nudged once it is over, as a kubelet may have synced one in that moment.
    """
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(optional=True), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller(settle=2.0, settle_max=10.0) as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "app")
        await asyncio.sleep(0.5)  # the controller has seen that it is gone
        await world.config_map(LEVEL="info")
        await world.quiet(controller)
    (message,) = await world.messages("Refreshed")
    assert "refreshing mounted files" in message


@pytest.mark.parametrize("denied", [False, True])
async def test_missing_role_of_one_namespace_hides_no_window_of_another(
    world: World, denied: bool
) -> None:
    """A pod that started between an unseen edit and its revert is replaced all the same."""
    await world.namespace("closed")
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    if denied:
        world.registry.withheld.add("closed/configmaps")
    settings: dict[str, Any] = {"watch_namespaces": ("default", "closed")}
    async with world.controller(**settings) as controller:
        await world.quiet(controller, namespace="default")
    await world.edit(LEVEL="debug")
    await world.pod("web-2", started=time.time())
    await world.edit(LEVEL="info")
    async with world.controller(**settings):
        await world.rollout()


async def test_files_are_as_old_as_the_pod_and_not_as_its_container(world: World) -> None:
    """The volume was written before an image was pulled for a minute, and an edit was meanwhile."""
    await config_map_made(world, ago=60)
    await world.workload(spec=files())
    await world.pod("web-1", started=time.time() - 90)
    await restart_container(world, "web-1", at=rfc3339(time.time() - 30))
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")


async def test_environment_is_as_old_as_the_container(world: World) -> None:
    """The same pod, whose container reads its environment after the pull."""
    await config_map_made(world, ago=60)
    await world.workload(spec=env("LEVEL"))
    await world.pod("web-1", started=time.time() - 90)
    await restart_container(world, "web-1", at=rfc3339(time.time() - 30))
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")


async def test_change_that_was_only_reported_is_rolled_once_that_is_wanted(world: World) -> None:
    """The controller saw the change and left its pods behind; the cause is gone."""
    await config_map_made(world, ago=60)
    await world.workload(annotations={**FOLLOW, "hotmap.dev/strategy": "notify"})
    await world.pod("web-1", started=time.time() - 30)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await world.edit(LEVEL="debug")
        await wait_for_state(world, controller, "latent")
        assert await world.revision() == ""
        await world.annotate("web", strategy="rollout")
        await world.rolled_out()
        await world.rollout()


async def test_pods_are_not_reported_that_are_about_to_be_replaced(world: World) -> None:
    """No Latent Event between an edit and its own rollout three seconds later."""
    await config_map_made(world, ago=60)
    await world.workload()
    await world.pod("web-1", started=time.time() - 30)
    async with world.controller(settle=3.0, settle_max=10.0, pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await pods_checked(world, controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.event("RolledOut")
    assert await world.messages("Latent") == []
