"""A cluster to measure on: what a person does to it, and an independent watch of what follows.

All moments are `time.perf_counter()`: the monotonic clock, which every process here shares.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.generate import NAMESPACE
from hotmap.core.errors import HotmapError
from hotmap.core.model.objects import ObjectMeta, Pod, Workload
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import (
    BY_KIND,
    CONFIGMAPS,
    DAEMONSETS,
    DEPLOYMENTS,
    EVENTS,
    PODS,
    Resource,
)
from hotmap.kube.watch import Bookmark, Failure, Unreadable, WatchDecoder

__all__ = [
    "BARE",
    "Cluster",
    "ClusterUser",
    "Revision",
    "TemplateWatch",
    "bare_controller",
    "cluster_user",
    "in_background",
    "watch_templates",
]

#: The DaemonSets that two bare controllers write: by how much these differ is chance.
BARE = ("bare", "bare-too")

#: Writes at once while the objects of a benchmark are made.
_WRITERS = 16

#: Seconds after which something that should have happened counts as not happened.
TIMEOUT = 120.0


class Cluster(NamedTuple):
    """Where to measure."""

    #: As tables call it.
    name: str
    kubeconfig: Path
    #: The kubelet's root directory; None where there is no node.
    kubelet: Path | None
    #: The image of pods that run a host's program or a real one.
    image: str


class _Bare(msgspec.Struct):
    metadata: ObjectMeta


class ClusterUser:
    """A user with a client and the right to do anything."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Create objects, many at once."""
        waiting = iter(bodies)

        async def write() -> None:
            for body in waiting:
                await self._client.create(BY_KIND[body["kind"]], NAMESPACE, body, type=_Bare)

        await asyncio.gather(*(write() for _ in range(_WRITERS)))

    async def create_consumers(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Create DaemonSets and report them as rolled out, since not every cluster does."""
        waiting = iter(bodies)

        async def write() -> None:
            for body in waiting:
                made = await self._client.create(DAEMONSETS, NAMESPACE, body, type=_Bare)
                await self._report_complete(made.metadata)

        await asyncio.gather(*(write() for _ in range(_WRITERS)))

    async def complete_rollouts(self) -> None:
        """Report all DaemonSets as rolled out.

        Where that is left out, a controller that could not write its last records, such as after
        the API server stalled, waits for these rollouts before it decides.
        """
        page = await self._client.list_page(DAEMONSETS, NAMESPACE, type=_Bare)
        for found in page.items:
            await self._report_complete(found.metadata)

    async def _report_complete(self, metadata: ObjectMeta) -> None:
        await self._client.patch(
            DAEMONSETS,
            NAMESPACE,
            metadata.name,
            {"status": {"observedGeneration": metadata.generation}},
            type=_Bare,
            subresource="status",
            field_manager="daemonset-controller",
        )

    async def report_scheduled(self, names: Iterable[str], pods: int) -> None:
        """Report DaemonSets as having so many pods, all of their newest template."""
        for name in names:
            counts = dict.fromkeys(
                ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled"), pods
            )
            await self._client.patch(
                DAEMONSETS,
                NAMESPACE,
                name,
                {"status": {"observedGeneration": 1, **counts}},
                type=_Bare,
                subresource="status",
            )

    async def report_running(self, addresses: Mapping[str, str], at: str) -> dict[str, str]:
        """Report pods as running and ready since a time; return their uids by address."""
        waiting, uids = iter(addresses.items()), {}

        async def write() -> None:
            for name, address in waiting:
                running = {"name": "main", "ready": True, "state": {"running": {"startedAt": at}}}
                status = {
                    "phase": "Running",
                    "podIP": address,
                    "startTime": at,
                    "containerStatuses": [running],
                }
                found = await self._client.patch(
                    PODS, NAMESPACE, name, {"status": status}, type=_Bare, subresource="status"
                )
                uids[address] = found.metadata.uid

        await asyncio.gather(*(write() for _ in range(_WRITERS)))
        return uids

    async def delete(self, resource: Resource, name: str) -> None:
        """Delete an object and what it owns, without grace."""
        await self._client.delete(resource, NAMESPACE, name, grace_period=0)

    async def remove(self, name: str) -> None:
        """Delete the Deployment and the ConfigMap of a name."""
        for resource in (DEPLOYMENTS, CONFIGMAPS):
            await self._client.delete(resource, NAMESPACE, name, propagation="Background")

    async def edit(self, name: str, data: Mapping[str, str]) -> tuple[float, float]:
        """Edit a ConfigMap; returns when it was sent and when the answer was there."""
        began = time.perf_counter()
        await self._client.patch(CONFIGMAPS, NAMESPACE, name, {"data": data}, type=_Bare)
        return began, time.perf_counter()

    async def mark(self, kind: str, name: str, annotations: Mapping[str, str]) -> None:
        """Write annotations of an object, and nothing else."""
        body = {"metadata": {"annotations": annotations}}
        await self._client.patch(BY_KIND[kind], NAMESPACE, name, body, type=_Bare)

    async def roll(self, name: str, revision: str) -> float:
        """Write a rollout as hotmap does, by hand; returns when it was sent."""
        annotations = {"hotmap.dev/revision": revision}
        body = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        began = time.perf_counter()
        await self._client.patch(DAEMONSETS, NAMESPACE, name, body, type=_Bare)
        return began

    async def pods(self) -> list[Pod]:
        """List the pods."""
        return (await self._client.list_page(PODS, NAMESPACE, type=Pod, limit=0)).items

    async def events(self) -> int:
        """Count what hotmap's Events report."""
        page = await self._client.list_page(EVENTS, NAMESPACE, type=_Event, limit=0)
        return sum(item.count or 1 for item in page.items if item.source.component == "hotmap")

    def watch_pods(self) -> AsyncIterator[tuple[float, Pod]]:
        """Iterate over the states of pods from now on, each with the moment it arrived."""
        return _watch(self._client, PODS, Pod)


class _EventSource(msgspec.Struct):
    component: str = ""


class _Event(msgspec.Struct):
    metadata: ObjectMeta
    source: _EventSource = msgspec.field(default_factory=_EventSource)
    count: int | None = None


@asynccontextmanager
async def cluster_user(cluster: Cluster) -> AsyncIterator[ClusterUser]:
    """Connect a client to a cluster for the length of a block."""
    config = load_kubeconfig(str(cluster.kubeconfig))
    async with Client(config, user_agent="hotmap-benchmarks") as client:
        yield ClusterUser(client)


# -- watching ----------------------------------------------------------------------------------


class Revision(NamedTuple):
    """A pod template's new `hotmap.dev/revision`, as a watch line brought it."""

    at: float
    consumer: str
    revision: str


class TemplateWatch:
    """Notes every new revision of a pod template when its watch line arrives."""

    def __init__(self) -> None:
        self.seen: list[Revision] = []
        self._current: dict[str, str] = {}
        self._arrived = asyncio.Event()

    def take(self, at: float, item: Workload) -> None:
        """Look at one state of a DaemonSet."""
        name = item.metadata.name
        annotations = item.spec.template.metadata.annotations or {}
        revision = annotations.get("hotmap.dev/revision", "")
        if name in self._current and self._current[name] != revision:
            self.seen.append(Revision(at, name, revision))
            self._arrived.set()
        self._current[name] = revision

    async def until(self, count: int) -> None:
        """Wait until `count` new revisions have been seen in all.

        Raises:
            HotmapError: they were not seen in time.
        """
        try:
            async with asyncio.timeout(TIMEOUT):
                while len(self.seen) < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise HotmapError(
                f"waited {TIMEOUT:g} s for {count} rollouts and saw {len(self.seen)}"
            ) from None


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something, such as a watch, for the length of a block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def watch_templates(cluster: Cluster) -> AsyncIterator[TemplateWatch]:
    """Watch the DaemonSets with a client and a connection of its own."""
    watch = TemplateWatch()
    config = load_kubeconfig(str(cluster.kubeconfig))
    async with Client(config, user_agent="hotmap-benchmarks-watch") as client:
        page = await client.list_page(DAEMONSETS, NAMESPACE, type=Workload, limit=0)
        for item in page.items:
            watch.take(0.0, item)

        async def follow() -> None:
            async for at, item in _watch(client, DAEMONSETS, Workload, page.resource_version):
                watch.take(at, item)

        async with in_background(follow()):
            yield watch


@asynccontextmanager
async def bare_controller(cluster: Cluster, name: str) -> AsyncIterator[None]:
    """Write a rollout of a DaemonSet, which must exist, after each edit of a source.

    The least that a controller does, with a client and connections of its own: what it takes is the
    API server's part of any controller's time, and the machine's.
    """
    config = load_kubeconfig(str(cluster.kubeconfig))
    async with Client(config, user_agent="hotmap-benchmarks-bare") as client:
        page = await client.list_page(CONFIGMAPS, NAMESPACE, type=_Bare, limit=1)

        async def follow() -> None:
            since = page.resource_version
            while True:  # an API server that stalls ends requests
                with suppress(HotmapError, RuntimeError):
                    async for _, item in _watch(client, CONFIGMAPS, _Bare, since):
                        await ClusterUser(client).roll(name, item.metadata.resource_version)
                        since = item.metadata.resource_version
                await asyncio.sleep(0.1)

        async with in_background(follow()):
            yield


async def _watch(
    client: Client, resource: Resource, type_: type[Any], since: str = ""
) -> AsyncIterator[tuple[float, Any]]:
    """Iterate over objects of a watch; without `since` it begins with what there is."""
    decoder = WatchDecoder(type_)
    params = {"timeoutSeconds": "3600", **({"resourceVersion": since} if since else {})}
    async with client.open_watch(resource, NAMESPACE, params=params) as stream:
        async for chunk in stream.chunks():
            at = time.perf_counter()
            for event in decoder.feed(chunk):
                if isinstance(event, Failure):
                    raise event.error
                if not isinstance(event, Bookmark | Unreadable):
                    yield at, event.object
    raise RuntimeError(f"the watch of {resource.plural} ended before the benchmark did")
