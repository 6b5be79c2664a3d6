"""How long is there no leader after the leader was killed, or got SIGTERM?"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable

from benchmarks.clusters import Cluster, ClusterUser, TemplateWatch, cluster_user, watch_templates
from benchmarks.figures import Figure, Table, at_most
from benchmarks.generate import config_map, consumer
from benchmarks.processes import Controller, controller, local_plane
from benchmarks.scope import Scope, measured
from benchmarks.test_bed import real_control_plane

__all__ = ["run"]

#: Nothing of what is measured is a settle time.
_FLAGS = ("--flap-limit=0", "--leader-elect", "--settle", "0s")


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Replace the acting replica of two, again and again, on every backend."""
    async with local_plane() as plane:
        yield await _table(scope, plane.cluster())
    if scope.cluster:
        async with real_control_plane() as cluster:
            yield await _table(scope, cluster)


async def _table(scope: Scope, cluster: Cluster) -> Table:
    with measured(f"Takeover, {cluster.name}") as result:
        async with cluster_user(cluster) as user, watch_templates(cluster) as watch:
            await user.create([config_map("takeover", LEVEL="0")])
            await user.create_consumers([consumer("takeover", "takeover")])
            killed = [
                await _takeover(cluster, user, watch, Controller.kill, f"killed {number}")
                for number in range(scope.count(5, quick=1))
            ]
            ended = [
                await _takeover(cluster, user, watch, Controller.terminate, f"ended {number}")
                for number in range(scope.count(10, quick=1))
            ]
        result.figures = [
            Figure("kill -9 → the standby's first rollout", killed, "s", at_most(12, "max")),
            Figure("SIGTERM → the standby's first rollout", ended, "s", at_most(1, "max")),
        ]
        result.notes = [
            "Two replicas; a source is edited right after the signal, with settle time 0.",
            "A Lease of 10 s, tried every 2 s; who ends in order gives it back.",
        ]
    return result.table()


async def _takeover(
    cluster: Cluster,
    user: ClusterUser,
    watch: TemplateWatch,
    end: Callable[[Controller], Awaitable[None]],
    value: str,
) -> float:
    """End the acting replica; returns the seconds until the other has rolled what was edited."""
    async with controller(cluster, *_FLAGS) as acting, controller(cluster, *_FLAGS):
        before = len(watch.seen)
        began = time.perf_counter()
        await end(acting)
        await user.edit("takeover", {"LEVEL": value})
        await watch.until(before + 1)
        return watch.seen[before].at - began
