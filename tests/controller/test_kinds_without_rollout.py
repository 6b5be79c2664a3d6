"""ReplicaSets and Pods of their own, and what all kinds without a rollout have in common.

The plane stores these kinds and runs none of them: the tests play their controllers.
"""

from __future__ import annotations

import pytest
from tests.controller.stored_jobs import find_going, is_true, uid
from tests.controller.world import FOLLOW, NAMESPACE, REREADS, World, files

from hotmap.core.errors import api_error

EVICT = {**FOLLOW, "hotmap.dev/on-change": "evict"}

# -- all kinds --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "Pod"])
async def test_change_without_rollout_is_reported(world: World, kind: str) -> None:
    """One Event says what changed and why nothing is done."""
    await world.config_map(LEVEL="info")
    await (world.job("alone") if kind == "Job" else world.bare(kind))
    async with world.controller() as controller:
        await world.quiet(controller)
        before = await uid(world, kind, "alone")
        await world.edit(LEVEL="debug")
        message = await world.event("Notified")
        await world.quiet(controller)
    assert message.endswith(f": reported only, since a {kind} has no rollout")
    assert await uid(world, kind, "alone") == before
    assert len(await world.events()) == 1


# -- Pods and ReplicaSets ------------------------------------------------------------------------


async def test_pod_is_evicted(world: World) -> None:
    """Once; what brings it back is its owner's business."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("Evicted")
        going = await world.until(lambda: find_going(world, "alone", "Pod"), "the Pod is going")
        await world.quiet(controller)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert message.endswith(": evicting the Pod")
    assert len(await world.events()) == 1


async def test_eviction_waits_for_disruption_budget(world: World) -> None:
    """429 is reported once, and retried until the eviction is allowed."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT)
    tries = 0

    async def exhausted(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            budget = "Cannot evict pod as it would violate the pod's disruption budget."
            raise api_error(429, budget, reason="TooManyRequests", retry_after=1)

    world.registry.delete_guards.append(exhausted)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Evicted")
    assert tries == 3
    (message,) = await world.messages("Failed")
    assert "would violate the pod's disruption budget" in message


@pytest.mark.parametrize("status", [404, 409])
async def test_eviction_of_replaced_pod_is_skipped(world: World, status: int) -> None:
    """This is not a failure: no Event, and no endless retries."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT)
    met = 0

    async def meet(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal met
        met += 1
        if met == 1:
            raise api_error(status, "it is not what it was")

    world.registry.delete_guards.append(meet)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: is_true(met), "the eviction was tried")
        await world.quiet(controller)
    assert await world.messages("Failed") == []


async def test_files_of_a_pod_are_refreshed(world: World) -> None:
    """A bare Pod is nudged like any other."""
    await world.config_map(LEVEL="info")
    labels = {"app": "alone", "hotmap.dev/watch": "true"}
    metadata = {"name": "alone", "labels": labels, "annotations": REREADS}
    body = {"metadata": metadata, "spec": {**files(), "nodeName": "local"}}
    await world.registry.create("pods", NAMESPACE, body, manager="kubectl")
    await world.starts("alone")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Refreshed")
    assert await world.target("alone")


@pytest.mark.parametrize(
    ("kind", "labels", "owner"),
    [
        pytest.param("Pod", {}, None, id="a Pod that does not ask for it"),
        pytest.param("ReplicaSet", {}, None, id="a ReplicaSet that does not ask for it"),
        pytest.param("Pod", None, ("ReplicaSet", "web"), id="a Pod of a workload"),
        pytest.param("ReplicaSet", None, ("Deployment", "web"), id="a ReplicaSet of a Deployment"),
    ],
)
async def test_objects_without_watch_label_are_ignored(
    world: World, kind: str, labels: dict[str, str] | None, owner: tuple[str, str] | None
) -> None:
    """A hundred thousand pods of workloads must cost nothing."""
    await world.config_map(LEVEL="info")
    await world.bare(kind, labels=labels, owner=owner, annotations=EVICT)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert len(controller.index.consumers[kind]) == 0
    assert await world.messages() == []


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(("Database", "db"), id="a kind of its own"),
        pytest.param(("StatefulSet", "db", "apps.kruise.io/v1beta1"), id="a name of a workload"),
        pytest.param(("Job", "db", "batch.volcano.sh/v1alpha1"), id="a name of a Job"),
    ],
)
async def test_pod_owned_by_operator_is_evicted(world: World, owner: tuple[str, ...]) -> None:
    """Its owner is not a workload, so nothing else can replace it."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT, owner=owner)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Evicted")


# -- what cannot be meant ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("Deployment", "run-now", "run-now only applies to a CronJob, not to a Deployment"),
        ("CronJob", "evict", "evict only applies to a Pod, not to a CronJob"),
        ("Job", "restart", 'invalid value "restart": expected run-now, recreate or evict'),
    ],
)
async def test_on_change_value_of_another_kind_is_reported(
    world: World, kind: str, value: str, words: str
) -> None:
    """One Warning Event, and the safe reading."""
    await world.config_map(LEVEL="info")
    said = {**FOLLOW, "hotmap.dev/on-change": value}
    match kind:
        case "CronJob":
            await world.cron_job("alone", annotations=said)
        case "Job":
            await world.job("alone", annotations=said)
        case _:
            await world.workload("alone", annotations=said)
    async with world.controller() as controller:
        message = await world.event("InvalidAnnotation")
        await world.quiet(controller)
    assert words in message
    assert message.endswith("treating as report only")
    assert len(await world.events("InvalidAnnotation")) == 1
