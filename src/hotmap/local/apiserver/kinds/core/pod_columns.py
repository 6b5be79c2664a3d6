"""What `kubectl get pods` shows (pkg/printers/internalversion/printers.go, printPod)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, ago, field_cell
from hotmap.local.json_object import JsonObject
from hotmap.local.strategy import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.strategy import Cell


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
    if _blocked_init(pod) is None or _has_condition(pod, "Initialized"):
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
    phase = status.get("phase", "Unknown")
    if pod["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    blocked = _blocked_init(pod)
    reason = status.get("reason") or phase
    if any(c.get("reason") == "SchedulingGated" for c in status.get("conditions", ())):
        reason = "SchedulingGated"
    if blocked is not None and not _has_condition(pod, "Initialized"):
        return blocked
    return _container_reason(pod, blocked or str(reason))


def _has_condition(pod: JsonObject, type: str) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == type and c["status"] == "True" for c in conditions)


def _gates_cell(pod: JsonObject, _: float) -> Cell:
    """printPod: how many of the readiness gates are open."""
    gates = pod["spec"].get("readinessGates", ())
    if not gates:
        return "<none>"
    is_open = [_has_condition(pod, gate["conditionType"]) for gate in gates]
    return f"{sum(is_open)}/{len(gates)}"


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


def _container_reason(pod: JsonObject, reason: str) -> str:
    running, failure = False, ""
    for container in reversed(pod.get("status", {}).get("containerStatuses", ())):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _termination(state["terminated"])
            failure = reason if state["terminated"].get("exitCode") else failure
        elif container.get("ready") and "running" in state:
            running = True
    if reason != "Completed":
        return reason
    if running and _has_condition(pod, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else reason)


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
    Column("Readiness Gates", _gates_cell, 1),
)
