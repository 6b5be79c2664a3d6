"""What admission does about volumes and claims.

plugin/pkg/admission/storage: storageobjectinuseprotection, storageclass/setdefault and
persistentvolume/resize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import parse_quantity
from hotmap.local.storage_classes import default_class, names_class

if TYPE_CHECKING:
    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.store import Store

_FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
}
_NOT_RESIZABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)


class StoragePlugin:
    """Protects new volumes and claims, gives claims a class, and says which of them may grow."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._store = store
        self._classes = reader.scheme.resource("storageclasses.storage.k8s.io")

    def admit(self, request: AdmissionRequest) -> None:
        """Add the finalizer and the class of a new object."""
        finalizer = _FINALIZERS.get(request.kind.plural)
        if request.kind.group or finalizer is None or request.subresource or request.old:
            return
        metadata = request.obj["metadata"]
        if finalizer not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
        if request.kind.plural == "persistentvolumeclaims":
            spec = request.obj["spec"]
            found = None if names_class(request.obj) else default_class(self._all_classes())
            if found is not None:
                spec["storageClassName"] = found["metadata"]["name"]

    def validate(self, request: AdmissionRequest) -> None:
        """Check that a claim which asks for more is of a class that allows it."""
        if request.kind.group or request.kind.plural != "persistentvolumeclaims":
            return
        if request.old is None or request.subresource or request.deleted:
            return
        if _size(request.obj) <= _size(request.old):
            return
        name = request.obj["metadata"]["name"]
        if (request.old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(
                request.kind, name, "Only bound persistent volume claims can be expanded"
            )
        wanted = request.obj["spec"].get("storageClassName") or ""
        allowed = [
            found
            for found in self._all_classes()
            if found["metadata"]["name"] == wanted and found.get("allowVolumeExpansion")
        ]
        if not allowed:
            raise forbidden(request.kind, name, _NOT_RESIZABLE)

    def _all_classes(self) -> list[JsonObject]:
        entries = self._store.range(self._classes.prefix(None)).entries
        return [msgspec.json.decode(entry.value or b"") for entry in entries]


def _size(claim: JsonObject) -> Any:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "0")))
