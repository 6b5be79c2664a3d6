"""The promise of it all, under random operations: in the end every pod runs with what is there.

The model is dumb: a pod remembers what it read at its start. Whatever people, kubelets and
crashes do, once all is quiet each pod of a followed consumer must remember the present content.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.controller.world import NAMESPACE, World, env, rfc3339

from hotmap.controller.run import Controller
from hotmap.core.errors import NotFound

SOURCES = ("app", "extra")
CONSUMERS = {"web": ("app",), "api": ("extra",), "job": ("app", "extra")}

#: So few that most edits are taken back sooner or later.
FEW = ("a", "b", "c")


class Fleet:
    """Plays the Deployment controller and the kubelets for all consumers."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        #: What each pod read at its start, by pod and source.
        self.read: dict[str, dict[str, str]] = {}
        self._number = 0
        self._starting: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Replace the pods of every consumer whose template changes, until cancelled."""
        seen: dict[str, object] = {}
        with self._world.registry.watch("deployments", since="0") as events:
            async for event in events:
                name = event.object["metadata"]["name"]
                template = event.object["spec"]["template"]["metadata"].get("annotations")
                if event.type == "DELETED" or seen.get(name, ...) == template:
                    continue
                seen[name] = template
                if name in self._starting:
                    self._starting[name].cancel()
                self._starting[name] = asyncio.create_task(self._roll(name))

    async def stop(self) -> None:
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)

    async def _roll(self, name: str) -> None:
        old = [pod for pod in self.read if pod.startswith(f"{name}-")]
        await asyncio.sleep(self._chance.uniform(0, 0.05))
        await self._start(name)
        for pod in old:
            await self._end(pod)
        await self._world.rolled_out(name)

    async def evict(self, name: str) -> None:
        """Let a node drain take one pod of a consumer; its ReplicaSet starts another."""
        pods = [pod for pod in self.read if pod.startswith(f"{name}-")]
        if pods:
            await self._end(pods[0])
            await self._start(name)

    async def _start(self, name: str) -> None:
        while True:
            try:
                read = {item: await self._value(item) for item in CONSUMERS[name]}
            except (NotFound, KeyError):
                await asyncio.sleep(0.01)  # CreateContainerConfigError: it waits
                continue
            break
        self._number += 1
        pod = f"{name}-{self._number}"
        self.read[pod] = read
        await self._world.pod(pod, of=name, started=time.time())

    async def _end(self, pod: str) -> None:
        if self.read.pop(pod, None) is None:
            return  # a drain was faster
        await self._world.registry.delete("pods", NAMESPACE, pod, grace_period=0)

    async def _value(self, source: str) -> str:
        found = await self._world.get("ConfigMap", source)
        return str(found["data"]["LEVEL"])

    async def stale(self) -> list[str]:
        """Return for each pod that does not run with the present content what it has instead."""
        present = {source: await self._value(source) for source in SOURCES}
        return [
            f"{pod} has {value} of {source}, which is {present[source]}"
            for pod, read in self.read.items()
            for source, value in read.items()
            if value != present[source]
        ]


@asynccontextmanager
async def fleet(world: World, chance: random.Random) -> AsyncIterator[Fleet]:
    pods = Fleet(world, chance)
    running = asyncio.create_task(pods.run())
    try:
        yield pods
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await pods.stop()


def spec(name: str) -> dict[str, object]:
    found = env("LEVEL", source=CONSUMERS[name][0])
    for source in CONSUMERS[name][1:]:
        more = env("LEVEL", source=source)["containers"][0]["env"]
        found["containers"][0]["env"] += [{**item, "name": source} for item in more]
    return found


async def _set_up(world: World) -> None:
    for source in SOURCES:
        await world.config_map(source, LEVEL="a")
    for name in CONSUMERS:
        await world.workload(name, spec(name))


async def _disturb(world: World, chance: random.Random, values: Callable[[], str]) -> None:
    """Edit a source, or delete it and make it again."""
    source = chance.choice(SOURCES)
    if chance.random() < 0.15:
        await world.delete("ConfigMap", source)
        await asyncio.sleep(chance.uniform(0, 0.1))
        await world.config_map(source, LEVEL=values())
    else:
        await world.edit(source, LEVEL=values())


async def _converge(world: World, controller: Controller, pods: Fleet) -> None:
    async def fresh() -> bool:
        await world.quiet(controller)
        await asyncio.sleep(0.2)
        return not await pods.stale()

    try:
        await world.until(fresh, "every pod has the present content")
    except AssertionError:
        said = [
            entry for entries in controller.decision_log.history().values() for entry in entries
        ]
        lines = "\n".join(f"{rfc3339(e.at)} {e.consumer} {e.verdict}: {e.reason}" for e in said)
        raise AssertionError(f"{await pods.stale()}\n{lines}") from None


@pytest.mark.parametrize("seed", [1])
async def test_pods_converge_while_pods_are_replaced(world: World, seed: int) -> None:
    """Edits, reverts, recreations and evictions in any order."""
    chance = random.Random(seed)
    async with fleet(world, chance) as pods:
        await _set_up(world)
        async with world.controller() as controller:
            await world.quiet(controller)
            for _ in range(40):
                await _disturb(world, chance, lambda: chance.choice(FEW))
                await asyncio.sleep(chance.choice((0, 0, 0.02, 0.1)))
                if chance.random() < 0.4:
                    await pods.evict(chance.choice(tuple(CONSUMERS)))
            await _converge(world, controller, pods)


@pytest.mark.parametrize("seed", [1])
async def test_pods_converge_while_controllers_restart(world: World, seed: int) -> None:
    """Edits while it runs and while it is away, stopped at any moment.

    Nothing is taken back here: what was reverted while no watch was open leaves no trace.
    """
    numbers = itertools.count()
    chance = random.Random(seed)
    async with fleet(world, chance) as pods:
        await _set_up(world)
        async with world.controller() as controller:
            await world.quiet(controller)
        for _ in range(6):
            await _disturb(world, chance, lambda: str(next(numbers)))
            async with world.controller():
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(chance.choice((0, 0, 0.02, 0.1)))
                    await _disturb(world, chance, lambda: str(next(numbers)))
                await asyncio.sleep(chance.choice((0, 0.05, 0.1)))
        async with world.controller() as controller:
            await _converge(world, controller, pods)
