"""What one sync of a StatefulSet does to its pods and claims; pure.

kubernetes: pkg/controller/statefulset/stateful_set_control.go, updateStatefulSet.

OrderedReady takes one step at a time: it goes through the replicas by ordinal and stops at the
first that is not as it should be; then it removes what is too many, the highest ordinal first; only
when all that is done it updates, the highest ordinal first. So an update never passes a pod that
does not become ready, and a template that is reverted does not heal it: that pod has to be deleted
by hand (kubernetes issue 67250). Parallel does not wait in the first two phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from hotmap.local.controllers.creation_pace import BURST
from hotmap.local.controllers.history import template_of
from hotmap.local.controllers.pods import is_available, is_finished, is_ready
from hotmap.local.controllers.statefulset.claims import (
    Claims,
    are_claims_stale,
    missing_claims,
    outdated_claims,
)
from hotmap.local.controllers.statefulset.identity import (
    has_identity,
    has_storage,
    ordinal_of,
    replica_range,
    revision_of,
    stateful_pod,
)
from hotmap.local.meta import Object, is_deleted

__all__ = ["StatefulSetView", "Step", "plan_steps"]


class Step(NamedTuple):
    """One write. `claims` makes a pod's claims what they should be; `update` the pod as well."""

    action: Literal["create", "update", "delete", "claims"]
    pod: Object


class StatefulSetView(NamedTuple):
    """What a sync decides on; `now` is POSIX seconds."""

    owner: Object
    pods: list[Object]
    #: The revision of replicas that the update has not reached.
    current: Object
    #: The revision of the set's template.
    update: Object
    claims: Claims
    #: The owner reference of new pods.
    reference: Object
    now: float

    @property
    def is_ordered(self) -> bool:
        return bool(self.owner["spec"].get("podManagementPolicy") != "Parallel")

    @property
    def rolling_update(self) -> Object | None:
        """The parameters of a rolling update; None with OnDelete."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return None
        return strategy.get("rollingUpdate") or {}

    def is_unavailable(self, pod: Object) -> bool:
        """Return whether a pod is on its way out, or has not been ready for long enough."""
        min_ready = self.owner["spec"].get("minReadySeconds") or 0
        return is_deleted(pod) or not is_available(pod, min_ready, now=self.now)

    def new_pod(self, ordinal: int) -> Object:
        """Build the pod of an ordinal: below the partition of the current revision."""
        rolling = self.rolling_update
        old = range(replica_range(self.owner).start)
        if rolling is not None:
            old = range(replica_range(self.owner).start + (rolling.get("partition") or 0))
        revision = self.current if ordinal in old else self.update
        return stateful_pod(
            self.owner,
            template_of(revision),
            ordinal,
            revision=revision["metadata"]["name"],
            reference=self.reference,
        )


def plan_steps(view: StatefulSetView) -> list[Step]:
    """Choose what to do now, in the order in which it is done.

    1. Each replica exists, is not a finished pod and has its identity, volumes and claims.
    2. The claims of pods beyond the replicas have the owners that the retention policy says;
       these pods go.
    3. Replicas of an old revision are deleted, for 1 to create them again.

    Ordered: a replica that is not available ends the plan, and so does the removal of a pod. No
    plan has many more than `BURST` steps.
    """
    if is_deleted(view.owner):
        return []
    wanted = replica_range(view.owner)
    present = {ordinal_of(pod): pod for pod in view.pods}
    replicas: list[Object] = []
    steps: list[Step] = []
    for ordinal in wanted:
        pod = present.get(ordinal) or view.new_pod(ordinal)
        replicas.append(pod)
        steps += _keep_replica(view, pod)
        is_much = len(steps) >= BURST
        if is_much or (view.is_ordered and _must_wait_for(view, pod)):
            return steps
    # A pod whose name has no ordinal is left alone.
    beyond = sorted((n for n in present if n >= 0 and n not in wanted), reverse=True)
    condemned = [present[ordinal] for ordinal in beyond]
    steps += [
        Step("claims", pod) for pod in condemned if outdated_claims(view.owner, pod, view.claims)
    ]
    removed = list(_remove_condemned(view, condemned))
    steps += removed
    if view.is_ordered and condemned:
        return steps
    going = {id(step.pod) for step in steps if step.action == "delete"}
    return steps + list(_update_replicas(view, replicas, going))


def _keep_replica(view: StatefulSetView, pod: Object) -> Iterator[Step]:
    if is_finished(pod):
        if not is_deleted(pod):
            yield Step("delete", pod)
    elif not _is_created(pod):
        if not are_claims_stale(view.owner, pod, view.claims):
            yield Step("create", pod)
    else:
        phase = pod.get("status", {}).get("phase")
        missing = phase == "Pending" and missing_claims(view.owner, pod, view.claims)
        outdated = outdated_claims(view.owner, pod, view.claims)
        if missing or (phase == "Pending" and outdated):
            yield Step("claims", pod)
        if view.is_ordered and _must_wait_for(view, pod):
            return
        if not (has_identity(view.owner, pod) and has_storage(view.owner, pod)) or (
            outdated and phase != "Pending"
        ):
            yield Step("update", pod)


def _must_wait_for(view: StatefulSetView, pod: Object) -> bool:
    return not _is_running_and_ready(pod) or view.is_unavailable(pod)


def _remove_condemned(view: StatefulSetView, condemned: list[Object]) -> Iterator[Step]:
    """Remove pods beyond the replicas; ordered one, and only an available one.

    Unless it is the lowest unavailable one, since nothing else would make it available.
    """
    if not view.is_ordered:
        yield from (Step("delete", pod) for pod in condemned if not is_deleted(pod))
        return
    if not condemned or is_deleted(condemned[0]):
        return
    unavailable = [pod for pod in condemned if view.is_unavailable(pod)]
    highest = condemned[0]
    if not _must_wait_for(view, highest) or unavailable[-1:] == [highest]:
        yield Step("delete", highest)


def _update_replicas(
    view: StatefulSetView, replicas: list[Object], going: set[int]
) -> Iterator[Step]:
    rolling = view.rolling_update
    if rolling is None:
        return
    candidates = replicas[rolling.get("partition") or 0 :][::-1]
    if rolling.get("maxUnavailable") is None:
        yield from _update_highest(view, candidates, going)
        return
    unavailable = sum(view.is_unavailable(pod) or id(pod) in going for pod in replicas)
    room = _max_unavailable(rolling["maxUnavailable"], len(replicas)) - unavailable
    outdated = [pod for pod in candidates if _is_outdated(view, pod) and id(pod) not in going]
    yield from (Step("delete", pod) for pod in outdated[: max(0, room)])


def _update_highest(
    view: StatefulSetView, candidates: list[Object], going: set[int]
) -> Iterator[Step]:
    """Delete the highest old replica, if all above it are available."""
    for pod in candidates:
        if id(pod) in going:
            return
        if _is_outdated(view, pod):
            yield Step("delete", pod)
            return
        if view.is_unavailable(pod):
            return


def _is_outdated(view: StatefulSetView, pod: Object) -> bool:
    return revision_of(pod) != view.update["metadata"]["name"] and not is_deleted(pod)


def _is_created(pod: Object) -> bool:
    return bool(pod["metadata"].get("uid"))


def _is_running_and_ready(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and is_ready(pod)


def _max_unavailable(value: int | str, replicas: int) -> int:
    """Read an IntOrString as pods: a share is rounded down, and at least one pod may go."""
    if isinstance(value, str):
        value = int(value.removesuffix("%")) * replicas // 100
    return max(1, value)
