"""What does a controller need for 100,000 objects, and how many watch events a second does it take?

The API server is synthetic (`tests/support/watch_server`): it speaks the real protocol over TLS
and makes its objects while it sends them, so that the controller is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.fleet import Sizes
from tests.support.watch_server import ServerProcess, watch_server

from benchmarks.clusters import Cluster
from benchmarks.figures import Figure, Table, at_most, quantile
from benchmarks.machine import cpu_seconds, peak_mb, resident_mb
from benchmarks.processes import Controller, controller
from benchmarks.scope import Scope, measured
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig

__all__ = ["measure_events", "run", "started"]

#: Watch events a second, and for how many seconds.
_RATE, _SECONDS = 5_000, 40

#: Seconds between two readings of how far the controller is.
_LOOK = 0.25

_QUICK = Sizes(
    config_maps=600, secrets=300, deployments=80, stateful_sets=10, daemon_sets=10, namespaces=10
)


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Start beside all objects, start again with records, do nothing, then follow a storm."""
    sizes = _QUICK if scope.quick else Sizes()
    idle, seconds = scope.count(60), scope.count(_SECONDS)
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        flags = [f"--{name.replace('_', '-')}={count}" for name, count in sizes._asdict().items()]
        async with watch_server(Path(directory), *flags) as server:
            sources, workloads = sizes.config_maps + sizes.secrets, _workloads(sizes)
            with measured(f"{sources + workloads:,} objects") as result:
                async with started(server) as first:
                    looking = await _share(first.controller.pid, idle)
                async with started(server, "--pod-check-rate=0") as again:
                    doing_nothing = await _share(again.controller.pid, idle)
                result.figures = [
                    *_figures("first start", first),
                    *_figures("start with records", again),
                    Figure(
                        f"idle for {idle} s, of one core", [doing_nothing], "%", at_most(1, "max")
                    ),
                    Figure("the same while adopted consumers are looked at", [looking], "%"),
                ]
                result.notes = [
                    f"{sources:,} ConfigMaps and Secrets of 0.3 to 500 KB, {workloads:,} workloads"
                    " of 4.7 KB, six references each; every third opts in.",
                    "Everything is looked at: the queues are empty and the records written.",
                    "After a first start the pods of every adopted consumer are looked at once, "
                    "five consumers a second; the second start does without (--pod-check-rate=0).",
                    "The API server is synthetic, over TLS. It shares the machine.",
                ]
            yield result.table()
            with measured(f"{_RATE:,} watch events a second") as result:
                async with started(server) as running:
                    storm = await measure_events(server, running.controller, seconds)
                async with started(server) as running:
                    quiet = await measure_events(server, running.controller, seconds, data=False)
                result.figures = [
                    *_storm_figures(storm, seconds),
                    Figure(
                        "controller, of one core, with labels in place of data",
                        [quiet.controller_cpu],
                        "%",
                        at_most(40, "max"),
                    ),
                ]
                result.notes = [
                    f"Beside {sources + workloads:,} objects. 90 % are statuses of workloads, 8 % "
                    "labels of sources, 2 % a data key of a source, with the rollouts that follow.",
                    "Lag: age of the oldest watch event that was due and is not in a store yet.",
                    f"Looked at every {_LOOK:g} s by /metrics.",
                ]
            yield result.table()


def _workloads(sizes: Sizes) -> int:
    return sizes.deployments + sizes.stateful_sets + sizes.daemon_sets


# -- starting ----------------------------------------------------------------------------------


class _Started(NamedTuple):
    """A controller that has looked at everything."""

    controller: Controller
    #: Seconds since before its process was made.
    ready_after: float
    quiet_after: float
    cpu: float
    resident: float
    peak: float


@asynccontextmanager
async def started(server: ServerProcess, *flags: str) -> AsyncIterator[_Started]:
    """Run a controller for the length of a block; at its beginning it has looked at everything."""
    cluster = Cluster("watch server", server.kubeconfig, kubelet=None, image="")
    began = time.perf_counter()
    async with controller(cluster, *flags) as running:
        quiet = time.perf_counter() - began
        yield _Started(
            running,
            ready_after=running.rollout_allowed_at - began,
            quiet_after=quiet,
            cpu=cpu_seconds(running.pid),
            resident=resident_mb(running.pid),
            peak=peak_mb(running.pid),
        )


def _figures(name: str, started: _Started) -> Sequence[Figure]:
    return [
        Figure(f"{name} → ready", [started.ready_after], "s", at_most(7, "max")),
        Figure(f"{name} → everything looked at", [started.quiet_after], "s"),
        Figure(f"{name}: processor time of that", [started.cpu], "s"),
        Figure(f"{name}: resident then", [started.resident], "MB", at_most(200, "max")),
        Figure(f"{name}: peak", [started.peak], "MB"),
    ]


async def _share(pid: int, seconds: float) -> float:
    """Watch it for a while; returns the share of one core that it used, in percent."""
    used, began = cpu_seconds(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    return (cpu_seconds(pid) - used) / (time.perf_counter() - began) * 100


# -- the storm ---------------------------------------------------------------------------------


class _Reading(NamedTuple):
    """How far the controller was at one moment."""

    at: float
    #: Watch events taken so far, by plural.
    taken: Mapping[str, int]


class _Storm(NamedTuple):
    events: int
    #: Events in the time that sending all of them took, per second.
    rate: float
    #: Milliseconds, at each reading.
    lags: Sequence[float]
    #: Shares of one core, in percent.
    controller_cpu: float
    server_cpu: float
    rollouts: int
    resident: float


async def measure_events(
    server: ServerProcess,
    running: Controller,
    seconds: int,
    *,
    rate: int = _RATE,
    data: bool = True,
) -> _Storm:
    """Let the server change objects at a rate, and look at the controller meanwhile.

    Without `data` no content of a source changes, so that nothing is rolled out.
    """
    config = load_kubeconfig(str(server.kubeconfig))
    async with Client(config, user_agent="hotmap-benchmarks") as client:
        before, patches = await _sent(client), (await running.requests()).get("PATCH", 0)
        start = await running.events()
        cpu, server_cpu, began = cpu_seconds(running.pid), cpu_seconds(server.pid), time.monotonic()
        params = {"rate": str(rate), "seconds": str(seconds), "data": str(int(data))}
        await client.request("POST", "/pump", params=params, body=b"{}")
        readings = []
        while time.monotonic() < began + seconds:
            await asyncio.sleep(_LOOK)
            readings.append(_Reading(time.monotonic(), await running.events()))
        lasted = time.monotonic() - began
        cpu, server_cpu = cpu_seconds(running.pid) - cpu, cpu_seconds(server.pid) - server_cpu
        resident = resident_mb(running.pid)
        after = await _sent(client)
    sent = {
        name: times[len(before.get(name, ())) :]
        for name, times in after.items()
        if name in start  # the controller writes Events and watches none
    }
    counts = [bisect_left(times, began + lasted) for times in sent.values()]
    return _Storm(
        events=sum(counts),
        rate=sum(counts) / lasted,
        lags=[_lag(reading, start, sent) * 1e3 for reading in readings],
        controller_cpu=cpu / lasted * 100,
        server_cpu=server_cpu / lasted * 100,
        rollouts=(await running.requests()).get("PATCH", 0) - patches,
        resident=resident,
    )


async def _sent(client: Client) -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads(await client.request("GET", "/sent"))
    return found


def _lag(reading: _Reading, start: Mapping[str, int], sent: Mapping[str, Sequence[float]]) -> float:
    """Return the age of the oldest watch event that had not been taken, over all resources."""
    ages = [0.0]
    for name, times in sent.items():
        taken = reading.taken.get(name, 0) - start.get(name, 0)
        if taken < len(times):
            ages.append(reading.at - times[taken])
    return max(ages)


def _storm_figures(storm: _Storm, seconds: int) -> Sequence[Figure]:
    third = max(1, len(storm.lags) // 3)
    growth = quantile(storm.lags[-third:], 0.5) - quantile(storm.lags[:third], 0.5)
    return [
        Figure(f"watch events sent in {seconds} s", [storm.events], ""),
        Figure("sent a second", [storm.rate], ""),
        Figure("lag", storm.lags, "ms"),
        Figure("lag, median of the last third − of the first", [growth], "ms", at_most(100, "max")),
        Figure("controller, of one core", [storm.controller_cpu], "%", at_most(40, "max")),
        Figure("controller, resident", [storm.resident], "MB"),
        Figure("the server that sends them, of one core", [storm.server_cpu], "%"),
        Figure("rollouts meanwhile", [storm.rollouts], ""),
    ]
