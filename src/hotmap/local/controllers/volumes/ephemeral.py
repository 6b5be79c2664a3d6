"""Makes the claims of ephemeral volumes (kubernetes: pkg/controller/volume/ephemeral)."""

from __future__ import annotations

from hotmap.core.errors import AlreadyExists
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    controller_of,
    controller_reference,
    is_deleted,
    name_of,
    uid_of,
)
from hotmap.local.volume_claims import claim_name

__all__ = ["EphemeralVolumeController"]


class EphemeralVolumeController(Controller[ObjectName]):
    """Create the claim of each ephemeral volume of a pod, owned by the pod."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "ephemeral-volume", component="ephemeral_volume")
        self._claims = self._informers["persistentvolumeclaims"]
        self._pods = self._informers["pods"]
        self._pods.subscribe(self._on_pod)
        self._claims.subscribe(self._on_claim)

    async def sync(self, key: ObjectName) -> None:
        """Create what one pod lacks."""
        pod = self._pods.objects.get(key)
        if pod is None or is_deleted(pod):
            return
        for volume in pod["spec"].get("volumes") or ():
            name = claim_name(pod, volume)
            if name is not None and "ephemeral" in volume:
                await self._create(pod, volume, name)

    async def _create(self, pod: Object, volume: Object, name: str) -> None:
        namespace, pod_name = name_of(pod)
        present = self._claims.objects.get((namespace, name))
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        owner = controller_reference(pod, self._client.scheme.resource("pods"))
        claim = {
            "metadata": {
                **(template.get("metadata") or {}),
                "name": name,
                "ownerReferences": [owner],
            },
            "spec": template.get("spec") or {},
        }
        if present is None:
            try:
                await self._client.create(
                    "persistentvolumeclaims", namespace, claim, manager=MANAGER
                )
            except AlreadyExists:
                self._loop.add(name_of(pod))
        elif (controller_of(present) or {}).get("uid") != uid_of(pod):
            text = f"PVC {namespace}/{name} was not created for pod {namespace}/{pod_name}"
            text = f"ephemeral volume {volume['name']}: {text} (pod is not owner)"
            self._recorder.event(pod, "Warning", "FailedBinding", text)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        volumes = () if new is None else new["spec"].get("volumes") or ()
        if new is not None and any("ephemeral" in volume for volume in volumes):
            self._loop.add(name_of(new))

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        """Look again at the owner of a claim that is gone."""
        owner = None if old is None or new is not None else controller_of(old)
        if old is not None and owner is not None and owner["kind"] == "Pod":
            self._loop.add((old["metadata"]["namespace"], owner["name"]))
