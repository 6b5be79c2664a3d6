"""SecretProviderClasses with Reloader's strategies, Argo Rollouts, Jobs and CronJobs."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import pytest
from tests.controller.argo_rollouts import ROLLOUTS
from tests.controller.provider_classes import (
    AUTO,
    VARIABLE,
    controller,
    known,
    set_up,
    settled,
)
from tests.controller.world import World
from tests.support.provider_classes import (
    Driver,
    class_volume,
)

from hotmap.core.reloader.annotations import Writing


def digest(version: str) -> str:
    text = f"SecretProviderClassName=vault;password={version}".encode()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
async def test_strategy_env_vars_marks_the_container_that_mounts_the_class(
    world: World, driver: Driver, kind: str
) -> None:
    """Reloader's variable with its digest, in the container that mounts the class."""
    await set_up(world, driver, annotations=AUTO, kind=kind)

    async def variables() -> list[Any]:
        obj = await world.get(kind, "web")
        found: list[Any] = obj["spec"]["template"]["spec"]["containers"][0].get("env") or []
        return found

    async with controller(world, Writing.ENV_VARS) as running:
        await known(running, world)
        assert await variables() == []
        await driver.update("web-1", password="2")
        await world.until(variables, "the variable is written")
        assert await variables() == [{"name": VARIABLE, "value": digest("2")}]


async def test_argo_rollout_gets_the_variable(world: World, driver: Driver) -> None:
    """Beside its other variables, which stay, and the value changes in its place."""
    await world.registry.create("customresourcedefinitions", None, ROLLOUTS, manager="t")
    await set_up(world, driver)
    kept = {"name": "A", "value": "1"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": class_volume()}
    template["spec"]["containers"][0]["env"] = [kept]
    body = {
        "metadata": {"name": "canary", "annotations": AUTO},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, "replicas": 0},
    }
    await driver.until("rollouts.argoproj.io", served=True)
    await world.registry.create("rollouts.argoproj.io", "default", body, manager="kubectl")

    async def variables(version: str) -> bool:
        obj = await world.registry.get("rollouts.argoproj.io", "default", "canary")
        env = obj["spec"]["template"]["spec"]["containers"][0]["env"]
        return bool(env == [kept, {"name": VARIABLE, "value": digest(version)}])

    async with controller(world, Writing.ENV_VARS) as running:
        await known(running, world)

        async def is_tracked() -> bool:
            return any(key.name == "canary" for key in running.index.consumers["Rollout"])

        await world.until(is_tracked, "the Rollout is known")
        await settled(world, running)
        for version in ("2", "3"):
            await driver.update("web-1", password=version)
            await world.until(partial(variables, version), "the variable is written")


async def test_workload_without_pods_is_marked(world: World, driver: Driver) -> None:
    """By a rotation that pods of other workloads show; a new pod of those is none."""
    await set_up(world, driver, annotations=AUTO)
    await world.workload("idle", class_volume(), annotations=AUTO, replicas=0)

    async def variables() -> list[Any]:
        obj = await world.get("Deployment", "idle")
        found: list[Any] = obj["spec"]["template"]["spec"]["containers"][0].get("env") or []
        return found

    async with controller(world, Writing.ENV_VARS) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.until(variables, "the variable is written")
        assert await variables() == [{"name": VARIABLE, "value": digest("2")}]


async def test_job_is_recreated_and_cron_job_runs_once(world: World, driver: Driver) -> None:
    """With Reloader's defaults a Job is recreated, and a CronJob runs now, once."""
    await driver.provider_class()
    spec = class_volume()
    recreated = AUTO | {"hotmap.dev/on-change": "recreate"}
    job = await world.job(spec=spec, annotations=recreated)
    await world.cron_job(spec=spec, annotations=AUTO | {"hotmap.dev/on-change": "run-now"})
    await world.pod("load-1", of="load")
    labels = job["spec"]["selector"]["matchLabels"]
    await world.merge("Pod", "load-1", {"metadata": {"labels": labels}})
    await driver.mount("load-1", password="1")
    async with controller(world) as running:
        await known(running, world)
        before = await world.get("Job", "load")
        await driver.update("load-1", password="2")
        await world.event("JobStarted")

        async def deleted() -> bool:
            job = await world.get("Job", "load")
            return bool(job["metadata"].get("deletionTimestamp")) or (
                job["metadata"]["uid"] != before["metadata"]["uid"]
            )

        await world.until(deleted, "the Job is deleted to be recreated")
