"""What is known of one pod beside the desired content, and what its times prove."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor, inf

from hotmap.core.decide.evidence import any_started_before
from hotmap.core.decide.own_rollouts import was_rolled_out_after
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.agent_announcement import agent_announcement
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.desired import DesiredContent, StartChange, without_times
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.stage import Confidence, Stage, stage_by_time, weakest

__all__ = ["KUBELET_SYNC", "MADE_AFTER", "WAITED", "PodFacts"]

#: Seconds after which every kubelet has synced its pods by itself: 60 to 90, one of its ticker's,
#: and two tenths of its loops (kubernetes: pkg/kubelet, syncFrequency and its jitter).
KUBELET_SYNC = 92.0

#: For example the removal of a data key. Compares the resourceVersions of a source and a pod, which
#: are revisions of one etcd. This is ours: Kubernetes orders only the versions of one kind
#: (KEP-5504), so it may cast doubt but never prove anything.
_UNDATED = "a source was written after this pod, and its metadata does not show when"

#: What shows that a pod was made after the last change, where times are too close.
MADE_AFTER = Stage(Confidence.PROVEN, "created by a template change after the last change")
WAITED = Stage(Confidence.PROBABLE, "its containers waited for what was created last")
_ROLLED_OUT = Stage(Confidence.INFERRED, "created by a rollout after the last change")


class PodFacts:
    """One pod, the desired content, and what its times and its creation prove.

    `now` is POSIX seconds of the API server. `agent` is the report of the pod's agent; None: no
    agent reloads the application.
    """

    def __init__(
        self,
        desired: DesiredContent,
        pod: ObservedPod,
        changes_of: Callable[[frozenset[ObjectKey]], tuple[StartChange, ...]],
        *,
        now: float,
        template_current: bool,
        agent: AgentReport | None,
    ) -> None:
        self.pod, self.now, self.agent = pod, now, agent
        #: An immutable source in place of which its kubelet may serve an earlier one.
        self.replaced = desired.pinned or _find_replaced(desired, pod)
        self.desired = desired if self.replaced is None else without_times(desired)
        #: Whether all pods are of a template that was written for the desired content.
        self.template_current = template_current
        #: Whether a source was written after the pod, and nothing shows when.
        self._is_older = 0 < pod.start.version < desired.adopted_version
        self.announcement = agent_announcement(self.desired, pod, now)
        self._changes_of = changes_of

    def changes_of(self, read: frozenset[ObjectKey]) -> Iterable[StartChange]:
        """List the last changes of what a container has read at its start from some sources."""
        changes = self._changes_of(read)
        return changes if self.replaced is None else map(StartChange.without_times, changes)

    def is_undated(self, at: float) -> bool:
        """Return whether a source was written after the pod had something, and nothing shows when.

        Any write of the pod gives it a newer version, and the record keeps what it showed before.
        """
        return self._is_older or at <= self.desired.older_starts_until

    def known_by_time(
        self, at: float, changed: float | None, *, edited: bool | None = None
    ) -> Stage:
        """Compare times; a time that the removal of a data key does not update proves nothing."""
        edited = self.desired.edited if edited is None else edited
        stage = stage_by_time(at, changed, edited=edited)
        if changed is None and self.replaced is not None:
            return self.kept_by_kubelet()
        if self.desired.estimated and stage.reached and changed != -inf:
            if self.is_undated(at):
                return Stage(Confidence.UNKNOWN, _UNDATED)
            return Stage(Confidence.INFERRED, f"{stage.reason} that its metadata shows")
        return stage

    def kept_by_kubelet(self) -> Stage:
        """Say that its kubelet may go on to serve an earlier source of the same name."""
        why = f"older than {self.replaced}, which is immutable and may have been recreated"
        if self.desired.pinned is not None:
            why = f"its kubelet may serve {self.replaced} as it was before it was deleted"
        return Stage(Confidence.UNKNOWN, why)

    def was_made_after_changes(self) -> bool:
        """Return whether the pod was made by a change of its template after all other changes."""
        since = self.desired.proven_since
        return bool(since) and self.pod.start.created >= floor(since)

    def made_with_files(self) -> Stage | None:
        """Judge the files of a pod that was made after their last change; None: nothing shows it.

        Its kubelet has written them then, and its process started with them.
        """
        desired = self.desired
        if desired.files_changed is None or desired.pinned is not None:
            return None
        if self.was_made_after_changes():
            return MADE_AFTER
        is_ours = was_rolled_out_after(
            self.pod.start,
            desired.files_changed_until,
            desired.rolled_revision,
            rolled_at=desired.rolled_at,
        )
        return _ROLLED_OUT if is_ours else self.waited_for_files()

    def waited_for_files(self) -> Stage | None:
        """Judge files whose source was created after the pod; None: it has not waited for them.

        The other files are as old as its volumes.
        """
        desired, start, mounted = self.desired, self.pod.start, self.pod.mounted_at
        if desired.files_awaited == -inf or start.restarted or mounted is None:
            return None
        if any_started_before((start,), desired.files_awaited):
            return None
        others = self.known_by_time(mounted, desired.files_not_awaited)
        return weakest((others, WAITED)) if others.reached else None


def _find_replaced(desired: DesiredContent, pod: ObservedPod) -> ObjectKey | None:
    """Return an immutable source that is younger than a pod, unless the pod waited for it."""
    start = pod.start
    if pod.mounted_at is None or start.at is None:
        return None
    for source, created in desired.immutable:
        if pod.mounted_at < created and (start.restarted or start.at < created):
            return source
    return None
