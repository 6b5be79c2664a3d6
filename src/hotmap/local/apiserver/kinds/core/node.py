"""Nodes (pkg/registry/core/node/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.scheme import PROXY_VERBS, STATUS, Kind, Names, Subresource
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.strategy import Cell

JsonObject = dict[str, Any]


def _status(node: JsonObject, _: float) -> Cell:
    conditions = node.get("status", {}).get("conditions", ())
    ready = next((c["status"] for c in conditions if c["type"] == "Ready"), "")
    words = [{"True": "Ready", "": "Unknown"}.get(ready, "NotReady")]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: JsonObject, _: float) -> Cell:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels", {})
    roles = sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
    return ",".join(roles) or "<none>"


def _address(kind: str) -> Callable[[JsonObject, float], Cell]:
    def cell(node: JsonObject, _: float) -> Cell:
        for address in node.get("status", {}).get("addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", ""))
        return "<none>"

    return cell


def _kernel(node: JsonObject, _: float) -> Cell:
    info = node.get("status", {}).get("nodeInfo") or {}
    version, architecture = info.get("kernelVersion") or "<unknown>", info.get("architecture")
    return f"{version} ({architecture})" if architecture else version


_RUNTIME = field_cell("status.nodeInfo.containerRuntimeVersion", "<unknown>")


class NodeStrategy(Strategy):
    selectable_fields = field_labels("spec.unschedulable")
    columns = (
        NAME,
        Column("Status", _status),
        Column("Roles", _roles),
        AGE,
        Column("Version", field_cell("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), 1),
        Column("External-IP", _address("ExternalIP"), 1),
        Column("OS-Image", field_cell("status.nodeInfo.osImage", "<unknown>"), 1),
        Column("Kernel-Version", _kernel, 1),
        Column("Container-Runtime", _RUNTIME, 1),
    )

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        """Keep what the kubelet sends when it registers its node."""
        status: JsonObject | None = obj.get("status")
        return status


NODES = Kind(
    "",
    ("v1",),
    Names("nodes", "Node", ("no",), storage="minions"),
    namespaced=False,
    subresources=(
        STATUS,
        Subresource("proxy", PROXY_VERBS, GroupVersionKind("", "v1", "NodeProxyOptions")),
    ),
    strategy=NodeStrategy(),
)
