"""The kubelet: a worker for each pod bound to its node, and the node's own object.

Connects the modules of this package. `sync` has the worker of a pod, `pod_requests` answers
requests of the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import AlreadyExists, NotFound
from hotmap.local.host_ports import NO_FREE_PORTS, collides, host_ports
from hotmap.local.informer import Informer, Informers
from hotmap.local.kubelet.addresses import HOST_ADDRESS, POD_NETWORK, PodAddresses
from hotmap.local.kubelet.heartbeat import NodeHeartbeat, with_known_transitions
from hotmap.local.kubelet.lease import NodeLease
from hotmap.local.kubelet.logs import log_directory, remove_logs
from hotmap.local.kubelet.node import make_node, with_labels
from hotmap.local.kubelet.node_context import Node
from hotmap.local.kubelet.pod_requests import PodRequests
from hotmap.local.kubelet.runtime import Runtime
from hotmap.local.kubelet.sources import (
    CachedSources,
    FetchedSources,
    SourceReader,
    WatchedSources,
    ttl_of,
)
from hotmap.local.kubelet.status import rfc3339
from hotmap.local.kubelet.sync import MANAGER, PodWorker, SyncSettings
from hotmap.local.recorder import Recorder
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.client import Client
    from hotmap.local.kubelet.mounts import TokenSource

_log = logging.getLogger(__name__)


class Kubelet:
    """Runs the pods of one node as processes.

    `root_dir` belongs to the kubelet: it creates `pods/` and `sandbox/` in it, and removes them at
    the end (`clean_up`); `logs/` stays as long as its pods do. `tokens` issues service account
    tokens for projected volumes.
    """

    def __init__(
        self,
        client: Client,
        *,
        node_name: str,
        root_dir: Path,
        sync: SyncSettings | None = None,
        runtime: Runtime | None = None,
        tokens: TokenSource | None = None,
        addresses: ipaddress.IPv4Network = POD_NETWORK,
    ) -> None:
        self.node_name = node_name
        self.runtime = runtime or Runtime(root_dir / "sandbox")
        self._client = client
        self._root = root_dir
        self._settings = sync or SyncSettings()
        self._tokens = tokens
        self._recorder = Recorder(client, MANAGER, host=node_name)
        self.lease = NodeLease(client, node_name, manager=MANAGER)
        self._heartbeat = NodeHeartbeat(client, node_name, manager=MANAGER)
        self._pods = Informer(client, "pods", field_selector=f"spec.nodeName={node_name}")
        self._nodes = Informer(client, "nodes", field_selector=f"metadata.name={node_name}")
        self._shared = Informers(client)
        self._services = self._shared["services"]
        self._sources = self._source_reader()
        self._workers: dict[str, tuple[PodWorker, asyncio.Task[None]]] = {}
        self._rejections: set[asyncio.Task[None]] = set()
        self.pod_requests = PodRequests(
            root_dir, workers=self._newest_workers, pods=self._pods.objects
        )
        self._addresses = PodAddresses(addresses)
        self._ready = asyncio.Event()
        self._node: Node | None = None

    async def run(self) -> None:
        """Run the node until cancelled; then kill every container and clean up.

        Raises:
            SettingsError: this machine allows no isolation of processes (see `runtime`).
        """
        clean_up(self._root)
        # Volumes hold Secrets as files, and containers print what they like.
        for name in ("pods", "logs"):
            (self._root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            await self.runtime.start()
            await self._register()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._recorder.run())
                tasks.create_task(self.lease.run())
                tasks.create_task(self._heartbeat.run())
                tasks.create_task(self._nodes.run())
                tasks.create_task(self._shared.run())
                await self._shared.wait_for_sync()
                await self._nodes.wait_for_sync()
                self._pods.subscribe(self._pod_changed)
                tasks.create_task(self._pods.run())
                await self._pods.wait_for_sync()
                self._remove_logs_of_others()
                self._ready.set()
        finally:
            await self._stop()

    async def ready(self) -> None:
        """Wait until the node is registered and its pods are known."""
        await self._ready.wait()

    async def _stop(self) -> None:
        tasks = [*self._rejections, *(task for _, task in self._workers.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()
        await self.runtime.close()
        clean_up(self._root)

    async def _register(self) -> None:
        node = make_node(
            self.node_name,
            HOST_ADDRESS,
            version=VERSION["gitVersion"],
            now=rfc3339(time.time()),
            ttl=self._settings.ttl,
            max_pods=self._settings.max_pods,
        )
        allocatable = node["status"]["allocatable"]
        try:
            await self._client.create("nodes", None, node, manager=MANAGER)
        except AlreadyExists:
            await self._client.modify(
                "nodes",
                None,
                self.node_name,
                lambda known: with_labels(known, node["metadata"]["labels"]),
                manager=MANAGER,
            )

        def refresh(known: dict[str, Any]) -> dict[str, Any]:
            before = known.get("status") or {}
            status = dict(node["status"])
            status["conditions"] = with_known_transitions(
                status["conditions"], before.get("conditions") or []
            )
            return {**known, "status": {**before, **status}}

        await self._client.modify(
            "nodes", None, self.node_name, refresh, manager=MANAGER, subresource="status"
        )
        self._node = Node(
            client=self._client,
            runtime=self.runtime,
            sources=self._sources,
            recorder=self._recorder,
            root=self._root,
            address=HOST_ADDRESS,
            allocatable=allocatable,
            services=self._services.objects.values,
            tokens=self._tokens,
        )

    def _source_reader(self) -> SourceReader:
        if self._settings.strategy == "Watch":
            return WatchedSources(self._shared)
        if self._settings.strategy == "Get":
            return FetchedSources(self._client)
        return CachedSources(
            self._client, lambda: ttl_of(self._nodes.objects.get(("", self.node_name)))
        )

    def _pod_changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if new is None:
            assert old is not None
            known = self._workers.get(old["metadata"]["uid"])
            if known is not None:
                known[0].remove()
            else:
                remove_logs(self._root, old)
            return
        uid = new["metadata"]["uid"]
        if uid in self._workers:
            self._workers[uid][0].update(new)
        elif not _is_over(new):
            running = [worker.pod for worker, _ in self._workers.values()]
            refusal = _refusal(
                new, [pod for pod in running if not _is_over(pod)], self._settings.max_pods
            )
            if refusal is None:
                self._add(uid, new)
            else:
                self._reject(new, *refusal)

    def _add(self, uid: str, pod: dict[str, Any]) -> None:
        assert self._node is not None
        address = self._addresses.take()
        worker = PodWorker(pod, self._node, settings=self._settings, address=address)
        task = asyncio.create_task(worker.run(), name=f"pod {pod['metadata']['name']}")
        self._workers[uid] = (worker, task)
        task.add_done_callback(lambda task: self._worker_ended(uid, task))

    def _remove_logs_of_others(self) -> None:
        """Remove the logs of pods that were removed while no kubelet ran."""
        known = {log_directory(self._root, pod) for pod in self._pods.objects.values()}
        for path in (self._root / "logs").glob("*"):
            if path not in known:
                shutil.rmtree(path, ignore_errors=True)

    def _reject(self, pod: dict[str, Any], reason: str, text: str) -> None:
        """Fail a pod that the node does not take (pkg/kubelet/kubelet.go, rejectPod).

        The scheduler does not bind such pods; a client may have set `spec.nodeName`.
        """
        status = {
            "phase": "Failed",
            "reason": reason,
            "message": f"Pod was rejected: {text}",
            "startTime": rfc3339(time.time()),
        }
        self._recorder.event(pod, "Warning", reason, text)
        task = asyncio.create_task(self._write_status(pod, status))
        self._rejections.add(task)
        task.add_done_callback(self._rejections.discard)

    async def _write_status(self, pod: dict[str, Any], status: dict[str, str]) -> None:
        metadata = pod["metadata"]

        def change(known: dict[str, Any]) -> dict[str, Any] | None:
            if known["metadata"]["uid"] != metadata["uid"]:
                return None
            return {**known, "status": {**(known.get("status") or {}), **status}}

        with contextlib.suppress(NotFound):
            await self._client.modify(
                "pods",
                metadata["namespace"],
                metadata["name"],
                change,
                manager=MANAGER,
                subresource="status",
            )

    def _newest_workers(self) -> Iterator[PodWorker]:
        return (worker for worker, _ in reversed(self._workers.values()))

    def _worker_ended(self, uid: str, task: asyncio.Task[None]) -> None:
        known = self._workers.pop(uid, None)
        if known is not None:
            self._addresses.release(known[0].containers.address)
        if not task.cancelled() and task.exception() is not None:
            _log.error("pod %s: worker failed", uid, exc_info=task.exception())


def clean_up(root_dir: Path) -> None:
    """Remove what a kubelet left under its directory, even if it was killed.

    Processes and mounts need no clean-up: they end with the kubelet (see `zygote`). Do not call
    this for a directory that a running kubelet uses.
    """
    for name in ("pods", "sandbox"):
        shutil.rmtree(root_dir / name, ignore_errors=True)


def _refusal(
    pod: dict[str, Any], running: list[dict[str, Any]], max_pods: int
) -> tuple[str, str] | None:
    """Return the reason and the text for which a node does not take a pod; None if it does.

    kubernetes: pkg/kubelet/lifecycle/predicate.go.
    """
    if len(running) >= max_pods:
        text = (
            "Node didn't have enough resource: pods, requested: 1, "
            f"used: {len(running)}, capacity: {max_pods}"
        )
        return "OutOfpods", text
    used = {port for other in running for port in host_ports(other)}
    if collides(host_ports(pod), used):
        return "NodePorts", f"Predicate NodePorts failed: {NO_FREE_PORTS}"
    return None


def _is_over(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
