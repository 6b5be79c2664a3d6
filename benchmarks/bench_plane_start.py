"""How long does the local plane take to start, to run a pod, and to stop?"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.clusters import TIMEOUT, ClusterUser, cluster_user
from benchmarks.figures import Figure, Table, at_most
from benchmarks.generate import pod
from benchmarks.processes import local_plane, start_plane, stop
from benchmarks.scope import Scope, measured
from hotmap.core.model.objects import Pod
from hotmap.kube.resources import PODS

__all__ = ["run"]


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Start and stop planes with nothing on disk, then run pods one after another on one."""
    with measured("Local plane: start, first pods, stop") as result:
        starts, stops = await _starts_and_stops(scope.count(10))
        pods = await _pods(scope.count(30))
        result.figures = [
            Figure("process start → ready", starts, "ms", at_most(500)),
            Figure("pod created → seen running", pods, "ms", at_most(150)),
            Figure("SIGTERM → ended, no pods", stops, "ms"),
        ]
        result.notes = [
            "A start includes the interpreter and all imports; the page cache is warm.",
            "Running: the line of an independent watch that says so; sent → received.",
        ]
    yield result.table()


async def _starts_and_stops(count: int) -> tuple[list[float], list[float]]:
    starts, stops = [], []
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
            plane = await start_plane(Path(directory) / "plane")
            starts.append(plane.ready_after * 1e3)
            stops.append(await stop(plane.process) * 1e3)
    return starts, stops


async def _pods(count: int) -> list[float]:
    async with local_plane() as plane, cluster_user(plane.cluster()) as user:
        return [await _run_pod(user, f"pod-{number}") for number in range(count)]


async def _run_pod(user: ClusterUser, name: str) -> float:
    """Create one pod; returns the milliseconds until it is seen running."""
    running = asyncio.create_task(_running(user, name))
    await asyncio.sleep(0.1)  # the watch stands, and what the pod before left behind is done
    began = time.perf_counter()
    await user.create([pod(name)])
    async with asyncio.timeout(TIMEOUT):
        at = await running
    await user.delete(PODS, name)
    return (at - began) * 1e3


async def _running(user: ClusterUser, name: str) -> float:
    async for at, item in user.watch_pods():
        if item.metadata.name == name and _is_running(item):
            return at
    raise AssertionError("unreachable: a watch that ends raises")


def _is_running(item: Pod) -> bool:
    statuses = item.status.container_statuses or []
    return bool(statuses) and all(status.state and status.state.running for status in statuses)
