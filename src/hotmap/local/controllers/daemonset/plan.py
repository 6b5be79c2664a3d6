"""Which pods of a DaemonSet are created and deleted; pure.

kubernetes: pkg/controller/daemon: daemon_controller.go, podsShouldBeOnNode; update.go,
rollingUpdate. First each node gets the pod that it lacks and loses those that it should not have;
then, with RollingUpdate, old pods are replaced: deleted, for the first part to create them again,
or with maxSurge after a new pod beside them is available.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hotmap.local.controllers.daemonset.nodes import Placement, place
from hotmap.local.controllers.daemonset.pods import is_updated, target_node
from hotmap.local.controllers.history import REVISION_LABEL
from hotmap.local.controllers.pods import is_available, is_finished, is_ready
from hotmap.local.meta import Object, created_at, is_deleted, labels_of, name_of

__all__ = ["DaemonSetView", "PodPlan", "UpdateBounds", "plan_pods", "plan_update", "update_bounds"]


class DaemonSetView(NamedTuple):
    """What a sync decides on; `now` is POSIX seconds."""

    owner: Object
    #: All nodes by name.
    nodes: Mapping[str, Object]
    pods: list[Object]
    #: The hash of the latest revision, which its pods carry.
    revision_hash: str
    now: float

    def placements(self) -> dict[str, Placement]:
        """Return by name what each node has to do with the set."""
        return {name: place(self.owner, node) for name, node in sorted(self.nodes.items())}

    def pods_by_node(self) -> dict[str, list[Object]]:
        """Return the pods by the name of their node, first the scheduled ones, then by age.

        Finished pods that are on their way out are left out, and so are those of no node.
        """
        found: dict[str, list[Object]] = {}
        for pod in sorted(self.pods, key=_seniority):
            node = target_node(pod)
            if node is not None and not (is_finished(pod) and is_deleted(pod)):
                found.setdefault(node, []).append(pod)
        return found

    def is_updated(self, pod: Object) -> bool:
        return is_updated(self.owner, pod, self.revision_hash)

    def is_available(self, pod: Object) -> bool:
        min_ready = self.owner["spec"].get("minReadySeconds") or 0
        return is_available(pod, min_ready, now=self.now)


class PodPlan(NamedTuple):
    """Names of nodes that get a pod, and pods that go."""

    create: list[str]
    delete: list[Object]
    #: Pods that ended by themselves; they go as well, failed ones not too often.
    failed: list[Object]
    succeeded: list[Object]

    def extend(self, other: PodPlan) -> None:
        """Add the steps of another plan."""
        self.create.extend(other.create)
        self.delete.extend(other.delete)
        self.failed.extend(other.failed)
        self.succeeded.extend(other.succeeded)


class UpdateBounds(NamedTuple):
    """How many pods an update may have beyond, and how many unavailable."""

    surge: int
    unavailable: int


def update_bounds(owner: Object, wanted: int) -> UpdateBounds:
    """Return the bounds of a rolling update over *wanted* nodes; shares are rounded up."""
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return UpdateBounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = _scaled(rolling.get("maxSurge"), wanted)
    unavailable = _scaled(rolling.get("maxUnavailable"), wanted)
    if wanted and not surge and not unavailable:
        unavailable = 1
    return UpdateBounds(surge, unavailable)


def plan_pods(view: DaemonSetView) -> PodPlan:
    """Choose where pods are missing and which are too many, without an update."""
    plan = PodPlan([], [], [], [])
    pods = view.pods_by_node()
    for name, placement in view.placements().items():
        present = pods.get(name, [])
        if placement == "run" and not present:
            plan.create.append(name)
        elif placement == "none":
            plan.delete.extend(pod for pod in present if not is_deleted(pod))
        else:
            plan.extend(_keep_node(view, name, placement, present))
    for name, present in pods.items():
        if name not in view.nodes:
            # Nothing will ever schedule or remove these.
            plan.delete.extend(pod for pod in present if not pod["spec"].get("nodeName"))
    return plan


def plan_update(view: DaemonSetView) -> PodPlan:
    """Choose the next step of a rolling update."""
    pods, placements = view.pods_by_node(), view.placements()
    wanted = [name for name, placement in placements.items() if placement == "run"]
    bounds = update_bounds(view.owner, len(wanted))
    for name in wanted:
        pods.setdefault(name, [])
    if bounds.surge == 0:
        return _replace(view, pods, bounds.unavailable)
    return _surge(view, pods, placements, bounds.surge)


def _keep_node(
    view: DaemonSetView, name: str, placement: Placement, present: list[Object]
) -> PodPlan:
    """Remove from a node what has ended and what is too many."""
    plan = PodPlan([], [], [], [])
    running: list[Object] = []
    for pod in present:
        if is_deleted(pod):
            continue
        phase = pod.get("status", {}).get("phase")
        if phase == "Failed":
            plan.failed.append(pod)
        elif phase == "Succeeded":
            plan.succeeded.append(pod)
        else:
            running.append(pod)
    if update_bounds(view.owner, 1).surge == 0:
        plan.delete.extend(running[1:])
    elif not running and placement == "run":
        plan.create.append(name)
    elif len(running) > 1:
        plan.delete.extend(_choose_surplus(view, running))
    return plan


def _choose_surplus(view: DaemonSetView, running: list[Object]) -> list[Object]:
    """Keep the oldest new pod and, until that is available, the oldest old one if it is ready."""
    new = [pod for pod in running if _has_hash(view, pod)]
    old = [pod for pod in running if not _has_hash(view, pod)]
    surplus = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or view.is_available(new[0])):
        surplus.append(old[0])
    return surplus


def _replace(
    view: DaemonSetView, pods: Mapping[str, list[Object]], max_unavailable: int
) -> PodPlan:
    """Delete old pods: all that are unavailable, and available ones as far as the bound allows."""
    unavailable, going, candidates = 0, [], []
    for present in pods.values():
        pair = _find_pair(view, present)
        if pair is None or (pair.new is None) == (pair.old is None):
            # Something is missing or too many here; that comes first.
            unavailable += 1
        elif pair.old is None:
            assert pair.new is not None
            unavailable += not view.is_available(pair.new)
        elif not view.is_available(pair.old):
            going.append(pair.old)
            unavailable += 1
        elif unavailable < max_unavailable:
            candidates.append(pair.old)
    room = max(0, max_unavailable - unavailable)
    return PodPlan([], [*going, *candidates[:room]], [], [])


def _surge(
    view: DaemonSetView,
    pods: Mapping[str, list[Object]],
    placements: Mapping[str, Placement],
    max_surge: int,
) -> PodPlan:
    """Create new pods beside old ones as far as the bound allows, and delete what they replace."""
    going: list[Object] = []
    misplaced: list[Object] = []
    unavailable: list[str] = []
    candidates: list[str] = []
    surging = available = 0
    for name, present in pods.items():
        pair = _find_pair(view, present)
        if pair is None:
            surging += 1
            continue
        senior = pair.old or pair.new
        available += senior is not None and view.is_available(senior)
        if pair.old is None:
            continue
        is_available = view.is_available(pair.old)
        if pair.new is not None:
            if view.is_available(pair.new):
                going.append(pair.old)
            else:
                surging += 1
        elif placements.get(name) != "run":
            (misplaced if is_available else going).append(pair.old)
        elif not is_available:
            unavailable.append(name)
        elif surging < max_surge:
            candidates.append(name)
    wanted = sum(placement == "run" for placement in placements.values())
    # A pod whose node is no longer wanted goes when others make up for it.
    going.extend(misplaced[: max(0, available - wanted)])
    room = max(0, max_surge - surging)
    return PodPlan([*unavailable, *candidates[:room]], going, [], [])


class _Pair(NamedTuple):
    new: Object | None
    old: Object | None


def _find_pair(view: DaemonSetView, present: list[Object]) -> _Pair | None:
    """Return the new and the old pod of a node; None if there are several of either."""
    staying = [pod for pod in present if not is_deleted(pod)]
    new = [pod for pod in staying if view.is_updated(pod)]
    old = [pod for pod in staying if not view.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return _Pair(new[0] if new else None, old[0] if old else None)


def _has_hash(view: DaemonSetView, pod: Object) -> bool:
    return labels_of(pod).get(REVISION_LABEL) == view.revision_hash


def _seniority(pod: Object) -> tuple[Any, ...]:
    return not pod["spec"].get("nodeName"), created_at(pod), name_of(pod)


def _scaled(value: int | str | None, total: int) -> int:
    """Read an IntOrString as pods; a share is rounded up."""
    if isinstance(value, str):
        return -(-int(value.removesuffix("%")) * total // 100)
    return value or 0
