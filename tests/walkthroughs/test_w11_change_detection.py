"""W11: how old a source may be when the kubelet syncs a pod, by its change detection strategy.

No strategy decides when it syncs: that is shown by W5 and W10. Here each sync follows an annotation
of the pod, and one projected volume has it beside the ConfigMap, so what a sync has read is known.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cluster import layout
from tests.cluster.cluster import Cluster
from tests.walkthroughs.backend import Backend, until
from tests.walkthroughs.cluster import ClusterBackend
from tests.walkthroughs.conftest import BACKENDS
from tests.walkthroughs.local import LocalBackend, running_plane
from tests.walkthroughs.steps import running_pod, wait_until_shown

TTL = "node.alpha.kubernetes.io/ttl"
MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: test}
data: {text: before}
---
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
  annotations: {example.com/sync: "0"}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: hotmap.test/busybox:1
    command: [sleep, "3600"]
    volumeMounts: [{name: test, mountPath: /etc/cm}]
  volumes:
  - name: test
    projected:
      sources:
      - configMap: {name: test}
      - downwardAPI:
          items:
          - path: sync
            fieldRef: {fieldPath: "metadata.annotations['example.com/sync']"}
"""


class Node(NamedTuple):
    """A node whose kubelet has a strategy of its own."""

    backend: Backend
    name: str
    #: Ends the controller that sets the TTL of all nodes, where there is one.
    stop_ttl_controller: Callable[[], None]

    async def set_ttl(self, seconds: int) -> None:
        """Annotate the node."""
        body = {"metadata": {"annotations": {TTL: str(seconds)}}}
        await self.backend.patch("Node", self.name, body, type="merge")

    async def edit(self) -> None:
        """Edit the ConfigMap."""
        await self.backend.patch("ConfigMap", "test", {"data": {"text": "after"}})

    async def synced(self, number: int) -> str:
        """Annotate the pod, wait until its files are those of that sync, and return the content."""
        annotations = {"example.com/sync": str(number)}
        await self.backend.patch("Pod", "web", {"metadata": {"annotations": annotations}})
        pod = await running_pod(self.backend, "web")
        await wait_until_shown(self.backend, pod, "/etc/cm/sync", str(number))
        return await self.backend.exec("web", "cat", "/etc/cm/text")

    async def follows_from(self, number: int) -> None:
        """Let the pod be synced, from that number on, until its files have the edit."""
        numbers = count(number)

        async def follows() -> bool | None:
            return await self.synced(next(numbers)) == "after" or None

        await until(follows, "a sync has the edit")


@contextlib.asynccontextmanager
async def node_with(
    strategy: str, request: pytest.FixtureRequest, backend: str, folder: Path
) -> AsyncIterator[Node]:
    """Run a node with a strategy and one pod while a block lasts."""
    namespace = f"walk-{uuid.uuid4().hex[:8]}"
    if backend == "cluster":
        cluster: Cluster = request.getfixturevalue("real_cluster")
        with kubelet_with(strategy, cluster):
            async with ClusterBackend(cluster, namespace) as used:
                await used.create(MANIFESTS)
                await running_pod(used, "web")
                stop = partial(cluster.stop, "kube-controller-manager")
                yield Node(used, layout.NODE_NAME, stop)
    else:
        with running_plane(folder / "plane", f"--change-detection-strategy={strategy}") as plane:
            async with LocalBackend(plane, namespace, sync_limit=100.0) as local:
                await local.create(MANIFESTS)
                await running_pod(local, "web")
                yield Node(local, "local", lambda: None)


@contextlib.contextmanager
def kubelet_with(strategy: str, cluster: Cluster) -> Iterator[None]:
    """Restart the real kubelet with a strategy while a block lasts."""
    path = cluster.layout.folder / "kubelet.json"
    before = path.read_text()
    settings = {**json.loads(before), "configMapAndSecretChangeDetectionStrategy": strategy}
    path.write_text(json.dumps(settings))
    try:
        cluster.restart("kubelet")
        yield
    finally:
        path.write_text(before)
        cluster.restart("kubelet")
        cluster.restart("kube-controller-manager")


@pytest.fixture(params=BACKENDS)
def where(request: pytest.FixtureRequest) -> str:
    """The local control plane, or a real Kubernetes."""
    name: str = request.param
    return name


async def test_watch_has_an_edit_soon(
    request: pytest.FixtureRequest, where: str, tmp_path: Path
) -> None:
    """The default: each sync has what a watch has shown by then."""
    async with node_with("Watch", request, where, tmp_path) as node:
        await node.edit()
        await node.follows_from(1)


async def test_get_has_an_edit_at_once(
    request: pytest.FixtureRequest, where: str, tmp_path: Path
) -> None:
    """Each sync asks the API server."""
    async with node_with("Get", request, where, tmp_path) as node:
        await node.edit()
        assert await node.synced(1) == "after"


async def test_cache_keeps_old_content_until_the_ttl_of_the_node_is_over(
    request: pytest.FixtureRequest, where: str, tmp_path: Path
) -> None:
    """A sync within the TTL writes the old content again."""
    async with node_with("Cache", request, where, tmp_path) as node:
        node.stop_ttl_controller()
        await node.set_ttl(600)
        await node.synced(1)
        await node.edit()
        assert await node.synced(2) == "before"
        assert await node.synced(3) == "before"
        await node.set_ttl(0)
        await node.follows_from(4)
