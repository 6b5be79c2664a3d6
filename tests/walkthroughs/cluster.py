"""The walkthroughs on a real Kubernetes: the real kubectl, real containers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self

from tests.cluster.cluster import Cluster
from tests.walkthroughs.backend import TIMEOUT, JsonObject, PatchType, controller_process

__all__ = ["ClusterBackend"]


class ClusterBackend:
    """A namespace of the test bed's cluster."""

    #: 60 s and up to half of it (kubernetes: pkg/kubelet/kubelet.go), a second for the clock
    #: that looks, and what a busy machine takes.
    sync_limit = 100.0

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.kubeconfig = cluster.kubeconfig
        self.namespace = namespace
        self._cluster = cluster

    async def __aenter__(self) -> Self:
        await self._kubectl("create", "namespace", self.namespace)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._kubectl("delete", "namespace", self.namespace, "--wait=false")

    async def create(self, manifests: str) -> None:
        await self._kubectl("create", "--filename=-", stdin=manifests)

    async def get(self, kind: str, name: str) -> JsonObject:
        found: JsonObject = json.loads(await self._kubectl("get", kind, name, "--output=json"))
        return found

    async def find(self, kind: str, *, selector: str = "") -> list[JsonObject]:
        chosen = [f"--selector={selector}"] if selector else []
        answer = json.loads(await self._kubectl("get", kind, "--output=json", *chosen))
        found: list[JsonObject] = answer["items"]
        return found

    async def patch(
        self,
        kind: str,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "strategic",
    ) -> None:
        await self._kubectl("patch", kind, name, f"--type={type}", f"--patch={json.dumps(body)}")

    async def delete(self, kind: str, name: str) -> None:
        await self._kubectl("delete", kind, name, "--wait=false")

    async def logs(self, pod: str) -> str:
        return await self._kubectl("logs", pod)

    async def exec(self, pod: str, *command: str, container: str = "") -> str:
        chosen = [f"--container={container}"] if container else []
        return await self._kubectl("exec", pod, *chosen, "--", *command)

    async def start_settled(self) -> None:
        """Wait as long as a kubelet's second look at a new container may take.

        It looks every second and then syncs the pod once more (kubernetes: pkg/kubelet/pleg),
        which refreshes its files and which nothing in the API tells of.
        """
        await asyncio.sleep(3)

    async def rolled_out(self, deployment: str) -> None:
        await self._kubectl(
            "rollout", "status", f"deployment/{deployment}", f"--timeout={TIMEOUT:g}s"
        )

    async def history(self, deployment: str) -> list[int]:
        shown = await self._kubectl("rollout", "history", f"deployment/{deployment}")
        return [int(number) for number in re.findall(r"^(\d+)\s", shown, re.MULTILINE)]

    async def undo(self, deployment: str) -> None:
        await self._kubectl("rollout", "undo", f"deployment/{deployment}")

    async def volume(self, pod: str, volume: str) -> Path:
        uid: str = (await self.get("Pod", pod))["metadata"]["uid"]
        root = self._cluster.layout.folder / "kubelet"
        return root / "pods" / uid / "volumes/kubernetes.io~configmap" / volume

    def running_controller(self) -> AbstractAsyncContextManager[None]:
        return controller_process(self)

    async def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        # In a thread: a controller's output is read while kubectl runs.
        return await asyncio.to_thread(
            self._cluster.kubectl,
            f"--namespace={self.namespace}",
            *arguments,
            stdin=stdin,
            seconds=TIMEOUT + 15,
        )
