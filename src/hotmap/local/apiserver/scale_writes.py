"""Writes of a Scale: what they change in its workload, and in its managers.

Kubernetes: apimachinery/pkg/util/managedfields/scalehandler.go. A write is merged and recorded as
one of a Scale; the workload keeps the entries of its own fields.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from hotmap.local.apiserver import managed_fields
from hotmap.local.apiserver.field_sets import Path, read_fields_v1, write_fields_v1
from hotmap.local.apiserver.scale import SCALES, rescaled, scale_of
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.scheme import Kind

__all__ = ["apply_scale", "update_scale"]

_REPLICAS: Path = ("f:spec", "f:replicas")


def update_scale(
    kind: Kind,
    workload: JsonObject,
    edit: Callable[[JsonObject], JsonObject],
    writer: managed_fields.Writer,
) -> JsonObject:
    """Return a workload, changed in place, with what `edit` makes of its Scale.

    Raises:
        ApiError: the Scale is refused.
    """
    old = _managed_scale(kind, workload)
    new = edit(deepcopy(old))
    # A write through a subresource cannot change the entries themselves.
    metadata = {**(new.get("metadata") or {}), "managedFields": old["metadata"]["managedFields"]}
    managers = managed_fields.record_write(SCALES, old, {**new, "metadata": metadata}, writer)
    return _written(kind, workload, new, managers)


def apply_scale(
    kind: Kind,
    workload: JsonObject,
    config: JsonObject,
    writer: managed_fields.Writer,
    *,
    force: bool,
) -> JsonObject:
    """Return a workload, changed in place, with a configuration of its Scale applied.

    Raises:
        Conflict: another manager owns the replicas, and `force` is not given.
        ApiError: the Scale is refused.
    """
    old = _managed_scale(kind, workload)
    applied = managed_fields.apply(SCALES, old, config, writer, force=force)
    return _written(kind, workload, applied.obj, applied.managed_fields)


def _managed_scale(kind: Kind, workload: JsonObject) -> JsonObject:
    scale = scale_of(kind, workload)
    scale["metadata"]["managedFields"] = _managers_of_scale(kind, workload)
    return scale


def _written(
    kind: Kind, workload: JsonObject, scale: JsonObject, managers: list[JsonObject]
) -> JsonObject:
    workload["metadata"]["managedFields"] = _managers_of_workload(kind, workload, managers)
    return rescaled(kind, workload, scale)


def _managers_of_scale(kind: Kind, workload: JsonObject) -> list[JsonObject]:
    """Return the entries of a workload that own its replicas, as they own those of its Scale."""
    replicas = _replicas_of(kind)
    return [
        {**entry, "apiVersion": SCALES.api_version, "fieldsV1": write_fields_v1({_REPLICAS})}
        for entry in workload["metadata"].get("managedFields") or ()
        if replicas in read_fields_v1(entry.get("fieldsV1") or {})
    ]


def _managers_of_workload(
    kind: Kind, workload: JsonObject, of_scale: list[JsonObject]
) -> list[JsonObject]:
    """Return the entries of a workload whose Scale has got the managers `of_scale`.

    A manager that the Scale no longer has loses the replicas. A new entry has no time, as on
    Kubernetes.
    """
    replicas = _replicas_of(kind)
    new = {_identity(entry): entry for entry in of_scale}
    entries: list[JsonObject] = []
    for entry in workload["metadata"].get("managedFields") or ():
        fields = read_fields_v1(entry.get("fieldsV1") or {})
        if replicas not in fields or new.pop(_identity(entry), None) is not None:
            entries.append(entry)
        elif left := fields - {replicas}:
            entries.append({**entry, "fieldsV1": write_fields_v1(left)})
    for entry in new.values():
        added = {
            **entry,
            "apiVersion": kind.api_version,
            "fieldsV1": write_fields_v1({replicas}),
        }
        added.pop("time", None)
        entries.append(added)
    return managed_fields.in_entry_order(entries)


def _replicas_of(kind: Kind) -> Path:
    paths = kind.strategy.scale
    names = ("spec", "replicas") if paths is None else paths.replicas.lstrip(".").split(".")
    return tuple(f"f:{name}" for name in names)


def _identity(entry: JsonObject) -> tuple[str, ...]:
    """Name a manager; one that applies is the same in all versions (BuildManagerIdentifier)."""
    fields = ["manager", "operation", "subresource"]
    if entry.get("operation") != "Apply":
        fields.append("apiVersion")
    return tuple(str(entry.get(field) or "") for field in fields)
