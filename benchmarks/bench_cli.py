"""What does hotmap cost a person who asks for help, and a machine that has nothing to do?"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.clusters import person
from benchmarks.figures import Figure, Table, at_most
from benchmarks.generate import config_map, consumer, secret
from benchmarks.machine import cpu_seconds, resident_mb
from benchmarks.processes import controller, local_plane
from benchmarks.scope import Scope, measured

__all__ = ["run"]


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Call for help, then look at a plane and a controller that have nothing to do."""
    third = scope.count(1000)
    idle = scope.count(20)
    with measured("Command line, memory, idle") as result:
        help_times = [await _help() for _ in range(scope.count(20))]
        async with local_plane() as plane, person(plane.cluster()) as user:
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
        objects = f"{3 * third:,} objects"
        result.figures = [
            Figure("hotmap --help", help_times, "ms", at_most(120)),
            Figure("controller, no objects, resident", [empty], "MB"),
            Figure(f"controller, {objects}, resident", [full], "MB", at_most(55, "max")),
            Figure("plane, no objects, resident", [empty_plane], "MB"),
            Figure(f"plane, {objects}, resident", [full_plane], "MB"),
            Figure(f"plane, {objects}, idle, of one core", [plane_cpu], "%"),
            Figure(f"controller, {objects}, idle, of one core", [controller_cpu], "%"),
        ]
        result.notes = [
            f"Objects: a third each ConfigMaps, Secrets and DaemonSets. Idle: {idle} s.",
        ]
    yield result.table()


async def _help() -> float:
    """Run `hotmap --help`; returns its milliseconds."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("hotmap")),
        "--help",
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
