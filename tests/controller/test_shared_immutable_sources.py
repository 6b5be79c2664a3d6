"""Immutable sources that are recreated, while pods of others use them on the same nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controller.world import World, env

from hotmap.controller.run import Controller
from hotmap.controller.watch import other_uses
from hotmap.core.decide.assessment import OtherUse
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import SourceRecord
from hotmap.kube.paging import list_items

APP = ObjectKey("ConfigMap", "default", "app")

SPEC = env("LEVEL")


async def recreate(world: World) -> str:
    """Replace the immutable ConfigMap app by a new one, in a later second; returns its uid."""
    await world.passes_a_second()
    await world.delete("ConfigMap", "app")
    made = await world.config_map(LEVEL="debug")
    return str(made["metadata"]["uid"])


async def immutable(world: World) -> None:
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", {"immutable": True})


async def immutable_in_use(world: World) -> None:
    """Create an immutable source, and a workload whose pod uses it."""
    await immutable(world)
    await world.workload("api", spec=SPEC)
    await world.pod("api-1", of="api", spec=SPEC)


async def scale(world: World, name: str, replicas: int, *, kind: str = "Deployment") -> None:
    await world.merge(kind, name, {"spec": {"replicas": replicas}})
    await world.rolled_out(name, kind=kind)


def recorded(controller: Controller, name: str) -> SourceRecord | None:
    """Return what is recorded of the only source of a workload."""
    for store in controller.index.consumers.values():
        for consumer in store.values():
            record = controller.records.get(consumer.uid)
            if consumer.key.name == name and record is not None:
                return record.sources[0]
    return None


async def is_released(world: World, controller: Controller, name: str, uid: str) -> None:
    """Wait until the record of a workload has the new object, and nothing in place of it."""

    async def has_it() -> bool:
        found = recorded(controller, name)
        return found is not None and found.uid == uid and not found.pinned

    await world.until(has_it, f"the hold of {name} ends")


async def is_held(world: World, controller: Controller, name: str, pod: str) -> None:
    """Wait until a workload is held, as an Event says, since that pod uses the source."""

    async def is_told() -> bool:
        found, told = recorded(controller, name), f"as {pod} does"
        keeps = found is not None and (found.pinned or found.immutable)
        events = [each for each in await world.events("Held") if told in each["message"]]
        return keeps and any(each["involvedObject"]["name"] == name for each in events)

    await world.until(is_told, f"{name} is held, and the reason names {pod}")


async def end(world: World, pod: str) -> None:
    """Delete a pod as its kubelet does at last."""
    await world.registry.delete("pods", "default", pod, grace_period=0)


async def test_hold_ends_when_no_workload_that_uses_the_source_has_pods(world: World) -> None:
    """Scaled to zero one after the other; the first is decided on again with the last."""
    await immutable(world)
    for name in ("web", "api"):
        await world.workload(name, spec=SPEC)
        await world.pod(f"{name}-1", of=name, spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        uid = await recreate(world)
        await world.event("Held")
        await end(world, "web-1")
        await scale(world, "web", 0)
        await is_held(world, controller, "web", "api-1")
        await end(world, "api-1")
        await scale(world, "api", 0)
        await is_released(world, controller, "api", uid)
        await is_released(world, controller, "web", uid)


@pytest.mark.parametrize("keeps", ["web-1", "tool"], ids=["terminating", "of no workload"])
async def test_pods_that_keep_the_source_hold_a_workload_without_pods(
    world: World, keeps: str
) -> None:
    """Its own that are terminating, and those of no workload."""
    await immutable(world)
    await world.workload()
    await world.pod("web-1", spec=SPEC)
    await world.pod("done", of="done", spec=SPEC, phase="Succeeded")
    if keeps == "tool":
        await world.pod("tool", of="tool", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        uid = await recreate(world)
        await world.event("Held")
        await world.delete("Pod", "web-1")
        if keeps == "tool":
            await end(world, "web-1")
        await scale(world, "web", 0)
        await is_held(world, controller, "web", keeps)
        await end(world, keeps)
        await is_released(world, controller, "web", uid)


async def test_hold_of_a_cron_job_ends_with_the_pods_of_its_runs(world: World) -> None:
    """It cannot be scaled to zero, and mostly has no pods."""
    await immutable(world)
    await world.cron_job(spec=SPEC)
    await world.pod("report-1", of="report", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        uid = await recreate(world)
        await is_held(world, controller, "report", "report-1")
        await end(world, "report-1")
        await is_released(world, controller, "report", uid)


async def test_new_workload_is_held_beside_pods_that_keep_the_source(world: World) -> None:
    """Also by a controller that has not seen the recreation; and not after the others' end."""
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        uid = await recreate(world)
        await world.event("Held")
        await world.workload("web")
        await is_held(world, controller, "web", "api-1")
    async with world.controller() as controller:
        await world.workload("late")
        await is_held(world, controller, "late", "api-1")
        await end(world, "api-1")
        await asyncio.sleep(2)
        await world.workload("free")
        await is_released(world, controller, "free", uid)


async def test_workload_that_started_beside_a_deleted_one_while_down_is_held(world: World) -> None:
    """The pods of both may have run at once, and then the new one has the old content."""
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
    await recreate(world)
    await world.workload("web", spec=SPEC)
    await world.pod("web-1", started=time.time() + 3, spec=SPEC)
    await world.delete("Deployment", "api")
    await end(world, "api-1")
    async with world.controller() as controller:
        assert "app was immutable and has been recreated" in await world.event("Held")
        found = recorded(controller, "web")
        assert found is not None
        assert found.pinned


async def uninstalled(world: World) -> None:
    """Delete an application that is in use, as Helm does; its pod api-1 is left to its kubelet."""
    await world.delete("Deployment", "api")
    await world.delete("ConfigMap", "app")


@pytest.mark.parametrize("name", ["web", "api"], ids=["another name", "same name"])
async def test_next_controller_follows_immutable_sources_of_deleted_workloads(
    world: World, name: str
) -> None:
    """An application is installed again beside its old pod, while no controller runs."""
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await uninstalled(world)
        await world.quiet(controller)
    await world.passes_a_second()
    await world.config_map(LEVEL="debug")
    await world.workload(name, spec=SPEC)
    await world.pod(f"{name}-2", of=name, started=time.time() + 3, spec=SPEC)
    await end(world, "api-1")
    async with world.controller() as controller:
        assert "app was immutable and has been recreated" in await world.event("Held")
        found = recorded(controller, name)
        assert found is not None
        assert found.pinned


async def test_controller_after_the_next_one_follows_them_too(world: World) -> None:
    """The second one finds the source deleted, and no workload that used it."""
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
    await uninstalled(world)
    async with world.controller() as controller:
        await world.quiet(controller)
    await world.passes_a_second()
    await world.config_map(LEVEL="debug")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.workload("web", spec=SPEC)
        await is_held(world, controller, "web", "api-1")


async def test_end_of_the_last_pod_is_known_to_the_next_controller(world: World) -> None:
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await uninstalled(world)
        await asyncio.sleep(2)
        await end(world, "api-1")
        await asyncio.sleep(2)
    uid = str((await world.config_map(LEVEL="debug"))["metadata"]["uid"])
    for name in ("web", "api"):
        await world.workload(name, spec=SPEC)
        await world.pod(f"{name}-2", of=name, started=time.time() + 3, spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        await is_released(world, controller, "web", uid)
        await is_released(world, controller, "api", uid)
        assert not await world.events("Held")


async def test_workload_beside_a_deleted_one_that_was_held_is_held(world: World) -> None:
    """The source was recreated before this controller started."""
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await recreate(world)
        await world.event("Held")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("Deployment", "api")
        await world.workload("web", spec=SPEC)
        await is_held(world, controller, "web", "api-1")


@pytest.mark.parametrize("last", ["web-2", "api-1"], ids=["its own pod", "the old pod"])
async def test_hold_of_a_new_workload_ends_with_the_last_pod(world: World, last: str) -> None:
    """It is scaled to zero, and pods take their time to end."""
    await immutable_in_use(world)
    async with world.controller() as controller:
        await world.quiet(controller)
        await uninstalled(world)
        await world.passes_a_second()
        uid = str((await world.config_map(LEVEL="debug"))["metadata"]["uid"])
        await world.workload("web", spec=SPEC)
        await world.pod("web-2", of="web", started=time.time() + 3, spec=SPEC)
        await is_held(world, controller, "web", "api-1")
        pods = ["web-2", "api-1"]
        for pod in pods:
            await world.delete("Pod", pod)
        await scale(world, "web", 0)
        pods.remove(last)
        await end(world, pods[0])
        await asyncio.sleep(15)
        await end(world, last)
        await is_released(world, controller, "web", uid)


async def test_workload_that_is_created_after_the_end_of_a_deleted_one_is_not_held(
    world: World,
) -> None:
    await immutable(world)
    await world.workload("api", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
    uid = await recreate(world)
    await world.delete("Deployment", "api")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.workload("web", spec=SPEC)
        await is_released(world, controller, "web", uid)


@pytest.mark.parametrize("name", ["web", "shop"], ids=["same name", "another name"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_equal_content_of_a_recreated_source_holds_nothing_until_an_edit(
    world: World, name: str, restarted: bool
) -> None:
    """An application is installed again beside its old pods, which keep the same content in use."""
    await immutable(world)
    await world.workload("web", spec=SPEC)
    await world.pod("web-1", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        if not restarted:
            await install_anew(world, name)
            await is_adopted(world, controller, name)
    if restarted:
        await install_anew(world, name)
    async with world.controller() as controller:
        await is_adopted(world, controller, name)
        assert not await world.events("Held")
        await world.edit(LEVEL="debug")
        await world.event("Held")


async def install_anew(world: World, name: str) -> None:
    """Delete everything but the pods, and create it again."""
    await world.delete("Deployment", "web")
    await world.delete("ConfigMap", "app")
    await world.config_map(LEVEL="info")
    await world.workload(name, spec=SPEC)
    await world.pod(f"{name}-2", of=name, started=time.time() + 3, spec=SPEC)


async def is_adopted(world: World, controller: Controller, name: str) -> None:
    async def has_it() -> bool:
        found = recorded(controller, name)
        return found is not None and bool(found.uid)

    await world.until(has_it, f"{name} is recorded")


async def test_workload_that_is_recreated_over_held_pods_is_held(world: World) -> None:
    """Its pod has started since the recreation of the source, beside one from before."""
    await immutable(world)
    await world.workload("web", spec=SPEC)
    await world.pod("web-1", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        await recreate(world)
        await world.event("Held")
        await asyncio.sleep(3)
        await world.pod("web-2", started=time.time(), spec=SPEC)
        await end(world, "web-1")
        await asyncio.sleep(5)
        await world.delete("Deployment", "web")
        new = await world.workload("web", spec=SPEC)

        async def is_known() -> bool:
            return controller.records.get(new["metadata"]["uid"]) is not None

        await world.until(is_known, "the new workload is recorded")
        found = recorded(controller, "web")
        assert found is not None
        assert found.pinned


@pytest.mark.parametrize("ended", ["before", "after"])
async def test_first_pods_of_a_workload_beside_pods_that_have_just_ended(
    world: World, ended: str
) -> None:
    """The last old pod ends after or before the first new one starts; a decision may not see it."""
    await immutable(world)
    await world.workload("web", spec=SPEC)
    await world.pod("web-1", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("Deployment", "web")
        await world.delete("Pod", "web-1")
        uid = await recreate(world)
        await world.passes_a_second()
        if ended == "before":
            await end(world, "web-1")
            await asyncio.sleep(3)
        await world.pod("shop-1", of="shop", started=time.time() + 3, spec=SPEC)
        if ended == "after":
            await end(world, "web-1")
        await world.workload("shop", spec=SPEC)
        if ended == "before":
            await is_released(world, controller, "shop", uid)
        else:
            assert "to zero until it is not held" in await world.event("Held")


async def test_pod_of_a_stateful_set_that_started_beside_others_does_not_end_its_hold(
    world: World,
) -> None:
    """It got what the others kept; the next one, alone on its node, ends it."""
    await immutable(world)
    await world.workload("agent", kind="StatefulSet", spec=SPEC)
    await world.workload("api", spec=SPEC)
    await world.pod("agent-1", of="agent", spec=SPEC)
    await world.pod("api-1", of="api", spec=SPEC)
    async with world.controller() as controller:
        await world.quiet(controller)
        uid = await recreate(world)
        await world.event("Held")
        await replace(world, "agent-1", "agent-2")
        await is_held(world, controller, "agent", "api-1")
        await world.delete("Deployment", "api")
        await end(world, "api-1")
        found = recorded(controller, "agent")
        assert found is not None
        assert found.uid != uid
        for _ in range(4):
            await world.passes_a_second()
        await replace(world, "agent-2", "agent-3")
        await is_released(world, controller, "agent", uid)


async def replace(world: World, old: str, new: str) -> None:
    """Replace the pod of a StatefulSet by one that starts soon; its status may not show that."""
    await end(world, old)
    await world.pod(new, of="agent", spec=SPEC, started=time.time() + 3)


async def test_namespace_is_not_listed_for_each_of_many_workloads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that was found is read alone, once a second, as long as it is there."""
    await immutable(world)
    for name in ("web-1", "api-1", "job-1"):
        await world.pod(name, of=name[:3], spec=SPEC)
    found = (await world.registry.list("pods", "default")).items
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
    lists, now = [], 100.0

    async def listed(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        lists.append(options["cached"])
        async for pod in list_items(*arguments, **options):
            yield pod

    async def user(*own: str) -> str:
        use = (await uses.find([APP], {uids[name] for name in own}))[APP]
        return use.pod if use else ""

    monkeypatch.setattr(other_uses, "list_items", listed)
    uses = other_uses.OtherUses(world.client, clock=lambda: now)
    assert [await user("web-1", "job-1") for _ in range(3)] == ["api-1"] * 3
    assert lists == [False]
    assert await user("api-1", "job-1") == "web-1"
    assert await user(*uids) == ""
    await end(world, "api-1")
    assert await user("web-1", "job-1") == "api-1", "it was read less than a second ago"
    now += 1
    assert await user("web-1") == "job-1"
    assert len(lists) == 4
    now += 1
    assert await user("web-1") == "job-1"
    assert len(lists) == 4


async def test_pod_that_is_remembered_is_the_oldest_of_any_workload(world: World) -> None:
    """The consumer that asked first leaves out its own, which are those of others to the next."""
    await immutable(world)
    await world.pod("web-1", of="web", spec=SPEC, started=time.time() - 600)
    await world.pod("api-1", of="api", spec=SPEC, started=time.time() - 60)
    uses = other_uses.OtherUses(world.client)
    found = (await world.registry.list("pods", "default")).items
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
    assert [use.pod for use in (await uses.find([APP], {uids["web-1"]})).values() if use] == [
        "api-1"
    ]
    assert [use.pod for use in (await uses.find([APP], set())).values() if use] == ["web-1"]


async def test_pod_that_has_ended_uses_the_source_until_it_is_deleted(world: World) -> None:
    """Its phase says that it has ended a moment before its kubelet releases the source."""
    await immutable(world)
    await world.pod("web-1", spec=SPEC)
    now = 100.0

    async def user(uses: other_uses.OtherUses) -> str:
        use = (await uses.find([APP], set()))[APP]
        return use.pod if use else ""

    uses = other_uses.OtherUses(world.client, clock=lambda: now)
    assert await user(uses) == "web-1"
    await world.delete("Pod", "web-1")
    await world.starts("web-1", phase="Succeeded")
    now += 2
    assert await user(uses) == "web-1", "read alone"
    assert await user(other_uses.OtherUses(world.client)) == "web-1", "listed"
    await end(world, "web-1")
    now += 2
    assert await user(uses) == ""


async def test_pod_of_another_workload_is_named_beside_an_own_one_that_terminates(
    world: World,
) -> None:
    """The own one may be gone soon; as the oldest, it decides how long the old content is kept."""
    await immutable(world)
    ages = {"web-1": 600, "web-2": 300, "api-1": 60}
    for name, age in ages.items():
        await world.pod(name, of=name[:3], spec=SPEC, started=time.time() - age)
    found = (await world.registry.list("pods", "default")).items
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
    own = {uids["web-1"], uids["web-2"]}

    async def use() -> OtherUse | None:
        return (await other_uses.OtherUses(world.client).find([APP], own))[APP]

    running = await use()
    assert running is not None
    assert (running.pod, running.own, running.ends) == ("api-1", False, False)
    await world.delete("Pod", "web-1")
    beside = await use()
    assert beside is not None
    assert (beside.pod, beside.own, beside.ends) == ("api-1", False, True)
    assert beside.created < running.created
    await end(world, "api-1")
    alone = await use()
    assert alone is not None
    assert (alone.pod, alone.own, alone.ends) == ("web-1", True, True)


async def test_other_pod_that_terminates_is_known_to_end(world: World) -> None:
    """Also where it was read before that."""
    await immutable(world)
    await world.pod("web-1", spec=SPEC)
    now = 100.0
    uses = other_uses.OtherUses(world.client, clock=lambda: now)
    assert [use.ends for use in (await uses.find([APP], ())).values() if use] == [False]
    await world.delete("Pod", "web-1")
    now += 1
    assert [use.ends for use in (await uses.find([APP], ())).values() if use] == [True]
    fresh = other_uses.OtherUses(world.client)
    assert [use.ends for use in (await fresh.find([APP], ())).values() if use] == [True]
