"""A nudge that is refused, removed or fails: it is reported, or sent again."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import aiohttp
import pytest
from tests.controller.sent_nudges import count_nudges, hurried, nudged, rereading_workload
from tests.controller.world import REREADS, World, files

from hotmap.core.errors import api_error


async def told_twice(world: World, *pods: str) -> None:
    """Wait until each pod was told the same for the second time."""

    async def is_reported() -> bool:
        return all([(await world.target(pod)).startswith("2/") for pod in pods])

    await world.until(is_reported, f"{pods} are told twice")


@hurried
async def test_policy_refuses_the_nudge(world: World) -> None:
    """One Warning says so; the pod's kubelet refreshes the files in its own time."""

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods":
            raise api_error(403, "pods may not be written before the holidays")

    world.registry.guards.append(refuse)
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("NudgeRefused")
        await world.quiet(controller)
    assert message == (
        "Pod default/web-1 refuses the nudge: pods may not be written before the holidays"
    )
    (event,) = await world.events("NudgeRefused")
    assert event["type"] == "Warning"
    assert await world.revision() == ""


@hurried
async def test_nudge_that_a_webhook_removes_is_refused(
    world: World, http: aiohttp.ClientSession
) -> None:
    """It is not sent again and again, neither as a second one nor for each query of the status."""
    sent = 0

    async def remove(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        nonlocal sent
        if plural == "pods":
            sent += 1
            del patch["metadata"]["annotations"]

    world.registry.guards.append(remove)
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("NudgeRefused")
        url = f"http://127.0.0.1:{controller.port}/v1/status?workload=Deployment/default/web"
        for _ in range(20):
            async with http.get(url) as response:
                assert (await response.json())["counts"]["current"] == 0
            await world.quiet(controller)
            await asyncio.sleep(1)
    assert message == (
        "Pod default/web-1 refuses the nudge: an admission policy or webhook removed the annotation"
    )
    assert sent <= 3


@hurried
@pytest.mark.parametrize("code", [429, 500, 503])
async def test_failed_nudge_is_retried(world: World, code: int) -> None:
    """That pod alone is retried until it succeeds; it is not reported as a refusal."""
    failing = {"web-2": 3}

    async def fail(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods" and failing.get(name, 0) > 0:
            failing[name] -= 1
            raise api_error(code, "not now", retry_after=0.01)

    world.registry.guards.append(fail)
    sent = count_nudges(world)
    await rereading_workload(world, "web-1", "web-2", "web-3")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await told_twice(world, "web-1", "web-2", "web-3")
        await world.quiet(controller)
    assert sent == {"web-1": 2, "web-2": 2, "web-3": 2}
    assert await world.events("NudgeRefused") == []
    assert await world.revision() == ""


async def test_edit_of_which_a_pod_was_not_told_leaves_out_a_number(world: World) -> None:
    """Its files may come late and be taken for those of the next edit, which its agent has to know.

    Nudges fail until the second edit.
    """
    refused: set[str] | None = set()

    async def fail(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods" and refused is not None:
            refused.add(patch["metadata"]["annotations"]["hotmap.dev/target"])
            raise api_error(503, "not now", retry_after=0.01)

    async def refuse(most: int) -> None:
        async def are_refused() -> bool:
            return refused is not None and len(refused) == most

        await world.until(are_refused, f"nudges of {most} contents fail")

    world.registry.guards.append(fail)
    await rereading_workload(world, "web-1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await refuse(1)
        await world.edit(LEVEL="trace")
        await refuse(2)
        refused = None
        first = await nudged(world, "web-1")
        second = await nudged(world, "web-1", after=first)
        await world.quiet(controller)
        await world.edit(LEVEL="warn")
        third = await nudged(world, "web-1", after=second)
    assert [text.split("/")[0] for text in (first, second, third)] == ["2", "3", "4"]


@hurried
async def test_failed_second_nudge_is_retried(world: World) -> None:
    """Only the pod that missed it is told once more; the others had theirs."""
    failing = {"web-2": 3}
    counts: Counter[str] = Counter()

    async def fail(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "pods" and counts[name] == 1 and failing.get(name, 0) > 0:
            failing[name] -= 1
            raise api_error(429, "not now", retry_after=0.01)
        if plural == "pods":
            counts[name] += 1

    world.registry.guards.append(fail)
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations=REREADS, replicas=2)
    for number in (1, 2):
        await world.pod(f"web-{number}")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await told_twice(world, "web-1", "web-2")
        await world.quiet(controller)
    assert failing == {"web-2": 0}
    assert counts == {"web-1": 2, "web-2": 2}
