"""One ConfigMap that hundreds of workloads mount: how soon are all of their pods nudged?

The pods are objects of the local plane's API server without a node, so that nothing else uses the
processor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.bench_fan_out import WRITERS
from benchmarks.clusters import TIMEOUT, ClusterUser, cluster_user, in_background
from benchmarks.figures import Figure, Table, at_most, quantile
from benchmarks.generate import config_map, pod_elsewhere, rereading_workload
from benchmarks.machine import cpu_seconds
from benchmarks.processes import controller, local_plane
from benchmarks.scope import Scope, measured
from hotmap.core.target import TARGET

__all__ = ["run"]

#: Edits, one after the other, and seconds between them, in which second nudges are sent.
_EDITS, _BETWEEN = 3, 6.0

_RFC3339 = "%Y-%m-%dT%H:%M:%SZ"


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Edit a ConfigMap that 300 workloads of one pod each mount and re-read."""
    count = scope.count(300)
    with measured(f"Nudges of {count:,} workloads, local plane") as result:
        async with local_plane() as plane, cluster_user(plane.cluster()) as user:
            pods = await _create(user, count)
            bare = await _bare_patches(user, pods)
            async with (
                controller(plane.cluster(), "--pod-check-rate", "0") as running,
                _watch_nudges(user) as watch,
            ):
                used, lasts = cpu_seconds(running.pid), []
                for number in range(_EDITS):
                    began, _ = await user.edit("files", {"LEVEL": f"edit {number}"})
                    lasts.append(await watch.next_of(count) - began)
                    await asyncio.sleep(_BETWEEN)
                used = (cpu_seconds(running.pid) - used) / _EDITS
        result.figures = [
            Figure("edit → last first nudge seen", lasts, "s"),
            Figure(f"{count:,} PATCHes by a bare client", [bare], "s"),
            Figure("… median, in those", [quantile(lasts, 0.5) / bare], "", at_most(3, "max")),
            Figure("… processor time of the controller", [used], "s"),
        ]
        result.notes = [
            f"The bare client has {WRITERS} requests at a time.",
            "Processor time is of one edit, with second nudges, Events and records.",
        ]
    yield result.table()


async def _create(user: ClusterUser, count: int) -> list[str]:
    """Create the ConfigMap, its workloads and a running pod of each; returns the pods' names."""
    await user.create([config_map("files", LEVEL="0")])
    names = [f"app-{number}" for number in range(count)]
    await user.create(rereading_workload(name, "files") for name in names)
    await user.report_scheduled(names, 1)
    await user.create(pod_elsewhere(f"{name}-pod", name) for name in names)
    addresses = {
        f"{name}-pod": f"127.90.{number // 250}.{number % 250 + 1}"
        for number, name in enumerate(names)
    }
    await user.report_running(addresses, time.strftime(_RFC3339, time.gmtime()))
    return list(addresses)


async def _bare_patches(user: ClusterUser, pods: list[str]) -> float:
    """Annotate each pod; returns the seconds that it took."""
    slots = asyncio.Semaphore(WRITERS)

    async def patch(pod: str) -> None:
        async with slots:
            await user.mark("Pod", pod, {"example.com/by-hand": "1"})

    began = time.perf_counter()
    await asyncio.gather(*map(patch, pods))
    return time.perf_counter() - began


class _NudgeWatch:
    """Notes the first nudge of each pod with new content when its watch line arrives."""

    def __init__(self) -> None:
        self._content: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._arrived = asyncio.Event()

    def take(self, at: float, pod: str, nudge: str) -> None:
        """Look at one state of a pod; the nudge begins with a sequence number."""
        content = nudge.partition("/")[2]
        if content and content != self._content.get(pod):
            self._content[pod] = content
            self._seen[pod] = at
            self._arrived.set()

    async def next_of(self, count: int) -> float:
        """Wait until so many pods have new content; returns the moment of the last."""
        async with asyncio.timeout(TIMEOUT):
            while len(self._seen) < count:
                self._arrived.clear()
                await self._arrived.wait()
        last = max(self._seen.values())
        self._seen.clear()
        return last


@asynccontextmanager
async def _watch_nudges(user: ClusterUser) -> AsyncIterator[_NudgeWatch]:
    watch = _NudgeWatch()

    async def follow() -> None:
        async for at, pod in user.watch_pods():
            watch.take(at, pod.metadata.name, (pod.metadata.annotations or {}).get(TARGET, ""))

    async with in_background(follow()):
        yield watch
