"""Reading metadata of whole objects as the control plane keeps them: plain JSON dicts.

Accessors for names, labels, owners and times live here, and the owner reference of a controller
(kubernetes: apimachinery/pkg/apis/meta/v1/controller_ref.go). The controller of a kind interprets
its spec and status.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

__all__ = [
    "MANAGER",
    "Object",
    "ObjectName",
    "annotations_of",
    "controller_of",
    "controller_reference",
    "created_at",
    "is_deleted",
    "labels_of",
    "name_of",
    "owners_of",
    "parse_time",
    "timestamp",
    "uid_of",
    "with_metadata",
]

Object = JsonObject
#: Namespace ("" for cluster-scoped kinds) and name: the keys of queues, one queue per kind.
ObjectName = tuple[str, str]

#: Field manager and Event source of the controllers of kube-controller-manager.
MANAGER = "kube-controller-manager"


def name_of(obj: Object) -> ObjectName:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def uid_of(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def labels_of(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def owners_of(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def is_deleted(obj: Object) -> bool:
    """Return whether deletion was requested; finalizers or a grace period may delay it."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def created_at(obj: Object) -> str:
    """Return the creation time, which sorts as text: RFC 3339, UTC, whole seconds."""
    return obj["metadata"].get("creationTimestamp") or ""


def controller_of(obj: Object) -> Object | None:
    """Return the one owner reference that is marked as the controller, if there is one."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


def controller_reference(owner: Object, kind: Kind) -> Object:
    """Build the owner reference that makes *owner* the controller."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_metadata(obj: Object, **changes: Any) -> Object:
    """Return *obj* with some metadata fields replaced, or dropped where the new value is None.

    Everything else is shared with *obj*, not copied.
    """
    metadata = {**obj["metadata"], **changes}
    return {**obj, "metadata": {key: v for key, v in metadata.items() if v is not None}}


def timestamp(seconds: float) -> str:
    """Format POSIX seconds as Kubernetes' Time: RFC 3339, UTC, fractions cut off."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds)))


def parse_time(text: str | None) -> float:
    """Read a Kubernetes Time as POSIX seconds; an absent one is 0, the zero time."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
