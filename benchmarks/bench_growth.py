"""How do the costs grow with objects, with the consumers of a source, and with watch events?

The API server of the first and the last is synthetic, as in `bench_scale`; that of the second is
the local plane. Beside the curves is a bound: what the same work costs without hotmap, or a target.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

from tests.support.fleet import Sizes
from tests.support.watch_server import ServerProcess, watch_server

from benchmarks.bench_fan_out import WRITERS, bare_patches, create, one_edit
from benchmarks.bench_scale import measure_events, started
from benchmarks.clusters import cluster_user
from benchmarks.curves import Curve, Curves
from benchmarks.processes import local_plane
from benchmarks.scope import Scope, measured
from hotmap.core.model.objects import ConfigMap, Secret, Workload
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import (
    CONFIGMAPS,
    DAEMONSETS,
    DEPLOYMENTS,
    SECRETS,
    STATEFULSETS,
    Resource,
)

__all__ = ["run"]

#: Numbers of objects, of consumers of one source, and of watch events a second.
_OBJECTS = (1_000, 3_000, 10_000, 30_000, 100_000)
_CONSUMERS = (1, 10, 100, 1_000, 5_000)
_RATES = (100, 300, 1_000, 3_000, 5_000)

#: Objects beside which events are followed, and for how many seconds.
_BESIDE, _SECONDS = 10_000, 20

#: What a controller of 100,000 objects may take in MB, and which share of a core 5,000 events a
#: second may cost: half of what the first version that was measured took of both (0030).
_MB_AT_MOST, _SHARE_AT_MOST = 200.0, 40.0


async def run(scope: Scope) -> AsyncIterator[Curves]:
    """Measure each curve from its smallest size to its largest."""
    async for curves in _objects((100, 200) if scope.quick else _OBJECTS):
        yield curves
    async for curves in _consumers((1, 3) if scope.quick else _CONSUMERS):
        yield curves
    rates = (50, 100) if scope.quick else _RATES
    yield await _events(rates, scope.count(_BESIDE, quick=200), scope.count(_SECONDS))


# -- objects -----------------------------------------------------------------------------------


async def _objects(counts: tuple[int, ...]) -> AsyncIterator[Curves]:
    cpu: list[tuple[float, float]] = []
    ready: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    resident: list[tuple[float, float]] = []
    with measured("Start beside many objects") as result:
        for count in counts:
            async with _serving(count) as server, started(server) as running:
                bare.append((count, await _bare_lists(server)))
                cpu.append((count, running.cpu))
                ready.append((count, running.ready_after))
                resident.append((count, running.resident))
        result.notes = [
            "30 % each ConfigMaps, Secrets and Deployments, 5 % each StatefulSets and DaemonSets;"
            " every third workload opts in.",
            "The bound: processor time of a client that lists the same objects and keeps nothing.",
        ]
    yield result.curves(
        "objects-time",
        "objects",
        "s",
        [
            Curve("process start → ready", ready),
            Curve("processor time until quiet", cpu),
            Curve("bare lists", bare, bound=True),
        ],
    )
    with measured("Memory beside many objects") as result:
        pass
    bound = [(counts[0], _MB_AT_MOST), (counts[-1], _MB_AT_MOST)]
    yield result.curves(
        "objects-memory",
        "objects",
        "MB",
        [Curve("resident", resident), Curve("target for 100,000", bound, bound=True)],
    )


#: What is listed, as the type that it is decoded to.
_LISTED: dict[Resource, type[Any]] = {
    CONFIGMAPS: ConfigMap,
    SECRETS: Secret,
    DEPLOYMENTS: Workload,
    STATEFULSETS: Workload,
    DAEMONSETS: Workload,
}


async def _bare_lists(server: ServerProcess) -> float:
    """List and decode all objects in pages; returns the seconds of processor time that it took."""
    async with Client(load_kubeconfig(str(server.kubeconfig))) as client:
        used = time.process_time()
        for resource, kind in _LISTED.items():
            token: str | None = ""
            while token is not None:
                page = await client.list_page(resource, type=kind, continue_token=token)
                token = page.continue_token or None
        return time.process_time() - used


@asynccontextmanager
async def _serving(objects: int) -> AsyncIterator[ServerProcess]:
    sizes = Sizes(
        config_maps=objects * 3 // 10,
        secrets=objects * 3 // 10,
        deployments=objects * 3 // 10,
        stateful_sets=objects // 20,
        daemon_sets=objects // 20,
        namespaces=max(1, min(200, objects // 50)),
    )
    flags = [f"--{name.replace('_', '-')}={count}" for name, count in sizes._asdict().items()]
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        async with watch_server(Path(directory), *flags) as server:
            yield server


# -- consumers of one source -------------------------------------------------------------------


async def _consumers(counts: tuple[int, ...]) -> AsyncIterator[Curves]:
    cpu: list[tuple[float, float]] = []
    last: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    with measured("One edit of a source with many consumers") as result:
        for count in counts:
            async with local_plane() as plane, cluster_user(plane.cluster()) as user:
                await create(user, "source", count)
                bare.append((count, await bare_patches(user, count)))
                seconds, used = await one_edit(plane.cluster(), user, "source", count)
                last.append((count, seconds))
                cpu.append((count, used))
        result.notes = [
            f"Settle time 0. The bound: as many PATCHes by a bare client, {WRITERS} at a time.",
        ]
    yield result.curves(
        "consumers",
        "consumers of the source",
        "s",
        [
            Curve("edit → last rollout seen", last),
            Curve("processor time of the controller", cpu),
            Curve("bare PATCHes", bare, bound=True),
        ],
    )


# -- events ------------------------------------------------------------------------------------


async def _events(rates: tuple[int, ...], objects: int, seconds: int) -> Curves:
    shares: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with measured("Watch events a second") as result:
        async with _serving(objects) as server:
            for rate, data in product(rates, shares):
                async with started(server, "--pod-check-rate=0") as running:
                    found = await measure_events(
                        server, running.controller, seconds, rate=rate, data=data
                    )
                    shares[data].append((rate, found.controller_cpu))
        result.notes = [
            f"Beside {objects:,} objects, {seconds} s each: 90 % statuses of workloads, 8 % labels "
            "and 2 % data of sources, with the rollouts that follow; or all 10 % labels."
        ]
    return result.curves(
        "events",
        "watch events a second",
        "% of one core",
        [
            Curve("controller", shares[True]),
            Curve("controller, without edits of data", shares[False]),
            Curve("target for 5,000", [(rate, _SHARE_AT_MOST) for rate in rates], bound=True),
        ],
    )
