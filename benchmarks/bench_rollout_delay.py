"""How long from an edit to the rollout's patch, when the controller has nothing else to do?"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NamedTuple

from benchmarks.clusters import Cluster, ClusterUser, TemplateWatch, cluster_user, watch_templates
from benchmarks.figures import Figure, Table, Target, at_most, quantile
from benchmarks.generate import config_map, consumer, secret
from benchmarks.machine import cpu_seconds
from benchmarks.processes import controller, local_plane
from benchmarks.scope import Scope, measured
from benchmarks.test_bed import real_control_plane
from hotmap.kube.resources import DAEMONSETS

__all__ = ["create", "edit_in_turn", "run"]

#: Seconds after the last edit in which its record is written; asking for that takes processor time.
_RECORDED = 6.0

#: Seconds for which a controller with nothing to do is looked at.
_IDLE = 3.0

#: The controller's default settle time in milliseconds.
_SETTLE = 500.0

#: Beside the best of the peers (baselines: a bare prototype has 3.8 / 6.2 ms).
_WITHOUT_SETTLING = (Target(5, "p50"), Target(10))

#: Milliseconds of processor time for one edit, of the leanest of the peers.
_CPU_AT_MOST = 4.0

#: The median delay, in those of a bare PATCH.
_RATIO_AT_MOST = 1.25


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Edit ConfigMaps one by one, each with one consumer, on every backend."""
    async with AsyncExitStack() as exits:
        plane = await exits.enter_async_context(local_plane())
        yield await _table(scope, plane.cluster())
    if scope.cluster:
        async with real_control_plane() as cluster:
            yield await _table(scope, cluster)


async def _table(scope: Scope, cluster: Cluster) -> Table:
    few, many = scope.count(100), scope.count(1000, quick=4)
    edits = scope.count(100)
    with measured(f"Rollout delay, {cluster.name}") as result:
        async with cluster_user(cluster) as user:
            await create(user, 0, few)
            bare = await _bare(cluster, user, edits)
            plain = await _delays(cluster, user, few, edits, settle="0s")
            settled = await _delays(cluster, user, few, edits, settle="500ms")
            await create(user, few, many)
            await user.create(secret(f"secret-{number}", LEVEL="0") for number in range(many))
            crowded = await _delays(cluster, user, many, edits, settle="0s")
        result.figures = [
            Figure("a bare PATCH: sent → seen, for comparison", bare, "ms"),
            Figure(f"{few:,} consumers, settle 0", plain.delays, "ms", _WITHOUT_SETTLING),
            Figure(
                "… median, in medians of a bare PATCH",
                [quantile(plain.delays, 0.5) / quantile(bare, 0.5)],
                "",
                at_most(_RATIO_AT_MOST, "max"),
            ),
            Figure("… processor time of an edit", [plain.cpu], "ms", at_most(_CPU_AT_MOST, "max")),
            Figure(
                f"{few:,} consumers, settle 500 ms, beyond it",
                [delay - _SETTLE for delay in settled.delays],
                "ms",
                at_most(10),
            ),
            Figure(
                f"{many:,} consumers, ConfigMaps, Secrets, settle 0",
                crowded.delays,
                "ms",
                _WITHOUT_SETTLING,
            ),
            Figure(
                "… processor time of an edit", [crowded.cpu], "ms", at_most(_CPU_AT_MOST, "max")
            ),
        ]
        result.notes = [
            "From the edit's answer to the line of an independent watch with the new revision.",
            "Controller, API server and observer are processes of their own. DaemonSets, no nodes.",
            "Processor time: of the controller from the first edit until the last is recorded, "
            "with all watch lines, Events and records, less what it takes while idle.",
        ]
    return result.table()


async def create(user: ClusterUser, first: int, end: int) -> None:
    """Create pairs of a ConfigMap and its only consumer, by number."""
    numbers = range(first, end)
    await user.create(config_map(f"source-{number}", LEVEL="0") for number in numbers)
    await user.create_consumers(consumer(f"app-{number}", f"source-{number}") for number in numbers)


async def _bare(cluster: Cluster, user: ClusterUser, edits: int) -> list[float]:
    """Write rollouts by hand, with no controller; what the API server and the watch take alone."""
    await user.create_consumers([consumer("by-hand", "nothing")])
    async with watch_templates(cluster) as watch:
        taken: list[float] = []
        for number in range(edits):
            await asyncio.sleep(random.uniform(0.1, 0.3))
            before = len(watch.seen)
            began = await user.roll("by-hand", f"by hand {number}")
            await watch.until(before + 1)
            taken.append((watch.seen[before].at - began) * 1e3)
    # A controller would take it for another controller's.
    await user.delete(DAEMONSETS, "by-hand")
    return taken


class _Edits(NamedTuple):
    """What some edits took, one after the other."""

    #: Milliseconds from each answer to the rollout seen.
    delays: list[float]
    #: Milliseconds of the controller's processor time for each.
    cpu: float


async def _delays(
    cluster: Cluster, user: ClusterUser, consumers: int, edits: int, *, settle: str
) -> _Edits:
    """Start a controller and edit the sources in turn, as `edit_in_turn` does."""
    async with (
        controller(cluster, "--settle", settle, "--pod-check-rate", "0") as running,
        watch_templates(cluster) as watch,
    ):
        used, began = cpu_seconds(running.pid), time.perf_counter()
        await asyncio.sleep(_IDLE)
        idle = (cpu_seconds(running.pid) - used) / (time.perf_counter() - began)
        used, began = cpu_seconds(running.pid), time.perf_counter()
        value = f"{settle} of {consumers}"
        delays = await edit_in_turn(user, watch, consumers, edits, value=value)
        await asyncio.sleep(_RECORDED)
        lasted = time.perf_counter() - began
        return _Edits(delays, (cpu_seconds(running.pid) - used - idle * lasted) / edits * 1e3)


async def edit_in_turn(
    user: ClusterUser, watch: TemplateWatch, consumers: int, edits: int, *, value: str
) -> list[float]:
    """Edit the sources in turn; returns milliseconds from each answer to the rollout seen."""
    return [
        await _delay(user, watch, f"source-{number % consumers}", f"{value} {number}")
        for number in range(edits)
    ]


async def _delay(user: ClusterUser, watch: TemplateWatch, source: str, value: str) -> float:
    # Whatever followed the edit before is over: the workload controllers', the Event, the record.
    await asyncio.sleep(random.uniform(0.1, 0.3))
    before = len(watch.seen)
    _, answered = await user.edit(source, {"LEVEL": value})
    await watch.until(before + 1)
    return (watch.seen[before].at - answered) * 1e3
