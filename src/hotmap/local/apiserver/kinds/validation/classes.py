"""Classes of priority and runtime (pkg/apis/scheduling and pkg/apis/node, validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.metadata import label_errors
from hotmap.local.apiserver.pod_scheduling_validation import toleration_errors
from hotmap.local.apiserver.probe_validation import resource_errors
from hotmap.local.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    name_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_PRIORITY = 1_000_000_000


def priority_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a PriorityClass."""
    name = obj["metadata"].get("name", "")
    system = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
    if name.startswith("system-"):
        if obj.get("value") != system.get(name):
            why = f"{name} is not a known system priority class"
            if name in system:
                why = f"value of {name} PriorityClass must be {system[name]}"
            text = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden_field("metadata.name", f"{text}. error: {why}")
    elif obj.get("value", 0) > _MAX_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}"
        yield forbidden_field("value", why)
    known = ("Never", "PreemptLowerPriority")
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in known:
        yield unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def priority_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The value of a class never changes."""
    if old.get("value", 0) != new.get("value", 0):
        yield forbidden_field("value", "may not be changed in an update.")
    if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
        yield invalid_value("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


def runtime_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a RuntimeClass, whose handler is a label."""
    yield from name_errors(obj["handler"], "handler", label_name_errors)
    if "overhead" in obj:
        limits = {"limits": obj["overhead"].get("podFixed")}
        for error in resource_errors({"resources": limits}, "overhead"):
            # Upstream has the resources themselves there.
            yield error._replace(path=error.path.replace(".resources", ""))
    scheduling = obj.get("scheduling") or {}
    yield from label_errors("scheduling.nodeSelector", scheduling.get("nodeSelector") or {})
    tolerations = scheduling.get("tolerations") or []
    yield from toleration_errors(tolerations, "scheduling.tolerations")
    for index, toleration in enumerate(tolerations):
        if toleration in tolerations[:index]:
            fields = ("key", "operator", "value", "effect")
            shown = {f"{name[:1].upper()}{name[1:]}": toleration.get(name, "") for name in fields}
            shown["TolerationSeconds"] = toleration.get("tolerationSeconds")
            yield duplicate(f"scheduling.tolerations[{index}]", shown)


def runtime_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The handler of a RuntimeClass never changes."""
    if old.get("handler") != new.get("handler"):
        yield invalid_value("handler", new.get("handler"), IMMUTABLE)
