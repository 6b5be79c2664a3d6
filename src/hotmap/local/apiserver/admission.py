"""What happens to an object between a request and the store: defaulting and validation.

The order is upstream's (apiserver/pkg/registry/rest/create.go, update.go): decode, default,
let the kind's strategy prepare, validate. This module holds what is true for every kind and
hands the rest to the module of the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.status import FieldError

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

JsonObject = dict[str, Any]

# Which part of an object an update through a subresource replaces.
_SUBRESOURCE_PARTS = {"status": "status", "finalize": "spec"}


def decode(kind: Kind, obj: JsonObject) -> None:
    """Bring a sent object into its stored form, in place."""


def default(kind: Kind, obj: JsonObject) -> None:
    """Fill in the fields that the client left out, in place."""


def prepare_create(kind: Kind, obj: JsonObject) -> None:
    """Reset what a client may not choose at a create, in place."""
    if kind.plural == "namespaces":
        metadata = obj["metadata"]
        name = metadata.get("name", "")
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    elif kind.plural == "pods":
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    elif kind.has_status and kind.plural != "nodes":
        obj["status"] = {}


def validate_create(kind: Kind, obj: JsonObject) -> list[FieldError]:
    """Find everything wrong with a new object."""
    return []


def prepare_update(kind: Kind, old: JsonObject, new: JsonObject, subresource: str) -> None:
    """Carry over what this kind of update may not touch, in place."""
    if subresource:
        part = _SUBRESOURCE_PARTS[subresource]
        for field in [f for f in new if f not in (part, "metadata", "kind", "apiVersion")]:
            del new[field]
        new.update({f: v for f, v in old.items() if f not in (part, "metadata")})
    elif kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]


def validate_update(
    kind: Kind, old: JsonObject, new: JsonObject, subresource: str
) -> list[FieldError]:
    """Find everything wrong with a change."""
    return []


def counts_generation(kind: Kind, old: JsonObject, new: JsonObject, subresource: str) -> bool:
    """Whether an update counts up metadata.generation.

    A Deployment counts changes of its annotations too (pkg/registry/apps/deployment/strategy.go).
    """
    if not kind.has_generation or subresource:
        return False
    if old.get("spec") != new.get("spec"):
        return True
    return kind.plural == "deployments" and (
        (old["metadata"].get("annotations") or {}) != (new["metadata"].get("annotations") or {})
    )


def deletion_grace(kind: Kind, obj: JsonObject, wanted: int | None) -> int:
    """Give the seconds that a deletion waits; only pods know any.

    A pod that no node runs has nothing to wait for (pkg/registry/core/pod/strategy.go,
    CheckGracefulDelete).
    """
    if kind.plural != "pods":
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = spec.get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
    # A negative period is read as the shortest one that is still graceful.
    return grace if grace >= 0 else 1


def bind_pod(pod: JsonObject, node: str, now: str) -> None:
    """Put a pod on a node, in place (pkg/registry/core/pod/storage: setPodHostAndAnnotations)."""
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    status["conditions"] = [*others, scheduled]
