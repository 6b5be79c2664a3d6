"""A node to run pods on: a store, a registry and a kubelet, all real."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.requires import requires

from hotmap.core.errors import AlreadyExists, SettingsError
from hotmap.local.apiserver.registry import Registry
from hotmap.local.informer import Informer
from hotmap.local.kubelet.kubelet import Kubelet
from hotmap.local.kubelet.pod_requests import PodRequests
from hotmap.local.kubelet.runtime import Runtime
from hotmap.local.kubelet.sync import SyncSettings
from hotmap.local.kubelet_api import LogOptions, StreamOptions
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hotmap.local.kubelet.images import Images

#: Seconds that anything may take here before the test fails; what is waited for takes ~0.02.
LIMIT = 60.0


class LocalNode:
    """A node named `local` and what tests do with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.registry = Registry(MVCCStore())
        self.kubelet: Kubelet | None = None
        self.pods = Informer(self.registry, "pods")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(
        self, settings: SyncSettings | None = None, images: Images | None = None
    ) -> None:
        for name in ("default", "kube-system", "kube-node-lease"):
            with contextlib.suppress(AlreadyExists):
                await self.create("namespaces", {"metadata": {"name": name}}, namespace=None)
        self.kubelet = Kubelet(
            self.registry,
            node_name="local",
            root_dir=self.directory,
            sync=settings,
            runtime=Runtime(self.directory / "sandbox", images),
        )
        running = asyncio.create_task(self.kubelet.run())
        self._tasks = [running, asyncio.create_task(self.pods.run())]
        ready = asyncio.create_task(self.kubelet.ready())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            ready.cancel()
            await running

    @property
    def pod_requests(self) -> PodRequests:
        """What the API server calls for `kubectl logs`, `exec`, `attach` and `port-forward`."""
        assert self.kubelet is not None
        return self.kubelet.pod_requests

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def restart(self) -> None:
        """Stop the kubelet, and start another one with the same objects."""
        await self.stop()
        await self.start()

    async def create(
        self, plural: str, obj: dict[str, Any], *, namespace: str | None = "default"
    ) -> dict[str, Any]:
        return await self.registry.create(plural, namespace, obj, manager="test")

    async def config_map(self, name: str, data: dict[str, str], **more: Any) -> None:
        await self.create("configmaps", {"metadata": {"name": name}, "data": data, **more})

    async def edit(self, name: str, **data: str | None) -> None:
        patch = {"data": data}
        await self.registry.patch(
            "configmaps", "default", name, patch, kind="merge", manager="test"
        )

    async def annotate(self, pod: str, **annotations: str) -> None:
        patch = {"metadata": {"annotations": annotations}}
        await self.registry.patch("pods", "default", pod, patch, kind="merge", manager="test")

    async def run_pod(self, name: str, script: str, **container: Any) -> dict[str, Any]:
        """Create a pod with one container `c` that runs a shell script; `pod=` adds to its spec."""
        spec = {
            "nodeName": "local",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "shell", "command": ["sh", "-c", script]}],
            **container.pop("pod", {}),
        }
        spec["containers"][0].update(container)
        return await self.create("pods", {"metadata": {"name": name}, "spec": spec})

    async def until(self, name: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait until something is true of a pod; return it."""

        def is_there() -> bool:
            pod = self.pods.objects.get(("default", name))
            return pod is not None and bool(holds(pod))

        async with asyncio.timeout(LIMIT):
            await self.pods.until(is_there)
        return self.pods.objects["default", name]

    async def phase(self, name: str, phase: str) -> dict[str, Any]:
        return await self.until(name, lambda pod: pod.get("status", {}).get("phase") == phase)

    async def waiting(self, name: str, reason: str) -> dict[str, Any]:
        """Wait until a pod's container waits for this reason; return its waiting state."""

        def state(pod: dict[str, Any]) -> dict[str, Any]:
            statuses = pod.get("status", {}).get("containerStatuses") or [{}]
            found: dict[str, Any] = statuses[0].get("state", {}).get("waiting") or {}
            return found

        return state(await self.until(name, lambda pod: state(pod).get("reason") == reason))

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(LIMIT):
            await self.pods.until(lambda: ("default", name) not in self.pods.objects)

    async def logs(self, pod: str, container: str = "c", **options: Any) -> str:
        chunks = await self.pod_requests.logs("default", pod, container, LogOptions(**options))
        return b"".join([chunk async for chunk in chunks]).decode()

    async def output(self, name: str, script: str, **container: Any) -> str:
        """Run a script to its end in a pod of its own; return what it printed."""
        pod = {"restartPolicy": "Never", **container.pop("pod", {})}
        await self.run_pod(name, script, pod=pod, **container)
        await self.phase(name, "Succeeded")
        return await self.logs(name)

    async def execute(self, pod: str, script: str, *, container: str = "c") -> str:
        """Run a script in a running pod's container; return what it printed."""
        session = await self.pod_requests.exec(
            "default", pod, container, ["sh", "-c", script], StreamOptions()
        )
        parts = []
        while (chunk := await session.read()) is not None:
            parts.append(chunk[1])
        await session.close()
        return b"".join(parts).decode()

    async def event(self, reason: str, message: str) -> None:
        """Wait for this Event; they are written in the background."""
        wanted = (reason, message)
        async with asyncio.timeout(LIMIT):
            with self.registry.watch("events", "default") as events:
                async for change in events:
                    if (change.object.get("reason"), change.object.get("message")) == wanted:
                        return

    async def volume(self, pod: str, volume: str, plugin: str = "configmap") -> Path:
        uid = (await self.registry.get("pods", "default", pod))["metadata"]["uid"]
        return self.directory / "pods" / str(uid) / "volumes" / f"kubernetes.io~{plugin}" / volume


async def eventually(holds: Callable[[], Any]) -> None:
    """Poll until something outside of the event loop is true."""
    async with asyncio.timeout(LIMIT):
        while not holds():  # noqa: ASYNC110 - a file or a process cannot set an Event
            await asyncio.sleep(0.002)


@pytest.fixture
async def make_node(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Start a node with these sync settings; it is stopped at the end."""
    nodes: list[LocalNode] = []

    async def make(settings: SyncSettings | None = None) -> LocalNode:
        node = LocalNode(tmp_path / "node")
        try:
            await node.start(settings)
        except SettingsError as error:
            await node.stop()
            requires("namespaces", available=False, reason=str(error))
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        await node.stop()


@pytest.fixture
async def node(make_node: Callable[..., Any]) -> LocalNode:
    """A node with upstream's settings: nothing is synced without a cause within a test."""
    started: LocalNode = await make_node()
    return started
