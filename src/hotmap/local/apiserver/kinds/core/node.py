"""Nodes (pkg/registry/core/node/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.scheme import STATUS, Kind, Names
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell

JsonObject = dict[str, Any]


def _status(node: JsonObject, _: float) -> Cell:
    conditions = node.get("status", {}).get("conditions", ())
    ready = next((c["status"] for c in conditions if c["type"] == "Ready"), "Unknown")
    words = ["Ready" if ready == "True" else "NotReady" if ready == "False" else "Unknown"]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: JsonObject, _: float) -> Cell:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels", {})
    roles = sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
    return ",".join(roles) or "<none>"


class NodeStrategy(Strategy):
    selectable_fields = field_labels("spec.unschedulable")
    columns = (
        NAME,
        Column("Status", _status),
        Column("Roles", _roles),
        AGE,
        Column("Version", field_cell("status.nodeInfo.kubeletVersion")),
        Column("OS-Image", field_cell("status.nodeInfo.osImage", "<unknown>"), 1),
        Column("Kernel-Version", field_cell("status.nodeInfo.kernelVersion", "<unknown>"), 1),
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
    subresources=(STATUS,),
    strategy=NodeStrategy(),
)
