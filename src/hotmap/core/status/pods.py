"""What each pod of a consumer holds, in three stages, and how that is known.

    desired      the content that its sources have now
    projected    what its mounted files hold
    loaded       what its processes took, from files or at their start

With nobody in the pod to ask, the stages are concluded from when its containers started
(`evidence`), from what its template was asked for, and from what a nudge told it. So each says
how it is known:

    proven       it started MARGIN or more after the last change
    probably     it started less than MARGIN after it: times are whole seconds, and the kubelet's
                 own watch may lag
    inferred     for files: a nudge told the pod, or the kubelet's own period is over. For what is
                 read at start: its template was asked for this content
    unknown      none of these: it may hold older content

A stage is as weak as its weakest part. What was read at start does not follow files, and files
do not follow a start that was before the change.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from hotmap.core.decide.evidence import MARGIN, PodStart, pod_starts, started_within
from hotmap.core.decide.snapshot import Snapshot, SourceSnapshot, content_of
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ContainerState, ContainerStatus, Pod
from hotmap.core.model.state import Window
from hotmap.core.patch.nudge import Target, read_target

__all__ = [
    "Confidence",
    "Desired",
    "ObservedPod",
    "PodProof",
    "Stage",
    "desired_of",
    "observe_pods",
    "prove",
    "template_vouches",
]

#: Seconds after which every kubelet has synced its pods by itself: 60 to 90, one of its ticker's,
#: and two tenths of its loops (kubernetes: pkg/kubelet, syncFrequency and its jitter).
_SYNCED = 92.0

#: The label by which workload controllers name the template that a pod was made from.
_TEMPLATE_LABEL = "controller-revision-hash"

#: Why a container does not run that is only a step of its start.
_STARTING = ("ContainerCreating", "PodInitializing")


class Confidence(enum.Enum):
    """How it is known that a pod holds what is desired; strongest first."""

    PROVEN = "proven"
    PROBABLY = "probably"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


_STRENGTH = tuple(Confidence)


class Stage(NamedTuple):
    """Whether what is desired has got as far as this, and why one thinks so."""

    known: Confidence
    why: str

    @property
    def reached(self) -> bool:
        """Whether anything speaks for it."""
        return self.known is not Confidence.UNKNOWN


class Desired(NamedTuple):
    """What the pods of one consumer are to hold; times in POSIX seconds of the API server."""

    #: Names all content that is in use.
    revision: str
    #: The revision that a template is asked for, and what a nudge tells.
    template: str
    target: Target
    #: When what is read at start, and what is re-read from files, last changed: -inf where nothing
    #: is read in that way, None where it is not known.
    start_changed: float | None
    files_changed: float | None
    #: Whether files are mounted at all.
    has_files: bool


class ObservedPod(NamedTuple):
    """One pod, reduced to what tells what it holds."""

    start: PodStart
    ready: bool
    #: Why it does not run, in Kubernetes' own word; "" when it runs or is about to.
    trouble: str
    #: Names the template that it was made from; "" where its kind has no such name.
    template: str
    told: Target | None

    @property
    def is_down(self) -> bool:
        """Whether something of it that reads a source does not run, or any of it cannot."""
        return self.start.at is None or bool(self.trouble)


class PodProof(NamedTuple):
    """How far the desired content has got in one pod."""

    seen: ObservedPod
    #: None: no files of a source are mounted.
    projected: Stage | None
    loaded: Stage
    #: Whether all that is missing are files, which follow without anybody's doing.
    follows: bool = False


def desired_of(snapshot: Snapshot) -> Desired:
    """Say what the pods of a consumer are to hold now.

    Where nobody in them re-reads files (`live_rolls`), these too are read at start.
    """
    there = [source for source in snapshot.sources if source.exists]
    live_rolls = snapshot.live_rolls
    at_start = [one for one in there if one.frozen or (one.live and live_rolls)]
    reread = [one for one in there if one.live and not live_rolls]
    return Desired(
        revision=snapshot.content,
        template=snapshot.revision,
        target=snapshot.target,
        start_changed=_last_change(at_start),
        files_changed=_last_change(reread),
        has_files=any(one.live for one in snapshot.sources),
    )


def _last_change(snapshots: Sequence[SourceSnapshot]) -> float | None:
    times = [present.changed_at for present in snapshots]
    return None if None in times else max((at for at in times if at is not None), default=-inf)


def template_vouches(snapshot: Snapshot) -> bool:
    """Tell whether all of a consumer's pods are of a template that was written for the present.

    Our write of it was at or after the last change, by the API server's clock, and its own
    controller says that no pod of another template is left.
    """
    consumer = snapshot.consumer
    written = consumer.written_at
    if written is None or consumer.rolling or consumer.behind:
        return False
    times = [source.changed_at for source in snapshot.sources if source.exists]
    return all(at is not None and written >= at for at in times)


def observe_pods(consumer: Consumer, pods: Iterable[Pod]) -> tuple[ObservedPod, ...]:
    """Reduce a consumer's pods; terminating and finished ones do not count."""
    by_name = {pod.metadata.name: pod for pod in pods}
    return tuple(
        _see(start, by_name[start.name]) for start in pod_starts(consumer, by_name.values())
    )


def _see(start: PodStart, pod: Pod) -> ObservedPod:
    statuses = pod.status.container_statuses or ()
    return ObservedPod(
        start,
        ready=bool(statuses) and all(status.ready for status in statuses),
        trouble=_trouble(pod),
        template=(pod.metadata.labels or {}).get(_TEMPLATE_LABEL, ""),
        told=read_target(pod),
    )


def _trouble(pod: Pod) -> str:
    """Find the first reason for which a container does not run, init containers first.

    Between two starts one that crashes is shown as waiting, or as terminated for as long as the
    kubelet has not looked again. An init container that has completed is no trouble.
    """
    for status in pod.status.init_container_statuses or []:
        if (reason := _why_down(status)) not in ("", "Completed"):
            return reason
    for status in pod.status.container_statuses or []:
        if reason := _why_down(status):
            return reason
    return ""


def _why_down(status: ContainerStatus) -> str:
    state = status.state or ContainerState()
    if state.waiting and state.waiting.reason not in _STARTING:
        return state.waiting.reason
    return state.terminated.reason if state.terminated else ""


def prove(
    desired: Desired,
    pods: Sequence[ObservedPod],
    *,
    now: float,
    vouched: bool = False,
    windows: Sequence[Window] = (),
) -> tuple[PodProof, ...]:
    """Say of each pod how far the desired content has got, and how that is known.

    `now` is POSIX seconds. `vouched` says that all pods are of a template that was written for
    the desired content; `windows` are times in which its sources held something else.
    """
    suspect = set(started_within([pod.start for pod in pods], windows))
    return tuple(
        _prove(desired, pod, now=now, vouched=vouched, suspect=pod.start.name in suspect)
        for pod in pods
    )


def _prove(
    desired: Desired, pod: ObservedPod, *, now: float, vouched: bool, suspect: bool
) -> PodProof:
    if pod.start.at is None:
        waits = Stage(
            Confidence.UNKNOWN, f"it does not run{f' ({pod.trouble})' if pod.trouble else ''}"
        )
        return PodProof(pod, waits if desired.has_files else None, waits)
    files = _projected(desired, pod, pod.start.at, now)
    started = _at_start(desired, pod, pod.start.at, vouched=vouched)
    if suspect:
        started = Stage(Confidence.UNKNOWN, "it started while its content was another one")
    loaded = [started] if desired.start_changed != -inf else []
    follows = False
    if desired.files_changed != -inf:
        follows = not files.reached and all(stage.reached for stage in loaded)
        again = ", and it re-reads its files" if files.reached else ""
        loaded.append(files._replace(why=files.why + again))
    projected = files if desired.has_files else None
    return PodProof(pod, projected, _weakest(loaded or [started]), follows)


def _weakest(stages: Sequence[Stage]) -> Stage:
    return max(stages, key=lambda stage: _STRENGTH.index(stage.known))


def _at_start(desired: Desired, pod: ObservedPod, at: float, *, vouched: bool) -> Stage:
    changed = desired.start_changed
    if (by_time := _by_time(at, changed)).reached:
        return by_time
    if content_of(pod.start.revision) == desired.template:
        return Stage(Confidence.INFERRED, "it was made from a template that asks for this content")
    if vouched:
        return Stage(Confidence.INFERRED, "all pods are of the template that was asked for it")
    return by_time


def _projected(desired: Desired, pod: ObservedPod, at: float, now: float) -> Stage:
    changes = (desired.start_changed, desired.files_changed)
    changed = None if None in changes else max(one for one in changes if one is not None)
    if (by_time := _by_time(at, changed)).reached:
        return by_time
    if pod.told is not None and pod.told.live == desired.target.live:
        return Stage(Confidence.INFERRED, "its kubelet was nudged after the change")
    if changed is not None and now >= changed + _SYNCED:
        return Stage(Confidence.INFERRED, "its kubelet has synced its files since the change")
    return by_time


def _by_time(at: float, changed: float | None) -> Stage:
    if changed is None:
        return Stage(Confidence.UNKNOWN, "nobody noted when its sources last changed")
    if changed == -inf:
        return Stage(Confidence.PROVEN, "it reads no source")
    after = at - changed
    if after >= MARGIN:
        return Stage(Confidence.PROVEN, f"it started {_span(after)} after the last change")
    if after >= 1:
        return Stage(Confidence.PROBABLY, f"it started {_span(after)} after the last change")
    if after >= 0:
        return Stage(Confidence.PROBABLY, "it started in the second of the last change")
    return Stage(Confidence.UNKNOWN, f"it started {_span(-after)} before the last change")


def _span(seconds: float) -> str:
    """Write seconds as people say them, with the two largest units."""
    whole = int(seconds)
    for size, name, smaller, small in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"
