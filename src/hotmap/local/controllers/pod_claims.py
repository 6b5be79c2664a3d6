"""Why the PersistentVolumeClaims of a pod keep it from any node.

kubernetes: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go, PreFilter. Nothing
binds claims here, so one that a user has not bound by hand stays unbound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hotmap.local.meta import Object, ObjectName, is_deleted

__all__ = ["claim_names", "find_claim_problem"]


def claim_names(pod: Object) -> Iterator[str]:
    """Return the names of the claims that a pod's volumes use."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def find_claim_problem(pod: Object, claims: Mapping[ObjectName, Object]) -> str | None:
    """Return what is wrong with a pod's claims, in upstream's words; None if they are bound."""
    unbound = False
    for name in claim_names(pod):
        claim = claims.get((pod["metadata"]["namespace"], name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if is_deleted(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        unbound = unbound or claim.get("status", {}).get("phase") != "Bound"
    return "pod has unbound immediate PersistentVolumeClaims" if unbound else None
