"""After an adoption pods are checked, and those that may have older content are reported."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.controller.pod_check_results import (
    SOON,
    check_count,
    pods_checked,
    status,
    wait_for_state,
)
from tests.controller.world import REREADS, Object, World, both, files, rfc3339

#: Reads all data keys of app into its environment.
IMPORTS = {
    "containers": [
        {"name": "main", "image": "app:1", "envFrom": [{"configMapRef": {"name": "app"}}]}
    ]
}


async def test_older_pods_of_adopted_workload_are_latent(world: World) -> None:
    """One Event, a state, a count; and never an action."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(pod_checks=SOON) as controller:
        document = await wait_for_state(world, controller, "latent")
        await pods_checked(world, controller, 3)
        counts = (await status(controller))["counts"]
    assert "1 of 1 pod may run with older content (web-1: started" in document["reason"]
    assert document["behind"] == 1
    assert counts["latent"] == 1
    assert await world.messages("Latent") == [document["reason"]]
    assert await world.revision() == ""


@pytest.mark.parametrize(
    "after", [pytest.param(5.0, id="proven"), pytest.param(0.0, id="probably, in the same second")]
)
async def test_younger_pods_are_current(world: World, after: float) -> None:
    """As after an ordinary installation, where source and pods come together: nothing is said."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + after)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await pods_checked(world, controller)
    assert await world.messages("Latent") == []


async def _pod_before_a_removal(world: World) -> None:
    """Create a pod that may have a data key which was removed after its start."""
    await world.config_map(LEVEL="info", MODE="a")
    await world.workload(spec=IMPORTS)
    await world.pod("web-1", started=time.time() + 5)
    await world.edit(MODE=None)


async def test_data_key_that_was_removed_before_the_first_sight(world: World) -> None:
    """Nothing in the source says when, but it was written after the pod, which may have the key."""
    await _pod_before_a_removal(world)
    async with world.controller(pod_checks=SOON) as controller:
        document = await wait_for_state(world, controller, "latent")
        await world.quiet(controller)
    assert "a source was written after this pod" in document["reason"]
    assert await world.revision() == ""


def _labeled(pod: Object) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "labels": {"app": "web", "team": "a"}}}


async def test_pod_that_was_older_than_its_source_stays_so_when_it_is_written(
    world: World,
) -> None:
    """Each write of the pod gives it a newer version; what it has read stays the same."""
    await _pod_before_a_removal(world)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await world.registry.modify("pods", "default", "web-1", _labeled, manager="t")
        await asyncio.sleep(120)
        await wait_for_state(world, controller, "latent")
        await world.quiet(controller)
    async with world.controller(pod_checks=SOON) as controller:
        await asyncio.sleep(120)
        await wait_for_state(world, controller, "latent")
        await world.pod("web-2", started=time.time() + 5)
        await world.registry.delete("pods", "default", "web-1", grace_period=0)
        await wait_for_state(world, controller, "current")


async def test_crash_soon_after_the_first_check_hides_no_older_pod(world: World) -> None:
    """The pod is written after that, and its own version shows nothing any more."""
    await _pod_before_a_removal(world)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await asyncio.sleep(10)
        records = await world.records()
    await world.registry.modify("pods", "default", "web-1", _labeled, manager="t")
    await world.put_records_back(records)
    async with world.controller(pod_checks=SOON) as controller:
        await pods_checked(world, controller)
        await wait_for_state(world, controller, "latent")


async def _older_pod_of_two_sources(world: World) -> None:
    """Create a pod of which one source may have lost a data key, and that re-reads the other."""
    await world.config_map("other", LEVEL="info")
    await world.config_map(LEVEL="info", MODE="a")
    spec = files("other")
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "app"}}]
    await world.workload(spec=spec, annotations=REREADS)
    await world.pod("web-1", started=time.time() + 5, spec=spec)
    await world.edit(MODE=None)


async def test_nudge_before_the_first_check_hides_no_older_pod(world: World) -> None:
    """It writes the pod too, for another source, and the decision in flight is recorded later."""
    await _older_pod_of_two_sources(world)
    later = SOON._replace(initial_delay=5.0, nudged_delay=5.0)
    async with world.controller(pod_checks=later) as controller:
        await world.quiet(controller)
        await world.edit("other", LEVEL="debug")
        document = await wait_for_state(world, controller, "latent")
        await world.quiet(controller)
    assert "a source was written after this pod" in document["reason"]


async def test_crash_at_a_nudge_before_the_first_check_hides_no_older_pod(world: World) -> None:
    """The pod is newer than its sources then, so the state has what it was before."""
    await _older_pod_of_two_sources(world)
    written: list[dict[str, str]] = []

    async def keep_state(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods":
            written.append(await world.records())

    never = SOON._replace(rate=0)
    async with world.controller(pod_checks=never) as controller:
        await world.quiet(controller)
        world.registry.guards.append(keep_state)
        await world.edit("other", LEVEL="debug")
        await world.until(lambda: world.target("web-1"), "the pod is nudged")
    await world.put_records_back(written[0])
    async with world.controller(pod_checks=SOON) as controller:
        document = await wait_for_state(world, controller, "latent")
        await world.quiet(controller)
    assert "a source was written after this pod" in document["reason"]


@pytest.mark.parametrize("code", [pytest.param(0, id="hangs"), pytest.param(503, id="fails")])
async def test_pods_are_nudged_though_the_state_cannot_be_written(world: World, code: int) -> None:
    """Files wait for two seconds at most."""
    await _older_pod_of_two_sources(world)
    async with world.controller(pod_checks=SOON._replace(rate=0)) as controller:
        await world.quiet(controller)
        await world.until(world.records, "the state is written first")
        writes = world.plane.fail("*", "secrets", name="hotmap-state", code=code)
        writes.delay = 0.0 if code else 600.0
        await world.edit("other", LEVEL="debug")
        await world.until(lambda: world.target("web-1"), "the pod is nudged")
        assert writes.met
        writes.left = 0


def _restarted(pod: Object) -> Object:
    running = {"running": {"startedAt": rfc3339(time.time())}}
    container = {**pod["status"]["containerStatuses"][0], "restartCount": 1, "state": running}
    return {**pod, "status": {**pod["status"], "containerStatuses": [container]}}


async def test_restart_of_a_pod_that_was_older_than_its_source_is_noticed(world: World) -> None:
    """Its container reads the environment again, so it is no longer in doubt."""
    await _pod_before_a_removal(world)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await asyncio.sleep(120)
        await world.registry.modify(
            "pods", "default", "web-1", _restarted, subresource="status", manager="kubelet"
        )
        await wait_for_state(world, controller, "current")


async def test_pod_that_was_older_than_one_source_is_not_older_than_others(world: World) -> None:
    """Once that source is edited, it is known what the pod has of it."""
    await world.config_map("other", LEVEL="info")
    await world.config_map(LEVEL="info", MODE="a")
    spec = files()
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "other"}}]
    await world.workload(spec=spec, annotations=REREADS)
    await world.pod("web-1", started=time.time() + 5, spec=spec)
    await world.edit(MODE=None)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await world.edit(LEVEL="debug")
        await asyncio.sleep(200)
        await wait_for_state(world, controller, "current")


@pytest.mark.parametrize("recreated", [False, True])
async def test_pod_from_before_lost_state_is_not_current_by_its_template(
    world: World, recreated: bool
) -> None:
    """It was added by scaling between an edit and its revert, and no record tells of these."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        template = {"hotmap.dev/revision": await world.rollout()}
        await world.registry.delete("pods", "default", "web-1", grace_period=0)
        await world.pod("web-2", started=time.time() + 2, annotations=template)
        await world.rolled_out()
        await wait_for_state(world, controller, "current")
    await asyncio.sleep(10)
    await world.edit(LEVEL="trace")
    await asyncio.sleep(10)
    await world.pod("web-3", started=time.time() - 5, annotations=template)
    if recreated:
        await world.delete("ConfigMap", "app")
        await world.config_map(LEVEL="debug")
    else:
        await world.edit(LEVEL="debug")
    for name in await world.records():
        await world.registry.delete("secrets", "hotmap", name)
    async with world.controller(pod_checks=SOON) as controller:
        document = await wait_for_state(world, controller, "latent")
        assert "web-3" in document["reason"]
        await world.quiet(controller)
        assert await world.revision() == template["hotmap.dev/revision"]
        # What is rolled out from then on is known.
        await world.edit(LEVEL="warn")
        template = {"hotmap.dev/revision": await world.rollout(after=await world.revision())}
        for name in ("web-2", "web-3"):
            await world.registry.delete("pods", "default", name, grace_period=0)
        await world.pod("web-4", started=time.time(), annotations=template)
        await world.rolled_out()
        await wait_for_state(world, controller, "current")


async def test_edit_of_files_replaces_no_pod_for_variables_of_the_same_source(
    world: World,
) -> None:
    """Neither at once nor when the pods are checked, also by the next controller."""
    await world.config_map(LEVEL="info", MODE="a")
    await world.workload(spec=both("LEVEL"), annotations={**REREADS, "hotmap.dev/rereads": "1s"})
    await world.pod("web-1", started=time.time() + 1, spec=both("LEVEL"))
    for mode in ("b", "c"):
        async with world.controller(pod_checks=SOON) as controller:
            await world.quiet(controller)
            await world.passes_a_second()
            await world.passes_a_second()
            await world.edit(MODE=mode)
            await world.quiet(controller)
            await wait_for_state(world, controller, "current")
    assert await world.revision() == ""
    assert await world.messages("Latent") == []


async def test_pod_that_starts_in_the_second_of_an_edit_is_nudged_too(world: World) -> None:
    """It was not there when the others were, and its kubelet may have written the files before."""
    await world.config_map(MODE="a")
    await world.workload(spec=files(), annotations={**REREADS, "hotmap.dev/rereads": "1s"})
    await world.pod("web-1", started=time.time() + 2, spec=files())
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await asyncio.sleep(3)
        await world.edit(MODE="b")

        async def is_nudged(name: str = "web-1") -> str:
            return await world.target(name)

        await world.until(is_nudged, "the first pod is nudged")
        await world.pod("web-2", started=time.time() - 1, spec=files())
        await world.until(lambda: is_nudged("web-2"), "the second pod is nudged")
        await wait_for_state(world, controller, "current")
    assert (await world.target("web-2")).split(":")[1:] == (await world.target("web-1")).split(":")[
        1:
    ]


async def test_pod_that_is_nudged_after_a_check_is_checked_again_soon(world: World) -> None:
    """Not after the pause for what takes longer, such as older content."""
    await world.config_map(MODE="a")
    await world.workload(spec=files(), annotations=REREADS)
    await world.pod("web-1", started=time.time() + 2, spec=files())
    checks = SOON._replace(pause=3600.0, max_pause=3600.0, nudged_delay=1.0)
    async with world.controller(pod_checks=checks) as controller:
        await world.quiet(controller)
        await asyncio.sleep(3)
        await world.edit(MODE="b")

        async def is_nudged(name: str = "web-1") -> str:
            return await world.target(name)

        await world.until(is_nudged, "the first pod is nudged")
        await world.pod("web-2", started=time.time() - 1, spec=files())
        await world.until(lambda: is_nudged("web-2"), "the second pod is nudged")
        await wait_for_state(world, controller, "delivered")


async def test_reports_are_not_repeated_after_restart(world: World) -> None:
    """The record says that the pods were checked."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await world.event("Latent")
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await pods_checked(world, controller, 2)
    assert len(await world.messages("Latent")) == 1


async def test_current_workload_is_not_checked_again_after_restart(
    world: World,
) -> None:
    """Nothing was applied since."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await wait_for_state(world, controller, "current")
        assert await check_count(controller) == 0


async def test_latent_workload_becomes_current_after_restart(world: World) -> None:
    """Checks go on, with growing pauses, until the pods were restarted."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "latent")
        await world.registry.delete("pods", "default", "web-1", grace_period=0)
        await world.pod("web-2", started=time.time() + 5)
        await wait_for_state(world, controller, "current")


async def test_rereading_workload_is_not_latent(world: World) -> None:
    """They follow by the kubelet's own sync, so an old pod is waited for, and nothing is said."""
    await world.config_map(LEVEL="info")
    await world.workload("api", files(), annotations=REREADS)
    await world.pod("api-1", of="api")
    async with world.controller(pod_checks=SOON) as controller:
        await pods_checked(world, controller)
        document = await wait_for_state(world, controller, "waiting", name="api")
    assert "files are updated at the kubelet's next sync" in document["reason"]
    assert await world.messages("Latent") == []


async def test_workload_without_replicas_costs_no_request(world: World) -> None:
    """Neither the adoption nor the rollout of what has no pods reads anything."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=0)
    await world.workload("agent", kind="DaemonSet")
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await world.quiet(controller)
        reads = world.answers()["GET"]
        await world.edit(LEVEL="debug")
        await world.rollout("agent", kind="DaemonSet")
        await world.rolled_out("agent", kind="DaemonSet")
        await wait_for_state(world, controller, "current", name="agent")
        assert world.answers()["GET"] == reads


async def test_pod_checks_can_be_disabled(world: World) -> None:
    """With a rate of zero no pods are checked, and no workload is called current for that."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    async with world.controller(pod_checks=SOON._replace(rate=0)) as controller:
        await wait_for_state(world, controller, "unverified")
        await world.quiet(controller)
        assert await check_count(controller) == 0
