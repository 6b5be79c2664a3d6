"""A thousand pods with agents after one edit: how soon is each pod's state known, at what cost?

The agents answer by the real protocol and are played by a process of their own: each loads an
announced content a while after it was announced, as a process does that reloads. The pods are
objects of the local plane's API server without a node, so that nothing else uses the processor.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from benchmarks import machine
from benchmarks.clusters import TIMEOUT, ClusterUser, cluster_user
from benchmarks.figures import Figure, Table, at_most
from benchmarks.generate import config_map, pod_with_agent, workload_with_agent
from benchmarks.processes import Controller, controller, local_plane
from benchmarks.scope import Scope, measured
from hotmap.core.errors import HotmapError

__all__ = ["run"]

#: Workloads of which each has a tenth of the pods.
_WORKLOADS = 10

#: Seconds from an announcement until an agent has loaded its content.
_LOAD = 0.5

_PORT = 9533

_RFC3339 = "%Y-%m-%dT%H:%M:%SZ"


class _Result(NamedTuple):
    #: From the last load to the moment at which all states are known.
    seconds: float
    #: Of the controller from the edit until then, in percent of a core, and its growth in MB.
    cpu: float
    growth: float
    #: Requests to agents.
    requests: int


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Edit one ConfigMap that a thousand pods with agents mount."""
    pods = scope.count(1000, quick=20)
    with measured("Agents, local plane") as result:
        async with local_plane() as plane, cluster_user(plane.cluster()) as user:
            uids = await _create(user, pods)
            async with (
                _agents(uids, str(plane.kubeconfig)) as agents,
                controller(plane.cluster(), "--follow", "auto") as running,
            ):
                found = [await _edit(user, running, agents, n, pods) for n in range(1, 4)]
        result.figures = [
            Figure(
                f"{pods:,} pods: last load → all states known",
                [item.seconds for item in found],
                "s",
                at_most(3, "max"),
            ),
            Figure(
                "… controller meanwhile",
                [item.cpu for item in found],
                "% of a core",
                at_most(25, "max"),
            ),
            Figure("… its growth", [item.growth for item in found], "MB", at_most(10, "max")),
            Figure(
                "… requests to agents",
                [item.requests for item in found],
                "",
                at_most(pods, "max"),
            ),
        ]
        result.notes = [
            f"{_WORKLOADS} workloads; agents load {_LOAD:g} s after the announcement. Processor "
            "time is from the edit to the moment at which all states are known, nudges included.",
        ]
    yield result.table()


async def _create(user: ClusterUser, pods: int) -> dict[str, str]:
    """Create the ConfigMap, its workloads and their pods; return the pods' uids by address."""
    await user.create([config_map("agents", text="0")])
    each = pods // _WORKLOADS
    names = [f"web-{number}" for number in range(_WORKLOADS)]
    await user.create(workload_with_agent(name, "agents", _PORT) for name in names)
    await user.report_scheduled(names, each)
    addresses = {}
    for number, name in enumerate(names):
        for index in range(each):
            addresses[f"{name}-{index}"] = f"127.90.{number + 1}.{index + 1}"
    await user.create(pod_with_agent(name, name.rpartition("-")[0], _PORT) for name in addresses)
    # In the second of their creation: older than any edit, younger than their source.
    return await user.report_running(addresses, time.strftime(_RFC3339, time.gmtime()))


class _Agents:
    """The process that plays the agents."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def last_load(self, loads: int) -> float:
        """Wait until that many loads are done; give the moment of the last."""
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            while line := await self._process.stdout.readline():
                found = json.loads(line)
                if found["loads"] >= loads:
                    return float(found["at"])
        raise HotmapError("the agents ended")

    async def requests(self) -> int:
        """Ask how many requests there were."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        async with asyncio.timeout(TIMEOUT):
            while line := await self._process.stdout.readline():
                if "requests" in (found := json.loads(line)):
                    return int(found["requests"])
        raise HotmapError("the agents ended")


@asynccontextmanager
async def _agents(uids: dict[str, str], kubeconfig: str) -> AsyncIterator[_Agents]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.simulated_agents", kubeconfig, str(_PORT), str(_LOAD)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(uids).encode() + b"\n")
        await process.stdout.readline()
        yield _Agents(process)
    finally:
        process.kill()
        await process.wait()


async def _edit(
    user: ClusterUser, running: Controller, agents: _Agents, number: int, pods: int
) -> _Result:
    """Edit the ConfigMap, and wait until the controller knows that all pods have loaded it."""
    await running.until_current(_WORKLOADS, pods)
    await running.quiet()
    requests, memory = await agents.requests(), machine.resident_mb(running.pid)
    began, cpu = time.perf_counter(), machine.cpu_seconds(running.pid)
    await user.edit("agents", {"text": str(number)})
    last = await agents.last_load(number * pods)
    known = await running.until_current(_WORKLOADS, pods)
    used = machine.cpu_seconds(running.pid) - cpu
    return _Result(
        max(known - last, 0.0),
        100 * used / (known - began),
        machine.resident_mb(running.pid) - memory,
        await agents.requests() - requests,
    )
