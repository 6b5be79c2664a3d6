"""What the agents of a pod were told to load, and by when its files have been updated."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import NamedTuple

from hotmap.core.decide.evidence import latest_time
from hotmap.core.model.objects import ObjectKey
from hotmap.core.patch.nudge import needs_repetition
from hotmap.core.status.desired import DesiredContent
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.stage import stage_by_time
from hotmap.core.target import Target

__all__ = ["AgentAnnouncement", "agent_announcement", "delivered_by_nudge"]

#: Seconds after a nudge in which a kubelet has updated the files; times are whole seconds.
_NUDGE_SYNC = 3.0


class AgentAnnouncement(NamedTuple):
    """The data that the answer of an agent is compared with."""

    #: The desired target, with the payload digests that the agents of this pod have to find: one
    #: for each directory. And the target of the pod's annotation.
    desired: Target
    nudged: Target | None
    #: The last changes of the sources that payload digests do not cover, one for each directory:
    #: POSIX seconds of the API server, None if unknown.
    order_changes: tuple[float | None, ...]
    #: POSIX seconds of the API server.
    now: float
    #: The number of directories that agents watch at least; 0: unknown.
    directories: int = 0
    #: By when its kubelet has updated the files, since it was nudged with this content: POSIX
    #: seconds of the API server.
    delivered_at: float = inf


def agent_announcement(desired: DesiredContent, pod: ObservedPod, now: float) -> AgentAnnouncement:
    """Return what the report of a pod's agents is compared with."""
    coverage, delivered = pod.coverage, delivered_by_nudge(desired, pod)
    if coverage is None:
        changes = (desired.order_changed,)
        return AgentAnnouncement(desired.target, pod.nudged, changes, now, delivered_at=delivered)
    digests = dict(desired.volume_digests)
    payloads = tuple(digests[each.name] for each in coverage.watched if each.name in digests)
    return AgentAnnouncement(
        desired.target._replace(payloads=payloads),
        pod.nudged,
        tuple(
            _changed_since_mounted(desired, each.sources, pod.mounted_at)
            for each in coverage.watched
            if each.name not in digests
        ),
        now,
        coverage.directories,
        delivered,
    )


def delivered_by_nudge(desired: DesiredContent, pod: ObservedPod) -> float:
    """Return by when a nudge with the desired content has updated the files, POSIX seconds."""
    if pod.nudged is None or pod.nudged.live != desired.target.live or pod.nudged_at is None:
        return inf
    is_early = needs_repetition(pod.nudged_at, desired.files_changed)
    return inf if is_early else pod.nudged_at + _NUDGE_SYNC


def _changed_since_mounted(
    desired: DesiredContent, sources: Collection[ObjectKey], mounted: float | None
) -> float | None:
    """Return when files of some sources last changed; -inf: they were mounted after that.

    Each source counts by itself: one that was created just before the pod is in its files, also
    after an edit of another one.
    """

    def is_mounted(source: ObjectKey, changed: float | None) -> bool:
        edited = source in desired.live_edited
        return mounted is not None and stage_by_time(mounted, changed, edited=edited).reached

    return latest_time(
        at for key, at in desired.live_changes if key in sources and not is_mounted(key, at)
    )
