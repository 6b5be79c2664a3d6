"""Which volume a claim gets.

kubernetes: pkg/controller/volume/persistentvolume/{index.go,pv_controller.go} and
component-helpers/storage/volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from hotmap.local.controllers.node_affinity import matches_node_terms
from hotmap.local.meta import Object, ObjectName, is_deleted
from hotmap.local.quantity import parse_quantity
from hotmap.local.selectors import matches_label_selector
from hotmap.local.storage_classes import class_of

__all__ = [
    "BIND_COMPLETED",
    "BOUND_BY_CONTROLLER",
    "PROVISIONED_BY",
    "SELECTED_NODE",
    "find_matching_volume",
    "is_bound_to",
    "is_delayed",
    "mismatch",
    "reference_of",
]

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
#: Written by the scheduler onto a claim that waits for its first consumer.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


def is_delayed(claim: Object, classes: Mapping[ObjectName, Object]) -> bool:
    """Return whether a claim waits for its first consumer."""
    found = classes.get(("", class_of(claim)))
    return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_bound_to(volume: Object, claim: Object) -> bool:
    """Return whether a volume refers to a claim, or to any claim of that name."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    metadata = claim["metadata"]
    named = (reference.get("namespace", ""), reference.get("name", ""))
    same_name = named == (metadata["namespace"], metadata["name"])
    return same_name and reference.get("uid", "") in ("", metadata["uid"])


def reference_of(claim: Object) -> Object:
    """Build what refers to a claim (reference.GetReference)."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "v1",
        "resourceVersion": metadata["resourceVersion"],
    }


def find_matching_volume(
    claim: Object, volumes: Iterable[Object], *, delayed: bool = False, node: Object | None = None
) -> Object | None:
    """Return the volume for a claim: one that is reserved for it, else the smallest that fits.

    Volumes with fewer access modes come first. A *delayed* claim gets only a reserved one, unless
    the *node* of its consumer is known, from which the volume must be reachable.
    """
    wanted = set(claim["spec"].get("accessModes") or ())
    candidates = [
        volume for volume in volumes if wanted <= set(volume["spec"].get("accessModes") or ())
    ]
    candidates.sort(key=lambda volume: (_modes(volume), _size(volume), volume["metadata"]["name"]))
    candidates = [volume for volume in candidates if _could_hold(volume, claim)]
    for volume in candidates:
        if is_bound_to(volume, claim):
            return volume if _is_reachable(volume, node) else None
    if delayed and node is None:
        return None
    for volume in candidates:
        free = not volume["spec"].get("claimRef")
        free = free and (volume.get("status") or {}).get("phase") == "Available"
        if free and _is_wanted(volume, claim) and _is_reachable(volume, node):
            return volume
    return None


def mismatch(volume: Object, claim: Object) -> str:
    """Return why a claim may not have the volume that it names; "" if it may."""
    if is_deleted(volume):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if _size(volume) < _request(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _attributes(volume) != _attributes(claim):
        return "volumeAttributesClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"]["accessModes"]):
        return "incompatible accessMode"
    return ""


def _could_hold(volume: Object, claim: Object) -> bool:
    reference = volume["spec"].get("claimRef")
    return (
        (not reference or is_bound_to(volume, claim))
        and _size(volume) >= _request(claim)
        and _mode(volume) == _mode(claim)
        and _attributes(volume) == _attributes(claim)
        and not is_deleted(volume)
    )


def _is_wanted(volume: Object, claim: Object) -> bool:
    selector = claim["spec"].get("selector")
    labels = volume["metadata"].get("labels") or {}
    if selector and not matches_label_selector(selector, labels):
        return False
    return class_of(volume) == class_of(claim)


def _is_reachable(volume: Object, node: Object | None) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if node is None or not required:
        return True
    return matches_node_terms(required.get("nodeSelectorTerms") or [], node)


def _size(volume: Object) -> Decimal:
    return parse_quantity(str((volume["spec"].get("capacity") or {}).get("storage", "0")))


def _request(claim: Object) -> Decimal:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "0")))


def _modes(volume: Object) -> int:
    return len(volume["spec"].get("accessModes") or ())


def _mode(obj: Object) -> str:
    return str(obj["spec"].get("volumeMode") or "Filesystem")


def _attributes(obj: Object) -> str:
    return str(obj["spec"].get("volumeAttributesClassName") or "")
