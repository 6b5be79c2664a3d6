"""StorageClasses, VolumeAttributesClasses and CSIDrivers (pkg/apis/storage/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.field_errors import (
    IMMUTABLE,
    FieldError,
    choice_errors,
    duplicate,
    forbidden_field,
    invalid_value,
    name_errors,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import qualified_name_errors

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_SHORTEST_TOKEN = 600
_SHORTEST_PERIOD = 10
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_MODES = ("Persistent", "Ephemeral")


def storage_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a StorageClass."""
    yield from name_errors(obj["provisioner"].lower(), "provisioner", qualified_name_errors)
    if "" in (obj.get("parameters") or ()):
        yield invalid_value("parameters", "", "field can not be empty.")
    for field, known in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        if obj.get(field) not in known:
            yield unsupported(field, obj.get(field, ""), known)
    terms: list[JsonObject] = []
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        found: JsonObject = {}
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            yield from _topology_errors(expression, f"{path}[{number}]", found)
            found[expression["key"]] = set(expression.get("values") or ())
        if found in terms:
            yield duplicate(path, "")
        terms.append(found)


def _topology_errors(
    expression: JsonObject, path: str, found: Container[str]
) -> Iterator[FieldError]:
    key, values = expression["key"], expression.get("values") or []
    if not values:
        yield required(f"{path}.values")
    for index, value in enumerate(values):
        if value in values[:index]:
            yield duplicate(f"{path}.values[{index}]", value)
    yield from rule_errors(f"{path}.key", key, qualified_name_errors)
    if key in found:
        yield duplicate(f"{path}.key", key)


def storage_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What volumes are made of never changes."""
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if old.get(field) != new.get(field):
            yield invalid_value(field, new.get(field), IMMUTABLE)


def attributes_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a VolumeAttributesClass."""
    yield from name_errors(obj["driverName"].lower(), "driverName", qualified_name_errors)
    if not obj.get("parameters"):
        yield required("parameters", "must contain at least one key/value pair")


def attributes_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What a class stands for never changes."""
    for field in ("driverName", "parameters"):
        if old.get(field) != new.get(field):
            yield forbidden_field(field, f"updates to {field} are forbidden.")


def driver_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a CSIDriver."""
    spec = obj["spec"]
    yield from choice_errors(spec, "spec", "fsGroupPolicy", _GROUP_POLICIES)
    audiences: set[str] = set()
    for index, request in enumerate(spec.get("tokenRequests") or ()):
        path, seconds = f"spec.tokenRequests[{index}]", request.get("expirationSeconds")
        if request["audience"] in audiences:
            yield duplicate(f"{path}.audience", request["audience"])
        elif seconds is not None and seconds < _SHORTEST_TOKEN:
            why = "may not specify a duration less than 10 minutes"
            yield invalid_value(f"{path}.expirationSeconds", seconds, why)
        audiences.add(request["audience"])
    for mode in spec["volumeLifecycleModes"]:
        if mode not in _MODES:
            yield unsupported("spec.volumeLifecycleModes", mode, _MODES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _SHORTEST_PERIOD:
        why = f"must be greater than or equal to {_SHORTEST_PERIOD} seconds"
        yield invalid_value("spec.nodeAllocatableUpdatePeriodSeconds", period, why)


def driver_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """How a driver mounts volumes never changes."""
    # The name of the first one is upstream's.
    for field, called in (
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ):
        if old["spec"][field] != new["spec"][field]:
            yield invalid_value(f"spec.{called}", new["spec"][field], IMMUTABLE)
