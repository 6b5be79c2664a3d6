"""Why the PersistentVolumeClaims of a pod keep it from nodes.

kubernetes: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go, PreFilter and Filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hotmap.local.controllers.node_affinity import matches_node_terms
from hotmap.local.controllers.volumes.matching import (
    BIND_COMPLETED,
    find_matching_volume,
    is_delayed,
)
from hotmap.local.meta import Object, ObjectName, annotations_of, controller_of, is_deleted, uid_of
from hotmap.local.storage_classes import class_of
from hotmap.local.volume_claims import claim_name, claim_names

__all__ = ["PodClaims", "find_claim_problem"]

_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
_VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"

Objects = Mapping[ObjectName, Object]


class PodClaims(NamedTuple):
    """What the claims of pods are decided by: caches of the claims, the volumes, the classes."""

    claims: Objects
    volumes: Objects
    classes: Objects

    def unbound(self, pod: Object) -> list[Object]:
        """Return the claims of a pod that are bound once it has a node."""
        namespace = pod["metadata"]["namespace"]
        found = (self.claims.get((namespace, name)) for name in claim_names(pod))
        return [claim for claim in found if claim is not None and not _is_bound(claim)]

    def volume_on(self, claim: Object, node: Object) -> Object | None:
        """Return the volume that an unbound claim gets on a node; None if one is to be made."""
        return find_matching_volume(claim, self.volumes.values(), delayed=True, node=node)

    def unfit_reason(self, pod: Object, node: Object) -> str | None:
        """Return why the volumes of a pod refuse a node, in upstream's words."""
        namespace = pod["metadata"]["namespace"]
        for name in claim_names(pod):
            claim = self.claims.get((namespace, name))
            if claim is None:
                continue
            if not _is_bound(claim):
                provisioner = self.classes.get(("", class_of(claim)), {}).get("provisioner")
                if provisioner == _NO_PROVISIONER and self.volume_on(claim, node) is None:
                    return _NOTHING_TO_BIND
                continue
            volume = self.volumes.get(("", claim["spec"]["volumeName"]))
            if volume is None:
                return _VOLUME_GONE
            required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
            terms = required.get("nodeSelectorTerms")
            if terms and not matches_node_terms(terms, node):
                return _NODE_CONFLICT
        return None


def find_claim_problem(pod: Object, known: PodClaims) -> str | None:
    """Return what is wrong with a pod's claims on any node, in upstream's words."""
    unbound = False
    for volume in pod["spec"].get("volumes") or ():
        name = claim_name(pod, volume)
        if name is None:
            continue
        claim = known.claims.get((pod["metadata"]["namespace"], name))
        problem = _claim_problem(pod, name, claim, is_ephemeral="ephemeral" in volume)
        if problem is not None:
            return problem
        assert claim is not None
        immediate = not _is_bound(claim) and not is_delayed(claim, known.classes)
        unbound = unbound or immediate
    return "pod has unbound immediate PersistentVolumeClaims" if unbound else None


def _claim_problem(
    pod: Object, name: str, claim: Object | None, *, is_ephemeral: bool
) -> str | None:
    if claim is None:
        if is_ephemeral:
            waiting = "waiting for ephemeral volume controller to create the"
            return f'{waiting} persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if (claim.get("status") or {}).get("phase") == "Lost":
        gone = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
    if is_deleted(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and (controller_of(claim) or {}).get("uid") != uid_of(pod):
        namespace, owner = pod["metadata"]["namespace"], pod["metadata"]["name"]
        whose = f"PVC {namespace}/{name} was not created for pod {namespace}/{owner}"
        return f"{whose} (pod is not owner)"
    return None


def _is_bound(claim: Object) -> bool:
    return BIND_COMPLETED in annotations_of(claim) and bool(claim["spec"].get("volumeName"))
