"""Makes a directory for each claim of the class `local-path`, and removes it.

What rancher.io/local-path is to small clusters (local-path-provisioner), with its names; here the
directories are those of the plane, and every access mode is possible since there is one machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Any, Final

from hotmap.core.errors import AlreadyExists, NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.volumes.matching import (
    PROVISIONED_BY,
    SELECTED_NODE,
    reference_of,
)
from hotmap.local.meta import Object, ObjectName, annotations_of, name_of, uid_of
from hotmap.local.storage_classes import class_of

__all__ = ["LocalPathProvisioner"]

_PROVISIONER: Final = "rancher.io/local-path"
_MANAGER: Final = "local-path-provisioner"

#: Seconds until a directory that could not be made is tried again.
_RETRY: Final = 15.0

_CLASS: Final[dict[str, Any]] = {
    "metadata": {
        "name": "local-path",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": _PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class LocalPathProvisioner(Controller[ObjectName]):
    """Provide volumes below *directory*; the keys of volumes have no namespace."""

    def __init__(self, context: ControllerContext, *, directory: Path) -> None:
        super().__init__(context, "local-path-provisioner", component=_PROVISIONER)
        self._directory = directory
        self._claims = self._informers["persistentvolumeclaims"]
        self._volumes = self._informers["persistentvolumes"]
        self._classes = self._informers["storageclasses"]
        for informer in (self._claims, self._volumes):
            informer.subscribe(self._on_change)

    async def run(self) -> None:
        """Provide volumes until cancelled; the class is made first, unless it exists."""
        with contextlib.suppress(AlreadyExists):
            await self._client.create("storageclasses", None, _CLASS, manager=_MANAGER)
        await super().run()

    async def sync(self, key: ObjectName) -> None:
        """Make the volume of one claim, or remove one volume that was released."""
        if key[0]:
            claim = self._claims.objects.get(key)
            if claim is not None and _is_wanted(claim):
                await self._provide(claim)
        else:
            volume = self._volumes.objects.get(key)
            if volume is not None and _is_done(volume):
                await self._remove(volume)

    def _on_change(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (_is_wanted(new) if name_of(new)[0] else _is_done(new)):
            self._loop.add(name_of(new))

    async def _provide(self, claim: Object) -> None:
        found = self._classes.objects.get(("", class_of(claim)))
        name = f"pvc-{uid_of(claim)}"
        if found is None or ("", name) in self._volumes.objects:
            return
        namespace, claim_name = name_of(claim)
        node = annotations_of(claim).get(SELECTED_NODE, "")
        if found.get("volumeBindingMode") == "WaitForFirstConsumer" and not node:
            return
        text = f'External provisioner is provisioning volume for claim "{namespace}/{claim_name}"'
        self._recorder.event(claim, "Normal", "Provisioning", text)
        if claim["spec"].get("volumeMode") == "Block":
            self._report_failure(claim, "only Filesystem volumes are supported")
            return
        volume = _volume(claim, found, name, node)
        directory = self._directory / _directory_name(volume)
        try:
            await asyncio.to_thread(_make_directory, directory)
        except OSError as error:
            # The disk may be full, or the name of the claim too long for a directory's.
            self._report_failure(claim, f"{directory}: {error.strerror}")
            self._loop.add_after(name_of(claim), _RETRY)
            return
        volume["spec"]["hostPath"] = {"path": str(directory), "type": "DirectoryOrCreate"}
        with contextlib.suppress(AlreadyExists):
            await self._client.create("persistentvolumes", None, volume, manager=_MANAGER)
            text = f"Successfully provisioned volume {name}"
            self._recorder.event(claim, "Normal", "ProvisioningSucceeded", text)

    def _report_failure(self, claim: Object, problem: str) -> None:
        text = f'failed to provision volume with StorageClass "{class_of(claim)}": {problem}'
        self._recorder.event(claim, "Warning", "ProvisioningFailed", text)

    async def _remove(self, volume: Object) -> None:
        path = Path((volume["spec"].get("hostPath") or {}).get("path", "/"))
        # Nothing but the directory that was made for it, whatever the object says by now: others
        # beside it belong to other claims.
        if path.parent == self._directory and path.name == _directory_name(volume):
            try:
                await asyncio.to_thread(_remove_directory, path)
            except OSError as error:
                text = f"{path} cannot be removed: {error.strerror}"
                self._recorder.event(volume, "Warning", "VolumeFailedDelete", text)
                return
        with contextlib.suppress(NotFound):
            await self._client.delete("persistentvolumes", None, volume["metadata"]["name"])


def _is_wanted(claim: Object) -> bool:
    """Return whether a claim waits for a volume of this provisioner."""
    asked = annotations_of(claim).get("volume.kubernetes.io/storage-provisioner")
    return asked == _PROVISIONER and not claim["spec"].get("volumeName")


def _is_done(volume: Object) -> bool:
    """Return whether a volume of this provisioner is to be removed."""
    return (
        annotations_of(volume).get(PROVISIONED_BY) == _PROVISIONER
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and (volume.get("status") or {}).get("phase") == "Released"
    )


def _directory_name(volume: Object) -> str:
    reference = volume["spec"].get("claimRef") or {}
    claim = f"{reference.get('namespace')}_{reference.get('name')}"
    return f"{volume['metadata']['name']}_{claim}"


def _volume(claim: Object, storage_class: Object, name: str, node: str) -> dict[str, Any]:
    annotations = {PROVISIONED_BY: _PROVISIONER}
    spec: dict[str, Any] = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": claim["spec"]["accessModes"],
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": class_of(claim),
        "volumeMode": "Filesystem",
        "claimRef": reference_of(claim),
    }
    if node:
        annotations["local.path.provisioner/selected-node"] = node
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["nodeAffinity"] = {"required": terms}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def _make_directory(path: Path) -> None:
    """Make a directory that every user of a container may write to."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def _remove_directory(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
