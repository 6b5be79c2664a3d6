"""What does hotmap cost a person who asks for help, and a machine that has nothing to do?"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.clusters import cluster_user
from benchmarks.figures import Figure, Table, at_most
from benchmarks.first_watch import cpu_until_first_watch
from benchmarks.generate import config_map, consumer, secret
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.processes import controller, local_plane
from benchmarks.scope import Scope, measured

__all__ = ["run"]


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Call for help, then look at a plane and a controller that have nothing to do."""
    third = scope.count(1000)
    idle = scope.count(20)
    queries, large = scope.count(10), scope.count(50)
    with measured("Command line, memory, idle") as result:
        help_times = [await _command("--help") for _ in range(scope.count(20))]
        started = [await cpu_until_first_watch() for _ in range(scope.count(10))]
        async with local_plane() as plane, cluster_user(plane.cluster()) as user:
            empty_plane = resident_mb(plane.process.pid)
            async with controller(plane.cluster()) as running:
                empty = resident_mb(running.pid)
            await user.create(config_map(f"source-{number}", LEVEL="0") for number in range(third))
            await user.create(secret(f"secret-{number}", LEVEL="0") for number in range(third))
            await user.create_consumers(
                consumer(f"app-{number}", f"source-{number}") for number in range(third)
            )
            async with controller(plane.cluster()) as running:
                pids = (plane.process.pid, running.pid)
                plane_cpu, controller_cpu = await _idle_cpu(pids, idle)
                full = resident_mb(running.pid)
                full_plane = resident_mb(plane.process.pid)
                cluster = ("--url", running.url, "--kubeconfig", str(plane.kubeconfig))
                name = "daemonset/app-0"
                status_times = [await _command("status", name, *cluster) for _ in range(queries)]
                why_times = [await _command("why", name, *cluster) for _ in range(queries)]
            release = (
                secret(f"release-{n}", release=chr(97 + n % 26) * 500_000) for n in range(large)
            )
            await user.create(release)
            async with controller(plane.cluster()) as running:
                beside_large = resident_mb(running.pid)
        objects = f"{3 * third:,} objects"
        result.figures = [
            Figure("hotmap --help", help_times, "ms", at_most(44, "p50")),
            Figure("hotmap status of one workload", status_times, "ms", at_most(300, "p50")),
            Figure("hotmap why of one workload", why_times, "ms", at_most(300, "p50")),
            Figure(
                "controller: process start → first watch, processor time",
                started,
                "s",
                at_most(0.35, "p50"),
            ),
            Figure("controller, no objects, resident", [empty], "MB", at_most(46, "max")),
            Figure(f"controller, {objects}, resident", [full], "MB", at_most(50, "max")),
            Figure(
                f"controller, and {large} Secrets of 500 KB, resident",
                [beside_large],
                "MB",
                at_most(52, "max"),
            ),
            Figure("plane, no objects, resident", [empty_plane], "MB"),
            Figure(f"plane, {objects}, resident", [full_plane], "MB"),
            Figure(f"plane, {objects}, idle, of one core", [plane_cpu], "%"),
            Figure(f"controller, {objects}, idle, of one core", [controller_cpu], "%"),
        ]
        result.notes = [
            f"Objects: a third each ConfigMaps, Secrets and DaemonSets. Idle: {idle} s.",
        ]
    yield result.table()


async def _command(*words: str) -> float:
    """Run `hotmap` with some words; returns its milliseconds."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("hotmap")),
        *words,
        stdout=asyncio.subprocess.DEVNULL,
    )
    await process.wait()
    return (time.perf_counter() - began) * 1e3


async def _idle_cpu(pids: tuple[int, ...], seconds: float) -> list[float]:
    """Watch processes do nothing; returns the share of one core that each used, in percent."""
    await asyncio.sleep(2)  # what the objects' creation left to do is over
    before = [cpu_seconds(pid) for pid in pids]
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    lasted = time.perf_counter() - began
    return [
        (cpu_seconds(pid) - used) / lasted * 100 for pid, used in zip(pids, before, strict=True)
    ]
