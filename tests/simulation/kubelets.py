"""Kubelets of pods without processes, which remember what each pod has read.

They serve the pods of one Node on any API server: mount, start, refresh files, end. The state of a
pod is written as a kubelet writes it; what it read stays here, where no controller sees it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.simulation.cluster import SOURCES, rfc3339
from tests.simulation.disturbances import Content

from hotmap.core.errors import HotmapError, NotFound
from hotmap.core.model.objects import PodTemplate
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.template_uses import find_uses
from hotmap.core.patch.nudge import TARGET
from hotmap.kube.client import Client
from hotmap.kube.resources import CONFIGMAPS, LEASES, PODS, Resource

__all__ = ["NODE", "Kubelets", "ServedPod"]

Object = dict[str, Any]

NODE = "simulated"

_NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
_STRATEGIC = "application/strategic-merge-patch+json"

#: Seconds between two passes over all pods, and between two signs of life of the node.
_PASS = 0.2
_ALIVE = 8.0


class ServedPod:
    """One pod, and what it has read."""

    def __init__(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self.namespace, self.name = metadata["namespace"], metadata["name"]
        template = msgspec.convert({"spec": pod["spec"]}, PodTemplate)
        used = find_uses(template, self.namespace)
        # Not the certificate of the API server, which every pod mounts.
        self.uses = tuple(use for use in used if use.source.name in SOURCES)
        self.containers = [container["name"] for container in pod["spec"]["containers"]]
        self.init_containers = [
            container["name"] for container in pod["spec"].get("initContainers") or ()
        ]
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
            if held != present:
                yield f"{self.name} holds {held} of {use.path}, which is {present}"


def selected(use: Use, data: Content | None) -> Content:
    """Select what a use brings of a source."""
    return {k: v for k, v in (data or {}).items() if use.keys.select(k, binary=False)}


class Kubelets:
    """Serves all pods of the node."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        #: By uid.
        self.pods: dict[str, ServedPod] = {}

    async def run(self) -> None:
        """Serve for ever."""
        await self._join()
        alive_at = 0.0
        while True:
            if time.monotonic() - alive_at > _ALIVE:
                alive_at = time.monotonic()
                with suppress(HotmapError):
                    await self._stay_alive()
            with suppress(HotmapError):
                await self._pass()
            await asyncio.sleep(_PASS)

    def of(self, namespace: str) -> list[ServedPod]:
        """List the pods of a namespace."""
        return [pod for pod in self.pods.values() if pod.namespace == namespace]

    async def data(self, namespace: str, name: str) -> Content | None:
        """Read a ConfigMap; None where there is none."""
        try:
            found = await self._client.get(CONFIGMAPS, namespace, name, type=Object)
        except NotFound:
            return None
        return dict(found.get("data") or {})

    async def refresh(self, pod: ServedPod) -> None:
        """Update the files of a pod, as its kubelet does at each sync."""
        found = await self._found(pod)
        for use in pod.files:
            if use.kind is UseKind.LIVE:
                pod.files[use] = selected(use, found[use.source.name])

    async def restart(self, pod: ServedPod) -> None:
        """Let the container end; it starts anew with what is there."""
        if pod.started and pod.ends_at is None and await self._can_start(pod):
            pod.restarts += 1
            await self._start(pod)

    # -- the node ------------------------------------------------------------------------------

    async def _join(self) -> None:
        now = rfc3339(time.time())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        ready |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
        room = {"cpu": "1000", "memory": "1000Gi", "pods": "100000"}
        status = {"conditions": [ready], "capacity": room, "allocatable": room}
        labels = {"kubernetes.io/hostname": NODE}
        node = {"metadata": {"name": NODE, "labels": labels}, "spec": {}}
        with suppress(HotmapError):  # it is there
            await self._client.create(_NODES, None, node, type=Object)
        await self._client.patch(
            _NODES,
            None,
            NODE,
            {"status": status},
            type=Object,
            content_type=_STRATEGIC,
            subresource="status",
        )

    async def _stay_alive(self) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            await self._client.patch(
                LEASES,
                "kube-node-lease",
                NODE,
                {"spec": spec},
                type=Object,
                content_type="application/merge-patch+json",
            )
        except NotFound:
            lease = {"metadata": {"name": NODE}, "spec": spec}
            await self._client.create(LEASES, "kube-node-lease", lease, type=Object)

    # -- pods ----------------------------------------------------------------------------------

    async def _pass(self) -> None:
        page = await self._client.list_page(
            PODS, None, type=Object, resource_version="0", field_selector=f"spec.nodeName={NODE}"
        )
        there = {pod["metadata"]["uid"]: pod for pod in page.items}
        for gone in self.pods.keys() - there.keys():
            del self.pods[gone]
        limit = asyncio.Semaphore(8)

        async def serve(uid: str, pod: Object) -> None:
            async with limit:
                with suppress(HotmapError):
                    await self._serve(uid, pod)

        await asyncio.gather(*(serve(uid, pod) for uid, pod in there.items()))

    async def _serve(self, uid: str, found: Object) -> None:
        """Do the next step for a pod: mount, start, or let it go."""
        chance = self._chance
        pod = self.pods.get(uid)
        if pod is None:
            pod = self.pods[uid] = ServedPod(found)
        if found["metadata"].get("deletionTimestamp"):
            now = time.monotonic()
            if pod.ends_at is None:
                pod.ends_at = now + chance.choice((0.0, 0.5, 3.0))
            if now >= pod.ends_at:
                await self._client.delete(PODS, pod.namespace, pod.name, grace_period=0)
            return
        nudged = (found["metadata"].get("annotations") or {}).get(TARGET, "")
        if pod.started:
            if nudged != pod.nudged or chance.random() < 0.01:
                pod.nudged = nudged
                await self.refresh(pod)
        elif chance.random() < 0.3 or not await self._can_start(pod):
            return
        elif not pod.mounted:
            await self._mount(pod)
        elif chance.random() < 0.6:
            await self._start(pod)

    async def _found(self, pod: ServedPod) -> dict[str, Content | None]:
        names = sorted({use.source.name for use in pod.uses})
        return {name: await self.data(pod.namespace, name) for name in names}

    async def _can_start(self, pod: ServedPod) -> bool:
        """Return whether all is there that is not optional."""
        found = await self._found(pod)
        for use in pod.uses:
            data = found[use.source.name]
            if not use.optional and (
                data is None or not (use.keys.names or frozenset()) <= data.keys()
            ):
                return False
        return True

    async def _mount(self, pod: ServedPod) -> None:
        found = await self._found(pod)
        pod.files = {use: selected(use, found[use.source.name]) for use in pod.uses}
        pod.mounted = rfc3339(time.time())
        await self._report(pod, {"phase": "Pending", "startTime": pod.mounted})

    async def _start(self, pod: ServedPod) -> None:
        first = not pod.started
        found = await self._found(pod)
        for use in pod.uses:
            if use.kind is UseKind.LIVE or (use.init and first):
                pod.read[use] = pod.files[use]
            elif not use.init:
                by_path = "subPath" in use.path and first
                now = selected(use, found[use.source.name])
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
            type=Object,
            content_type=_STRATEGIC,
            field_manager="kubelet",
            subresource="status",
        )


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
