"""What disturbs a random trial: edits, and everything else that happens in a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.walkthroughs.backend import JsonObject
from tests.walkthroughs.trial_cluster import Source, TrialCluster
from tests.walkthroughs.trial_workloads import KEYS, TrialWorkload

from hotmap.core.errors import HotmapError, NotFound
from hotmap.kube.resources import BY_KIND, PODS

__all__ = ["Disturbances"]


class Disturbances:
    """Random steps, and the repair of what they leave."""

    def __init__(self, cluster: TrialCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._stopped: set[int] = set()
        self._paused: set[str] = set()
        #: How many steps there were, by name.
        self.steps: Counter[str] = Counter()

    async def step(self) -> None:
        steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (10, self._edit),
            (8, self._edit_twice),
            (5, self.edit_many),
            (6, self._edit_and_revert),
            (3, self._remove_key),
            (4, self._recreate_source),
            (1, self._recreate_immutable),
            (3, self._delete_pods),
            (3, self._scale),
            (3, self._restart_rollout),
            (2, self._pause_or_resume),
            (6, self._signal_agent),
            (3, self._kill_application),
            (5, self._change_mode),
            (3, self._restart_controller),
            (2, self._edit_while_controller_is_down),
            (1, self._follow_off_and_on),
            (1, self._remove_target),
        ]
        weights = [weight for weight, _ in steps]
        (_, step), *_ = self._random.choices(steps, weights)
        name = step.__name__.removeprefix("_")
        self.steps[name] += 1
        self._cluster.say(name)
        try:
            await step()
        except HotmapError as error:
            self._cluster.say(f"{name}: {error}")

    def _any_source(self) -> Source:
        names = self._random.choice(self._cluster.workloads).sources
        return self._cluster.sources[self._random.choice(list(names))]

    def _mutable_source(self) -> Source:
        while True:
            source = self._any_source()
            if not source.immutable and source.data is not None:
                return source

    async def _edit(self) -> None:
        source = self._mutable_source()
        await self._cluster.edit(source, self._some_keys())

    def _some_keys(self) -> tuple[str, ...]:
        return self._random.choice((KEYS, KEYS[:1], KEYS[1:2], KEYS[:2]))

    async def _edit_twice(self) -> None:
        source = self._mutable_source()
        for _ in range(2):
            await self._cluster.edit(source, self._some_keys())
            await asyncio.sleep(self._random.random())

    async def edit_many(self) -> None:
        """Edit all sources, as one apply of many objects does."""
        for source in self._cluster.sources.values():
            if not source.immutable and source.data is not None:
                await self._cluster.edit(source, self._some_keys())

    async def _edit_and_revert(self) -> None:
        source = self._mutable_source()
        before = dict(source.data or {})
        await self._cluster.edit(source, KEYS)
        await asyncio.sleep(self._random.choice((0.0, 0.005, 0.1, 0.5, 1.2)))
        await self._cluster.patch_source(source, before)

    async def _remove_key(self) -> None:
        """Remove the last data key, and later add it again."""
        source = self._mutable_source()
        data = dict(source.data or {})
        if data.pop(f"{source.name}{KEYS[-1]}", None) is None:
            data = self._cluster.new_data(source, KEYS[-1:])
        await self._cluster.patch_source(source, data)

    async def _recreate_source(self) -> None:
        source = self._mutable_source()
        data = dict(source.data or {})
        if self._random.random() < 0.6:
            data = self._cluster.new_data(source, KEYS)
        await self._cluster.delete_source(source)
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.2, 3.0)))
        await self._cluster.create_source(source, data)

    async def _recreate_immutable(self) -> None:
        """Make a source immutable, and recreate it with other content."""
        source = self._mutable_source()
        source.immutable = True
        await self._cluster.client.patch(
            BY_KIND[source.kind],
            self._cluster.namespace,
            source.name,
            {"immutable": True},
            type=JsonObject,
            field_manager="kubectl",
        )
        await asyncio.sleep(self._random.choice((0.0, 1.0)))
        data = self._cluster.new_data(source, KEYS)
        await self._cluster.delete_source(source)
        await self._cluster.create_source(source, data, immutable=True)

    async def _delete_pods(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        for pod in await self._cluster.pods(workload):
            with contextlib.suppress(NotFound):
                await self._cluster.client.delete(
                    PODS, self._cluster.namespace, pod["metadata"]["name"]
                )
        if workload.shape.kind == "Pod":
            await self._cluster.wait_until_gone(workload)
            await self._cluster.create(workload)

    async def _scale(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        if workload.shape.kind in ("Deployment", "StatefulSet"):
            replicas = self._random.choice((0, 1, 2, 2))
            await self._cluster.patch_workload(workload, {"spec": {"replicas": replicas}})

    async def _restart_rollout(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        if workload.shape.kind != "Pod":
            await self._cluster.restart(workload)

    async def _pause_or_resume(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        if workload.shape.kind == "Deployment":
            paused = workload.name not in self._paused
            await self._cluster.patch_workload(workload, {"spec": {"paused": paused}})
            self._paused ^= {workload.name}

    def _agents(self, workload: TrialWorkload) -> list[int]:
        marker = f"\0--listen\0:{workload.agent_port}\0".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if marker in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return sorted(found)

    async def _signal_agent(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        if not workload.shape.has_agent:
            return
        number = self._random.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGSTOP))
        for pid in self._agents(workload):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                if number is signal.SIGSTOP:
                    self._stopped.add(pid)
        if number is signal.SIGSTOP:
            names = list(workload.sources)
            for _ in range(self._random.choice((0, 1, 2))):
                source = self._cluster.sources[self._random.choice(names)]
                if not source.immutable and source.data is not None:
                    await self._cluster.edit(source, KEYS)
                await asyncio.sleep(self._random.choice((0.1, 0.5, 1.0)))
            self.continue_agents()

    def continue_agents(self) -> None:
        for pid in self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()

    async def _kill_application(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        marker = f"\0{workload.port}\0{workload.mark}".encode()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                words = (folder / "cmdline").read_bytes()
                if marker in words and b"--listen\0" not in words:
                    os.kill(int(folder.name), signal.SIGKILL)

    async def _change_mode(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        mode = self._random.choice(("fail", "slow", "ok"))
        await self._cluster.set_mode(workload, mode)

    async def _restart_controller(self) -> None:
        await self._cluster.kill_controller(self._random.choice((signal.SIGKILL, signal.SIGTERM)))
        await self._cluster.start_controller()

    async def _edit_while_controller_is_down(self) -> None:
        await self._cluster.kill_controller(signal.SIGKILL)
        for _ in range(self._random.choice((1, 3))):
            await self._random.choice((self._edit, self._edit_and_revert, self._recreate_source))()
        await self._cluster.start_controller()

    async def _follow_off_and_on(self) -> None:
        workload = self._random.choice(self._cluster.workloads)
        for value in ("off", "auto"):
            body = {"metadata": {"annotations": {"hotmap.dev/follow": value}}}
            await self._cluster.patch_workload(workload, body)
            if value == "off":
                await self._edit()
                await asyncio.sleep(self._random.random())

    async def _remove_target(self) -> None:
        """Remove the announcement from pods, as a careless replace does."""
        workload = self._random.choice(self._cluster.workloads)
        for pod in await self._cluster.pods(workload):
            await self._cluster.client.patch(
                PODS,
                self._cluster.namespace,
                pod["metadata"]["name"],
                {"metadata": {"annotations": {"hotmap.dev/target": None}}},
                type=JsonObject,
                field_manager="kubectl",
            )

    async def repair(self) -> None:
        """End every disturbance, so that what is left is hotmap's."""
        self._cluster.say("repair")
        self.continue_agents()
        if self._cluster.controller is None:
            await self._cluster.start_controller()
        for source in self._cluster.sources.values():
            if source.data is None:
                await self._cluster.create_source(source, self._cluster.new_data(source, KEYS))
        for workload in self._cluster.workloads:
            body: JsonObject = {}
            if workload.shape.kind == "Deployment":
                body = {"spec": {"paused": False, "replicas": 2}}
            elif workload.shape.kind == "StatefulSet":
                body = {"spec": {"replicas": 2}}
            if body:
                await self._cluster.patch_workload(workload, body)
            await self._cluster.set_mode(workload, "ok")
        self._paused.clear()
