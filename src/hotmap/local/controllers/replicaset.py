"""Keeps the desired number of pods of a ReplicaSet, and updates its status.

kubernetes: pkg/controller/replicaset. The caches have seen the controller's own writes before a
sync ends, so none is decided twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from hotmap.core.errors import ApiError
from hotmap.local.controllers.conditions import find_condition, set_condition, without_condition
from hotmap.local.controllers.controller import ControllerContext, OwnerController
from hotmap.local.controllers.creation_pace import BURST, CreationPace
from hotmap.local.controllers.ownership import by_controller
from hotmap.local.controllers.pod_control import PodControl, pod_from_template
from hotmap.local.controllers.pods import (
    choose_victims,
    is_active,
    is_available,
    is_finished,
    is_ready,
    seconds_to_availability,
)
from hotmap.local.controllers.rolling import spec_replicas
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    controller_of,
    is_deleted,
    labels_of,
    name_of,
    timestamp,
    uid_of,
)

__all__ = ["ReplicaSetController", "replica_set_status"]


class ReplicaSetController(OwnerController):
    """Reconcile ReplicaSets, or ReplicationControllers, with their pods."""

    def __init__(
        self, context: ControllerContext, *, name: str = "replicaset", owners: str = "replicasets"
    ) -> None:
        super().__init__(context, name, owners=owners, dependents="pods")
        self._resource = owners
        self._siblings = self._owners.index(by_controller)
        self._pod_control = PodControl(self._client, self._dependents, self._recorder)
        self._pace = CreationPace()

    async def sync(self, key: ObjectName) -> None:
        """Bring one ReplicaSet's pods and status up to date.

        1. Adopt and release pods.
        2. Create or delete pods, unless the ReplicaSet is being deleted.
        3. Report the status, also why 2 failed.
        4. Sync again when a pod will have been ready for minReadySeconds.
        """
        replica_set = self._owners.objects.get(key)
        if replica_set is None:
            return
        await self._ownership.claim(replica_set)
        failure: ApiError | None = None
        if not is_deleted(replica_set):
            try:
                await self._manage(replica_set, self._active_pods(replica_set))
            except ApiError as error:
                failure = error
        await self._report(replica_set, failure)
        if failure is not None:
            raise failure

    # -- events and caches -----------------------------------------------------------------------

    def _active_pods(self, replica_set: Object) -> list[Object]:
        return [pod for pod in self._ownership.owned_by(replica_set) if is_active(pod)]

    # -- the number of pods --------------------------------------------------------------------

    async def _manage(self, replica_set: Object, pods: Sequence[Object]) -> None:
        missing = spec_replicas(replica_set) - len(pods)
        if missing > 0:
            reference = self._ownership.reference(replica_set)
            pod = pod_from_template(replica_set, replica_set["spec"]["template"], reference)
            count = self._pace.take(uid_of(replica_set), missing)
            if count < missing:
                self._loop.add_after(name_of(replica_set), self._pace.pause(uid_of(replica_set)))
            await self._pod_control.create(replica_set, repeat(pod, count))
        elif missing < 0:
            related = self._related_pods(replica_set)
            count = min(-missing, BURST)
            victims = choose_victims(pods, related, count, now=self._clock())
            await self._pod_control.delete(replica_set, victims)

    def _related_pods(self, replica_set: Object) -> list[Object]:
        """Return the pods of all ReplicaSets of the same owner, this one's included."""
        owner = controller_of(replica_set)
        siblings = self._siblings.get(owner["uid"]) if owner is not None else [replica_set]
        return [pod for sibling in siblings for pod in self._ownership.owned_by(sibling)]

    # -- the status ----------------------------------------------------------------------------

    async def _report(self, replica_set: Object, failure: ApiError | None) -> None:
        now = self._clock()
        pods = self._ownership.owned_by(replica_set)
        status = replica_set_status(replica_set, pods, failure, now=now)
        written = replica_set
        if status != replica_set.get("status"):
            # Only the status is written, from the spec that this sync saw: observedGeneration
            # says which. So no resourceVersion, and no conflict with a scaling.
            written = await self._client.modify(
                self._resource,
                *name_of(replica_set),
                lambda obj: {**obj, "status": status} if _same_object(obj, replica_set) else None,
                subresource="status",
                manager=MANAGER,
            )
            await self._owners.wait_for_version(written["metadata"]["resourceVersion"])
        self._recheck_availability(replica_set, pods, now)

    def _recheck_availability(
        self, replica_set: Object, pods: Sequence[Object], now: float
    ) -> None:
        min_ready = replica_set["spec"].get("minReadySeconds") or 0
        wait = seconds_to_availability(pods, min_ready, now=now)
        if wait is not None:
            self._loop.add_after(name_of(replica_set), wait)


def replica_set_status(
    replica_set: Object, pods: Sequence[Object], failure: ApiError | None, *, now: float
) -> Object:
    """Count a ReplicaSet's pods, and show why it cannot have the number it wants.

    kubernetes: replica_set_utils.go, calculateStatus. Zero counts are left out as by Go's
    omitempty, but for `replicas`, and terminatingReplicas (1.35, a pointer).
    """
    active = [pod for pod in pods if is_active(pod)]
    labels = replica_set["spec"]["template"].get("metadata", {}).get("labels") or {}
    min_ready = replica_set["spec"].get("minReadySeconds") or 0
    terminating = [pod for pod in pods if is_deleted(pod) and not is_finished(pod)]
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready, now=now) for pod in active),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    status: dict[str, Any] = {"replicas": len(active)}
    if replica_set.get("kind") != "ReplicationController":
        status["terminatingReplicas"] = len(terminating)
    status |= {field: count for field, count in counts.items() if count}
    conditions = _with_failure(replica_set, len(active), failure, now=now)
    if conditions:
        status["conditions"] = conditions
    return status


def _with_failure(
    replica_set: Object, have: int, failure: ApiError | None, *, now: float
) -> list[Object]:
    conditions = replica_set.get("status", {}).get("conditions") or []
    if failure is None:
        return without_condition(conditions, "ReplicaFailure")
    if find_condition(conditions, "ReplicaFailure") is not None:
        return list(conditions)
    wants_more = spec_replicas(replica_set) > have
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": timestamp(now),
        "reason": "FailedCreate" if wants_more else "FailedDelete",
        "message": str(failure),
    }
    return set_condition(list(conditions), condition)


def _same_object(obj: Object, seen: Object) -> bool:
    return uid_of(obj) == uid_of(seen)
