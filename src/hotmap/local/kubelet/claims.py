"""The directories that the claims of a pod stand for.

kubernetes: pkg/kubelet/volumemanager/populator, getPVCExtractPV and getPVSpec. A volume is a
directory of this machine: hostPath and local volumes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.core.errors import ApiError, ManifestError
from hotmap.local.volume_claims import claim_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.client import Client

__all__ = ["ClaimedPath", "ClaimedPaths"]


class ClaimedPath(NamedTuple):
    """A path of the machine, and of which type it must be (as for hostPath)."""

    path: Path
    type: str


class ClaimedPaths:
    """Reads claims and their volumes from the API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> ClaimedPath:
        """Find the path of a pod's volume that is a claim.

        Raises:
            ManifestError: the claim has no volume, or one that is not a directory of this machine.
        """
        namespace = pod["metadata"]["namespace"]
        name = claim_name(pod, volume)
        assert name is not None
        try:
            return await self._find(namespace, name)
        except (ApiError, ManifestError) as error:
            raise ManifestError(f"error processing PVC {namespace}/{name}: {error}") from None

    async def _find(self, namespace: str, name: str) -> ClaimedPath:
        try:
            claim = await self._client.get("persistentvolumeclaims", namespace, name)
        except ApiError as error:
            raise ManifestError(f"failed to fetch PVC from API server: {error}") from None
        if claim["metadata"].get("deletionTimestamp"):
            raise ManifestError("PVC is being deleted")
        bound = claim["spec"].get("volumeName", "")
        if (claim.get("status") or {}).get("phase") != "Bound" or not bound:
            raise ManifestError("PVC is not bound")
        volume = await self._client.get("persistentvolumes", None, bound)
        spec = volume["spec"]
        if (spec.get("claimRef") or {}).get("uid") != claim["metadata"]["uid"]:
            raise ManifestError(f'volume "{bound}" is bound to another claim')
        if spec.get("volumeMode") == "Block":
            raise ManifestError("block volumes are not supported by this node")
        if "hostPath" in spec:
            return ClaimedPath(Path(spec["hostPath"]["path"]), spec["hostPath"].get("type", ""))
        if "local" in spec:
            return ClaimedPath(Path(spec["local"]["path"]), "Directory")
        raise ManifestError(f'the type of volume "{bound}" is not supported by this node')
