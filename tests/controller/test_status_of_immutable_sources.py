"""The status of a workload whose immutable source is deleted: kubelets may go on serving it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.controller.pod_check_results import SOON, status, wait_for_state
from tests.controller.world import REREADS, Object, World, env, files

from hotmap.controller.run import Controller


@asynccontextmanager
async def followed(world: World, spec: Object) -> AsyncIterator[Controller]:
    """Run a controller that calls a pod current with its immutable source."""
    await create_source(world)
    await world.workload(spec=spec, annotations={**REREADS, "hotmap.dev/rereads": "1s"})
    await world.pod("web-1", spec=spec, started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await asyncio.sleep(20)
        yield controller


async def create_source(world: World) -> None:
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", {"immutable": True})


async def test_source_that_is_recreated_with_the_same_content_leaves_pods_current(
    world: World,
) -> None:
    """Kubelets may serve either one, and the pods have had that content all the time."""
    async with followed(world, env("LEVEL", optional=True)) as controller:
        for _ in range(2):
            await world.delete("ConfigMap", "app")
            await asyncio.sleep(10)
            await create_source(world)
            await asyncio.sleep(20)
            body = await status(controller, "?workload=Deployment/default/web")
            assert [workload["state"] for workload in body["workloads"]] == ["current"]
        assert await world.revision() == ""


@pytest.mark.parametrize(
    "spec", [env("LEVEL", optional=True), files(optional=True)], ids=["environment", "files"]
)
async def test_deleted_source_is_served_until_no_pod_uses_it(world: World, spec: Object) -> None:
    """To new pods too; kubelets do not update the files of one that is immutable."""
    async with followed(world, spec) as controller:
        await world.delete("ConfigMap", "app")
        await asyncio.sleep(120)
        for pod, former in (("web-1", ""), ("web-2", "web-1")):
            if former:
                await world.pod(pod, spec=spec, started=time.time() + 1)
                await world.registry.delete("pods", "default", former, grace_period=0)
            document = await wait_for_state(world, controller, "latent", reason=pod)
            assert document["reason"] == (
                f"1 of 1 pod may run with older content ({pod}: its kubelet may serve ConfigMap "
                "default/app as it was before it was deleted); takes effect once no pod on the "
                "node uses ConfigMap default/app"
            )
        await world.delete("Pod", "web-2")  # it terminates, and is not counted any more
        await world.merge("Deployment", "web", {"spec": {"replicas": 0}})
        await world.rolled_out("web")
        await asyncio.sleep(20)
        await world.registry.delete("pods", "default", "web-2", grace_period=0)
        await asyncio.sleep(20)
        await world.merge("Deployment", "web", {"spec": {"replicas": 1}})
        await world.pod("web-3", spec=spec, started=time.time() + 1)
        await world.rolled_out("web")
        await asyncio.sleep(20)
        document = await wait_for_state(world, controller, "current")
        assert document["reason"].startswith("content is up to date")
