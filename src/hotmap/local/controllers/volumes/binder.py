"""Binds claims to volumes, and says what becomes of both.

kubernetes: pkg/controller/volume/persistentvolume/pv_controller.go. A claim is bound in four
writes, each of which a later sync repeats if it is missing: the volume refers to the claim, the
volume is Bound, the claim names the volume, the claim is Bound. Volumes are made and removed by
provisioners; of a volume that none of them made, the files are left alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.volumes.matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    SELECTED_NODE,
    find_matching_volume,
    is_bound_to,
    is_delayed,
    mismatch,
    reference_of,
)
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    annotations_of,
    name_of,
    timestamp,
    uid_of,
    with_metadata,
)
from hotmap.local.storage_classes import class_of, default_class, names_class

__all__ = ["PersistentVolumeBinder"]

_PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class PersistentVolumeBinder(Controller[ObjectName]):
    """Sync claims and volumes; the keys of volumes have no namespace."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context, "persistentvolume-binder", component="persistentvolume-controller"
        )
        self._claims = self._informers["persistentvolumeclaims"]
        self._volumes = self._informers["persistentvolumes"]
        self._classes = self._informers["storageclasses"]
        self._unbound = self._claims.index(_unbound)
        self._volumes_of = self._volumes.index(_claim_of)
        self._claims.subscribe(self._on_claim)
        self._volumes.subscribe(self._on_volume)
        self._classes.subscribe(self._on_class)

    async def sync(self, key: ObjectName) -> None:
        """Bring one claim or volume up to date."""
        if key[0]:
            claim = self._claims.objects.get(key)
            if claim is not None:
                await self._sync_claim(claim)
        else:
            volume = self._volumes.objects.get(key)
            if volume is not None:
                await self._sync_volume(volume)

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        claim = new or old
        assert claim is not None
        self._loop.add(name_of(claim))
        for volume in self._volumes_of.get(name_of(claim)):
            self._loop.add(name_of(volume))

    def _on_volume(self, old: Object | None, new: Object | None) -> None:
        volume = new or old
        assert volume is not None
        self._loop.add(name_of(volume))
        for claim in _claim_of(volume):
            self._loop.add(claim)
        for claim in self._unbound.get(True):
            self._loop.add(name_of(claim))

    def _on_class(self, old: Object | None, new: Object | None) -> None:
        for claim in self._unbound.get(True):
            self._loop.add(name_of(claim))

    async def _sync_claim(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        volume = self._volumes.objects.get(("", name)) if name else None
        if BIND_COMPLETED in annotations_of(claim):
            await self._sync_bound(claim, volume)
        elif name:
            await self._sync_asking(claim, volume)
        else:
            await self._sync_unbound(claim)

    async def _sync_bound(self, claim: Object, volume: Object | None) -> None:
        """Follow what becomes of the volume of a claim that was bound once."""
        if volume is None:
            lost = "its" if claim["spec"].get("volumeName") else "reference to"
            text = f"Bound claim has lost {lost} PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", text)
        elif not volume["spec"].get("claimRef") or is_bound_to(volume, claim):
            await self._bind(volume, claim)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", text)

    async def _sync_asking(self, claim: Object, volume: Object | None) -> None:
        """Bind a claim to the volume that its user has named, when that exists and fits."""
        if volume is None:
            return
        name = volume["metadata"]["name"]
        if not volume["spec"].get("claimRef"):
            problem = mismatch(volume, claim)
            if not problem:
                await self._bind(volume, claim)
                return
            text = f'Cannot bind to requested volume "{name}": {problem}'
            self._recorder.event(claim, "Warning", "VolumeMismatch", text)
        elif is_bound_to(volume, claim):
            await self._bind(volume, claim)
        else:
            text = f'volume "{name}" already bound to a different claim.'
            self._recorder.event(claim, "Warning", "FailedBinding", text)

    async def _sync_unbound(self, claim: Object) -> None:
        delayed = is_delayed(claim, self._classes.objects)
        found = find_matching_volume(claim, self._volumes.objects.values(), delayed=delayed)
        if found is not None:
            await self._bind(found, claim)
        elif await self._assign_default_class(claim):
            return
        elif delayed and SELECTED_NODE not in annotations_of(claim):
            text = "waiting for first consumer to be created before binding"
            self._recorder.event(claim, "Normal", "WaitForFirstConsumer", text)
        elif class_of(claim):
            await self._ask_provisioner(claim)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._recorder.event(claim, "Normal", "FailedBinding", text)

    async def _assign_default_class(self, claim: Object) -> bool:
        """Give a claim that says nothing about its class the default one; False if it does."""
        found = default_class(self._classes.objects.values())
        if found is None or names_class(claim):
            return False
        name = found["metadata"]["name"]

        def assign(obj: Object) -> Object | None:
            if names_class(obj):
                return None
            return {**obj, "spec": {**obj["spec"], "storageClassName": name}}

        await self._client.modify(
            "persistentvolumeclaims", *name_of(claim), assign, manager=MANAGER
        )
        return True

    async def _ask_provisioner(self, claim: Object) -> None:
        """Name the provisioner on a claim; that of its class watches for this."""
        name = class_of(claim)
        found = self._classes.objects.get(("", name))
        if found is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            return
        provisioner = found["provisioner"]
        if provisioner == _NO_PROVISIONER:
            text = "no volume plugin matched name: kubernetes.io/no-provisioner"
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            return
        annotations = dict.fromkeys(_PROVISIONERS, provisioner)

        def annotate(obj: Object) -> Object | None:
            present = annotations_of(obj)
            if annotations.items() <= present.items():
                return None
            return with_metadata(obj, annotations={**present, **annotations})

        await self._client.modify(
            "persistentvolumeclaims", *name_of(claim), annotate, manager=MANAGER
        )
        text = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        self._recorder.event(claim, "Normal", "ExternalProvisioning", text)

    async def _bind(self, volume: Object, claim: Object) -> None:
        """Join a claim and a volume, in four writes."""

        def refer(obj: Object) -> Object | None:
            if obj["spec"].get("claimRef") and not is_bound_to(obj, claim):
                raise Conflict(f"volume {obj['metadata']['name']} was bound to another claim")
            if (obj["spec"].get("claimRef") or {}).get("uid") == uid_of(claim):
                return None
            bound = {**obj, "spec": {**obj["spec"], "claimRef": reference_of(claim)}}
            if obj["spec"].get("claimRef"):
                return bound
            return _annotated(bound, BOUND_BY_CONTROLLER)

        _, name = name_of(volume)
        volume = await self._client.modify("persistentvolumes", None, name, refer, manager=MANAGER)
        volume = await self._set_phase(volume, "Bound")

        def choose(obj: Object) -> Object | None:
            if uid_of(obj) != uid_of(claim):
                return None
            wanted = _annotated(obj, BIND_COMPLETED)
            if not obj["spec"].get("volumeName"):
                wanted = _annotated(wanted, BOUND_BY_CONTROLLER)
                wanted = {**wanted, "spec": {**wanted["spec"], "volumeName": name}}
            return None if wanted == obj else wanted

        chosen = await self._client.modify(
            "persistentvolumeclaims", *name_of(claim), choose, manager=MANAGER
        )
        await self._set_claim_status(chosen, _bound_status(volume))
        await self._volumes.wait_for_version(volume["metadata"]["resourceVersion"])

    async def _lose(self, claim: Object, reason: str, text: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._set_claim_status(claim, {"phase": "Lost"})
            self._recorder.event(claim, "Warning", reason, text)

    async def _set_claim_status(self, claim: Object, status: Object) -> None:
        def change(obj: Object) -> Object | None:
            if uid_of(obj) != uid_of(claim):
                return None
            present = obj.get("status") or {}
            others = {
                field: value
                for field, value in present.items()
                if field not in ("phase", "accessModes", "capacity")
            }
            wanted = {**others, **status}
            return None if wanted == present else {**obj, "status": wanted}

        await self._client.modify(
            "persistentvolumeclaims",
            *name_of(claim),
            change,
            subresource="status",
            manager=MANAGER,
        )

    async def _set_phase(self, volume: Object, phase: str, message: str = "") -> Object:
        """Write the phase of a volume; return it as it is then."""

        def change(obj: Object) -> Object | None:
            present = obj.get("status") or {}
            if (present.get("phase"), present.get("message", "")) == (phase, message):
                return None
            wanted: dict[str, Any] = {"phase": phase}
            if message:
                wanted["message"] = message
            if present.get("phase") != phase:
                wanted["lastPhaseTransitionTime"] = timestamp(self._clock())
            return {**obj, "status": wanted}

        return await self._client.modify(
            "persistentvolumes",
            None,
            volume["metadata"]["name"],
            change,
            subresource="status",
            manager=MANAGER,
        )

    async def _sync_volume(self, volume: Object) -> None:
        reference = volume["spec"].get("claimRef") or {}
        if not reference.get("uid"):
            # Unused, or reserved for a claim that is not bound to it yet.
            await self._set_phase(volume, "Available")
            return
        claim = await self._claim_named(reference)
        if claim is None:
            await self._release(volume)
            return
        name = claim["spec"].get("volumeName")
        if name == volume["metadata"]["name"]:
            await self._set_phase(volume, "Bound")
        elif not name:
            self._loop.add(name_of(claim))
        elif PROVISIONED_BY in annotations_of(volume) and _policy(volume) == "Delete":
            await self._release(volume)
        else:
            await self._unbind(volume)

    async def _claim_named(self, reference: Object) -> Object | None:
        """Return the claim that a volume refers to; another one of its name does not count."""
        namespace, name = reference.get("namespace"), reference.get("name")
        if not namespace or not name:
            return None
        try:
            found = await self._client.get("persistentvolumeclaims", namespace, name)
        except NotFound:
            return None
        return found if uid_of(found) == reference["uid"] else None

    async def _release(self, volume: Object) -> None:
        """Mark a volume whose claim is gone; a provisioner deletes what it has made."""
        if (volume.get("status") or {}).get("phase") not in ("Released", "Failed"):
            volume = await self._set_phase(volume, "Released")
        if _policy(volume) == "Delete" and PROVISIONED_BY not in annotations_of(volume):
            await self._fail(volume, "VolumeFailedDelete", _deletion_problem(volume))
        elif _policy(volume) == "Recycle":
            await self._fail(
                volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!"
            )

    async def _fail(self, volume: Object, reason: str, text: str) -> None:
        if (volume.get("status") or {}).get("phase") != "Failed":
            volume = await self._set_phase(volume, "Failed", text)
            self._recorder.event(volume, "Warning", reason, text)

    async def _unbind(self, volume: Object) -> None:
        """Give a volume back whose claim has got another one."""

        def change(obj: Object) -> Object:
            annotations = dict(annotations_of(obj))
            spec = dict(obj["spec"])
            if annotations.pop(BOUND_BY_CONTROLLER, None):
                del spec["claimRef"]
            else:
                spec["claimRef"] = {k: v for k, v in spec["claimRef"].items() if k != "uid"}
            return {**with_metadata(obj, annotations=annotations or None), "spec": spec}

        name = volume["metadata"]["name"]
        await self._client.modify("persistentvolumes", None, name, change, manager=MANAGER)
        await self._set_phase(volume, "Available")


def _unbound(claim: Object) -> list[Hashable]:
    """Index the claims that are not bound, or may be."""
    return [] if BIND_COMPLETED in annotations_of(claim) else [True]


def _claim_of(volume: Object) -> list[Any]:
    """Index volumes by the claim that they refer to."""
    reference = volume["spec"].get("claimRef") or {}
    return [(reference.get("namespace", ""), reference.get("name", ""))] if reference else []


def _annotated(obj: Object, name: str) -> Object:
    return with_metadata(obj, annotations={**annotations_of(obj), name: "yes"})


def _bound_status(volume: Object) -> Object:
    spec = volume["spec"]
    return {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}


def _policy(volume: Object) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy", "Retain"))


def _deletion_problem(volume: Object) -> str:
    """Return why a volume that no provisioner made is not deleted."""
    name = volume["metadata"]["name"]
    path = (volume["spec"].get("hostPath") or {}).get("path")
    if path is None:
        return (
            f'error getting deleter volume plugin for volume "{name}": '
            "no deletable volume plugin matched"
        )
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"
