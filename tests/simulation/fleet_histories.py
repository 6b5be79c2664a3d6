"""Random histories of several workloads with one source, against the whole controller.

The history plays users and the workloads' own controllers. A limit says how many workloads are
rolled out at a time.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import NamedTuple

from tests.controller.world import FOLLOW, NAMESPACE, Object, World
from tests.simulation.controller_histories import CONVERGED, ControllerHistory, play_history

from hotmap.core.errors import NotFound
from hotmap.core.model.consumer import REVISION
from hotmap.local.apiserver.options import WriteOptions
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.client import PatchKind

__all__ = ["play_fleet_history"]

LIMIT = "hotmap.dev/max-concurrent-rollouts"

_NAMES = ("a", "b", "c", "d")

#: A value with which no pod becomes available.
_BAD = "bad"

#: Seconds for which an earlier limit may count, since a watch lags.
_LAG = 3.0

#: Events of a history, and how often each happens beside the others.
_EVENTS = {
    "edit": 8,
    "break": 2,
    "change_limit": 3,
    "pause": 2,
    "scale": 2,
    "recreate": 2,
    "follow": 2,
    "suspend": 1,
    "fail": 2,
    "delay": 1,
    "restart": 3,
    "cut_off": 2,
}


class _Pod(NamedTuple):
    """A pod, and the value that it has read."""

    name: str
    template: str
    value: str


class _FleetHistory(ControllerHistory):
    events = _EVENTS
    most_events = 16

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._limit = chance.choice((1, 1, 2))
        #: Until when each limit counts, on the loop's clock.
        self._limits: dict[int, float] = {}
        #: Seconds for which a rollout may be under way.
        self._under_way = _LAG
        #: Workloads whose rollout is not complete, by name: since when.
        self._unfinished: dict[str, float] = {}
        self._rolled_at: dict[str, float] = {}
        self._exempt: set[str] = set()
        self._value = "0"
        #: The pods of each workload, and how many have been made.
        self._pods: dict[str, list[_Pod]] = {}
        self._made = 0
        #: The first promise that was broken.
        self.broken = ""

    # -- what is observed ----------------------------------------------------------------------

    def _observe_rollouts(self) -> None:
        """Note each rollout when it is written, and whether it had to wait."""
        requests = self._world.registry.admitted
        write = requests.patch

        async def observed(
            path: ResourcePath, kind: PatchKind, patch: object, options: WriteOptions
        ) -> Object:
            name, is_deployment = path.name, path.kind.plural == "deployments"
            before = await self._revision(name) if is_deployment else ""
            answer = await write(path, kind, patch, options)
            if is_deployment and _revision_of(answer) != before:
                self._note(f"rolls out {name}: {_revision_of(answer)}")
                self._check(name, answer)
            return answer

        requests.patch = observed  # type: ignore[method-assign]

    async def _revision(self, name: str) -> str:
        with suppress(NotFound):
            return _revision_of(await self._world.get("Deployment", name))
        return ""

    def _check(self, name: str, found: Object) -> None:
        now = self._now()
        self._rolled_at[name] = now
        self._exempt.discard(name)
        spec = found["spec"]
        if spec.get("paused") or spec.get("replicas") == 0:
            return
        others = self._unfinished.keys() - {name} - self._exempt
        limits = [limit for limit, until in self._limits.items() if until >= now]
        most = max(limits) if 0 not in limits else len(_NAMES)
        is_counted = name in self._unfinished  # it has a turn, also where the limit was lowered
        if len(others) >= most and not is_counted and not self.broken:
            self.broken = f"{name} is rolled out beside {sorted(others)}, and {most} may be"
            self._note(self.broken)
        self._unfinished[name] = now

    async def _play_others(self) -> None:
        """Be the workloads' own controller: replace their pods after a while."""
        due: dict[str, tuple[int, float]] = {}
        while True:
            await asyncio.sleep(0.1)
            for name in _NAMES:
                with suppress(NotFound):
                    found = await self._world.get("Deployment", name)
                    await self._progress(name, found, due)

    async def _progress(self, name: str, found: Object, due: dict[str, tuple[int, float]]) -> None:
        generation = found["metadata"]["generation"]
        if found["spec"].get("paused"):
            self._exempt.add(name)  # also after a rollout that was written while it was paused
            return
        known, at = due.get(name, (0, 0.0))
        if known != generation:
            due[name] = generation, self._now() + self._chance.choice((0.1, 0.5, 2.0, 8.0))
        elif self._now() >= at and found["status"].get("observedGeneration") != generation:
            await self._replace_pods(name, found)
            available = all(pod.value != _BAD for pod in self._pods[name])
            await self._world.rolled_out(name, available=available)
            self._note(f"{name} {generation} is {'complete' if available else 'not available'}")
            if available:
                self._unfinished.pop(name, None)

    async def _replace_pods(self, name: str, found: Object) -> None:
        """Replace the pods of another template, and have as many as are wanted."""
        world, template = self._world, _revision_of(found)
        pods = self._pods.setdefault(name, [])
        kept = [pod for pod in pods if pod.template == template][: found["spec"]["replicas"]]
        for pod in pods:
            if pod not in kept:
                await world.registry.delete("pods", NAMESPACE, pod.name)
        while len(kept) < found["spec"]["replicas"]:
            self._made += 1
            pod = _Pod(f"{name}-{self._made}", template, self._value)
            await world.pod(pod.name, of=name, started=time.time())
            kept.append(pod)
        self._pods[name] = kept

    # -- events --------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        await self._world.config_map(LEVEL=self._value)
        await self._set_limit(self._limit)
        for name in _NAMES:
            await self._replace_pods(name, await self._world.workload(name))
        self._observe_rollouts()

    async def _is_adopted(self) -> bool:
        return len(await self._world.recorded()) == len(_NAMES)

    async def _edit(self) -> None:
        await self._set_value(str(self._chance.randrange(100)))

    async def _break(self) -> None:
        await self._set_value(_BAD)

    async def _set_value(self, value: str) -> None:
        self._value = value
        await self._world.edit(LEVEL=value)

    async def _change_limit(self) -> None:
        await self._set_limit(self._chance.choice((0, 1, 1, 2, 3)))

    async def _set_limit(self, limit: int) -> None:
        now = self._now()
        for before in self._limits:
            self._limits[before] = min(self._limits[before], now + self._under_way)
        self._limits[limit] = float("inf")
        annotations = {LIMIT: str(limit)}
        await self._world.merge("ConfigMap", "app", {"metadata": {"annotations": annotations}})

    async def _pause(self) -> None:
        name = self._chance.choice(_NAMES)
        paused = not (await self._world.get("Deployment", name))["spec"].get("paused", False)
        self._exempt.add(name)  # resumed, it goes on without a turn
        await self._world.merge("Deployment", name, {"spec": {"paused": paused}})

    async def _scale(self) -> None:
        name, replicas = self._chance.choice(_NAMES), self._chance.choice((0, 1, 2))
        self._exempt.add(name)
        await self._world.merge("Deployment", name, {"spec": {"replicas": replicas}})

    async def _recreate(self) -> None:
        name = self._chance.choice(_NAMES)
        await self._world.delete("Deployment", name)
        self._unfinished.pop(name, None)
        for pod in self._pods.pop(name):
            await self._world.registry.delete("pods", NAMESPACE, pod.name)
        await asyncio.sleep(self._chance.choice((0.0, 0.3)))
        await self._replace_pods(name, await self._world.workload(name))

    async def _follow(self) -> None:
        name = self._chance.choice(_NAMES)
        found = await self._world.get("Deployment", name)
        is_followed = "hotmap.dev/follow" in (found["metadata"].get("annotations") or {})
        self._exempt.add(name)
        await self._world.annotate(name, follow=None if is_followed else "auto")

    async def _suspend(self) -> None:
        name = self._chance.choice(_NAMES)
        found = await self._world.get("Deployment", name)
        annotations = found["metadata"].get("annotations") or {}
        value = None if "hotmap.dev/suspend" in annotations else "true"
        await self._world.annotate(name, suspend=value)

    async def _fail(self) -> None:
        code, times = self._chance.choice((409, 500, 429)), self._chance.choice((1, 3))
        self._world.plane.fail("patch", "deployments.apps", code=code, times=times)

    async def _delay(self) -> None:
        late = self._world.plane.fail("patch", "deployments.apps", times=1)
        late.delay = self._chance.choice((2.0, 20.0))
        self._under_way = max(self._under_way, _LAG + late.delay)

    def _before_interruption(self) -> None:
        """Exempt rollouts in progress: the next leader counts only those after the last edit."""
        self._exempt |= set(self._unfinished)

    # -- the end -------------------------------------------------------------------------------

    async def _end(self) -> str:
        """Let everything go on, and wait until each workload has the last content."""
        world = self._world
        world.plane.failures.clear()
        for name in _NAMES:
            metadata = {"annotations": {**FOLLOW, "hotmap.dev/suspend": None}}
            spec = {"paused": False, "replicas": 1}
            await world.merge("Deployment", name, {"metadata": metadata, "spec": spec})
        for process in self._processes:
            await process.start()
        await asyncio.sleep(10.0)  # pods are there that have to be replaced
        self._note("ends")
        await self._set_value("last")

        def late() -> list[str]:
            pods = self._pods.items()
            return [name for name, found in pods if any(pod.value != "last" for pod in found)]

        async def converged() -> bool:
            return not late()

        try:
            await world.until(converged, "every workload is rolled out", within=CONVERGED)
        except AssertionError:
            return self.broken or f"{late()} do not have the last content"
        await asyncio.sleep(60.0)  # pods may have read it before their turn
        rolled = dict(self._rolled_at)
        await asyncio.sleep(30.0)
        if rolled != self._rolled_at and not self.broken:
            self.broken = f"rolled out again without cause: {rolled} {self._rolled_at}"
        for process in self._processes:
            term = process.controller and process.controller._leadership.term
            if term and (term.rollout_turns._waiting or term.rollout_turns._turns):
                self.broken = self.broken or "turns are kept although no rollout is in progress"
        return self.broken


def _revision_of(found: Object) -> str:
    annotations = found["spec"]["template"]["metadata"].get("annotations") or {}
    return str(annotations.get(REVISION, ""))


def play_fleet_history(seed: int) -> tuple[str, list[str]]:
    """Play one history; returns the promise that it breaks, "" for none, and what happened."""
    return play_history(_FleetHistory, seed)
