"""Writes a StatefulSet's pods and claims, with its Events.

kubernetes: pkg/controller/statefulset/stateful_pod_control.go. The caches have seen all that was
written before a method returns, so the next decision counts it.
"""

from __future__ import annotations

from hotmap.core.errors import AlreadyExists, ApiError, NotFound, is_namespace_terminating
from hotmap.local.client import Client
from hotmap.local.controllers.pod_control import is_staying
from hotmap.local.controllers.statefulset.claims import (
    Claims,
    claim_owners,
    claims_of,
    has_conflicting_controller,
    is_owned_by_policy,
    new_claims,
)
from hotmap.local.controllers.statefulset.identity import claim_templates, with_identity
from hotmap.local.informer import Informers, by_namespace
from hotmap.local.meta import MANAGER, Object, is_deleted, name_of, uid_of, with_metadata
from hotmap.local.recorder import Recorder

__all__ = ["StatefulPodControl"]

_CLAIMS = "persistentvolumeclaims"


class StatefulPodControl:
    """Creates, repairs and deletes the pods of StatefulSets, and their claims."""

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        self._client = client
        self._pods = informers["pods"]
        self._claims = informers[_CLAIMS]
        self._in_namespace = self._claims.index(by_namespace)
        self._recorder = recorder

    def claims_for(self, owner: Object) -> Claims:
        """Return the claims in the namespace of a set by name; none if it has no use for them."""
        if not claim_templates(owner):
            return {}
        namespace = owner["metadata"]["namespace"]
        return {claim["metadata"]["name"]: claim for claim in self._in_namespace.get(namespace)}

    async def create(self, owner: Object, pod: Object, *, reference: Object) -> None:
        """Create the claims of a pod, then the pod.

        Raises:
            ApiError: one of them could not be created; an Event says why.
        """
        try:
            await self._create_claims(owner, pod)
            created = await self._client.create(
                "pods", owner["metadata"]["namespace"], pod, manager=MANAGER
            )
        except AlreadyExists:
            # Without an Event, as upstream: the cache may only be late.
            raise
        except ApiError as error:
            if is_namespace_terminating(error):
                return
            self._record(owner, pod, "Create", error)
            raise
        await self._pods.wait_for_version(created["metadata"]["resourceVersion"])
        await self._set_claim_owners(owner, created, reference=reference)
        self._record(owner, pod, "Create")

    async def update(self, owner: Object, pod: Object, *, reference: Object) -> None:
        """Give a pod its identity, and its claims the owners of the policy."""
        try:
            await self._create_claims(owner, pod)
            await self._set_claim_owners(owner, pod, reference=reference)
            written = await self._client.update(
                "pods", *name_of(pod), with_identity(owner, pod), manager=MANAGER
            )
        except NotFound:
            return
        except ApiError as error:
            self._record(owner, pod, "Update", error)
            raise
        await self._pods.wait_for_version(written["metadata"]["resourceVersion"])
        self._record(owner, pod, "Update")

    async def update_claims(self, owner: Object, pod: Object, *, reference: Object) -> None:
        """Create the claims that a pending pod lacks, and set the owners of all of its claims."""
        if pod.get("status", {}).get("phase") == "Pending":
            await self._create_claims(owner, pod)
        await self._set_claim_owners(owner, pod, reference=reference)

    async def delete(self, owner: Object, pod: Object) -> None:
        """Delete a pod, and return when it is gone or on its way out.

        Raises:
            ApiError: it could not be deleted; an Event says why.
        """
        try:
            await self._client.delete("pods", *name_of(pod), uid=uid_of(pod))
        except NotFound:
            pass
        except ApiError as error:
            self._record(owner, pod, "Delete", error)
            raise
        await self._pods.until(lambda: not is_staying(self._pods, pod))
        self._record(owner, pod, "Delete")

    # -- claims --------------------------------------------------------------------------------

    async def _create_claims(self, owner: Object, pod: Object) -> None:
        namespace = owner["metadata"]["namespace"]
        for claim in new_claims(owner, pod):
            name = claim["metadata"]["name"]
            present = self._claims.objects.get((namespace, name))
            if present is None:
                await self._create_claim(owner, pod, claim)
            elif is_deleted(present):
                raise ApiError(f"pvc {name} is being deleted")

    async def _create_claim(self, owner: Object, pod: Object, claim: Object) -> None:
        name, pod_name = claim["metadata"]["name"], pod["metadata"]["name"]
        set_name = owner["metadata"]["name"]
        try:
            created = await self._client.create(
                _CLAIMS, owner["metadata"]["namespace"], claim, manager=MANAGER
            )
        except AlreadyExists:
            raise
        except ApiError as error:
            if not is_namespace_terminating(error):
                text = (
                    f"Create Claim {name} for Pod {pod_name} in StatefulSet {set_name} "
                    f"failed error: {error}"
                )
                self._recorder.event(owner, "Warning", "FailedCreate", text)
                why = f"failed to create PVC {name}: {error}"
                raise ApiError(why, code=error.code, reason=error.reason) from error
            raise
        await self._claims.wait_for_version(created["metadata"]["resourceVersion"])
        text = f"Create Claim {name} Pod {pod_name} in StatefulSet {set_name} success"
        self._recorder.event(owner, "Normal", "SuccessfulCreate", text)

    async def _set_claim_owners(self, owner: Object, pod: Object, *, reference: Object) -> None:
        claims = self.claims_for(owner)
        for claim in claims_of(owner, pod, claims):
            if has_conflicting_controller(claim, owner, pod):
                text = (
                    f"PersistentVolumeClaim {claim['metadata']['name']} has a conflicting "
                    "OwnerReference that acts as a manging controller, the retention policy is "
                    "ignored for this claim"
                )
                self._recorder.event(owner, "Warning", "ConflictingController", text)
            if is_owned_by_policy(claim, owner, pod):
                continue
            owners = claim_owners(claim, owner, pod, set_reference=reference)
            changed = with_metadata(claim, ownerReferences=owners or None)
            written = await self._client.update(_CLAIMS, *name_of(claim), changed, manager=MANAGER)
            await self._claims.wait_for_version(written["metadata"]["resourceVersion"])

    # -- Events and caches ---------------------------------------------------------------------

    def _record(self, owner: Object, pod: Object, verb: str, error: ApiError | None = None) -> None:
        text = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
        if error is None:
            self._recorder.event(owner, "Normal", f"Successful{verb}", f"{text} successful")
        else:
            why = f"{text} failed error: {error}"
            self._recorder.event(owner, "Warning", f"Failed{verb}", why)
