"""Delays the deletion of claims that pods use, and of volumes that claims are bound to.

kubernetes: pkg/controller/volume/{pvcprotection,pvprotection}. Admission gives new objects the
finalizer; these controllers take it away from objects that are deleted and no longer used.
"""

from __future__ import annotations

from collections.abc import Hashable

from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.meta import MANAGER, Object, ObjectName, is_deleted, name_of, with_metadata
from hotmap.local.volume_claims import claim_names

__all__ = ["ClaimProtection", "VolumeProtection"]


class _Protection(Controller[ObjectName]):
    """Let go of the deleted objects of a kind that `_is_used` does not keep."""

    resource: str
    finalizer: str

    def __init__(self, context: ControllerContext, name: str) -> None:
        super().__init__(context, name)
        self._objects = self._informers[self.resource]
        self._objects.subscribe(self._add_changed)

    def _is_used(self, obj: Object) -> bool:
        raise NotImplementedError

    async def sync(self, key: ObjectName) -> None:
        """Add the finalizer to an object, or remove it from a deleted one that is not used."""
        obj = self._objects.objects.get(key)
        if obj is None:
            return
        protected = self.finalizer in (obj["metadata"].get("finalizers") or ())
        if protected == (not is_deleted(obj)) or (is_deleted(obj) and self._is_used(obj)):
            return
        await self._client.modify(
            self.resource, key[0] or None, key[1], self._toggle, manager=MANAGER
        )

    def _toggle(self, obj: Object) -> Object | None:
        present = obj["metadata"].get("finalizers") or []
        if is_deleted(obj):
            wanted = [name for name in present if name != self.finalizer]
        else:
            wanted = [*present, *([] if self.finalizer in present else [self.finalizer])]
        return None if wanted == present else with_metadata(obj, finalizers=wanted)


class ClaimProtection(_Protection):
    """Keeps a claim while a pod that has a node names it."""

    resource = "persistentvolumeclaims"
    finalizer = "kubernetes.io/pvc-protection"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "persistentvolumeclaim-protection")
        pods = self._informers["pods"]
        self._users = pods.index(_used_claims)
        pods.subscribe(self._on_pod)

    def _is_used(self, obj: Object) -> bool:
        return self._users.count(name_of(obj)) > 0

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            for claim in claim_names(old):
                self._loop.add((old["metadata"]["namespace"], claim))


class VolumeProtection(_Protection):
    """Keeps a volume while it is bound."""

    resource = "persistentvolumes"
    finalizer = "kubernetes.io/pv-protection"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "persistentvolume-protection")

    def _is_used(self, obj: Object) -> bool:
        return (obj.get("status") or {}).get("phase") == "Bound"


def _used_claims(pod: Object) -> list[Hashable]:
    """Index the pods that have a node by the claims that they name."""
    if not pod["spec"].get("nodeName"):
        return []
    return [(pod["metadata"]["namespace"], name) for name in claim_names(pod)]
