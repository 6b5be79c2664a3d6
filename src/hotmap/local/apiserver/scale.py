"""The scale subresource: the number of replicas of a workload as an object of its own.

Kubernetes: pkg/registry/apps/*/storage/storage.go, ScaleREST.
"""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.columns import AGE, field_cell, name_cell, selector_text
from hotmap.local.apiserver.custom.jsonpath import find
from hotmap.local.apiserver.status import conflict, internal, internal_error, invalid
from hotmap.local.field_errors import NOT_NEGATIVE, FieldError, invalid_value
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy


class _ScaleStrategy(Strategy):
    columns = (
        Column("Name", name_cell, format=""),
        Column("Desired", field_cell("spec.replicas", 0), type="integer"),
        Column("Available", field_cell("status.replicas", 0), type="integer"),
        AGE,
    )


#: How a Scale is shown; it is not a resource of its own.
SCALES = Kind("autoscaling", ("v1",), Names("scales", "Scale"), strategy=_ScaleStrategy())


def scale_errors(scale: JsonObject) -> list[FieldError]:
    """Check a Scale (autoscaling: ValidateScale)."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, int) and replicas < 0:
        why = NOT_NEGATIVE
        return [invalid_value("spec.replicas", replicas, why)]
    return []


def scale_of(kind: Kind, workload: JsonObject) -> JsonObject:
    """Show a workload as a Scale."""
    metadata = workload["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    paths = kind.strategy.scale
    if paths is None:
        replicas = workload["spec"].get("replicas", 0)
        status = {"replicas": workload.get("status", {}).get("replicas", 0)}
        selector = selector_text(workload["spec"].get("selector") or {})
    else:
        replicas = _first(paths.replicas, workload, 0)
        status = {"replicas": _first(paths.status_replicas, workload, 0)}
        selector = _first(paths.selector, workload, "") if paths.selector else ""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in shown if field in metadata},
        # Go leaves out a zero here.
        "spec": {"replicas": replicas} if replicas else {},
        "status": {**status, "selector": selector} if selector else status,
    }


def check_has_scale(kind: Kind, workload: JsonObject) -> None:
    """Refuse to show the Scale of a custom resource that says nothing of its replicas.

    Raises:
        ApiError: 500, as upstream.
    """
    paths = kind.strategy.scale
    if paths is not None and not find(paths.replicas, workload):
        raise internal_error(f'the spec replicas field "{paths.replicas}" does not exist')


def rescaled(kind: Kind, workload: JsonObject, scale: JsonObject) -> JsonObject:
    """Return a workload, changed in place, with the replicas of a written Scale.

    A resourceVersion of the Scale is a precondition; so is a uid.

    Raises:
        Conflict: the Scale has another uid.
        Invalid: it breaks the rules of a Scale.
        ApiError: 500, a custom resource has no place for replicas.
    """
    metadata = workload["metadata"]
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if errors := scale_errors(scale):
        raise invalid(SCALES, metadata["name"], errors)
    sent = scale.get("metadata") or {}
    if sent.get("uid", metadata["uid"]) != metadata["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {sent['uid']}, UID in object meta: "
            f"{metadata['uid']}"
        )
        raise conflict(kind, metadata["name"], why)
    if kind.strategy.scale is None:
        workload["spec"]["replicas"] = replicas
    else:
        _set(kind.strategy.scale.replicas, workload, replicas)
    if sent.get("resourceVersion"):
        metadata["resourceVersion"] = sent["resourceVersion"]
    return workload


def _first(path: str, workload: JsonObject, missing: Any) -> Any:
    found = find(path, workload)
    return found[0] if found else missing


def _set(path: str, workload: JsonObject, replicas: int) -> None:
    """Set the replicas in place; a custom resource may have anything on the way there."""
    *parents, last = path.lstrip(".").split(".")
    for depth, name in enumerate(parents, start=1):
        workload = workload.setdefault(name, {})
        if not isinstance(workload, dict):
            at = ".".join(parents[:depth])
            raise internal(f"value cannot be set because .{at} is not a map[string]interface{{}}")
    workload[last] = replicas
