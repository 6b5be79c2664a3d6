"""Pod status: whether each pod of a consumer has the current content, and how that is known.

    desired      the content of the sources now
    projected    the content of the mounted files
    loaded       the content that the processes read, from files or at their start

Without an agent in the pod, stages are concluded from the start times of its containers
(`evidence`), from the revision of its template, and from its nudge annotation. Each stage
therefore has a confidence:

    proven       started MARGIN or more after the last change
    probable     started less than MARGIN after it: times are whole seconds, and the kubelet's own
                 watch may lag. In the second of an edit nothing is probable: only a source that was
                 created then cannot have been read before
    inferred     files: the pod was nudged, or the kubelet's sync period has passed. Content read
                 at start: the pod's template was written for it
    unknown      none of these, or the pod is not ready: it may have older content. So may a pod
                 that is older than an immutable source: its kubelet goes on to serve an immutable
                 source of the same name that was deleted, and refreshes nothing

A stage is as weak as its weakest part. Content read at start is not refreshed by a file update,
and files are not proven by a start before the change. A pod that has not started, waits in its
init containers or is not ready proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import floor, inf
from typing import NamedTuple

from hotmap.core.decide.evidence import (
    MARGIN,
    ContainerStart,
    PodStart,
    any_started_before,
    find_pods_started_within,
    latest_time,
)
from hotmap.core.decide.own_rollouts import was_made_for, was_rolled_out_after
from hotmap.core.decide.source_rules import started_with
from hotmap.core.duration import format_age
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Window
from hotmap.core.patch.nudge import is_before
from hotmap.core.status.agent_announcement import agent_announcement, delivered_by_nudge
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.agent_coverage import Uncovered
from hotmap.core.status.agent_stages import (
    agent_stage,
    has_restarted,
    projected_by_agent,
    restart_stage,
)
from hotmap.core.status.desired import (
    DesiredClass,
    DesiredContent,
    StartChange,
    without_times,
)
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.stage import Confidence, PodState, Stage, stage_by_time, weakest

__all__ = ["KUBELET_SYNC", "PodProof", "pod_proofs"]

#: Seconds after which every kubelet has synced its pods by itself: 60 to 90, one of its ticker's,
#: and two tenths of its loops (kubernetes: pkg/kubelet, syncFrequency and its jitter).
KUBELET_SYNC = 92.0

#: Seconds in which a pod that ever gets Ready mostly does.
_READY_WITHIN = 120.0

#: For example the removal of a data key. Compares the resourceVersions of a source and a pod, which
#: are revisions of one etcd. This is ours: Kubernetes orders only the versions of one kind
#: (KEP-5504), so it may cast doubt but never prove anything.
_UNDATED = "a source was written after this pod, and its metadata does not show when"

#: What shows that a pod was made after the last change, where times are too close.
_MADE_AFTER = Stage(Confidence.PROVEN, "created by a template change after the last change")
_KEPT_CONTENT = Stage(Confidence.INFERRED, "its template is of this content, which has come back")
_ROLLED_OUT = Stage(Confidence.INFERRED, "created by a rollout after the last change")
_WAITED = Stage(Confidence.PROBABLE, "its containers waited for what was created last")


class PodProof(NamedTuple):
    """The stages that the desired content has reached in one pod."""

    pod: ObservedPod
    #: None: no files of a source are mounted.
    projected: Stage | None
    loaded: Stage
    #: Whether only files are missing, which the kubelet updates without an action.
    files_pending: bool = False
    #: Whether it runs and has had time to become Ready, and is not.
    long_unready: bool = False
    #: Whether only containers have to start anew that its agents restart, and have been told to.
    restart_pending: bool = False

    @property
    def state(self) -> PodState:
        """The pod's state; the state that its agent reports takes precedence."""
        if self.loaded.state is not None:
            return self.loaded.state
        if self.loaded.reached:
            return PodState.CURRENT
        return PodState.UNKNOWN if self.pod.ready else PodState.NOT_READY


def pod_proofs(
    desired: DesiredContent,
    pods: Sequence[ObservedPod],
    *,
    now: float,
    template_current: bool = False,
    windows: Sequence[Window] = (),
    agents: Mapping[str, AgentReport] | None = None,
) -> tuple[PodProof, ...]:
    """Conclude for each pod how far the desired content has got, and how that is known.

    `now` is POSIX seconds of the API server. `template_current` says that all pods are of a
    template that was written for the desired content; `windows` are times in which the sources
    had other content. `agents` has the reports of agents by the uid of their pods, where an agent
    reloads the application; None where none does.
    """
    starts = [_start_of_readers(desired, pod) for pod in pods]
    in_window = set(find_pods_started_within(starts, windows))
    changes_of = cache(desired.start_changes_of)  # pods of one template have read the same
    return tuple(
        _PodAssessment(
            desired,
            pod,
            changes_of,
            now=now,
            template_current=template_current,
            in_window=pod.start.name in in_window,
            agent=None if agents is None else agents.get(pod.uid, _NOT_ASKED),
        ).proof()
        for pod in pods
    )


def _start_of_readers(desired: DesiredContent, pod: ObservedPod) -> PodStart:
    """Return when the containers of a pod started that read desired content at their start."""
    return pod.start if desired.files_read_at_start else pod.start.of_content_read_at_start()


_NOT_ASKED = AgentReport(None, "its agent was not queried yet")


class _PodAssessment:
    """Concludes how far the desired content has got in one pod."""

    def __init__(
        self,
        desired: DesiredContent,
        pod: ObservedPod,
        changes_of: Callable[[frozenset[ObjectKey]], tuple[StartChange, ...]],
        *,
        now: float,
        template_current: bool,
        in_window: bool,
        agent: AgentReport | None,
    ) -> None:
        self._desired, self._pod, self._now = desired, pod, now
        #: An immutable source in place of which its kubelet may serve an earlier one.
        self._replaced = desired.pinned or _find_replaced(desired, pod)
        if self._replaced is not None:
            self._desired = without_times(desired)
        self._start_changes_of, self._in_window = changes_of, in_window
        self._template_current = template_current
        self._is_undated = 0 < pod.start.version < desired.adopted_version
        self._agent = agent
        self._announcement = agent_announcement(self._desired, pod, now)

    def proof(self) -> PodProof:
        desired, pod = self._desired, self._pod
        counts = pod.ready or not desired.require_ready
        started = self._now if pod.start.at is None else pod.start.at
        long_unready = not pod.ready and self._now - started >= _READY_WITHIN
        if pod.start.at is None or pod.mounted_at is None or pod.waiting_reason or not counts:
            nothing = self._not_serving()
            projected = nothing if desired.has_files else None
            return PodProof(pod, projected, nothing, long_unready=long_unready)
        files = self._files(pod.mounted_at)
        projected = files if desired.has_files else None
        read = self._read_at_start(pod.mounted_at)
        loaded = [stage for stage, _ in read]
        missing = [in_place for stage, in_place in read if not stage.reached]
        restart_pending = bool(missing) and all(missing) and self._may_restart()
        if self._in_window and (loaded or not desired.has_files):
            loaded = [
                Stage(Confidence.UNKNOWN, "may have started while the source had other content")
            ]
        if pod.start.is_outdated:
            why = "created before the template used these sources, and its controller keeps it"
            return PodProof(pod, projected, Stage(Confidence.UNKNOWN, why))
        files_pending = False
        if desired.files_changed != -inf and not desired.files_read_at_start:
            files_pending = (
                self._agent is None and not files.reached and all(stage.reached for stage in loaded)
            )
            loaded.append(self._reloaded(files, pod.mounted_at))
        loaded += [self._mounted(wanted, pod.start) for wanted in desired.classes]
        return PodProof(
            pod, projected, weakest(loaded), files_pending, long_unready, restart_pending
        )

    def _may_restart(self) -> bool:
        """Return whether its agent was nudged so recently that a restart may still follow."""
        nudged, at = self._pod.nudged, self._pod.nudged_at
        is_told = nudged is not None and nudged.frozen == self._desired.target.frozen
        is_recent = at is not None and self._now < at + KUBELET_SYNC
        return is_told and is_recent and self._replaced is None

    def _mounted(self, wanted: DesiredClass, start: PodStart) -> Stage:
        """Judge what the CSI driver has reported of a pod; the store may have newer versions."""
        mounted, name = wanted.mounts.of_pod(start.name), wanted.source
        if mounted is None:
            return Stage(Confidence.UNKNOWN, f"no CSI driver reports what it mounts of {name}")
        if not wanted.mounts.is_known:
            return Stage(Confidence.UNKNOWN, f"pods have mounted different versions of {name}")
        if not mounted.current:
            return Stage(Confidence.UNKNOWN, f"it has mounted other versions of {name}")
        if started_with(start, mounted):
            return Stage(Confidence.INFERRED, f"started with the newest versions seen of {name}")
        if wanted.is_reread:
            return self._reread_by(mounted.updated_at)
        return Stage(Confidence.UNKNOWN, f"files of {name} were updated after it had started")

    def _not_serving(self) -> Stage:
        """Return why a pod proves nothing; the state of its agent precedes its readiness."""
        if self._agent is not None:
            unreached = Stage(Confidence.UNKNOWN, "")
            stage = agent_stage(self._agent, self._announcement, synced=unreached)
            if stage.state in (PodState.REFUSED, PodState.FAILED):
                return stage
        return Stage(Confidence.UNKNOWN, _why_not_serving(self._pod))

    def _read_at_start(self, mounted: float) -> list[tuple[Stage, bool]]:
        """Judge what each container has read at its start, and say whether agents restart it."""
        desired, start = self._desired, self._pod.start
        stages: list[tuple[Stage, bool]] = []
        for container in start.readers(source for source, _ in desired.start_changes):
            for change in self._changes_of(container.read):
                stages.append((self._environment(container, change), change.in_place))
                if change.pinned_at != -inf:
                    stages.append((self._pinned_files(container, change, mounted), change.in_place))
        if desired.files_changed != -inf and desired.files_read_at_start and start.at is not None:
            is_older = any_started_before((start,), desired.files_edited_since)
            is_older |= _mounted_by(mounted) <= desired.files_edited_since
            files = self._files_at_start(start.at, mounted)
            latest = max((span.latest for span in start.containers), default=inf)
            stage = self._or_by_template(files, is_older=is_older, latest=latest)
            stages.append((stage, False))
        return stages

    def _changes_of(self, read: frozenset[ObjectKey]) -> Iterable[StartChange]:
        changes = self._start_changes_of(read)
        return changes if self._replaced is None else map(StartChange.without_times, changes)

    def _environment(self, container: ContainerStart, change: StartChange) -> Stage:
        began = container.span.earliest
        by_time = self._known_by_time(began, change.at, edited=change.edited)
        if not by_time.reached and _has_waited(container, change, change.at):
            return _WAITED
        is_older = container.span.latest < change.edited_since
        return self._or_otherwise(by_time, container, change, change.at, is_older=is_older)

    def _reloaded(self, files: Stage, mounted: float) -> Stage:
        """Judge files that something in the pod reloads while it runs."""
        by_start = self._known_by_time(mounted, self._desired.files_changed)
        if not by_start.reached:
            by_start = self._made_with_files() or by_start
        if by_start.reached:
            return by_start
        if self._agent is None:
            return self._reread(files)
        by_agent = agent_stage(self._agent, self._announcement, synced=self._synced(by_start))
        stage = self._unless_kept(by_agent)
        uncovered = self._pod.coverage.uncovered if self._pod.coverage else ()
        return weakest([stage, *(self._without_agent(each, mounted) for each in uncovered)])

    def _unless_kept(self, stage: Stage) -> Stage:
        """Return what a kubelet may keep, although it has had the time to update the files."""
        if self._replaced is None or stage.state is not PodState.WAITING:
            return stage
        created = dict(self._desired.immutable).get(self._replaced, inf)
        return self._kept() if self._now >= created + KUBELET_SYNC else stage

    def _kept(self) -> Stage:
        why = f"older than {self._replaced}, which is immutable and may have been recreated"
        if self._desired.pinned is not None:
            why = f"its kubelet may serve {self._replaced} as it was before it was recreated"
        return Stage(Confidence.UNKNOWN, why)

    def _without_agent(self, container: Uncovered, mounted: float) -> Stage:
        """Assess the files of a container that no agent reloads, as in a pod without an agent."""
        changed = latest_time(
            at for key, at in self._desired.live_changes if key in container.sources
        )
        by_start = self._known_by_time(mounted, changed)
        if by_start.reached:
            return by_start
        stage = self._reread(self._delivered(self._synced(by_start)))
        if not stage.reached and stage.state is None:
            stage = stage._replace(state=PodState.WAITING)
        reason = f"container {container.container} has no agent, and {stage.reason}"
        return stage._replace(reason=reason)

    def _reread(self, files: Stage) -> Stage:
        """Judge files that an application re-reads without telling anybody."""
        return self._reread_by(self._delivered_at()) if files.reached else files

    def _reread_by(self, delivered: float | None) -> Stage:
        """Judge files that were updated by some time, POSIX seconds; None: unknown."""
        seconds = self._desired.rereads_within
        if not self._desired.rereads:
            why = "its files are updated; nothing is known to re-read them"
            return Stage(Confidence.INFERRED, why, PodState.DELIVERED)
        if not seconds or delivered is None:
            why = "its files are updated; nothing shows whether the application has re-read them"
            return Stage(Confidence.INFERRED, why, PodState.DELIVERED)
        within = format_age(seconds)
        if self._now < delivered + seconds:
            why = f"its files are updated; the application re-reads them within {within}"
            due = delivered + seconds
            return Stage(Confidence.UNKNOWN, why, PodState.LOADING, reached_at=due)
        updated = format_age(self._now - delivered)
        why = f"its files were updated {updated} ago; the application re-reads them within {within}"
        return Stage(Confidence.INFERRED, why)

    def _delivered_at(self) -> float | None:
        """Return by when the kubelet has updated the files, POSIX seconds; None: unknown."""
        changed = self._desired.files_changed
        by_sync = inf if changed is None else changed + KUBELET_SYNC
        delivered = min(delivered_by_nudge(self._desired, self._pod), by_sync)
        return None if delivered == inf else delivered

    def _files(self, mounted: float) -> Stage:
        """Judge the content of mounted files."""
        by_time = self._known_by_time(mounted, self._desired.files_changed)
        if by_time.reached:
            return by_time
        synced = self._made_with_files() or self._synced(by_time)
        if self._agent is not None:
            by_agent = projected_by_agent(self._agent, self._announcement, synced=synced)
            if by_agent is not None:
                return self._unless_kept(by_agent)
        return self._delivered(synced)

    def _delivered(self, synced: Stage) -> Stage:
        """Judge whether the kubelet has updated files, by its sync period or a nudge."""
        nudged = self._pod.nudged
        if nudged is None or nudged.live != self._desired.target.live or self._replaced is not None:
            return synced
        if is_before(self._pod.nudged_at, self._desired.files_changed):
            return synced
        delivered = self._delivered_at()
        if delivered is None or self._now >= delivered:
            return Stage(Confidence.INFERRED, "the pod was nudged after the change")
        return Stage(Confidence.UNKNOWN, "the pod was nudged, and its kubelet updates the files")

    def _synced(self, by_time: Stage) -> Stage:
        changed = self._desired.files_changed
        if changed is not None and self._now >= changed + KUBELET_SYNC:
            return Stage(Confidence.INFERRED, "the kubelet has synced the pod since the change")
        return by_time

    def _known_by_time(
        self, at: float, changed: float | None, *, edited: bool | None = None
    ) -> Stage:
        """Compare times; a time that the removal of a data key does not update proves nothing."""
        edited = self._desired.edited if edited is None else edited
        stage = stage_by_time(at, changed, edited=edited)
        if changed is None and self._replaced is not None:
            return self._kept()
        if self._desired.estimated and stage.reached and changed != -inf:
            if self._is_undated:
                return Stage(Confidence.UNKNOWN, _UNDATED)
            return Stage(Confidence.INFERRED, f"{stage.reason} that its metadata shows")
        return stage

    def _or_otherwise(
        self,
        by_time: Stage,
        container: ContainerStart,
        change: StartChange,
        at: float | None,
        *,
        is_older: bool,
    ) -> Stage:
        """Fall back on the pod's template, then on its agent, where times prove nothing."""
        latest = container.span.latest
        stage = self._or_by_template(by_time, is_older=is_older, latest=latest)
        return self._or_by_agent(stage, container, change, at) if change.in_place else stage

    def _kept_content(self, latest: float) -> bool:
        """Return whether what started before then has content that was replaced and has come back.

        Its pods had it then, and it was not replaced before the start.
        """
        desired = self._desired
        is_same = self._pod.start.revision == desired.written
        return is_same and latest + MARGIN <= desired.replaced_at

    def _or_by_template(self, by_time: Stage, *, is_older: bool, latest: float) -> Stage:
        """Fall back on the pod's template where times prove nothing.

        `latest` is by when what has read the content had started, and `is_older` says that this was
        before the change, as observed; or that files were written before it, and may not have been
        updated yet.
        """
        if by_time.reached or self._desired.pinned is not None:
            return by_time
        if self._desired.unseen is not None:  # it may have changed since the template was written
            return Stage(Confidence.UNKNOWN, f"{self._desired.unseen} cannot be read")
        if self._is_proven():
            return _MADE_AFTER
        # A return to earlier content brings its name back, and not the content into its pods.
        template, applied_at = self._desired.template, self._desired.applied_at
        if self._kept_content(latest):
            return _KEPT_CONTENT
        if is_older:
            return by_time
        if was_made_for(self._pod.start, template, applied_at=applied_at):
            return Stage(Confidence.INFERRED, "its template was written for this content")
        if self._template_current:
            why = "all pods have the template written for this content"
            return Stage(Confidence.INFERRED, why)
        return by_time

    def _or_by_agent(
        self, stage: Stage, container: ContainerStart, change: StartChange, changed: float | None
    ) -> Stage:
        """Fall back on the agent that restarts containers, where their starts prove nothing.

        Times are whole seconds. A restart because of an announcement came after the change that
        was announced, though it shows as of the same second. The last change may be another: a
        return to the announced content, which is announced no more and restarts nothing.
        """
        if stage.reached or self._agent is None:
            return stage
        if (reported := restart_stage(self._agent, self._announcement)) is not None:
            return reported
        if changed is None or self._replaced is not None or self._is_undated:
            return stage
        if change.estimated or is_before(self._pod.nudged_at, changed):
            return stage
        if (
            container.restarted
            and container.span.latest >= changed
            and has_restarted(self._agent, self._announcement)
        ):
            return Stage(Confidence.PROBABLE, "its agent has restarted it for the last change")
        return stage

    def _is_proven(self) -> bool:
        """Return whether the pod was made by a change of its template after all other changes."""
        since = self._desired.proven_since
        return bool(since) and self._pod.start.created >= floor(since)

    def _made_with_files(self) -> Stage | None:
        """Judge the files of a pod that was made after their last change; None: nothing shows it.

        Its kubelet has written them then, and its process started with them.
        """
        desired = self._desired
        if desired.files_changed is None or desired.pinned is not None:
            return None
        if self._is_proven():
            return _MADE_AFTER
        is_ours = was_rolled_out_after(
            self._pod.start,
            desired.files_changed_until,
            desired.rolled_revision,
            rolled_at=desired.rolled_at,
        )
        return _ROLLED_OUT if is_ours else self._waited_for_files()

    def _waited_for_files(self) -> Stage | None:
        """Judge files whose source was created after the pod; None: it has not waited for them.

        The other files are as old as its volumes.
        """
        desired, start, mounted = self._desired, self._pod.start, self._pod.mounted_at
        if desired.files_awaited == -inf or start.restarted or mounted is None:
            return None
        if any_started_before((start,), desired.files_awaited):
            return None
        others = self._known_by_time(mounted, desired.files_not_awaited)
        return weakest((others, _WAITED)) if others.reached else None

    def _pinned_files(
        self, container: ContainerStart, change: StartChange, mounted: float
    ) -> Stage:
        """Judge files that are bound when a container starts (subPath)."""
        by_time = self._pinned_by_time(container, change, mounted)
        # A container that started later may have been given what was there before.
        written = min(container.span.latest, _mounted_by(mounted))
        is_older = written < change.edited_since
        return self._or_otherwise(by_time, container, change, change.pinned_at, is_older=is_older)

    def _pinned_by_time(
        self, container: ContainerStart, change: StartChange, mounted: float
    ) -> Stage:
        """Judge such files by when they were written.

        The container gets what its kubelet has written by then, and that may be older than its
        start: only what the kubelet wrote after the change counts.
        """
        started, changed, pod = container.span.earliest, change.pinned_at, self._pod
        by_time = self._known_by_time(mounted, changed, edited=change.edited)
        if by_time.reached or changed is None or self._is_undated:
            return by_time
        if started >= changed + KUBELET_SYNC:
            return Stage(Confidence.INFERRED, "restarted after the kubelet had updated its files")
        if _has_waited(container, change, changed):
            return _WAITED
        is_announced = pod.nudged is not None and pod.nudged.frozen == self._desired.target.frozen
        if is_announced and pod.nudged_at is not None and started >= max(pod.nudged_at, changed):
            return Stage(Confidence.INFERRED, "restarted after the pod was nudged")
        return by_time

    def _files_at_start(self, started: float, mounted: float) -> Stage:
        """Judge files that are read at container start.

        The kubelet writes a volume before it pulls images, so a container that started after the
        change may have read files from before it; only the pod's own start is proof. A container
        that was restarted a sync period later read what its kubelet had updated meanwhile.
        """
        changed = self._desired.files_changed
        by_time = self._known_by_time(mounted, changed)
        if by_time.reached or changed is None or self._is_undated:
            return by_time
        if started >= changed + KUBELET_SYNC:
            return Stage(Confidence.INFERRED, "restarted after the kubelet had updated its files")
        return self._waited_for_files() or by_time


def _has_waited(container: ContainerStart, change: StartChange, changed: float | None) -> bool:
    """Return whether a container has waited for a creation, POSIX seconds; None: unknown."""
    if changed is None or not change.awaited or container.restarted:
        return False
    return container.span.latest >= changed


def _mounted_by(mounted: float) -> float:
    """Return by when a pod's files were written; times are whole seconds."""
    return mounted + 1


def _find_replaced(desired: DesiredContent, pod: ObservedPod) -> ObjectKey | None:
    """Return an immutable source that is younger than a pod, unless the pod waited for it."""
    start = pod.start
    if pod.mounted_at is None or start.at is None:
        return None
    for source, created in desired.immutable:
        if pod.mounted_at < created and (start.restarted or start.at < created):
            return source
    return None


def _why_not_serving(pod: ObservedPod) -> str:
    if pod.waiting_reason:
        return f"not running ({pod.waiting_reason})"
    return "not started" if pod.start.at is None or pod.mounted_at is None else "not ready"
