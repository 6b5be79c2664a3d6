"""The demo's cluster: a local control plane in this process, and a controller process.

The controller is started as a user starts it and killed without warning, so everything that it
knows after a restart comes from the cluster.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import yaml

from hotmap.core.errors import HotmapError
from hotmap.core.model.objects import ObjectMeta
from hotmap.kube.client import Client
from hotmap.kube.http.fetch import fetch
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import BY_KIND, PODS
from hotmap.local.cluster import LocalCluster

__all__ = ["Decision", "DemoCluster", "PodSnapshot"]

T = TypeVar("T")

NAMESPACE = "default"

#: Seconds to wait for an expected result.
TIMEOUT = 15.0

#: Bytes of the status of a workload.
_LARGEST_ANSWER = 16 << 20


class _Any(msgspec.Struct):
    metadata: ObjectMeta


class _State(msgspec.Struct):
    running: dict[str, Any] | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    restart_count: int = 0
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] = msgspec.field(default_factory=list)


class _Pod(msgspec.Struct):
    metadata: ObjectMeta
    status: _Status


class PodSnapshot(NamedTuple):
    """The state of a pod that is not terminating, as far as the demo shows it."""

    name: str
    uid: str
    running: bool
    restarts: int
    replica_set: str


class Decision(NamedTuple):
    """A decision that the controller logged."""

    #: POSIX seconds.
    at: float
    consumer: str
    reason: str


class DemoCluster:
    """A control plane and a controller, from entering the context to leaving it."""

    def __init__(self) -> None:
        self._exit = AsyncExitStack()
        self._controller: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._status_port = 0
        self.decisions: list[Decision] = []
        self.plane_ready_after = 0.0

    async def __aenter__(self) -> Self:
        try:
            directory = self._exit.enter_context(tempfile.TemporaryDirectory(prefix="hotmap-demo-"))
            began = time.monotonic()
            cluster = LocalCluster(Path(directory) / "plane")
            self._cluster = await self._exit.enter_async_context(cluster)
            self.plane_ready_after = time.monotonic() - began
            config = load_kubeconfig(str(self._cluster.kubeconfig))
            client = Client(config, user_agent="hotmap-demo")
            self._client = await self._exit.enter_async_context(client)
            self._exit.push_async_callback(self.kill_controller)
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._exit.aclose()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._cluster.server

    # -- the controller ------------------------------------------------------------------------

    async def start_controller(self) -> None:
        """Start a controller process and wait until it acts.

        Raises:
            HotmapError: it exited instead.
        """
        self._ready.clear()
        self._controller = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hotmap",
            "controller",
            # Alone on its cluster: it need not wait until the Lease of a killed one expires.
            "--no-leader-elect",
            "--kubeconfig",
            str(self._cluster.kubeconfig),
            "--listen",
            "127.0.0.1:0",
            "--log-level",
            "debug",
            "--log-format",
            "json",
            stderr=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL,
        )
        self._reading = asyncio.create_task(self._read_log(self._controller))
        ready = asyncio.create_task(self._ready.wait())
        done, _ = await asyncio.wait(
            [ready, self._reading], timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED
        )
        if ready not in done:
            ready.cancel()
            raise HotmapError(
                "the demo's controller did not start; run 'hotmap controller' to see the reason"
            )

    async def kill_controller(self) -> None:
        """Kill the controller without warning."""
        if self._controller is not None and self._reading is not None:
            if self._controller.returncode is None:
                self._controller.kill()
            await self._controller.wait()
            await self._reading
        self._controller = self._reading = None

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry["message"].startswith("ready"):
                self._status_port = int(entry["message"].rpartition("port ")[2] or 0)
                self._ready.set()
            elif "workload" in entry:
                name = entry["workload"].rpartition("/")[2]
                at = datetime.fromisoformat(entry["time"]).timestamp()
                self.decisions.append(Decision(at, name, entry["message"]))

    async def decision(self, consumer: str, *, since: float, about: str) -> Decision | None:
        """Wait for a decision on a consumer whose reason contains `about`."""

        async def find() -> Decision | None:
            for decision in self.decisions:
                matches = decision.consumer == consumer and about in decision.reason
                if matches and decision.at >= since:
                    return decision
            return None

        return await self.wait_for(find)

    # -- the cluster ---------------------------------------------------------------------------

    async def apply(self, manifests: str) -> None:
        """Create every object of a YAML stream."""
        for body in yaml.safe_load_all(manifests):
            await self._client.create(
                BY_KIND[body["kind"]], NAMESPACE, body, type=_Any, field_manager="demo"
            )

    async def edit(self, name: str, data: dict[str, str]) -> float:
        """Change data keys of a ConfigMap; returns the moment before it was sent, POSIX seconds."""
        began = time.time()
        await self._client.patch(
            BY_KIND["ConfigMap"],
            NAMESPACE,
            name,
            {"data": data},
            type=_Any,
            field_manager="demo",
            idempotent=True,
        )
        return began

    async def pods(self, app: str) -> list[PodSnapshot]:
        """List the pods of a workload that are not terminating."""
        page = await self._client.list_page(PODS, NAMESPACE, type=_Pod, label_selector=f"app={app}")
        return [_snapshot(pod) for pod in page.items if pod.metadata.deletion_timestamp is None]

    async def status(self, app: str) -> tuple[str, str]:
        """Ask the controller for the state of a workload, and the reason, as `hotmap status`."""
        url = f"http://127.0.0.1:{self._status_port}/v1/status"
        query = {"workload": f"{NAMESPACE}/{app}", "consistent": "true"}
        _, body = await fetch(url, query, connect_timeout=TIMEOUT, at_most=_LARGEST_ANSWER)
        document = msgspec.json.decode(body)
        found = document["workloads"][0]
        return found["state"], found["reason"]

    async def output(self, pod: str) -> list[tuple[float, str]]:
        """Read the output of a pod: (POSIX seconds, line)."""
        path = PODS.path(NAMESPACE, pod, "log")
        body = await self._client.request("GET", path, params={"timestamps": "true"}, attempts=3)
        lines = []
        for line in body.decode().splitlines():
            stamp, _, text = line.partition(" ")
            lines.append((_posix(stamp), text))
        return lines

    async def wait_for(self, find: Callable[[], Awaitable[T | None]]) -> T | None:
        """Poll until something is found; None after TIMEOUT."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if (found := await find()) is not None:
                return found
            await asyncio.sleep(0.01)
        return None


def _snapshot(pod: _Pod) -> PodSnapshot:
    statuses = pod.status.container_statuses
    owners = pod.metadata.owner_references
    return PodSnapshot(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        running=bool(statuses) and all(status.state.running is not None for status in statuses),
        restarts=sum(status.restart_count for status in statuses),
        replica_set=owners[0].name if owners else "",
    )


def _posix(stamp: str) -> float:
    """Read an RFC 3339 time with nanoseconds, as container logs have them."""
    head, _, fraction = stamp.rstrip("Z").partition(".")
    whole = datetime.fromisoformat(f"{head}+00:00").timestamp()
    return whole + (float(f"0.{fraction}") if fraction else 0.0)
