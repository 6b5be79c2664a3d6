"""The pods that a rollout by Reloader's strategies has made are not replaced a second time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON, wait_for_state
from tests.controller.world import SETTLE, World, rfc3339

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings, Writing
from hotmap.core.reloader.patch import digest_of

AUTO = {"reloader.stakater.com/auto": "true"}


def controller(world: World, writing: Writing = Writing.ENV_VARS, **dialect: Any) -> Controller:
    defaults = Defaults(
        settle=SETTLE, settle_max=1.0, dialect=DialectSettings(writing=writing, **dialect)
    )
    return Controller(
        world.client, Settings(defaults=defaults, listen=("127.0.0.1", 0), pod_checks=SOON)
    )


@pytest.fixture
def sent(world: World) -> list[Any]:
    """The patches of workloads that arrive at the API server."""
    patches: list[Any] = []

    async def keep(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "deployments":
            patches.append(patch)

    world.registry.guards.append(keep)
    return patches


def imported(*sources: str, optional: bool = False) -> dict[str, Any]:
    """A pod spec that imports sources as a whole, so that no time shows a removed data key."""
    refs = [{"configMapRef": {"name": name, "optional": optional}} for name in sources]
    return {"containers": [{"name": "main", "image": "app:1", "envFrom": refs}]}


async def until_sent(world: World, sent: list[Any], count: int) -> None:
    async def there() -> bool:
        return len(sent) >= count

    await world.until(there, f"{count} patches")


async def replace_pod(world: World, old: str, new: str) -> None:
    """Replace a pod by one of the present template that starts now, as its controller does."""
    template = (await world.get("Deployment", "web"))["spec"]["template"]
    await world.delete("Pod", old)
    await world.pod(
        new,
        started=time.time(),
        spec=template["spec"],
        annotations=template["metadata"].get("annotations"),
    )
    await world.rolled_out()


async def mark(world: World, **data: str) -> None:
    """Mark the template with this content of `app`, as Reloader does."""
    digest = digest_of([(key.encode(), value.encode()) for key, value in data.items()])

    def write(obj: dict[str, Any]) -> dict[str, Any]:
        variable = {"name": "STAKATER_APP_CONFIGMAP", "value": digest}
        obj["spec"]["template"]["spec"]["containers"][0]["env"] = [variable]
        return obj

    await world.registry.modify("deployments", "default", "web", write, manager="Reloader")


@pytest.mark.parametrize("writing", [Writing.ENV_VARS, Writing.ANNOTATIONS])
async def test_change_while_down_is_rolled_out_once(
    world: World, writing: Writing, sent: list[Any]
) -> None:
    """Two sources, so that an annotation names the last of them only."""
    await world.config_map(LEVEL="info")
    await world.config_map("other", MODE="a")
    await world.workload(spec=imported("app", "other"), annotations=AUTO)
    await world.pod("web-1")
    async with controller(world, writing) as running:
        await world.quiet(running)
    await world.edit(LEVEL="debug")
    await world.edit("other", MODE="b")
    async with controller(world, writing) as running:
        await until_sent(world, sent, 1)
        await replace_pod(world, "web-1", "web-2")
        await wait_for_state(world, running, "current")
        await asyncio.sleep(1)
        await world.quiet(running)
    assert len(sent) == 1


@pytest.mark.parametrize("writing", [Writing.ENV_VARS, Writing.ANNOTATIONS])
async def test_pod_from_before_an_undone_rollout_is_not_current_by_its_template(
    world: World, writing: Writing, sent: list[Any]
) -> None:
    """It was created in the second of the edit; the template has no marks again, as it has none."""
    await world.config_map(LEVEL="info")
    before = await world.workload(spec=imported("app"), annotations=AUTO)
    async with controller(world, writing) as running:
        await world.quiet(running)
        await world.passes_a_second()
        await world.pod("web-1", started=time.time())
        await world.edit(LEVEL="debug")
        await until_sent(world, sent, 1)
        await world.registry.modify(
            "deployments",
            "default",
            "web",
            lambda obj: {
                **obj,
                "spec": {**obj["spec"], "template": before["spec"]["template"]},
            },
            manager="kubectl-rollout",
        )
        await world.rolled_out()
        await wait_for_state(world, running, "latent")
        await world.quiet(running)


async def test_ignored_creation_is_not_made_up_for(world: World, sent: list[Any]) -> None:
    """Pods without the source are reported, and stay as they are."""
    await world.workload(spec=imported("app", optional=True), annotations=AUTO)
    await world.pod("web-1", started=time.time() - 60)
    async with controller(world, reload_on_create=False) as running:
        await world.quiet(running)
        await world.config_map(LEVEL="info")
        await wait_for_state(world, running, "latent")
        await world.quiet(running)
        assert sent == []
        await world.edit(LEVEL="debug")
        await until_sent(world, sent, 1)


async def test_deletion_is_rolled_out_once(world: World, sent: list[Any]) -> None:
    """The changes before it, and the pods that start within its second, are not further ones."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=imported("app", optional=True), annotations=AUTO)
    await world.pod("web-1")
    async with controller(world, reload_on_delete=True) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_sent(world, sent, 1)
        await replace_pod(world, "web-1", "web-2")
        await world.quiet(running)
        await world.delete("ConfigMap", "app")
        await until_sent(world, sent, 2)
        await replace_pod(world, "web-2", "web-3")
        await wait_for_state(world, running, "current")
        await asyncio.sleep(5)
        await world.quiet(running)
    assert len(sent) == 2


@pytest.mark.parametrize("writing", list(Writing))
async def test_deleted_source_raises_no_doubt_in_the_rollout_for_another(
    world: World, writing: Writing, sent: list[Any]
) -> None:
    """The pods of that rollout have the content of the other one, whenever they started."""
    await world.config_map("gone", MODE="a")
    await world.config_map(LEVEL="info")
    await world.workload(spec=imported("gone", "app", optional=True), annotations=AUTO)
    await world.pod("web-1")
    async with controller(world, writing) as running:
        await world.quiet(running)
        await world.edit(LEVEL="debug")
        await until_sent(world, sent, 1)
        await replace_pod(world, "web-1", "web-2")
        await world.quiet(running)
        await asyncio.sleep(3)
        await world.delete("ConfigMap", "gone")
        await wait_for_state(world, running, "latent")
        await asyncio.sleep(1)
        await world.quiet(running)
    assert len(sent) == 1


async def test_adoption_after_edits_leaves_pods_as_they_are(world: World, sent: list[Any]) -> None:
    """What was edited before a workload is followed is reported and not caught up with."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=imported("app"), annotations={})
    await world.workload("other", annotations=AUTO)
    await world.pod("web-1")
    async with controller(world) as running:
        await world.quiet(running)
        await world.passes_a_second()
        await world.edit(LEVEL="debug")
        await until_sent(world, sent, 1)
        await world.rolled_out("other")
        await asyncio.sleep(12)
        await world.merge("Deployment", "web", {"metadata": {"annotations": AUTO}})
        await world.rolled_out()
        await wait_for_state(world, running, "latent")
        await asyncio.sleep(1)
        await world.quiet(running)
    assert len(sent) == 1


@pytest.mark.parametrize("passed", [0.0, 3.0])
async def test_rollout_of_reloader_while_down_is_not_repeated(
    world: World, sent: list[Any], passed: float
) -> None:
    """Moving to Reloader and back: the pods that it has made are known by their mark.

    It writes within milliseconds after an edit, or later, for example after a failure.
    """
    await world.config_map(LEVEL="info")
    await world.workload(spec=imported("app"), annotations=AUTO)
    await world.pod("web-1", started=time.time() - 60)
    async with controller(world) as running:
        await world.quiet(running)
    await world.passes_a_second()
    await world.edit(LEVEL="debug")
    await asyncio.sleep(passed)
    await mark(world, LEVEL="debug")
    await replace_pod(world, "web-1", "web-2")
    await world.passes_a_second()
    sent.clear()
    async with controller(world) as running:
        await wait_for_state(world, running, "current")
        await asyncio.sleep(15)
        await world.quiet(running)
        await wait_for_state(world, running, "current")
    assert sent == []


async def test_source_without_a_mark_is_rolled_out_beside_a_marked_one(
    world: World, sent: list[Any]
) -> None:
    """Reloader stopped between two edits: its pods say nothing of the second one."""
    await world.config_map(LEVEL="info")
    await world.config_map("other", MODE="a")
    await world.workload(spec=imported("app", "other"), annotations=AUTO)
    await world.pod("web-1", started=time.time() - 60)
    async with controller(world) as running:
        await world.quiet(running)
    await world.passes_a_second()
    await world.edit(LEVEL="debug")
    await mark(world, LEVEL="debug")
    await replace_pod(world, "web-1", "web-2")
    await world.edit("other", MODE="b")
    sent.clear()
    async with controller(world) as running:
        await until_sent(world, sent, 1)
        await replace_pod(world, "web-2", "web-3")
        await wait_for_state(world, running, "current")
        await asyncio.sleep(15)
        await world.quiet(running)
    assert len(sent) == 1


async def test_container_that_started_between_two_equal_marks_is_replaced(
    world: World, sent: list[Any]
) -> None:
    """No time shows that a data key was removed again, which the container has read."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=imported("app"), annotations=AUTO)
    await world.pod("web-1", started=time.time() - 60)
    async with controller(world) as running:
        await world.quiet(running)

    def restarted(obj: dict[str, Any]) -> dict[str, Any]:
        (before,) = obj["status"]["containerStatuses"]
        now = {"restartCount": 1, "state": {"running": {"startedAt": rfc3339(time.time())}}}
        return {**obj, "status": {**obj["status"], "containerStatuses": [before | now]}}

    await world.edit(LEVEL="debug")
    await mark(world, LEVEL="debug")
    await replace_pod(world, "web-1", "web-2")
    await asyncio.sleep(3)
    await world.edit(EXTRA="x")
    await mark(world, LEVEL="debug", EXTRA="x")  # its pods do not get ready, so web-2 stays
    await asyncio.sleep(3)
    await world.registry.modify(
        "pods", "default", "web-2", restarted, subresource="status", manager="kubelet"
    )
    await asyncio.sleep(3)
    await world.edit(EXTRA=None)
    await mark(world, LEVEL="debug")
    await world.rolled_out()
    sent.clear()
    async with controller(world) as running:
        await until_sent(world, sent, 1)
        await replace_pod(world, "web-2", "web-3")
        await wait_for_state(world, running, "current")
