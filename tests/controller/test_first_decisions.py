"""Edits while a controller that starts for the first time has not decided on everything yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controller.world import FOLLOW, NAMESPACE, REREADS, World, env, files

from hotmap.core.model.objects import ObjectKey


class Start:
    """A controller that has listed everything and is kept from deciding on it."""

    def __init__(self, world: World) -> None:
        self.controller = world.controller()
        self._world = world
        self._may_decide = asyncio.Event()
        self._reading = world.plane.fail("get", "secrets", name="hotmap-state-")
        self._reading.meet = self._hold  # type: ignore[method-assign]

    async def _hold(self) -> None:
        await self._may_decide.wait()

    async def is_listed(self) -> bool:
        return self._reading.met > 0

    async def saw(self, kind: str, name: str) -> None:
        """Wait until the newest version of an object has arrived."""

        async def arrived() -> bool:
            found = await self._world.get(kind, name)
            known = self.controller.index.store(kind).get(ObjectKey(kind, NAMESPACE, name))
            version = found["metadata"]["resourceVersion"]
            return known is not None and known.resource_version == version

        await self._world.until(arrived, f"{kind} {name} has arrived")

    async def sees_edit(self, **data: str) -> None:
        """Edit the ConfigMap `app`, and wait until that has arrived."""
        await self._world.edit(**data)
        await self.saw("ConfigMap", "app")

    async def decide(self) -> None:
        """Let it decide, and wait until it has nothing left to do."""
        self._may_decide.set()
        await self._world.until(self._acts, "it leads")
        await self._world.quiet(self.controller)

    async def _acts(self) -> bool:
        return bool(self.controller.queue_statistics())


@asynccontextmanager
async def starting(world: World) -> AsyncIterator[Start]:
    """Start a controller, up to where it has listed everything."""
    start = Start(world)
    entering = asyncio.create_task(start.controller.__aenter__())
    try:
        await world.until(start.is_listed, "the records are read")
        yield start
    finally:
        start._may_decide.set()
        await entering
        await start.controller.__aexit__(None, None, None)


async def test_edit_before_the_first_decision_is_rolled_out(world: World) -> None:
    """The content at the start is adopted, and what came after it is a change."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with starting(world) as start:
        await start.sees_edit(LEVEL="debug")
        await start.decide()
        await world.rollout()
    (message,) = await world.messages("RolledOut")
    assert "LEVEL" in message


async def test_files_edited_before_the_first_decision_are_nudged(world: World) -> None:
    """A process that re-reads its files needs no rollout, whenever they were edited."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations=REREADS)
    await world.pod("web-1")
    async with starting(world) as start:
        await start.sees_edit(LEVEL="debug")
        await start.decide()
        assert await world.target("web-1")
    assert not await world.revision()


async def test_source_created_before_the_first_decision_is_a_change(world: World) -> None:
    """The container has started without it, since it is optional."""
    await world.workload(spec=env("LEVEL", optional=True))
    await world.pod("web-1")
    async with starting(world) as start:
        await world.config_map(LEVEL="info")
        await start.saw("ConfigMap", "app")
        await start.decide()
        assert await world.rollout()


async def test_only_what_the_edit_concerns_is_rolled_out(world: World) -> None:
    """Another source, another data key, and a revert before the decision are not changes."""
    await world.config_map(LEVEL="info", COLOR="red")
    await world.config_map("other", LEVEL="info")
    await world.workload()
    await world.workload("beside", env("LEVEL", source="other"))
    async with starting(world) as start:
        await world.edit("other", LEVEL="debug")
        await world.edit("other", LEVEL="info")
        await world.edit(COLOR="blue")
        await start.saw("ConfigMap", "app")
        await start.saw("ConfigMap", "other")
        await start.decide()
        assert (await world.revision(), await world.revision("beside")) == ("", "")


async def test_workload_created_after_the_edit_is_adopted_as_it_is(world: World) -> None:
    """Its pods have never had anything else."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with starting(world) as start:
        await start.sees_edit(LEVEL="debug")
        await world.workload("late")
        await start.saw("Deployment", "late")
        await start.decide()
        await world.rollout()
        assert not await world.revision("late")


async def test_catching_up_replaces_pods_once(world: World) -> None:
    """With catch-up the starts of the pods tell, so the current content is compared at once."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/catch-up": "true"})
    await world.pod("web-1")
    async with starting(world) as start:
        await start.sees_edit(LEVEL="debug")
        await start.decide()
        await world.rollout()
    assert len(await world.messages("RolledOut")) == 1


async def test_second_edit_after_the_first_decisions_is_a_change(world: World) -> None:
    """Nothing of the start is kept once everything has been decided on."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with starting(world) as start:
        await start.sees_edit(LEVEL="debug")
        await start.decide()
        first = await world.rollout()
        await world.workload("late")
        await world.quiet(start.controller)
        assert not await world.revision("late")
        await world.edit(LEVEL="warn")
        await world.rollout(after=first)
        await world.rollout("late")
