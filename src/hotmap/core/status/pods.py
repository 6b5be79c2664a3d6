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
    unknown      none of these, or the pod is not ready: it may have older content

A stage is as weak as its weakest part. Content read at start is not refreshed by a file update,
and files are not proven by a start before the change. A pod that has not started, waits in its
init containers or is not ready proves nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from math import floor, inf
from typing import NamedTuple

from hotmap.core.decide.evidence import (
    MARGIN,
    PodStart,
    earliest_mount,
    pod_starts,
    started_within,
)
from hotmap.core.decide.snapshot import Snapshot, SourceSnapshot, content_of
from hotmap.core.duration import format_age
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ContainerState, ContainerStatus, Pod
from hotmap.core.model.state import Window
from hotmap.core.patch.nudge import Target, read_target
from hotmap.core.text import printable

__all__ = [
    "Confidence",
    "DesiredContent",
    "ObservedPod",
    "PodProof",
    "Stage",
    "desired_content",
    "has_current_template",
    "observe_pods",
    "pod_proofs",
]

#: Seconds after which every kubelet has synced its pods by itself: 60 to 90, one of its ticker's,
#: and two tenths of its loops (kubernetes: pkg/kubelet, syncFrequency and its jitter).
_KUBELET_SYNC = 92.0

#: The label by which workload controllers name the template that a pod was made from.
_TEMPLATE_LABEL = "controller-revision-hash"

#: Waiting reasons that are ordinary steps of a container's start.
_STARTING = ("ContainerCreating", "PodInitializing")


class Confidence(enum.Enum):
    """How it is known that a pod has the desired content; strongest first."""

    PROVEN = "proven"
    PROBABLE = "probable"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


_STRENGTH = tuple(Confidence)


class Stage(NamedTuple):
    """Whether the desired content has reached one stage of a pod, and why."""

    confidence: Confidence
    reason: str

    @property
    def reached(self) -> bool:
        """Whether there is any evidence for it."""
        return self.confidence is not Confidence.UNKNOWN


class DesiredContent(NamedTuple):
    """The content that the pods of one consumer should have.

    Times are POSIX seconds of the API server: -inf where nothing is read in that way, None where
    the time of the last change is not known.
    """

    #: Names all content that is in use.
    revision: str
    #: The revision that a rollout writes into the template, and the target that a nudge writes.
    template: str
    target: Target
    #: Last change of what is read at container start, and of what is mounted as files.
    start_changed: float | None
    files_changed: float | None
    #: Whether files are mounted at all, also files whose source does not exist.
    has_files: bool
    #: Whether nothing in the pods re-reads files, so that they too are read at start.
    files_read_at_start: bool
    #: Whether these times are from the sources' metadata and the changes were not observed: the
    #: removal of a data key updates no time there.
    estimated: bool = False
    #: Whether the last change replaced content that a pod of its own second may hold.
    edited: bool = False
    #: Pods that were created in or after this second have the content; 0: nothing is known.
    proven_since: float = 0.0


class ObservedPod(NamedTuple):
    """The facts about one pod from which its content is concluded."""

    start: PodStart
    #: The earliest moment at which its volumes were written, POSIX seconds of the API server;
    #: None while its kubelet has not acknowledged it.
    mounted_at: float | None
    ready: bool
    #: Why a container of it is not running, as Kubernetes' reason; "" when all run or start.
    waiting_reason: str
    #: Names the template that it was made from; "" where its kind has no such name.
    template: str
    #: The target of its last nudge.
    nudged: Target | None

    @property
    def is_down(self) -> bool:
        """Whether a container that reads a source is not running, or any container cannot."""
        return self.start.at is None or bool(self.waiting_reason)


class PodProof(NamedTuple):
    """How far the desired content has got in one pod."""

    pod: ObservedPod
    #: None: no files of a source are mounted.
    projected: Stage | None
    loaded: Stage
    #: Whether only files are missing, which the kubelet updates without an action.
    files_pending: bool = False


def desired_content(snapshot: Snapshot) -> DesiredContent:
    """Describe the content that the pods of a consumer should have now."""
    # Pods may or may not have the content of a required source that was deleted, or of one that
    # cannot be read.
    known = [one for one in snapshot.sources if one.exists or one.required or one.unreadable]
    return DesiredContent(
        revision=snapshot.content,
        template=snapshot.revision,
        target=snapshot.target,
        start_changed=_last_change([source for source in known if source.frozen]),
        files_changed=_last_change([source for source in known if source.live]),
        has_files=any(source.live for source in snapshot.sources),
        files_read_at_start=snapshot.live_rolls,
        estimated=any(source.estimated for source in known),
        edited=any(source.edited for source in known),
        proven_since=_proven_since(snapshot),
    )


def _proven_since(snapshot: Snapshot) -> float:
    """Say since when pods were created that have the content, if it is still the recorded one."""
    record = snapshot.record
    if record is None or snapshot.content != snapshot.recorded_content:
        return 0.0
    return record.proven_since


def _last_change(sources: Sequence[SourceSnapshot]) -> float | None:
    times = [source.changed_at for source in sources]
    return None if None in times else max((at for at in times if at is not None), default=-inf)


def has_current_template(snapshot: Snapshot) -> bool:
    """Return whether all of a consumer's pods are of a template written for the current content.

    Our write of it was at or after the last change, by the API server's clock, and its own
    controller reports that no pod of another template is left.
    """
    consumer = snapshot.consumer
    written = consumer.written_at
    if written is None or consumer.rolling or consumer.behind:
        return False
    times = [source.changed_at for source in snapshot.sources if source.exists]
    return all(at is not None and written >= at for at in times)


def observe_pods(consumer: Consumer, pods: Iterable[Pod]) -> tuple[ObservedPod, ...]:
    """Reduce a consumer's pods to facts; terminating and finished ones do not count."""
    by_name = {pod.metadata.name: pod for pod in pods}
    return tuple(
        _observe_pod(start, by_name[start.name]) for start in pod_starts(consumer, by_name.values())
    )


def _observe_pod(start: PodStart, pod: Pod) -> ObservedPod:
    return ObservedPod(
        start,
        mounted_at=earliest_mount(pod),
        ready=_is_ready(pod),
        waiting_reason=printable(_waiting_reason(pod)),
        template=(pod.metadata.labels or {}).get(_TEMPLATE_LABEL, ""),
        nudged=read_target(pod),
    )


def _is_ready(pod: Pod) -> bool:
    """Return whether all containers are ready, and the pod's readiness gates too."""
    statuses = pod.status.container_statuses or ()
    conditions = [one.status for one in pod.status.conditions or () if one.type == "Ready"]
    return (
        bool(statuses)
        and all(status.ready for status in statuses)
        and all(status == "True" for status in conditions)
    )


def _waiting_reason(pod: Pod) -> str:
    """Find the first reason for which a container is not running, init containers first.

    Between two starts a crashing container is shown as waiting, or as terminated until the
    kubelet's next sync. An init container that has completed needs no reason.
    """
    for status in pod.status.init_container_statuses or []:
        if (reason := _not_running_reason(status)) not in ("", "Completed"):
            return reason
    for status in pod.status.container_statuses or []:
        if reason := _not_running_reason(status):
            return reason
    return ""


def _not_running_reason(status: ContainerStatus) -> str:
    state = status.state or ContainerState()
    if state.waiting and state.waiting.reason not in _STARTING:
        return state.waiting.reason
    return state.terminated.reason if state.terminated else ""


def pod_proofs(
    desired: DesiredContent,
    pods: Sequence[ObservedPod],
    *,
    now: float,
    template_current: bool = False,
    windows: Sequence[Window] = (),
) -> tuple[PodProof, ...]:
    """Conclude for each pod how far the desired content has got, and how that is known.

    `now` is POSIX seconds of the API server. `template_current` says that all pods are of a
    template that was written for the desired content; `windows` are times in which the sources
    had other content.
    """
    in_window = set(started_within([pod.start for pod in pods], windows))
    return tuple(
        _pod_proof(
            desired,
            pod,
            now=now,
            template_current=template_current,
            in_window=pod.start.name in in_window,
        )
        for pod in pods
    )


def _pod_proof(
    desired: DesiredContent,
    pod: ObservedPod,
    *,
    now: float,
    template_current: bool,
    in_window: bool,
) -> PodProof:
    start = pod.start
    if start.at is None or pod.mounted_at is None or not pod.ready:
        unknown = Stage(Confidence.UNKNOWN, _why_not_serving(pod))
        return PodProof(pod, unknown if desired.has_files else None, unknown)
    files = _projected_stage(desired, pod, pod.mounted_at, now)
    loaded = []
    if desired.start_changed != -inf:
        by_time = _stage_by_time(start.at, desired.start_changed, edited=desired.edited)
        loaded.append(_or_by_template(by_time, desired, pod, template_current))
    if desired.files_changed != -inf and desired.files_read_at_start:
        by_time = _files_at_start(desired, start.at, pod.mounted_at)
        loaded.append(_or_by_template(by_time, desired, pod, template_current))
    if in_window and (loaded or not desired.has_files):
        loaded = [Stage(Confidence.UNKNOWN, "started while the source had other content")]
    files_pending = False
    if desired.files_changed != -inf and not desired.files_read_at_start:
        files_pending = not files.reached and all(stage.reached for stage in loaded)
        again = "; the application re-reads files" if files.reached else ""
        loaded.append(files._replace(reason=files.reason + again))
    projected = _as_known(desired, files) if desired.has_files else None
    return PodProof(pod, projected, _as_known(desired, _weakest(loaded)), files_pending)


def _as_known(desired: DesiredContent, stage: Stage) -> Stage:
    """Limit the confidence to times that the removal of a data key would have updated."""
    if desired.estimated and stage.confidence in (Confidence.PROVEN, Confidence.PROBABLE):
        return Stage(Confidence.INFERRED, f"{stage.reason} that its metadata shows")
    return stage


def _why_not_serving(pod: ObservedPod) -> str:
    if pod.waiting_reason:
        return f"not running ({pod.waiting_reason})"
    return "not started" if pod.start.at is None or pod.mounted_at is None else "not ready"


def _weakest(stages: Sequence[Stage]) -> Stage:
    if not stages:
        return Stage(Confidence.PROVEN, "uses no source")
    return max(stages, key=lambda stage: _STRENGTH.index(stage.confidence))


def _or_by_template(
    by_time: Stage, desired: DesiredContent, pod: ObservedPod, template_current: bool
) -> Stage:
    """Use the pod's template if times prove nothing."""
    if by_time.reached:
        return by_time
    if desired.proven_since and pod.start.created >= floor(desired.proven_since):
        return Stage(Confidence.PROVEN, "created by a template change after the last change")
    if content_of(pod.start.revision) == desired.template:
        return Stage(Confidence.INFERRED, "its template was written for this content")
    if template_current:
        return Stage(Confidence.INFERRED, "all pods are of the template written for this content")
    return by_time


def _files_at_start(desired: DesiredContent, started: float, mounted: float) -> Stage:
    """Judge files that are read at container start.

    The kubelet writes a volume before it pulls images, so a container that started after the
    change may have read files from before it; only the pod's own start is proof. A container that
    was restarted a sync period later read what its kubelet had updated meanwhile.
    """
    changed = desired.files_changed
    by_time = _stage_by_time(mounted, changed, edited=desired.edited)
    if not by_time.reached and changed is not None and started >= changed + _KUBELET_SYNC:
        return Stage(Confidence.INFERRED, "restarted after the kubelet had updated its files")
    return by_time


def _projected_stage(
    desired: DesiredContent, pod: ObservedPod, mounted: float, now: float
) -> Stage:
    changed = desired.files_changed
    if (by_time := _stage_by_time(mounted, changed, edited=desired.edited)).reached:
        return by_time
    if pod.nudged is not None and pod.nudged.live == desired.target.live:
        return Stage(Confidence.INFERRED, "the pod was nudged after the change")
    if changed is not None and now >= changed + _KUBELET_SYNC:
        return Stage(Confidence.INFERRED, "the kubelet has synced the pod since the change")
    return by_time


def _stage_by_time(at: float, changed: float | None, *, edited: bool) -> Stage:
    if changed is None:
        return Stage(Confidence.UNKNOWN, "last change time unknown")
    if changed == -inf:
        return Stage(Confidence.PROVEN, "uses no source")
    after = at - changed
    if after >= MARGIN:
        return Stage(Confidence.PROVEN, f"started {format_age(after)} after the last change")
    if after >= 1:
        return Stage(Confidence.PROBABLE, f"started {format_age(after)} after the last change")
    if after >= 0:
        confidence = Confidence.UNKNOWN if edited else Confidence.PROBABLE
        return Stage(confidence, "started in the same second as the last change")
    return Stage(Confidence.UNKNOWN, f"started {format_age(-after)} before the last change")
