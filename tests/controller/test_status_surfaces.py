"""The overview, a named workload, a user's view and the metrics call a workload the same.

Random histories of pods and edits: after each step the state is asked for in all these ways.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from tests.controller.pages import count_workloads
from tests.controller.world import REREADS, World, env, files

from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings

SOON = PodCheckSettings(rate=100.0, initial_delay=0.0)

STEPS = 8


class History:
    """One random history, and what its processes have."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._numbers = itertools.count()
        self._pods: list[str] = []
        self.described: list[str] = []

    async def begin(self) -> None:
        await self._world.config_map(LEVEL="0")
        if self._chance.random() < 0.5:
            await self._world.workload("web", env("LEVEL"))
        else:
            await self._world.workload("web", files(), annotations=REREADS)
        await self.add_pod()

    async def step(self) -> None:
        steps: list[Callable[[], Awaitable[None]]] = [
            self.edit,
            self.edit_unused,
            self.add_pod,
            self.stop_pod,
            self.delete_pod,
            self.delete_source,
            self.pause,
        ]
        chosen = self._chance.choice(steps)
        self.described.append(chosen.__name__)
        await chosen()

    async def edit(self) -> None:
        if not await self._world.exists("ConfigMap", "app"):
            await self._world.config_map(LEVEL=str(next(self._numbers)))
        else:
            await self._world.edit(LEVEL=str(next(self._numbers)))

    async def edit_unused(self) -> None:
        if await self._world.exists("ConfigMap", "app"):
            await self._world.merge("ConfigMap", "app", {"metadata": {"labels": {"a": "b"}}})

    async def add_pod(self) -> None:
        name = f"web-{next(self._numbers)}"
        started = time.time() + self._chance.choice((-3600, -1, 0, 5))
        await self._world.pod(name, started=started)
        self._pods.append(name)

    async def stop_pod(self) -> None:
        if self._pods:
            stopped = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": False}]}
            await self._world.merge_status("Pod", self._chance.choice(self._pods), stopped)

    async def delete_pod(self) -> None:
        if self._pods:
            await self._world.delete("Pod", self._pods.pop())

    async def delete_source(self) -> None:
        if await self._world.exists("ConfigMap", "app"):
            await self._world.delete("ConfigMap", "app")

    async def pause(self) -> None:
        paused = self._chance.random() < 0.5
        await self._world.merge("Deployment", "web", {"spec": {"paused": paused}})
        await self._world.rolled_out("web")


async def get(http: aiohttp.ClientSession, controller: Controller, query: str) -> dict[str, Any]:
    url = f"http://127.0.0.1:{controller.port}/v1/status?{query}"
    async with http.get(url) as response:
        document: dict[str, Any] = await response.json()
    return document


@pytest.mark.parametrize("seed", range(6))
async def test_every_view_has_the_same_state(
    world: World, http: aiohttp.ClientSession, seed: int
) -> None:
    """With a decision to come and without; a pod of older content never counts as current."""
    chance = random.Random(seed)
    history = History(world, chance)
    await history.begin()
    settle = chance.choice((0.03, 30.0))
    async with world.controller(pod_checks=SOON, settle=settle, settle_max=settle) as controller:
        await world.quiet(controller)
        for _ in range(STEPS):
            await history.step()
            if settle < 1:
                await world.quiet(controller)
            named = await get(http, controller, "workload=default/web&consistent=true")
            overview = await get(http, controller, "namespace=default")
            counts = await count_workloads(http, controller)
            (entry,), (other,) = named["workloads"], overview["workloads"]
            states = {entry["state"], other["state"], *(k for k, v in counts.items() if v)}
            assert len(states) == 1, (history.described, entry["reason"], other["reason"], counts)
            assert entry["actionRequired"] == other["actionRequired"]
            assert (named["counts"], named["behind"]) == (overview["counts"], overview["behind"])
            if entry["state"] == "current":
                assert all(pod["ready"] for pod in entry["pods"]), history.described
                assert {pod["loaded"]["confidence"] for pod in entry["pods"]} <= {
                    "proven",
                    "probable",
                    "inferred",
                }
