"""An object that cannot be read is neither present nor absent: nothing follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.world import World, env

from hotmap.core.model import limits
from hotmap.kube import decoding

#: Bytes of an object that are decoded here; nothing else in these tests is as large.
LIMIT = 60_000


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LARGEST_OBJECT", LIMIT)


def optional() -> dict[str, Any]:
    return env("LEVEL", optional=True)


async def test_unreadable_source_is_not_deleted(world: World) -> None:
    """Its content is unknown, so nothing is rolled; when it can be read again, it is compared."""
    await world.config_map(LEVEL="info")
    await world.config_map("other", LEVEL="info")
    await world.workload(spec=optional())
    await world.workload("neighbour", env("LEVEL", source="other"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(EXTRA="x" * LIMIT)
        message = await world.event("ObjectUnreadable")
        assert message.startswith("ConfigMap default/app cannot be read")
        assert f"(limit {LIMIT:,})" in message
        await world.edit("other", LEVEL="debug")
        await world.rollout("neighbour")
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(EXTRA=None)
        await world.quiet(controller)
        assert await world.revision() == ""
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_unreadable_workload_keeps_its_record(world: World) -> None:
    """A change that comes while its template cannot be read is not missed, nor by a restart."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    note = {"metadata": {"annotations": {"example.com/note": "x" * LIMIT}}}
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.merge("Deployment", "web", note)
        await world.event("ObjectUnreadable")
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    async with world.controller() as controller:
        await world.quiet(controller)
        assert await world.revision() == ""
        short = {"metadata": {"annotations": {"example.com/note": "short"}}}
        await world.merge("Deployment", "web", short)
        await world.rolled_out()
        await world.rollout()


async def test_workload_beyond_a_bound_is_left_out_with_one_event(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Event names the bound; the others that use the source are rolled out."""
    monkeypatch.setattr(limits, "MAX_VARIABLES", 3)
    await world.config_map(LEVEL="info")
    await world.workload("large", env(*(["LEVEL"] * 4)))
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.quiet(controller)
        assert await world.messages("ObjectTooLarge") == [
            "not tracked: it has 4 environment variables (limit 3)"
        ]
        assert await world.revision("large") == ""
