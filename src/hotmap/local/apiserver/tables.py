"""Objects as rows for people: the Table form that `kubectl get` asks for.

Columns and cells follow pkg/printers/internalversion/printers.go; ages are those of
apimachinery/pkg/util/duration.
"""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotmap.local.scheme import Kind

JsonObject = dict[str, Any]
Cell = str | int


class Column(NamedTuple):
    """A column; those of priority 1 are shown with `-o wide` only."""

    name: str
    cell: Callable[[JsonObject, float], Cell]
    priority: int = 0
    type: str = "string"


def table(kind: Kind, objects: Sequence[JsonObject], *, now: float, include: str) -> JsonObject:
    """Show objects of one kind as a Table.

    `include` says what each row carries beside its cells: "Metadata", "Object" or "None".
    `now` is POSIX seconds.
    """
    columns = _COLUMNS.get(kind.plural, _PLAIN)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(obj, columns, now, include) for obj in objects],
    }


def _definition(column: Column) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": "",
        "priority": column.priority,
    }


def _row(obj: JsonObject, columns: Sequence[Column], now: float, include: str) -> JsonObject:
    row: JsonObject = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return row


def human_duration(seconds: float) -> str:
    """Write a duration as kubectl does: at most two units (HumanDuration)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    minutes, hours = whole // 60, whole // 3600
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(hours // 24, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    if hours < 24 * 365 * 8:
        return _two(hours // (24 * 365), "y", hours // 24 % 365, "d")
    return f"{hours // (24 * 365)}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _ago(timestamp: str | None, now: float) -> str:
    if not timestamp:
        return "<unknown>"
    whole = timestamp.partition(".")[0].rstrip("Z")
    return human_duration(now - calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")))


def _age(obj: JsonObject, now: float) -> Cell:
    return _ago(obj["metadata"].get("creationTimestamp"), now)


def _name(obj: JsonObject, _: float) -> Cell:
    return str(obj["metadata"].get("name", ""))


def _at(path: str, missing: Cell = "") -> Callable[[JsonObject, float], Cell]:
    """Show one field, `missing` where it is absent."""
    parts = path.split(".")

    def cell(obj: JsonObject, _: float) -> Cell:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        return missing if value is None or value == "" else value

    return cell


def _data_keys(obj: JsonObject, _: float) -> Cell:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _ready_of(path: str) -> Callable[[JsonObject, float], Cell]:
    wanted, ready = _at(path, 0), _at("status.readyReplicas", 0)
    return lambda obj, now: f"{ready(obj, now)}/{wanted(obj, now)}"


def _template_containers(field: str) -> Callable[[JsonObject, float], Cell]:
    def cell(obj: JsonObject, _: float) -> Cell:
        containers = obj["spec"]["template"]["spec"].get("containers", ())
        return ",".join(container.get(field, "") for container in containers)

    return cell


def _selector(obj: JsonObject, _: float) -> Cell:
    selector = obj["spec"].get("selector") or {}
    labels = selector.get("matchLabels", {}) if "matchLabels" in selector else selector
    if not all(isinstance(value, str) for value in labels.values()):
        return "<none>"
    return ",".join(f"{label}={value}" for label, value in sorted(labels.items())) or "<none>"


def _pod_ready(pod: JsonObject, _: float) -> Cell:
    """printPod: native sidecars count as containers."""
    status, spec = pod.get("status", {}), pod["spec"]
    sidecars = _sidecars(pod)
    ready = [
        *(s for s in status.get("containerStatuses", ()) if s.get("ready")),
        *(s for s in status.get("initContainerStatuses", ()) if _is_up(s, sidecars) and s["ready"]),
    ]
    return f"{len(ready)}/{len(spec.get('containers', ())) + len(sidecars)}"


def _pod_restarts(pod: JsonObject, now: float) -> Cell:
    """printPod: of the init containers while they run; of containers and sidecars afterwards."""
    status, sidecars = pod.get("status", {}), _sidecars(pod)
    counted = status.get("initContainerStatuses", ())
    if _blocked_init(pod) is None:
        counted = [one for one in counted if one.get("name") in sidecars]
        counted += status.get("containerStatuses", ())
    restarts = sum(one.get("restartCount", 0) for one in counted)
    finished = [one.get("lastState", {}).get("terminated", {}).get("finishedAt") for one in counted]
    last = max(filter(None, finished), default=None)
    return f"{restarts} ({_ago(last, now)} ago)" if restarts and last else str(restarts)


def _pod_status(pod: JsonObject, _: float) -> Cell:
    """printPod: what hinders the pod most, in one word."""
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "Unknown")
    blocked = _blocked_init(pod)
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return blocked if blocked is not None else str(_container_reason(status, reason))


def _sidecars(pod: JsonObject) -> set[str]:
    containers = pod["spec"].get("initContainers", ())
    return {one["name"] for one in containers if one.get("restartPolicy") == "Always"}


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


def _node_status(node: JsonObject, _: float) -> Cell:
    conditions = node.get("status", {}).get("conditions", ())
    ready = next((c["status"] for c in conditions if c["type"] == "Ready"), "Unknown")
    words = ["Ready" if ready == "True" else "NotReady" if ready == "False" else "Unknown"]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: JsonObject, _: float) -> Cell:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels", {})
    roles = sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
    return ",".join(roles) or "<none>"


def _event_object(event: JsonObject, _: float) -> Cell:
    involved = event.get("involvedObject", {})
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_last_seen(event: JsonObject, now: float) -> Cell:
    last = event.get("lastTimestamp") or event.get("eventTime")
    first = event.get("firstTimestamp") or last
    count = event.get("count", 1)
    if count > 1:
        return f"{_ago(last, now)} (x{count} over {_ago(first, now)})"
    return _ago(last, now)


def _event_message(event: JsonObject, _: float) -> Cell:
    return str(event.get("message", "")).strip()


def _service_ports(service: JsonObject, _: float) -> Cell:
    ports = service["spec"].get("ports") or ()
    shown = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports)
    return shown or "<none>"


def _owner(obj: JsonObject, _: float) -> Cell:
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return "<none>"


_NAME = Column("Name", _name)
_AGE = Column("Age", _age)
_PLAIN = (_NAME, _AGE)
_TEMPLATE = (
    Column("Containers", _template_containers("name"), 1),
    Column("Images", _template_containers("image"), 1),
)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "configmaps": (_NAME, Column("Data", _data_keys), _AGE),
    "secrets": (_NAME, Column("Type", _at("type")), Column("Data", _data_keys), _AGE),
    "namespaces": (_NAME, Column("Status", _at("status.phase")), _AGE),
    "pods": (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        Column("IP", _at("status.podIP", "<none>"), 1),
        Column("Node", _at("spec.nodeName", "<none>"), 1),
        Column("Nominated Node", _at("status.nominatedNodeName", "<none>"), 1),
        Column("Readiness Gates", lambda *_: "<none>", 1),
    ),
    "deployments": (
        _NAME,
        Column("Ready", _ready_of("spec.replicas")),
        Column("Up-to-date", _at("status.updatedReplicas", 0)),
        Column("Available", _at("status.availableReplicas", 0)),
        _AGE,
        *_TEMPLATE,
        Column("Selector", _selector, 1),
    ),
    "replicasets": (
        _NAME,
        Column("Desired", _at("spec.replicas", 0), type="integer"),
        Column("Current", _at("status.replicas", 0), type="integer"),
        Column("Ready", _at("status.readyReplicas", 0), type="integer"),
        _AGE,
        *_TEMPLATE,
        Column("Selector", _selector, 1),
    ),
    "statefulsets": (_NAME, Column("Ready", _ready_of("spec.replicas")), _AGE, *_TEMPLATE),
    "daemonsets": (
        _NAME,
        Column("Desired", _at("status.desiredNumberScheduled", 0), type="integer"),
        Column("Current", _at("status.currentNumberScheduled", 0), type="integer"),
        Column("Ready", _at("status.numberReady", 0), type="integer"),
        Column("Up-to-date", _at("status.updatedNumberScheduled", 0), type="integer"),
        Column("Available", _at("status.numberAvailable", 0), type="integer"),
        Column("Node Selector", lambda *_: "<none>"),
        _AGE,
        *_TEMPLATE,
        Column("Selector", _selector, 1),
    ),
    "controllerrevisions": (
        _NAME,
        Column("Controller", _owner),
        Column("Revision", _at("revision", 0)),
        _AGE,
    ),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
        Column("OS-Image", _at("status.nodeInfo.osImage", "<unknown>"), 1),
        Column("Kernel-Version", _at("status.nodeInfo.kernelVersion", "<unknown>"), 1),
    ),
    "events": (
        Column("Last Seen", _event_last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject.fieldPath"), 1),
        Column("Source", _at("source.component"), 1),
        Column("Message", _event_message),
        Column("Count", _at("count", 1), 1),
        Column("Name", _name, 1),
    ),
    "services": (
        _NAME,
        Column("Type", _at("spec.type", "ClusterIP")),
        Column("Cluster-IP", _at("spec.clusterIP", "<none>")),
        Column("External-IP", lambda *_: "<none>"),
        Column("Port(s)", _service_ports),
        _AGE,
        Column("Selector", _selector, 1),
    ),
}
