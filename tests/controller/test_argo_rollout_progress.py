"""What Argo reports of a Rollout, as the status of its workload shows it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.controller.argo_rollouts import ROLLOUTS
from tests.controller.pod_check_results import SOON, wait_for_state
from tests.controller.world import FOLLOW, World
from tests.support.provider_classes import Driver

RESOURCE = "rollouts.argoproj.io"


@pytest.fixture
async def borrowed(world: World, driver: Driver) -> World:
    """A Deployment without pods whose template an Argo Rollout uses."""
    await world.registry.create("customresourcedefinitions", None, ROLLOUTS, manager="t")
    await driver.until(RESOURCE, served=True)
    await world.config_map(LEVEL="info")
    await world.workload(replicas=0)
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"replicas": 1, "workloadRef": ref, "selector": {"matchLabels": {"app": "web"}}}
    body = {"metadata": {"name": "web", "annotations": FOLLOW}, "spec": spec}
    await world.registry.create(RESOURCE, "default", body, manager="kubectl")
    return world


async def report(world: World, **fields: Any) -> None:
    """Report as Argo does that the one pod has the template that was promoted, or other fields."""
    deployment = await world.get("Deployment", "web")
    status = {
        "phase": "Healthy",
        "currentPodHash": "b",
        "stableRS": "b",
        "workloadObservedGeneration": str(deployment["metadata"]["generation"]),
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        **fields,
    }

    def change(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "status": {"observedGeneration": "1", **status}}

    await world.registry.modify(
        RESOURCE, "default", "web", change, subresource="status", manager="rollouts-controller"
    )


async def test_deployment_is_current_once_the_rollout_of_its_template_is(borrowed: World) -> None:
    """Only the Rollout's status changes, which is about the Deployment."""
    world = borrowed
    await world.pod("web-6bf-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON._replace(stalled_after=600)) as controller:
        await wait_for_state(world, controller, "waiting", reason="rollout in progress")
        await report(world)
        await wait_for_state(world, controller, "current")
        await report(world, availableReplicas=0)
        status = (await world.get("Pod", "web-6bf-1"))["status"]
        lost = {"conditions": [{"type": "Ready", "status": "False"}]}
        await world.merge_status("Pod", "web-6bf-1", {**status, **lost})
        await wait_for_state(world, controller, "waiting")


async def test_reason_follows_the_phase(borrowed: World) -> None:
    """Also where a check of its pods, made for a query, has found the one before."""
    world = borrowed
    await report(world)
    await world.pod("web-6bf-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON._replace(stalled_after=0)) as controller:
        await wait_for_state(world, controller, "current")
        await world.edit(LEVEL="debug")
        await world.rollout()
        begun: dict[str, Any] = {"currentPodHash": "c", "updatedReplicas": 0}
        await report(world, **begun, phase="Paused", message="CanaryPauseStep")
        await wait_for_state(
            world, controller, "paused", reason="rollout is paused (CanaryPauseStep)"
        )
        aborted = "RolloutAborted: Rollout aborted update to revision 2"
        await report(world, **begun, abort=True, phase="Degraded", message=aborted)
        await wait_for_state(world, controller, "waiting", reason=aborted)
