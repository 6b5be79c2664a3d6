"""The scale subresource: the number of replicas of a workload as an object of its own.

Kubernetes: pkg/registry/apps/*/storage/storage.go, ScaleREST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, Any]


def scale_of(workload: JsonObject) -> JsonObject:
    """Show a workload as a Scale."""
    metadata = workload["metadata"]
    replicas = workload["spec"].get("replicas", 0)
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status = {"replicas": workload.get("status", {}).get("replicas", 0)}
    selector = _selector_text(workload["spec"].get("selector") or {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in shown if field in metadata},
        # Go leaves out a zero here.
        "spec": {"replicas": replicas} if replicas else {},
        "status": {**status, "selector": selector} if selector else status,
    }


def scale_change(scale: JsonObject) -> Callable[[JsonObject], JsonObject]:
    """Return the change of a workload that a written Scale asks for.

    Raises:
        BadRequest: the Scale has no whole number of replicas.
    """
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int):
        raise BadRequest("spec.replicas of a Scale must be an integer")
    revision = (scale.get("metadata") or {}).get("resourceVersion")

    def change(workload: JsonObject) -> JsonObject:
        workload["spec"]["replicas"] = replicas
        if revision:
            workload["metadata"]["resourceVersion"] = revision
        return workload

    return change


def _selector_text(selector: JsonObject) -> str:
    terms = [f"{label}={value}" for label, value in sorted(selector.get("matchLabels", {}).items())]
    for expression in selector.get("matchExpressions") or ():
        values = ",".join(sorted(expression.get("values") or ()))
        match expression["operator"]:
            case "Exists":
                terms.append(expression["key"])
            case "DoesNotExist":
                terms.append(f"!{expression['key']}")
            case operator:
                terms.append(f"{expression['key']} {operator.lower()} ({values})")
    return ",".join(terms)
