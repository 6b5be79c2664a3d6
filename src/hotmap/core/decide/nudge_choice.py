"""Which pods of a consumer are nudged, with what, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.decide.pod_starts import earliest_mount
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.objects import Pod
from hotmap.core.patch.nudge import is_before, nudge_time, read_target
from hotmap.core.target import Target

__all__ = ["choose_new", "spread_over_nodes", "was_just_nudged", "with_content_before"]

#: Seconds for which the second nudge of a leader before may be missing.
_RECENT = 10.0


def choose_new(
    pods: Sequence[Pod], snapshot: Snapshot, target: Target, *, is_first: bool
) -> set[str]:
    """Choose the pods, by uid, that need a nudge they have not had.

    In the first round of a term, also those that a leader before has told of the same content
    before its last change: kubelets may have had other content since.
    """
    recorded, returned_at = snapshot.recorded_target, snapshot.returned_at
    chosen = {
        pod.metadata.uid
        for pod in pods
        if _holds_other(pod, target, recorded) or _may_lag(pod, returned_at)
    }
    if is_first:
        changed = snapshot.files_changed_at
        chosen |= {pod.metadata.uid for pod in pods if is_before(nudge_time(pod), changed)}
    return chosen


def _holds_other(pod: Pod, target: Target, recorded: Target | None) -> bool:
    told = read_target(pod) or recorded
    return told is None or not told.names_same_content(target)


def _may_lag(pod: Pod, returned_at: float) -> bool:
    """Return whether a kubelet may have other content in a pod that was there until a time.

    It keeps that until it syncs the pod, whatever the pod was told before.
    """
    at = nudge_time(pod)
    if at is not None:
        return is_before(at, returned_at)
    mounted = earliest_mount(pod)
    return mounted is None or mounted < returned_at + MARGIN


def was_just_nudged(pod: Pod, now: float) -> bool:
    """Return whether a pod was nudged so recently that its second nudge may be missing."""
    at = nudge_time(pod)
    return at is not None and now - at < _RECENT


def with_content_before(target: Target, told: Target | None, before: Target | None) -> Target:
    """Add to the first nudge of a pod, and to all after it, what the pod started with.

    Its agent may be away during the first, or its kubelet may show it only a later one.
    """
    if told is None and before is not None:
        return target._replace(live_before=before.live, frozen_before=before.frozen)
    if told is not None:
        return target._replace(live_before=told.live_before, frozen_before=told.frozen_before)
    return target


def spread_over_nodes(pods: Sequence[Pod]) -> list[Pod]:
    """Order pods so that neighbours in the list run on different nodes."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    spread: list[Pod] = []
    rows = list(by_node.values())
    while rows:
        spread += [row.pop() for row in rows]
        rows = [row for row in rows if row]
    return spread
