"""An immutable ConfigMap that two workloads of one node share is deleted and created again."""

from __future__ import annotations

import asyncio

from tests.walkthroughs.backend import Backend, until
from tests.walkthroughs.steps import replaced, running_pod, variable

#: Seconds after a change from which on the start of a pod proves that it has read it.
_UNDOUBTED = 4.0

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: shared-config}
immutable: true
data: {LEVEL: %s}
"""

WORKLOAD = """
apiVersion: apps/v1
kind: %s
metadata:
  name: %s
  annotations: {hotmap.dev/follow: auto}
spec:
  selector: {matchLabels: {app: %s}}
  serviceName: %s
  replicas: 1
  template:
    metadata: {labels: {app: %s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        envFrom: [{configMapRef: {name: shared-config}}]
"""


def workload(kind: str, name: str) -> str:
    text = WORKLOAD % (kind, name, name, name, name)
    return text if kind == "StatefulSet" else text.replace(f"  serviceName: {name}\n", "")


async def test_new_pods_beside_another_workload_keep_the_old_content(backend: Backend) -> None:
    """The hold says so, and lasts until neither workload has a pod."""
    await backend.create(CONFIG_MAP % "info")
    await backend.create(workload("StatefulSet", "db"))
    await backend.create(workload("Deployment", "web"))
    first, other = await running_pod(backend, "db"), await running_pod(backend, "web")
    async with backend.running_controller():
        await backend.delete("ConfigMap", "shared-config")
        await backend.create(CONFIG_MAP % "debug")
        await _held(backend, "web", "scale to zero until it is not held any more")
        await _held(backend, "db", "delete its pods")
        await asyncio.sleep(_UNDOUBTED)
        await backend.delete("Pod", first.name)
        second = await replaced(backend, "db", first)
        assert await variable(backend, second, "LEVEL") == "info"
        await _held(backend, "db", "scale all workloads that use it to zero until", other.name)
        for kind, name in (("StatefulSet", "db"), ("Deployment", "web")):
            await backend.patch(kind, name, {"spec": {"replicas": 0}})
        await until(lambda: _no_pods(backend), "both workloads are without pods")
        await backend.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
        assert await variable(backend, await running_pod(backend, "db"), "LEVEL") == "debug"


async def _held(backend: Backend, name: str, remedy: str, pod: str = "") -> None:
    why = f", as {pod} does" if pod else ""
    words = f"while any pod on the node uses it{why}. Use a new name, or {remedy}"

    async def is_told() -> bool | None:
        return (
            any(
                event["involvedObject"]["name"] == name and words in event["message"]
                for event in await backend.find("Event")
            )
            or None
        )

    await until(is_told, f"an Event of {name} says {words!r}")


async def _no_pods(backend: Backend) -> bool | None:
    pods = [
        pod for app in ("db", "web") for pod in await backend.find("Pod", selector=f"app={app}")
    ]
    return None if pods else True
