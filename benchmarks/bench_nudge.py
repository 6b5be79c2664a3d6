"""How long from an edit to the new file in a running pod, with hotmap and without?"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from benchmarks.clusters import TIMEOUT, Cluster, ClusterUser, cluster_user
from benchmarks.figures import Figure, Table, at_most
from benchmarks.generate import config_map, file_consumer
from benchmarks.processes import controller, local_plane
from benchmarks.scope import Scope, measured
from benchmarks.test_bed import real_node

__all__ = ["run"]

#: Seconds between two reads of a file: while one is waited for, and while many are.
_LOOK, _LOOK_AT_MANY = 0.001, 0.01

#: Seconds over which edits without hotmap are spread: a kubelet syncs each pod every 60 to 90.
_SPREAD = 90.0

#: Pods that take turns, so that each has been left alone for a while when its turn comes.
_TURNS = 8


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Edit ConfigMaps that pods mount, on the local plane and, if asked, on a real kubelet."""
    if not scope.cluster:
        async with local_plane() as plane:
            yield await _table(scope, plane.cluster(), alone=())
        return
    async with real_node() as real, local_plane() as plane:
        clusters = (real, plane.cluster())
        # Minutes of waiting, so on both at once.
        both = await asyncio.gather(*(_without_hotmap(scope, item) for item in clusters))
        for cluster, alone in zip(clusters, both, strict=True):
            yield await _table(scope, cluster, alone)


async def _table(scope: Scope, cluster: Cluster, alone: Sequence[float]) -> Table:
    with measured(f"Edit → file in the pod, {cluster.name}") as result:
        nudged = await _with_hotmap(cluster, scope.count(40))
        result.figures = [Figure("with hotmap's controller", nudged, "s", at_most(0.3))]
        if alone:
            result.figures.insert(0, Figure("without hotmap", alone, "s"))
        result.notes = [
            "From sending the edit to the new content under the pod's volume, seen from the host.",
            "A ConfigMap volume; the workload says that it re-reads files, so it is nudged.",
        ]
    return result.table()


async def _with_hotmap(cluster: Cluster, count: int) -> list[float]:
    """Edit one ConfigMap after another; returns seconds."""
    async with cluster_user(cluster) as user:
        names = [f"nudged-{item}" for item in range(min(count, _TURNS))]
        files = await _running_pods(cluster, user, names, follow=True)
        async with controller(cluster):
            values = []
            for number in range(count):
                name = names[number % len(names)]
                await asyncio.sleep(random.uniform(0.3, 0.6))
                values.append(await _delay(user, name, files[name], f"n{number}", _LOOK))
        await _clean(user, names)
    return values


async def _without_hotmap(scope: Scope, cluster: Cluster) -> list[float]:
    """Edit ConfigMaps at random times, many at once; returns seconds."""
    rounds, pods = scope.count(2, quick=1), scope.count(20)
    spread = 0.0 if scope.quick else _SPREAD
    async with cluster_user(cluster) as user:
        names = [f"alone-{item}" for item in range(pods)]
        files = await _running_pods(cluster, user, names, follow=False)

        async def edits(name: str) -> list[float]:
            values = []
            for number in range(rounds):
                await asyncio.sleep(random.uniform(0, spread))
                values.append(await _delay(user, name, files[name], f"n{number}", _LOOK_AT_MANY))
            return values

        measured_values = await asyncio.gather(*(edits(name) for name in names))
        await _clean(user, names)
    return [value for values in measured_values for value in values]


async def _delay(user: ClusterUser, source: str, file: Path, value: str, pause: float) -> float:
    began, _ = await user.edit(source, {"LEVEL": value})
    async with asyncio.timeout(TIMEOUT):
        while True:
            if file.read_text() == value:
                return time.perf_counter() - began
            await asyncio.sleep(pause)


async def _running_pods(
    cluster: Cluster, user: ClusterUser, names: Sequence[str], *, follow: bool
) -> dict[str, Path]:
    """Create a ConfigMap and a pod that mounts it per name; returns each file on the host."""
    assert cluster.kubelet is not None
    await user.create(config_map(name, LEVEL="old") for name in names)
    await user.create(
        file_consumer(name, name, image=cluster.image, follow=follow) for name in names
    )
    files: dict[str, Path] = {}
    async with asyncio.timeout(TIMEOUT):
        while len(files) < len(names):
            await asyncio.sleep(0.2)
            for pod in await user.pods():
                app = next((item for item in names if pod.metadata.name.startswith(f"{item}-")), "")
                if app and pod.status.phase == "Running":
                    files[app] = _volume(cluster.kubelet, pod.metadata.uid) / "LEVEL"
    return files


def _volume(kubelet: Path, uid: str) -> Path:
    return kubelet / "pods" / uid / "volumes" / "kubernetes.io~configmap" / "files"


async def _clean(user: ClusterUser, names: Sequence[str]) -> None:
    for name in names:
        await user.remove(name)
