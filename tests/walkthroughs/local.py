"""The walkthroughs on the local control plane: hotmap's own client, over HTTPS.

The plane is a process of its own, started as a person starts it. What kubectl does on the
client's side (rollout status, history and undo) is done here from the same objects.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import yaml
from tests.support.requires import requires
from tests.walkthroughs.backend import TIMEOUT, JsonObject, PatchType, controller_process, until

from hotmap.kube.client import Client
from hotmap.kube.config import ClusterConfig
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import BY_KIND, NAMESPACES, PODS, Resource

__all__ = ["LocalBackend", "Plane", "running_plane"]

_CONTENT_TYPES = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}
#: Not one of those that hotmap uses.
_NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
#: Channels of a WebSocket that carries a command (apimachinery/pkg/util/remotecommand).
_STDOUT, _STDERR, _ERROR = 1, 2, 3
_REVISION = "deployment.kubernetes.io/revision"
#: Annotations that a Deployment and its ReplicaSets do not share.
_OWN = (
    _REVISION,
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "kubectl.kubernetes.io/last-applied-configuration",
)


class Plane:
    """A `hotmap local up` that runs."""

    def __init__(self, process: subprocess.Popen[str], directory: Path, log: Path) -> None:
        self.process = process
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        #: What it has written to standard error.
        self.log = log

    def stop(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=TIMEOUT)


@contextlib.contextmanager
def running_plane(directory: Path, *options: str, keep: bool = True) -> Iterator[Plane]:
    """Run `hotmap local up` in a state directory while a block lasts; its log lies beside it.

    With `keep` False, objects are in memory, and the directory must be the default one of a user,
    <state>/hotmap/local.
    """
    log = directory.with_name(f"{directory.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    chosen = ["--dir", str(directory)] if keep else []
    state = {} if keep else {"XDG_STATE_HOME": str(directory.parents[1])}
    with (
        log.open("a") as written,
        subprocess.Popen(
            [sys.executable, "-m", "hotmap", "local", "up", *chosen, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            errors="surrogateescape",
            cwd="/",
            env={"PATH": os.environ["PATH"], **state},
        ) as process,
    ):
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            if not said:
                status, problem = process.wait(), log.read_text()
                isolated = status != 2 or "namespace" not in problem
                requires("namespaces", available=isolated, reason=problem)
            words = ["export", f"KUBECONFIG={directory}/kubeconfig"]
            assert shlex.split(said) == words, log.read_text()
            yield Plane(process, directory, log)
        finally:
            process.terminate()
    # It retries after an internal error, so a test may pass in spite of one.
    assert "Traceback" not in log.read_text(), log.read_text()


class LocalBackend:
    """A namespace of a local control plane."""

    def __init__(self, plane: Plane, namespace: str, *, sync_limit: float) -> None:
        self.kubeconfig = plane.kubeconfig
        self.namespace = namespace
        self.sync_limit = sync_limit
        self._directory = plane.directory
        self._config: ClusterConfig = load_kubeconfig(str(plane.kubeconfig))
        self._client = Client(self._config, user_agent="walkthroughs")

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        namespace = {"metadata": {"name": self.namespace}}
        await self._client.create(NAMESPACES, None, namespace, type=JsonObject)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        # Its pods end in the background: no need to wait for them.
        await self._client.delete(NAMESPACES, None, self.namespace)
        await self._client.__aexit__(*exc_info)

    async def create(self, manifests: str) -> None:
        for body in yaml.safe_load_all(manifests):
            resource = BY_KIND[body["kind"]]
            await self._client.create(resource, self.namespace, body, type=JsonObject)

    async def get(self, kind: str, name: str) -> JsonObject:
        return await self._client.get(BY_KIND[kind], self.namespace, name, type=JsonObject)

    async def find(self, kind: str, *, selector: str = "") -> list[JsonObject]:
        page = await self._client.list_page(
            BY_KIND[kind], self.namespace, type=JsonObject, label_selector=selector
        )
        return page.items

    async def patch(
        self,
        kind: str,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "strategic",
    ) -> None:
        await self._client.patch(
            _NODES if kind == "Node" else BY_KIND[kind],
            self.namespace,
            name,
            body,
            type=JsonObject,
            content_type=_CONTENT_TYPES[type],
            field_manager="kubectl-patch",
        )

    async def delete(self, kind: str, name: str) -> None:
        await self._client.delete(BY_KIND[kind], self.namespace, name)

    async def logs(self, pod: str) -> str:
        return (await self._client.request("GET", PODS.path(self.namespace, pod, "log"))).decode()

    async def exec(self, pod: str, *command: str, container: str = "") -> str:
        url = self._config.server + PODS.path(self.namespace, pod, "exec")
        query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
        query += [("container", container)] if container else []
        out: dict[int, bytes] = {_STDOUT: b"", _STDERR: b"", _ERROR: b""}
        context = self._config.ssl_context()
        assert context is not None
        async with (
            aiohttp.ClientSession(
                headers={"Authorization": self._config.credentials.authorization()},
                connector=aiohttp.TCPConnector(ssl=context),
            ) as session,
            session.ws_connect(url, params=query, protocols=["v5.channel.k8s.io"]) as socket,
        ):
            async for message in socket:
                out[message.data[0]] += message.data[1:]
        status = msgspec.json.decode(out[_ERROR])
        assert status["status"] == "Success", (status, out[_STDERR])
        return out[_STDOUT].decode()

    async def start_settled(self) -> None:
        """Wait for nothing: here a pod is ready at the end of the sync that started it."""

    async def rolled_out(self, deployment: str) -> None:
        """Wait as kubectl does (kubectl/pkg/polymorphichelpers/rollout_status.go)."""

        async def check() -> bool | None:
            found = await self.get("Deployment", deployment)
            status, wanted = found.get("status", {}), found["spec"]["replicas"]
            seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
            updated = status.get("updatedReplicas", 0)
            return (
                seen
                and updated >= wanted
                and status.get("replicas", 0) <= updated
                and status.get("availableReplicas", 0) >= updated
            ) or None

        await until(check, f"{deployment} is rolled out")

    async def history(self, deployment: str) -> list[int]:
        return sorted(await self._replica_sets(deployment))

    async def undo(self, deployment: str) -> None:
        """Patch as kubectl does (kubectl/pkg/polymorphichelpers/rollback.go)."""
        revisions = await self._replica_sets(deployment)
        before = revisions[sorted(revisions)[-2]]
        template = before["spec"]["template"]
        del template["metadata"]["labels"]["pod-template-hash"]
        now = (await self.get("Deployment", deployment))["metadata"]["annotations"]
        then = before["metadata"]["annotations"]
        annotations = {name: value for name, value in then.items() if name not in _OWN}
        annotations |= {name: value for name, value in now.items() if name in _OWN}
        await self.patch(
            "Deployment",
            deployment,
            [
                {"op": "replace", "path": "/spec/template", "value": template},
                {"op": "replace", "path": "/metadata/annotations", "value": annotations},
            ],
            type="json",
        )

    async def volume(self, pod: str, volume: str) -> Path:
        uid: str = (await self.get("Pod", pod))["metadata"]["uid"]
        return self._directory / "pods" / uid / "volumes/kubernetes.io~configmap" / volume

    def running_controller(self) -> AbstractAsyncContextManager[None]:
        return controller_process(self)

    async def _replica_sets(self, deployment: str) -> dict[int, JsonObject]:
        uid = (await self.get("Deployment", deployment))["metadata"]["uid"]
        return {
            int(found["metadata"]["annotations"][_REVISION]): found
            for found in await self.find("ReplicaSet")
            if any(owner["uid"] == uid for owner in found["metadata"]["ownerReferences"])
        }
