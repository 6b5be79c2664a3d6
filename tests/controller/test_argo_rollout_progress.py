"""What Argo reports of a Rollout, as the status of its workload shows it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.controller.argo_rollouts import ROLLOUTS
from tests.controller.pod_check_results import SOON, wait_for_state
from tests.controller.world import FOLLOW, World, env, rfc3339
from tests.support.provider_classes import Driver

RESOURCE = "rollouts.argoproj.io"

#: Reports on the second generation, whose template is `c`.
PROMOTED = {"observedGeneration": "2", "currentPodHash": "c", "stableRS": "c"}
PAUSED = {**PROMOTED, "stableRS": "b", "phase": "Paused", "message": "CanaryPauseStep"}


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
    status = {
        "observedGeneration": "1",
        "phase": "Healthy",
        "currentPodHash": "b",
        "stableRS": "b",
        "workloadObservedGeneration": "1",
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        **fields,
    }

    def change(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "status": status}

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
        begun["workloadObservedGeneration"] = "2"
        await report(world, **begun, phase="Paused", message="CanaryPauseStep")
        await wait_for_state(
            world, controller, "paused", reason="rollout is paused (CanaryPauseStep)"
        )
        aborted = "RolloutAborted: Rollout aborted update to revision 2"
        await report(world, **begun, abort=True, phase="Degraded", message=aborted)
        await wait_for_state(world, controller, "waiting", reason=aborted)


async def follow_rollout(world: World, driver: Driver) -> None:
    """Create a Rollout that reads LEVEL, with one pod of its first template, `b`."""
    await world.registry.create("customresourcedefinitions", None, ROLLOUTS, manager="t")
    await driver.until(RESOURCE, served=True)
    await world.config_map(LEVEL="info")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": env("LEVEL")}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"metadata": {"name": "web", "annotations": FOLLOW}, "spec": spec}
    await world.registry.create(RESOURCE, "default", body, manager="kubectl")
    await report(world)
    await make_pod(world, "web-b-1", "b")


@pytest.mark.parametrize("reported", [PROMOTED, PAUSED], ids=["promoted", "paused"])
async def test_pods_that_argo_replaces_cause_no_rollout(
    world: World, driver: Driver, reported: dict[str, Any]
) -> None:
    """A release changed template and source: the older pods are replaced or deleted by Argo."""
    await follow_rollout(world, driver)
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await release(world)
        await make_pod(world, "web-c-1", "c", started=time.time() + 5)
        await report(world, **reported, replicas=2)
        await asyncio.sleep(150)
        assert await revision(world) == ""
        await report(world, **PROMOTED)
        await world.quiet(controller)
        assert await revision(world) == ""
        await world.edit(LEVEL="trace")
        await world.until(lambda: revision(world), "the next edit is rolled out")


async def test_pod_that_read_a_reverted_edit_counts_when_a_canary_is_undone(
    world: World, driver: Driver
) -> None:
    """It is of the template that the canary would have replaced, and stays."""
    await follow_rollout(world, driver)
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await release(world)
        await report(world, **PAUSED, updatedReplicas=0)
        await asyncio.sleep(30)
        await make_pod(world, "web-b-2", "b", started=time.time())
        await asyncio.sleep(30)
        await world.edit(LEVEL="info")
        await asyncio.sleep(150)
        await world.registry.modify(RESOURCE, "default", "web", _undo, manager="kubectl")
        await report(world, observedGeneration="3")
        assert await revision(world) == ""
        await world.until(lambda: revision(world), "the pod of the earlier template is replaced")


async def test_release_that_was_aborted_requires_action(world: World, driver: Driver) -> None:
    """Also where its change of the source is waited with, until it is retried or undone."""
    await follow_rollout(world, driver)
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await release(world)
        await report(world, **PAUSED, updatedReplicas=0)
        waiting = await wait_for_state(world, controller, "paused")
        assert not waiting["actionRequired"]
        aborted = {"phase": "Degraded", "abort": True, "abortedAt": rfc3339(time.time() + 5)}
        await report(world, **{**PAUSED, **aborted}, updatedReplicas=0)
        why = "changed, while its rollout is aborted"
        waiting = await wait_for_state(world, controller, "waiting", reason=why)
        assert waiting["actionRequired"]


async def release(world: World) -> None:
    """Change the source and the pod template together, as `helm upgrade` does."""

    def change(obj: dict[str, Any]) -> dict[str, Any]:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
        return obj

    await world.edit(LEVEL="debug")
    await world.registry.modify(RESOURCE, "default", "web", change, manager="helm")


def _undo(obj: dict[str, Any]) -> dict[str, Any]:
    obj["spec"]["template"]["spec"] = env("LEVEL")
    return obj


async def revision(world: World) -> str:
    obj = await world.registry.get(RESOURCE, "default", "web")
    annotations = obj["spec"]["template"]["metadata"].get("annotations") or {}
    return str(annotations.get("hotmap.dev/revision", ""))


async def make_pod(world: World, name: str, template: str, **options: Any) -> None:
    """Create a pod of the Rollout's ReplicaSet for a template."""
    await world.pod(name, **options)
    labels = {"app": "web", "rollouts-pod-template-hash": template}
    await world.merge("Pod", name, {"metadata": {"labels": labels}})
