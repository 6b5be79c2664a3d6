"""Classes of storage, priority and runtime (pkg/apis/storage, scheduling and node, validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.names import label_name_errors, qualified_name_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


_MAX_PRIORITY = 1_000_000_000


def storage_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a StorageClass."""
    if not obj.get("provisioner"):
        yield required("provisioner")
    for why in qualified_name_errors(obj.get("provisioner", "").lower()):
        why = why.replace("a qualified name", "a valid label key")
        yield invalid_value("provisioner", obj["provisioner"], why)
    for field, known in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        if obj.get(field) not in known:
            yield unsupported(field, obj.get(field, ""), known)


def storage_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What volumes are made of never changes."""
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if old.get(field) != new.get(field):
            yield invalid_value(field, new.get(field), IMMUTABLE)


def priority_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a PriorityClass."""
    name = obj["metadata"].get("name", "")
    system = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
    if name.startswith("system-"):
        if obj.get("value") != system.get(name):
            why = "is not a known system priority class" if name not in system else "wrong value"
            yield forbidden_field(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} {why}",
            )
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
    """The handler of a RuntimeClass is a label."""
    handler = obj.get("handler", "")
    if not handler:
        yield required("handler")
    for why in label_name_errors(handler) if handler else ():
        yield invalid_value("handler", handler, why)


def runtime_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The handler of a RuntimeClass never changes."""
    if old.get("handler") != new.get("handler"):
        yield invalid_value("handler", new.get("handler"), IMMUTABLE)
