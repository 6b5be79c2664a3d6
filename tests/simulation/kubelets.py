"""Kubelets of pods without processes, which remember what each pod has read.

They serve the pods of one namespace on any API server: mount, start, refresh files, end. The state
of a pod is written as a kubelet writes it; what it read stays here, where no controller sees it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.simulation.disturbances import Content
from tests.simulation.pods import SOURCES, rfc3339

from hotmap.core.errors import HotmapError, NotFound
from hotmap.core.model.objects import ObjectKey, ObjectMeta, PodSpec, PodTemplate
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.template_uses import find_uses
from hotmap.core.target import TARGET
from hotmap.kube.client import Client
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import CONFIGMAPS, LEASES, PODS, Resource, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter

__all__ = ["Kubelets", "ServedPod", "join_node"]

Object = dict[str, Any]

_NODE = "simulated"

_NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
_STRATEGIC = "application/strategic-merge-patch+json"

#: Seconds between two passes over all pods, and between two signs of life of the node.
_PASS = 0.3
_ALIVE = 8.0

#: Seconds after which what was listed is too old for a container that starts: hotmap takes a start
#: two seconds after a change, in whole seconds, for a proof that it reads the changed content.
_OLD = 0.7

#: Seconds after which the sources are listed also where no pod needs them.
_LISTED = 2.0

#: Requests of one pass at the same time.
_REQUESTS = 16


class _FoundPod(msgspec.Struct):
    """What a kubelet reads of a pod."""

    metadata: ObjectMeta
    spec: PodSpec


class _FoundConfigMap(msgspec.Struct):
    metadata: ObjectMeta
    data: Content | None = None


class ServedPod:
    """One pod, and what it has read."""

    def __init__(self, pod: _FoundPod) -> None:
        metadata = pod.metadata
        self.namespace, self.name = metadata.namespace, metadata.name
        used = find_uses(PodTemplate(spec=pod.spec), self.namespace)
        # Not the certificate of the API server, which every pod mounts.
        self.uses = tuple(use for use in used if use.source.name.partition("-")[0] in SOURCES)
        self.containers = [item.name for item in pod.spec.containers or ()]
        self.init_containers = [item.name for item in pod.spec.init_containers or ()]
        self.mounted: str = ""
        self.started = False
        self.restarts = 0
        self.ends_at: float | None = None
        self.nudged = ""
        self.files: dict[Use, Content] = {}
        self.read: dict[Use, Content] = {}

    def stale(self, data: dict[str, Content | None], *, rereads: bool) -> Iterator[str]:
        """Say of what is not the present content what it holds."""
        for use in self.uses:
            there = data.get(use.source.name)
            if there is None or not self.started or self.ends_at is not None:
                continue
            is_live = use.kind is UseKind.LIVE and rereads
            held, present = (self.files if is_live else self.read)[use], selected(use, there)
            if without_replaced(use, held, data) != without_replaced(use, present, data):
                yield f"{self.name} holds {held} of {use.path}, which is {present}"

    def lacks(self, data: dict[str, Content | None]) -> bool:
        """Return whether something is not there that it cannot start without."""
        return any(
            not use.optional
            and (
                (there := data.get(use.source.name)) is None
                or not (use.keys.names or frozenset()) <= there.keys()
            )
            for use in self.uses
        )


def selected(use: Use, data: Content | None) -> Content:
    """Select what a use brings of a source."""
    return {k: v for k, v in (data or {}).items() if use.keys.select(k, binary=False)}


def without_replaced(use: Use, held: Content, data: Mapping[str, Content | None]) -> Content:
    """Leave out what later sources of the same environment replace, as far as they exist."""
    replaced = {
        override.replaces(data_key)
        for override in use.overrides
        for data_key in data.get(override.source.name) or ()
    }
    return {data_key: value for data_key, value in held.items() if data_key not in replaced}


class Kubelets:
    """Serves the pods of a namespace."""

    def __init__(self, client: Client, namespace: str, chance: random.Random) -> None:
        self._client = client
        self._namespace = namespace
        self._chance = chance
        self._found: Store[_FoundPod] = Store()
        self._pods: dict[str, ServedPod] = {}  # by uid
        self._by_workload: dict[str, dict[str, ServedPod]] = {}
        self._data: dict[str, Content | None] = {}
        self._listed_at = 0.0
        self._limit = asyncio.Semaphore(_REQUESTS)

    async def run(self) -> None:
        """Serve forever."""
        self._found.subscribe(self._pod_changes)
        reflector: Reflector[_FoundPod, _FoundPod] = Reflector(
            self._client,
            Selection(PODS, self._namespace),
            type=_FoundPod,
            writer=StoreWriter(self._found, lambda pod: pod),
        )
        watching = asyncio.create_task(reflector.run())
        try:
            while True:
                with suppress(HotmapError):
                    await self._pass()
                await asyncio.sleep(_PASS)
        finally:
            watching.cancel()

    def pods(self, workload: str) -> list[ServedPod]:
        """List the pods of a Deployment."""
        return list(self._by_workload.get(workload, {}).values())

    @property
    def listed_data(self) -> dict[str, Content | None]:
        """What every ConfigMap of the namespace held in the last pass."""
        return self._data

    async def data(self, name: str) -> Content | None:
        """Read a ConfigMap from the API server; None where there is none."""
        try:
            found = await self._client.get(CONFIGMAPS, self._namespace, name, type=_FoundConfigMap)
        except NotFound:
            return None
        return dict(found.data or {})

    async def refresh(self, pod: ServedPod) -> None:
        """Update the files of a pod, as its kubelet does at each sync."""
        self._refresh(pod, await self._sources_of(pod))

    async def restart(self, pod: ServedPod) -> None:
        """Let the container end; it starts again with what is there."""
        data = await self._sources_of(pod)
        if pod.started and pod.ends_at is None and not pod.lacks(data):
            pod.restarts += 1
            await self._start(pod, data)

    async def _sources_of(self, pod: ServedPod) -> dict[str, Content | None]:
        names = sorted({use.source.name for use in pod.uses})
        return {name: await self.data(name) for name in names}

    # -- what is there -------------------------------------------------------------------------

    def _pod_changes(self, key: ObjectKey, old: _FoundPod | None, new: _FoundPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pods.pop(old.metadata.uid, None)
            self._by_workload[_workload(old)].pop(old.metadata.uid, None)
        if new is None or not new.spec.node_name:
            return
        pod = self._pods.get(new.metadata.uid)
        if pod is None:
            pod = self._pods[new.metadata.uid] = ServedPod(new)
            self._by_workload.setdefault(_workload(new), {})[new.metadata.uid] = pod
        if new.metadata.deletion_timestamp and pod.ends_at is None:
            pod.ends_at = time.monotonic() + self._chance.choice((0.0, 0.5, 3.0))

    async def _list_sources(self) -> None:
        """Read all ConfigMaps of the namespace, as of now."""
        at = time.monotonic()
        page = await self._client.list_page(
            CONFIGMAPS, self._namespace, type=_FoundConfigMap, limit=0
        )
        self._data = {item.metadata.name: item.data or {} for item in page.items}
        self._listed_at = at

    # -- pods ----------------------------------------------------------------------------------

    async def _pass(self) -> None:
        found = {pod.metadata.uid: pod for pod in self._found.values()}
        busy = [
            (found[uid], pod)
            for uid, pod in self._pods.items()
            if uid in found and (pod.ends_at is not None or not pod.started)
        ]
        synced = [pod for pod in found.values() if self._is_synced_now(pod)]
        if busy or synced or time.monotonic() - self._listed_at > _LISTED:
            await self._list_sources()
        for pod in synced:
            self._refresh(self._pods[pod.metadata.uid], self._data)

        async def serve(pod: _FoundPod, served: ServedPod) -> None:
            async with self._limit:
                with suppress(HotmapError):
                    await self._serve(pod, served)

        await asyncio.gather(*(serve(pod, served) for pod, served in busy))

    def _is_synced_now(self, found: _FoundPod) -> bool:
        """Return whether the files of a running pod are updated in this pass."""
        pod = self._pods.get(found.metadata.uid)
        if pod is None or not pod.started or pod.ends_at is not None:
            return False
        nudged = (found.metadata.annotations or {}).get(TARGET, "")
        if nudged == pod.nudged:
            return self._chance.random() < 0.002
        pod.nudged = nudged
        return True

    async def _serve(self, found: _FoundPod, pod: ServedPod) -> None:
        """Do the next step for a pod: mount, start, or let it go."""
        chance = self._chance
        if pod.ends_at is not None:
            if time.monotonic() >= pod.ends_at:
                await self._client.delete(
                    PODS, pod.namespace, pod.name, uid=found.metadata.uid, grace_period=0
                )
            return
        if time.monotonic() - self._listed_at > _OLD:
            return  # in the next pass, with what is there by then
        if chance.random() < 0.3 or pod.lacks(self._data):
            return
        if not pod.mounted:
            await self._mount(pod, self._data)
        elif chance.random() < 0.6:
            await self._start(pod, self._data)

    def _refresh(self, pod: ServedPod, data: dict[str, Content | None]) -> None:
        for use in pod.files:
            if use.kind is UseKind.LIVE:
                pod.files[use] = selected(use, data.get(use.source.name))

    async def _mount(self, pod: ServedPod, data: dict[str, Content | None]) -> None:
        pod.files = {use: selected(use, data.get(use.source.name)) for use in pod.uses}
        pod.mounted = rfc3339(time.time())
        await self._report(pod, {"phase": "Pending", "startTime": pod.mounted})

    async def _start(self, pod: ServedPod, data: dict[str, Content | None]) -> None:
        first = not pod.started
        for use in pod.uses:
            if use.kind is UseKind.LIVE or (use.init and first):
                pod.read[use] = pod.files[use]
            elif not use.init:
                by_path = "subPath" in use.path and first
                now = selected(use, data.get(use.source.name))
                pod.read[use] = pod.files[use] if by_path else now
        at = rfc3339(time.time())
        pod.started = True
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": at}
            for kind in ("Initialized", "Ready", "ContainersReady")
        ]
        done = {"startedAt": at, "finishedAt": at, "exitCode": 0, "reason": "Completed"}
        status = {
            "phase": "Running",
            "startTime": pod.mounted,
            "conditions": conditions,
            "containerStatuses": [
                _container(pod, name, {"running": {"startedAt": at}}) for name in pod.containers
            ],
        }
        if first:
            status["initContainerStatuses"] = [
                _container(pod, name, {"terminated": done}) for name in pod.init_containers
            ]
        await self._report(pod, status)

    async def _report(self, pod: ServedPod, status: Object) -> None:
        await self._client.patch(
            PODS,
            pod.namespace,
            pod.name,
            {"status": status},
            type=msgspec.Raw,
            content_type=_STRATEGIC,
            field_manager="kubelet",
            subresource="status",
            idempotent=True,
        )


def _workload(pod: _FoundPod) -> str:
    """Return the name of the Deployment that a pod's generated name begins with."""
    return pod.metadata.name.rsplit("-", 2)[0]


def _container(pod: ServedPod, name: str, state: Object) -> Object:
    return {
        "name": name,
        "image": "app",
        "imageID": "app",
        "containerID": f"test://{pod.name}/{name}/{pod.restarts}",
        "ready": True,
        "started": True,
        "restartCount": pod.restarts,
        "state": state,
    }


# -- the node ----------------------------------------------------------------------------------


@asynccontextmanager
async def join_node(client: Client) -> AsyncIterator[None]:
    """Let a Node be Ready that takes all pods, as long as the context lasts."""
    now = rfc3339(time.time())
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    ready |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
    room = {"cpu": "1000", "memory": "1000Gi", "pods": "100000"}
    status = {"conditions": [ready], "capacity": room, "allocatable": room}
    labels = {"kubernetes.io/hostname": _NODE}
    node = {"metadata": {"name": _NODE, "labels": labels}, "spec": {}}
    with suppress(HotmapError):  # it is there
        await client.create(_NODES, None, node, type=msgspec.Raw)
    await client.patch(
        _NODES,
        None,
        _NODE,
        {"status": status},
        type=msgspec.Raw,
        content_type=_STRATEGIC,
        subresource="status",
    )

    async def stay_alive() -> None:
        while True:
            with suppress(HotmapError):
                await _renew_node_lease(client)
            await asyncio.sleep(_ALIVE)

    alive = asyncio.create_task(stay_alive())
    try:
        yield
    finally:
        alive.cancel()


async def _renew_node_lease(client: Client) -> None:
    now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": _NODE, "leaseDurationSeconds": 40, "renewTime": now}
    try:
        await client.patch(LEASES, "kube-node-lease", _NODE, {"spec": spec}, type=msgspec.Raw)
    except NotFound:
        lease = {"metadata": {"name": _NODE}, "spec": spec}
        await client.create(LEASES, "kube-node-lease", lease, type=msgspec.Raw)
