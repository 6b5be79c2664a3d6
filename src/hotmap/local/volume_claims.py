"""Which PersistentVolumeClaim a volume of a pod is.

kubernetes: staging/src/k8s.io/component-helpers/storage/ephemeral, VolumeClaimName.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["claim_name", "claim_names"]


def claim_name(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> str | None:
    """Return the name of the claim that a pod's volume is; None for all other volumes."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"]["claimName"])
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return None


def claim_names(pod: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of the claims that a pod's volumes are."""
    for volume in pod["spec"].get("volumes") or ():
        name = claim_name(pod, volume)
        if name is not None:
            yield name
