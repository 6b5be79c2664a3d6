"""How many replicas each ReplicaSet of a Deployment should have next; decisions only.

Three situations, as upstream distinguishes them (kubernetes: pkg/controller/deployment/rolling.go,
recreate.go, sync.go): a rolling update, a recreate, and a change of `spec.replicas`, which never
moves a rollout on. Each answers with a list of `Scale`s, which the Deployment controller carries
out in order; an empty list means that nothing is to be done now. ReplicaSets are whole objects,
the new one is recognized by its uid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hotmap.local.meta import Object, annotations_of, created_at, name_of, uid_of

__all__ = [
    "DESIRED_REPLICAS",
    "MAX_REPLICAS",
    "Bounds",
    "Scale",
    "active",
    "available_replicas",
    "bounds_of",
    "has_scaling_pending",
    "is_recreate",
    "lasting_replicas",
    "new_replica_set_size",
    "plan_recreate",
    "plan_rolling",
    "plan_scaling",
    "replicas_annotations",
    "spec_replicas",
    "status_replicas",
    "total_replicas",
]

#: On every ReplicaSet: the Deployment's `spec.replicas` and that plus maxSurge when it was last
#: sized. A difference to the Deployment distinguishes a scaling from a rollout.
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


class Scale(NamedTuple):
    """Return one ReplicaSet this many replicas; equal to its present size, only its annotations."""

    replica_set: Object
    replicas: int


class Bounds(NamedTuple):
    """How far a Deployment may stray from its replicas while it moves."""

    replicas: int
    #: Pods above `replicas` that may exist.
    max_surge: int
    #: Pods below `replicas` that may be unavailable; never more than `replicas`.
    max_unavailable: int

    @property
    def max_pods(self) -> int:
        return self.replicas + self.max_surge

    @property
    def min_available(self) -> int:
        return self.replicas - self.max_unavailable


def bounds_of(deployment: Object) -> Bounds:
    """Compute what a Deployment's strategy allows, in pods.

    Percentages are of `spec.replicas`: maxSurge is rounded up, maxUnavailable down. When both
    come to 0, one may be unavailable, else the rollout could not progress (kubernetes:
    deployment_util.go, ResolveFenceposts). A Recreate strategy has no bounds to speak of: 0, 0.
    """
    spec = deployment["spec"]
    replicas = spec_replicas(deployment)
    if is_recreate(deployment):
        return Bounds(replicas, 0, 0)
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = math.ceil(_pods(rolling.get("maxSurge"), replicas))
    unavailable = math.floor(_pods(rolling.get("maxUnavailable"), replicas))
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def is_recreate(deployment: Object) -> bool:
    """Return whether old pods have to be gone before new ones come."""
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type") == "Recreate")


def spec_replicas(obj: Object) -> int:
    """Return the desired size of a Deployment or ReplicaSet; one if it is not set."""
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def status_replicas(replica_set: Object) -> int:
    return int(replica_set.get("status", {}).get("replicas") or 0)


def available_replicas(replica_set: Object) -> int:
    return int(replica_set.get("status", {}).get("availableReplicas") or 0)


def lasting_replicas(replica_set: Object) -> int:
    """Return how many available pods stay once the ReplicaSet has its wished size.

    A ReplicaSet that was just scaled down still reports the pods that are about to go; counting
    those as available would spend them twice. Ours: upstream counts what is reported.
    """
    return min(available_replicas(replica_set), spec_replicas(replica_set))


def total_replicas(replica_sets: Iterable[Object]) -> int:
    return sum(spec_replicas(rs) for rs in replica_sets)


def active(replica_sets: Iterable[Object]) -> list[Object]:
    """Return the ReplicaSets that are to have pods, in their order."""
    return [rs for rs in replica_sets if spec_replicas(rs) > 0]


def replicas_annotations(bounds: Bounds) -> dict[str, str]:
    """Return the annotations of a ReplicaSet about its Deployment's size."""
    return {DESIRED_REPLICAS: str(bounds.replicas), MAX_REPLICAS: str(bounds.max_pods)}


def has_scaling_pending(replica_sets: Iterable[Object], replicas: int) -> bool:
    """Return whether `spec.replicas` moved since an active ReplicaSet was sized."""
    return any(
        _replicas_annotation(rs, DESIRED_REPLICAS) not in (None, replicas)
        for rs in active(replica_sets)
    )


def new_replica_set_size(bounds: Bounds, replica_sets: Sequence[Object], present: int) -> int:
    """Grow the new ReplicaSet as far as the surge allows, never past `replicas`.

    *replica_sets* are all of them, *present* is the new one's size among them. What is too much
    already is left as it is; scaling down is another step (kubernetes: NewRSNewReplicas).
    """
    room = bounds.max_pods - total_replicas(replica_sets)
    return present + max(0, min(room, bounds.replicas - present))


def plan_rolling(bounds: Bounds, new: Object, old: Sequence[Object]) -> list[Scale]:
    """Choose the next step of a rolling update: one direction per step.

    1. The new ReplicaSet is brought towards `replicas`, if the surge has room.
    2. Otherwise old ones are scaled down, by what is above the minimum and is not needed to make
       up for new pods that are not available yet: first their unhealthy pods, oldest ReplicaSet
       first, since those add nothing; then as many available ones as can be spared.
    """
    present = spec_replicas(new)
    wanted = (
        bounds.replicas
        if present > bounds.replicas
        else new_replica_set_size(bounds, [*old, new], present)
    )
    if wanted != present:
        return [Scale(new, wanted)]
    return _scale_down_old(bounds, new, _oldest_first(active(old)))


def plan_recreate(bounds: Bounds, new: Object | None, old: Sequence[Object]) -> list[Scale]:
    """Scale all old ReplicaSets to nothing, or else the new one to its full size.

    The caller checks whether old pods are still running between the two, since it lists pods.
    """
    if going := [Scale(rs, 0) for rs in active(old)]:
        return going
    if new is not None and spec_replicas(new) != bounds.replicas:
        return [Scale(new, bounds.replicas)]
    return []


def plan_scaling(
    bounds: Bounds,
    new: Object | None,
    old: Sequence[Object],
    *,
    rolling: bool,
    status_total: int,
) -> list[Scale]:
    """Follow a change of `spec.replicas` without moving a rollout on.

    * One active ReplicaSet (or none, then the newest) takes the whole size. Its notes are
      renewed even where the size agrees already, or the scaling would appear pending without end
      after someone sized the ReplicaSet by hand (upstream leaves it in that state).
    * A new ReplicaSet that is saturated: the old ones are scaled to zero.
    * Several while *rolling*: each by its share of what is to be added or removed, the largest
      takes what rounding leaves over, so that a bad rollout is not scaled up beyond its share.

    *status_total* is the Deployment's `status.replicas`, the base of shares for a ReplicaSet
    that carries no note of its own (kubernetes: sync.go, scale; GetReplicaSetProportion).
    """
    replica_sets = [*old, *([new] if new is not None else [])]
    only = _active_or_latest(new, old)
    if only is not None:
        return [Scale(only, bounds.replicas)]
    if new is not None and _is_saturated(new, bounds.replicas):
        return [Scale(rs, 0) for rs in active(old)]
    if rolling:
        return _proportional(bounds, active(replica_sets), status_total)
    return []


def _pods(value: int | str | None, replicas: int) -> float:
    """Read an IntOrString as pods, not yet rounded; absent is 0."""
    if isinstance(value, str):
        return int(value.removesuffix("%")) * replicas / 100
    return value or 0


def _replicas_annotation(replica_set: Object, annotation: str) -> int | None:
    text = annotations_of(replica_set).get(annotation, "")
    return int(text) if text.isdecimal() else None


def _oldest_first(replica_sets: Iterable[Object]) -> list[Object]:
    return sorted(replica_sets, key=lambda rs: (created_at(rs), name_of(rs)))


def _scale_down_old(bounds: Bounds, new: Object, old: Sequence[Object]) -> list[Scale]:
    new_unavailable = spec_replicas(new) - lasting_replicas(new)
    spare = total_replicas([*old, new]) - bounds.min_available - new_unavailable
    if spare <= 0:
        return []
    sizes = {uid_of(rs): spec_replicas(rs) for rs in old}
    for rs in old:
        unhealthy = min(spec_replicas(rs) - lasting_replicas(rs), spare)
        sizes[uid_of(rs)] -= unhealthy
        spare -= unhealthy
    spare_available = sum(map(lasting_replicas, [*old, new])) - bounds.min_available
    for rs in old:
        healthy = min(sizes[uid_of(rs)], max(0, spare_available))
        sizes[uid_of(rs)] -= healthy
        spare_available -= healthy
    return [Scale(rs, sizes[uid_of(rs)]) for rs in old if sizes[uid_of(rs)] != spec_replicas(rs)]


def _active_or_latest(new: Object | None, old: Sequence[Object]) -> Object | None:
    candidates = [*old, *([new] if new is not None else [])]
    running = active(candidates)
    if len(running) > 1:
        return None
    if running:
        return running[0]
    if new is not None:
        return new
    return _oldest_first(old)[-1] if old else None


def _is_saturated(new: Object, replicas: int) -> bool:
    return (
        _replicas_annotation(new, DESIRED_REPLICAS) == replicas
        and spec_replicas(new) == replicas
        and available_replicas(new) == replicas
    )


def _proportional(bounds: Bounds, running: Sequence[Object], status_total: int) -> list[Scale]:
    allowed = bounds.max_pods if bounds.replicas > 0 else 0
    to_add = allowed - total_replicas(running)
    # Largest first; among equals the newer one grows first and the older one shrinks first.
    ordered = _oldest_first(running)
    if to_add > 0:
        ordered.reverse()
    ordered.sort(key=spec_replicas, reverse=True)
    sizes, left = [], to_add
    for rs in ordered:
        share = _share(bounds, rs, status_total)
        step = min(share, left) if to_add > 0 else max(share, left)
        step = step if left else 0
        sizes.append(spec_replicas(rs) + step)
        left -= step
    if sizes:
        sizes[0] = max(0, sizes[0] + left)
    return [Scale(rs, size) for rs, size in zip(ordered, sizes, strict=True)]


def _share(bounds: Bounds, replica_set: Object, status_total: int) -> int:
    """How many pods one ReplicaSet gains (or, negative, loses) when the whole is resized."""
    size = spec_replicas(replica_set)
    if bounds.replicas == 0:
        return -size
    before = _replicas_annotation(replica_set, MAX_REPLICAS) or status_total
    if not before:
        return 0
    return math.floor(size * bounds.max_pods / before + 0.5) - size
