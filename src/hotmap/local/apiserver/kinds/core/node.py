"""Nodes (pkg/registry/core/node/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.apiserver.pod_scheduling_validation import TAINT_EFFECTS
from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_value_errors, qualified_name_errors
from hotmap.local.scheme import PROXY_VERBS, STATUS, Kind, Names, Subresource
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hotmap.local.strategy import Cell


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


def _taint_errors(taints: Iterable[JsonObject]) -> Iterator[FieldError]:
    """Check taints, whose path upstream gets wrong (validateNodeTaints)."""
    known: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        for why in qualified_name_errors(key):
            yield invalid_value(f"{path}.key", key, why)
        for why in label_value_errors(taint.get("value", "")):
            yield invalid_value(f"{path}.value", taint["value"], why)
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in TAINT_EFFECTS:
            yield unsupported(f"{path}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in known:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect}
            yield duplicate(path, shown)
        known.add((key, effect))


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

    def default(self, obj: JsonObject) -> None:
        """Let both fields of the addresses of pods agree (Convert_v1_NodeSpec_To_core_NodeSpec)."""
        spec = obj.get("spec") or {}
        single, several = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if single and several[:1] != [single]:
            spec["podCIDRs"] = [single]
        elif several and not single:
            spec["podCIDR"] = several[0]

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return list(_taint_errors((obj.get("spec") or {}).get("taints") or ()))

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        before, after = old.get("spec") or {}, new.get("spec") or {}
        errors = self.validate(new)
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(field) and before[field] != after.get(field):
                why = f'node updates may not change {shown} except from "" to valid'
                errors.append(forbidden_field(f"spec.{field}", why))
        return errors

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
