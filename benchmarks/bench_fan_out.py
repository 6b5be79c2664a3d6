"""One source with many consumers: how soon, and with how many requests? And a burst of edits?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from benchmarks.clusters import Cluster, ClusterUser, TemplateWatch, cluster_user, watch_templates
from benchmarks.figures import Figure, Table, at_most
from benchmarks.generate import config_map, consumer
from benchmarks.machine import cpu_seconds
from benchmarks.processes import Controller, controller, local_plane
from benchmarks.scope import Scope, measured
from benchmarks.test_bed import real_control_plane

__all__ = [
    "BURST_EDITS",
    "BURST_SECONDS",
    "WRITERS",
    "Run",
    "bare_patches",
    "burst",
    "create",
    "fan_out",
    "followed",
    "one_edit",
    "run",
]

#: Seconds of the controller's default settle time, and of its bound.
_SETTLE, _SETTLE_MAX = 0.5, 5.0

#: Seconds after the last rollout in which one too many, a late Event or record would show.
_AFTERMATH = 3.0

BURST_EDITS, BURST_SECONDS = 100, 2.0

#: Writes at once of the bare client.
WRITERS = 32


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Roll 50, 200 and 1,000 consumers by one edit each, then ten by a hundred edits."""
    async with local_plane() as plane:
        yield await _table(scope, plane.cluster())
    if scope.cluster:
        async with real_control_plane() as cluster:
            yield await _table(scope, cluster)


async def _table(scope: Scope, cluster: Cluster) -> Table:
    sizes = (2, 3, 4) if scope.quick else (50, 200, 1000)
    consumers = scope.count(10)
    with measured(f"Fan-out, {cluster.name}") as result:
        async with cluster_user(cluster) as user:
            for size in sizes:
                await create(user, f"fan-{size}", size)
            await create(user, "burst", consumers)
            async with controller(cluster) as running, watch_templates(cluster) as watch:
                runs = [await fan_out(user, running, watch, size) for size in sizes]
                bursts = await burst(user, running, watch, consumers)
            most = sizes[-1]
            bare = await bare_patches(user, most)
            last, used = await one_edit(cluster, user, f"fan-{most}", most)
        result.figures = [figure for run in runs for figure in _figures(run)]
        result.figures += [
            Figure(
                f"{BURST_EDITS} edits in {BURST_SECONDS:g} s × {consumers}: rollouts",
                [bursts.rollouts],
                "",
                at_most(2 * consumers, "max"),
            ),
            Figure("… last edit → last rollout seen", [bursts.seconds], "s"),
            Figure(f"{most:,} PATCHes by a bare client", [bare], "s"),
            Figure(
                f"1 → {most:,}, settle 0: last rollout seen",
                [last],
                "s",
                at_most(2.5, "max"),
            ),
            Figure("… processor time of the controller", [used], "s", at_most(1.8, "max")),
        ]
        result.notes = [
            f"Default settle time ({_SETTLE:g} s, at most {_SETTLE_MAX:g} s), part of the times.",
            "Requests by the controller's own /metrics, rollouts by a watch, Events by a list.",
            "POST creates Events, PUT writes records.",
            "GET: one each 10 s, whatever is edited, looks whether the records were overwritten.",
            f"The bare client has {WRITERS} requests at a time.",
        ]
    return result.table()


class Run(NamedTuple):
    """One edit and what followed."""

    consumers: int
    #: From the edit's answer to the last rollout seen.
    seconds: float
    rollouts: int
    #: Events of hotmap that the API server holds because of it.
    events: int
    #: The controller's, by method, from the edit to the end of the aftermath.
    requests: dict[str, int]


def _figures(run: Run) -> Sequence[Figure]:
    name = f"1 → {run.consumers:,}"
    by_method = (run.requests.get(method, 0) for method in ("GET", "PATCH", "POST", "PUT"))
    reads, patches, posts, puts = by_method
    once_each = at_most(run.consumers, "max")
    last = at_most(3, "max") if run.consumers == 1000 else ()
    return [
        Figure(f"{name}: last rollout seen", [run.seconds], "s", last),
        Figure(f"{name}: rollouts seen", [run.rollouts], "", once_each),
        Figure(f"{name}: Events found", [run.events], "", once_each),
        Figure(f"{name}: PATCH requests", [patches], "", once_each),
        Figure(f"{name}: POST requests", [posts], "", once_each),
        Figure(f"{name}: PUT requests", [puts], "", at_most(10, "max")),
        Figure(f"{name}: GET requests", [reads], "", at_most(0, "max")),
    ]


async def create(user: ClusterUser, name: str, consumers: int) -> None:
    """Create a ConfigMap and its consumers."""
    await user.create([config_map(name, LEVEL="0")])
    await user.create_consumers(consumer(f"{name}-{number}", name) for number in range(consumers))


async def fan_out(
    user: ClusterUser, running: Controller, watch: TemplateWatch, consumers: int
) -> Run:
    """Edit the ConfigMap `fan-N` of N consumers once."""

    async def edit() -> float:
        _, answered = await user.edit(f"fan-{consumers}", {"LEVEL": "1"})
        return answered

    return await followed(edit, user, running, watch, consumers=consumers, aftermath=_AFTERMATH)


async def burst(
    user: ClusterUser, running: Controller, watch: TemplateWatch, consumers: int
) -> Run:
    """Edit the ConfigMap `burst` many times in a row."""

    async def edit() -> float:
        began = answered = time.perf_counter()
        for number in range(BURST_EDITS):
            due = began + number * BURST_SECONDS / BURST_EDITS
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            _, answered = await user.edit("burst", {"LEVEL": f"burst {number}"})
        return answered

    # Consumers that were rolled in the middle of the burst are rolled once more after it.
    aftermath = _SETTLE_MAX + _AFTERMATH
    return await followed(edit, user, running, watch, consumers=consumers, aftermath=aftermath)


async def bare_patches(user: ClusterUser, count: int) -> float:
    """Patch as many workloads that have not opted in; returns the seconds that it took."""
    names = [f"bare-{number}" for number in range(count)]
    await user.create_consumers(consumer(name, "nothing") for name in names)
    slots = asyncio.Semaphore(WRITERS)

    async def patch(name: str) -> None:
        async with slots:
            await user.roll(name, "by hand")

    began = time.perf_counter()
    await asyncio.gather(*map(patch, names))
    return time.perf_counter() - began


async def one_edit(
    cluster: Cluster, user: ClusterUser, source: str, count: int
) -> tuple[float, float]:
    """Edit the source once; returns seconds to the last rollout, and processor time of it all."""
    async with (
        controller(cluster, "--settle", "0s", "--pod-check-rate", "0") as running,
        watch_templates(cluster) as watch,
    ):
        used, seen = cpu_seconds(running.pid), len(watch.seen)
        _, answered = await user.edit(source, {"LEVEL": "once more"})
        await watch.until(seen + count)
        await running.quiet()
        return watch.seen[seen + count - 1].at - answered, cpu_seconds(running.pid) - used


async def followed(
    edit: Callable[[], Awaitable[float]],
    user: ClusterUser,
    running: Controller,
    watch: TemplateWatch,
    *,
    consumers: int,
    aftermath: float,
) -> Run:
    """Edit, wait for each consumer's rollout and `aftermath` seconds more, and count."""
    before, events, seen = await running.requests(), await user.events(), len(watch.seen)
    answered = await edit()
    await watch.until(seen + consumers)
    await asyncio.sleep(aftermath)
    await running.quiet()
    after = await running.requests()
    return Run(
        consumers,
        seconds=watch.seen[-1].at - answered,
        rollouts=len(watch.seen) - seen,
        events=await user.events() - events,
        requests={method: count - before.get(method, 0) for method, count in after.items()},
    )
