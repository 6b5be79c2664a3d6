"""When the pods of a consumer started, and what that proves.

A container that started after a change read the new content. Times are whole seconds (a
container's `startedAt`, managedFields) on two clocks, and the kubelet's own watch may lag, so
only a start at least MARGIN after the change is proof. Newest ReplicaSets and
ControllerRevisions prove nothing: an undo, OnDelete and partitions all keep old pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hotmap.core.consumer import REVISION, Consumer
from hotmap.core.objects import ContainerStatus, Pod
from hotmap.core.references import Life
from hotmap.core.source import parse_time
from hotmap.core.state import Window

__all__ = ["MARGIN", "PodStart", "pod_starts", "proven_younger", "started_within"]

#: Seconds: one for each truncated clock. Precedent: pods started and edited in the same second
#: were seen to hold the old value.
MARGIN = 2.0

_FINISHED = ("Succeeded", "Failed")


class PodStart(NamedTuple):
    """When one pod read its configuration."""

    name: str
    #: POSIX seconds of the node's clock; None while it has not started.
    at: float | None
    #: The revision its template carried.
    revision: str
    #: When each of its containers that use a source was last started.
    containers: tuple[float, ...] = ()


def pod_starts(consumer: Consumer, pods: Iterable[Pod]) -> tuple[PodStart, ...]:
    """Reduce a consumer's pods to their starts; terminating and finished ones do not count.

    The start is the earliest `startedAt` among the containers that use a source, so that one
    restarted container does not vouch for its neighbours; with a use in an init container it is
    the pod's start, since those do not run again.
    """
    uses = [use for use in consumer.uses if use.life in (Life.FROZEN, Life.LIVE)]
    init = any(use.init for use in uses)
    users = {use.container for use in uses}
    starts = []
    for pod in pods:
        if pod.metadata.deletion_timestamp or pod.status.phase in _FINISHED:
            continue
        times = _container_starts(pod, users)
        at = parse_time(pod.status.start_time) if init else min(times, default=None)
        revision = (pod.metadata.annotations or {}).get(REVISION, "")
        starts.append(PodStart(pod.metadata.name, at, revision, times))
    return tuple(starts)


def _container_starts(pod: Pod, users: set[str]) -> tuple[float, ...]:
    statuses: list[ContainerStatus] = [
        *(pod.status.init_container_statuses or ()),
        *(pod.status.container_statuses or ()),
    ]
    return tuple(
        at
        for status in statuses
        if (status.name in users or not users) and status.state and status.state.running
        if (at := parse_time(status.state.running.started_at)) is not None
    )


def proven_younger(starts: Sequence[PodStart], changed_at: float | None) -> bool:
    """Tell whether every pod certainly started after a change; no pods are proof.

    A pod that has not started yet will read what is there when it does, so it does not stand
    against the proof. An unknown time of change counts as just now.
    """
    running = [start.at for start in starts if start.at is not None]
    if not running:
        return True
    return changed_at is not None and all(at >= changed_at + MARGIN for at in running)


def started_within(starts: Sequence[PodStart], windows: Iterable[Window]) -> tuple[str, ...]:
    """Name the pods of which something started inside a window, widened by MARGIN on both sides.

    Each container counts by itself: one that crashed read its environment anew, whatever its
    neighbours hold.
    """
    spans = [(window.start - MARGIN, window.end + MARGIN) for window in windows]
    return tuple(
        start.name
        for start in starts
        if any(
            low <= at <= high
            for at in (start.at, *start.containers)
            if at is not None
            for low, high in spans
        )
    )
