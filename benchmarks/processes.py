"""The local plane and the controller as processes of their own, started as a user starts them.

What is measured never shares an event loop with what measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.clusters import Cluster
from hotmap.core.errors import HotmapError

__all__ = [
    "Controller",
    "Plane",
    "controller",
    "controller_command",
    "local_plane",
    "start_plane",
    "stop",
]

#: Seconds that a process gets to start, to become quiet, or to end.
_PATIENCE = 120.0

#: What is measured is hotmap's write, not a cluster that replaces pods.
_FLAGS = ("--controllers", "*,-daemonset-controller")


class Plane(NamedTuple):
    """A running `hotmap local up`."""

    process: asyncio.subprocess.Process
    kubeconfig: Path
    #: Its state directory, where the kubelet's volumes are.
    directory: Path
    #: Seconds from before the process was made until it said that it is ready.
    ready_after: float

    def cluster(self) -> Cluster:
        """Name this plane as a cluster to measure on."""
        return Cluster("local plane", self.kubeconfig, kubelet=self.directory, image="host")


async def start_plane(directory: Path, *flags: str) -> Plane:
    """Start a local plane with its state in `directory`, and wait until it is ready."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hotmap", "local", "up", "--dir", str(directory), *flags),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(_PATIENCE):
        line = await process.stdout.readline()
    ready_after = time.perf_counter() - began
    if not line:
        raise HotmapError("the local plane ended instead; run `hotmap local up` to see why")
    kubeconfig = Path(line.decode().strip().partition("=")[2])
    return Plane(process, kubeconfig, directory, ready_after)


@asynccontextmanager
async def local_plane() -> AsyncIterator[Plane]:
    """Run a local plane for the length of a block; its DaemonSets have no pods."""
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        plane = await start_plane(Path(directory) / "plane", *_FLAGS)
        try:
            yield plane
        finally:
            await stop(plane.process)


async def stop(process: asyncio.subprocess.Process) -> float:
    """End a process by SIGTERM; returns the seconds that its end took."""
    began = time.perf_counter()
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
    try:
        async with asyncio.timeout(_PATIENCE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return time.perf_counter() - began


class Controller:
    """A running `hotmap controller` and what its own /metrics say."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"
        self.pid = process.pid
        #: When it said so.
        self.rollout_allowed_at = time.perf_counter()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        await self._process.wait()

    async def terminate(self) -> None:
        """Ask it to end; it may take its time."""
        self._process.terminate()

    async def answers(self, method: str, status: int) -> int:
        """Count the answers of one status that it has had of the API server."""
        wanted = {"method": method, "status": str(status)}
        samples = (await self._samples()).get("hotmap_api_requests_total", [])
        return sum(int(value) for labels, value in samples if labels == wanted)

    async def requests(self) -> dict[str, int]:
        """Count the answers it has had of the API server, by method."""
        total: dict[str, int] = {}
        for labels, value in (await self._samples())["hotmap_api_requests_total"]:
            total[labels["method"]] = total.get(labels["method"], 0) + int(value)
        return total

    async def events(self) -> dict[str, int]:
        """Count the watch events that it has taken, by plural."""
        samples = (await self._samples())["hotmap_watch_events_total"]
        return {labels["resource"]: int(value) for labels, value in samples}

    async def quiet(self) -> None:
        """Wait until nothing is queued and everything is recorded."""
        async with asyncio.timeout(_PATIENCE):
            calm = 0
            # Twice in a row: between two queues a key is in neither for a moment.
            while calm < 2:
                samples = await self._samples()
                # A standby has no queues.
                waiting = [
                    *samples.get("hotmap_queue_depth", ()),
                    *samples.get("hotmap_record_shards_dirty", ()),
                ]
                calm = 0 if any(value for _, value in waiting) else calm + 1
                await asyncio.sleep(0.1)

    async def until_current(self, workloads: int, pods: int) -> float:
        """Wait until it calls so many workloads, and pods of them, current; give the moment.

        It is asked for the counts alone, since all metrics cost it several milliseconds.
        """
        async with asyncio.timeout(_PATIENCE), aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"{self.url}/v1/status", params={"limit": "1"}) as answer:
                    document = await answer.json()
                known = time.perf_counter()
                if document["counts"].get("current") == workloads and not document["behind"]:
                    samples = await self._samples()
                    counted = samples.get("hotmap_pods", ())
                    if ({"state": "current"}, pods) in counted:
                        return known
                await asyncio.sleep(0.1)

    async def _samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as answer:
            text = await answer.text()
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found


@asynccontextmanager
async def controller(cluster: Cluster, *flags: str) -> AsyncIterator[Controller]:
    """Run a controller with some flags for the length of a block; it is quiet at first."""
    process = await asyncio.create_subprocess_exec(
        *controller_command(cluster.kubeconfig, flags),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            port = await _port(process)
        drain = asyncio.create_task(_drain(process))
        running = Controller(process, port)
        await running.quiet()
        yield running
    finally:
        await stop(process)
    await drain


def controller_command(kubeconfig: Path, flags: Sequence[str]) -> Sequence[str]:
    command = (sys.executable, "-m", "hotmap", "controller", "--kubeconfig", str(kubeconfig))
    return (*command, "--listen", "127.0.0.1:0", "--log-format", "json", *flags)


async def _port(process: asyncio.subprocess.Process) -> int:
    """Read the log up to the line that tells the port of /metrics."""
    assert process.stderr is not None
    async for line in process.stderr:
        message = json.loads(line)["message"] if line.startswith(b"{") else ""
        if message.startswith("ready"):
            return int(message.rpartition(" ")[2])
    raise HotmapError("the controller ended instead; run `hotmap controller` to see why")


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read the rest of the log away, so that the process never waits for us."""
    assert process.stderr is not None
    while await process.stderr.read(1 << 16):
        pass
