"""What `kubectl get pods` shows (pkg/printers/internalversion/printers.go, printPod)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, ago, field_cell
from hotmap.local.strategy import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.strategy import Cell

JsonObject = dict[str, Any]


def _ready_cell(pod: JsonObject, _: float) -> Cell:
    """printPod: native sidecars count as containers."""
    status, spec = pod.get("status", {}), pod["spec"]
    sidecars = _sidecars(pod)
    ready = [
        *(s for s in status.get("containerStatuses", ()) if s.get("ready")),
        *(s for s in status.get("initContainerStatuses", ()) if _is_up(s, sidecars) and s["ready"]),
    ]
    return f"{len(ready)}/{len(spec.get('containers', ())) + len(sidecars)}"


def _restarts_cell(pod: JsonObject, now: float) -> Cell:
    """printPod: of the init containers while they run; of containers and sidecars afterwards."""
    status, sidecars = pod.get("status", {}), _sidecars(pod)
    counted = status.get("initContainerStatuses", ())
    if _blocked_init(pod) is None:
        counted = [entry for entry in counted if entry.get("name") in sidecars]
        counted += status.get("containerStatuses", ())
    restarts = sum(entry.get("restartCount", 0) for entry in counted)
    finished = [
        entry.get("lastState", {}).get("terminated", {}).get("finishedAt") for entry in counted
    ]
    last = max(filter(None, finished), default=None)
    return f"{restarts} ({ago(last, now)} ago)" if restarts and last else str(restarts)


def _status_cell(pod: JsonObject, _: float) -> Cell:
    """printPod: what hinders the pod most, in one word."""
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "Unknown")
    blocked = _blocked_init(pod)
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return blocked if blocked is not None else str(_container_reason(status, reason))


def _sidecars(pod: JsonObject) -> set[str]:
    containers = pod["spec"].get("initContainers", ())
    return {c["name"] for c in containers if c.get("restartPolicy") == "Always"}


def _is_up(status: Mapping[str, Any], sidecars: set[str]) -> bool:
    return status.get("name") in sidecars and bool(status.get("started"))


def _blocked_init(pod: JsonObject) -> str | None:
    statuses = pod.get("status", {}).get("initContainerStatuses", ())
    sidecars = _sidecars(pod)
    for index, status in enumerate(statuses):
        state = status.get("state", {})
        terminated = state.get("terminated")
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if _is_up(status, sidecars):
            continue
        if terminated is not None:
            return f"Init:{_termination(terminated)}"
        waiting = state.get("waiting", {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(pod['spec'].get('initContainers', ()))}"
    return None


def _container_reason(status: Mapping[str, Any], reason: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses", ())):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _termination(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        ready = any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
        )
        return "Running" if ready else "NotReady"
    return reason


def _termination(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


POD_COLUMNS = (
    NAME,
    Column("Ready", _ready_cell),
    Column("Status", _status_cell),
    Column("Restarts", _restarts_cell),
    AGE,
    Column("IP", field_cell("status.podIP", "<none>"), 1),
    Column("Node", field_cell("spec.nodeName", "<none>"), 1),
    Column("Nominated Node", field_cell("status.nominatedNodeName", "<none>"), 1),
    Column("Readiness Gates", lambda *_: "<none>", 1),
)
