"""Workloads whose actions a user has suspended keep their pods; nothing is lost meanwhile."""

from __future__ import annotations

import aiohttp
import pytest
from tests.controller.pages import get_json
from tests.controller.world import FOLLOW, NAMESPACE, World, env, files

REREADS = {**FOLLOW, "hotmap.dev/rereads": "true"}
SUSPEND = "hotmap.dev/suspend"


async def annotate_namespace(world: World, **annotations: str) -> None:
    """Replace the annotations of the Namespace of the workloads."""
    named = {f"hotmap.dev/{name}": value for name, value in annotations.items()}
    await world.registry.modify(
        "namespaces",
        None,
        NAMESPACE,
        lambda obj: {**obj, "metadata": {**obj["metadata"], "annotations": named}},
        manager="kubectl",
    )


async def suspend_web(world: World, value: str | None) -> None:
    """Annotate the workload, as its user does; its controller has nothing to replace for that."""
    await world.annotate("web", suspend=value)
    await world.rolled_out()


async def edit_suspended(world: World) -> None:
    """Edit what a suspended workload uses, and wait until that is held."""
    await suspend_web(world, "true")
    await world.edit(LEVEL="debug")
    await world.event("Held")


async def test_edits_wait_for_the_end_of_the_suspension(world: World) -> None:
    """Several edits are one rollout then; one Event says what suspends it."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await annotate_namespace(world, suspend="true")
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("Held")
        await world.edit(LEVEL="trace")
        await world.quiet(controller)
        assert await world.revision() == ""
        assert message == (
            "ConfigMap default/app LEVEL changed (containers[main].env[LEVEL]): suspended by "
            "hotmap.dev/suspend: true on the Namespace"
        )
        await annotate_namespace(world)
        await world.rollout()
        await world.quiet(controller)
    assert len(await world.events("RolledOut")) == 1


async def test_reverted_edit_causes_nothing(world: World) -> None:
    """At the end of the suspension the content is as before."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await edit_suspended(world)
        await world.edit(LEVEL="info")
        await world.quiet(controller)
        await suspend_web(world, None)
        await world.quiet(controller)
    assert await world.revision() == ""


async def test_another_controller_knows_of_a_suspended_change(world: World) -> None:
    """The suspension ends while no controller runs."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await edit_suspended(world)
    await suspend_web(world, None)
    async with world.controller():
        await world.rollout()


async def test_suspended_files_are_not_refreshed(world: World) -> None:
    """No pod is nudged until the end, also not to take an earlier nudge back."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations=REREADS)
    await world.pod("web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Refreshed")
        await world.quiet(controller)
        nudged = await world.target("web-1")
        await suspend_web(world, "true")
        await world.edit(LEVEL="info")
        await world.event("Held")
        await world.quiet(controller)
        assert await world.target("web-1") == nudged
        await suspend_web(world, None)
        await world.quiet(controller)
        assert await world.target("web-1") != nudged


async def test_preview_names_what_suspends(world: World, http: aiohttp.ClientSession) -> None:
    """As the decision on a real edit would."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, SUSPEND: "true"})
    async with world.controller() as controller:
        await world.quiet(controller)
        query = "/v1/status?source=configmap/default/app&changed=LEVEL"
        _, body = await get_json(http, controller, query)
    (web,) = body["workloads"]
    assert (web["actions"], web["held"]) == ([], True)
    assert web["reason"].endswith(": suspended by hotmap.dev/suspend: true")


@pytest.mark.parametrize("kind", ["CronJob", "Job"])
async def test_jobs_are_not_run(world: World, kind: str) -> None:
    """A run or a recreation that was asked for waits too."""
    await world.config_map(LEVEL="info")
    action = {"CronJob": "run-now", "Job": "recreate"}[kind]
    annotations = {**FOLLOW, "hotmap.dev/on-change": action, SUSPEND: "true"}
    create = {"CronJob": world.cron_job, "Job": world.job}[kind]
    await create("load", env("LEVEL"), annotations=annotations)
    async with world.controller() as controller:
        await world.quiet(controller)
        before = await world.registry.list("jobs", NAMESPACE)
        await world.edit(LEVEL="debug")
        await world.event("Held")
        await world.quiet(controller)
        after = await world.registry.list("jobs", NAMESPACE)
    assert [job["metadata"]["uid"] for job in after.items] == [
        job["metadata"]["uid"] for job in before.items
    ]
