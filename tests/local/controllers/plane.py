"""A control plane without a kubelet: the real Registry and controllers, and a fake node.

The fake node writes the status of pods as a kubelet does; no process runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.controllers.run import Controllers
from hotmap.local.controllers.serviceaccount import AccountSettings
from hotmap.local.informer import Informer
from hotmap.local.store import MVCCStore

Object = dict[str, Any]

# Seconds after which a test that waits for the impossible fails; ample, never waited for.
DEADLINE = 60.0


class FakeNode:
    """Sets the Ready condition of pods on the node `local`, and removes deleted ones."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self.pods = Informer(registry, "pods")
        #: Says of a pod whether it becomes ready; may be replaced, then call `sync_all`.
        self.becomes_ready: Callable[[Object], bool] = lambda pod: True
        #: Whether deleted pods are removed.
        self.removes_deleted_pods = True
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.pods.subscribe(self._on_pod)

    def sync_all(self) -> None:
        for name in self.pods.objects:
            self._queue.put_nowait(name)

    async def register(self, *, pods: int = 110) -> None:
        await self._registry.create(
            "nodes",
            None,
            {
                "metadata": {"name": "local"},
                "spec": {},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "allocatable": {"pods": str(pods)},
                },
            },
            manager="kubelet",
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run())
            while True:
                await self._sync(*await self._queue.get())

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.put_nowait((new["metadata"]["namespace"], new["metadata"]["name"]))

    async def _sync(self, namespace: str, name: str) -> None:
        try:
            pod = await self._registry.get("pods", namespace, name)
            if not pod["spec"].get("nodeName"):
                return
            if pod["metadata"].get("deletionTimestamp"):
                if self.removes_deleted_pods:
                    await self._registry.delete("pods", namespace, name, grace_period=0)
                return
            await self._registry.modify(
                "pods",
                namespace,
                name,
                self._with_ready_condition,
                subresource="status",
                manager="kubelet",
            )
        except NotFound:
            return

    def _with_ready_condition(self, pod: Object) -> Object:
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return pod
        ready = "True" if self.becomes_ready(pod) else "False"
        conditions = pod["status"].get("conditions") or []
        before: Object = next((c for c in conditions if c["type"] == "Ready"), {})
        if before.get("status") == ready:
            return pod
        moved = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": moved}
        others = [c for c in conditions if c["type"] != "Ready"]
        status = {**pod["status"], "phase": "Running", "conditions": [*others, condition]}
        return {**pod, "status": status}


class Plane:
    """What a test does to the control plane, and how it waits for what follows."""

    def __init__(self, registry: Registry, node: FakeNode) -> None:
        self.registry = registry
        self.node = node

    async def create(self, plural: str, obj: Object, namespace: str | None = "default") -> Object:
        return await self.registry.create(plural, namespace, obj, manager="test")

    async def patch(self, plural: str, name: str, patch: Object) -> Object:
        return await self.registry.patch(
            plural, "default", name, patch, kind="merge", manager="test"
        )

    async def items(self, plural: str, namespace: str | None = "default") -> list[Object]:
        return (await self.registry.list(plural, namespace)).items

    async def names(self, plural: str, namespace: str | None = "default") -> set[str]:
        return {obj["metadata"]["name"] for obj in await self.items(plural, namespace)}

    async def messages(self, reason: str) -> list[str]:
        """Texts of the Events with a reason, in the order in which they were written."""
        found = [event for event in await self.items("events", None) if event["reason"] == reason]
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event["message"] for event in found]

    async def sizes(self) -> dict[str, int]:
        """Wished replicas of the ReplicaSets that have any, by revision."""
        return {
            rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: n
            for rs in await self.items("replicasets")
            if (n := rs["spec"]["replicas"])
        }

    async def until_status(self, plural: str, name: str, **status: Any) -> Object:
        """Wait until an owner's status has these values, of the generation that there is."""

        async def check() -> Object | None:
            found = await self.registry.get(plural, "default", name)
            has = found.get("status", {})
            observed = has.get("observedGeneration") == found["metadata"]["generation"]
            wanted = {field: has.get(field, 0) for field in status} == status
            return found if observed and wanted else None

        found: Object = await self.until(check, what=f"{status}")
        return found

    async def until(self, check: Callable[[], Any], *, what: str = "") -> Any:
        """Wait until the coroutine function *check* returns something true, and return it.

        It is asked again whenever the store has a new revision.
        """
        deadline = time.monotonic() + DEADLINE
        seen = -1
        while time.monotonic() < deadline:
            if self.registry.store.revision != seen:
                seen = self.registry.store.revision
                if result := await check():
                    return result
            await asyncio.sleep(0.001)
        raise AssertionError(f"timed out waiting for {what or check}: {await self.state()}")

    async def state(self) -> str:
        """What there is, for the message of a failed wait."""
        lines = []
        for plural in ("deployments", "replicasets", "pods"):
            for obj in await self.items(plural, None):
                spec = {k: v for k, v in obj.get("spec", {}).items() if k in ("replicas", "paused")}
                lines.append(f"{plural}/{obj['metadata']['name']} {spec} {obj.get('status')}")
        return "\n".join(lines)

    async def wait_until_complete(self, name: str = "web") -> Object:
        """Wait until a Deployment is rolled out completely, and return it."""

        async def check() -> Object | None:
            obj = await self.registry.get("deployments", "default", name)
            status, wished = obj.get("status", {}), obj["spec"]["replicas"]
            counts = ("replicas", "updatedReplicas", "availableReplicas")
            complete = all(status.get(field, 0) == wished for field in counts)
            observed = status.get("observedGeneration", 0) >= obj["metadata"]["generation"]
            pods = [p for p in await self.items("pods") if not _is_terminating(p)]
            return obj if complete and observed and len(pods) == wished else None

        found: Object = await self.until(check, what=f"{name} to settle")
        return found


@asynccontextmanager
async def control_plane(
    *, clock: Callable[[], float] = time.time, root_ca: str | None = None, with_node: bool = True
) -> AsyncIterator[Plane]:
    """Run a control plane with one fake node for the length of a block."""
    registry = Registry(MVCCStore(), clock=clock)
    await create_system_namespaces(registry)
    node = FakeNode(registry, clock)
    async with Controllers(registry, accounts=AccountSettings(root_ca), clock=clock):
        running = asyncio.create_task(node.run())
        if with_node:
            await node.register()
        try:
            yield Plane(registry, node)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def web(replicas: int = 3, *, image: str = "v1", **spec: Any) -> Object:
    """A Deployment named web, with every default of the API server spelled out."""
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image, "command": ["true"]}]},
            },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def template_change(value: str) -> Object:
    """A merge patch that makes another template, as `kubectl rollout restart` does."""
    return {"spec": {"template": {"metadata": {"annotations": {"version": value}}}}}
