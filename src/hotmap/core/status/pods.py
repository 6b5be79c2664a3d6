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

`pod_facts` has what the pod's times prove, `live_files` judges files that are updated while the pod
runs, and `start_content` judges what containers read when they start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import NamedTuple

from hotmap.core.decide.evidence import PodStart, find_pods_started_within
from hotmap.core.decide.source_rules import started_with
from hotmap.core.model.state import Window
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.agent_stages import agent_stage
from hotmap.core.status.desired import DesiredClass, DesiredContent
from hotmap.core.status.live_files import projected_files, reloaded_files, reread_files
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.pod_facts import KUBELET_SYNC, PodFacts
from hotmap.core.status.stage import Confidence, PodState, Stage, weakest
from hotmap.core.status.start_content import read_at_start

__all__ = ["PodProof", "pod_proofs"]

#: Seconds in which a pod that ever gets Ready mostly does.
_READY_WITHIN = 120.0

_NOT_ASKED = AgentReport(None, "its agent was not queried yet")


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
    #: Whether only containers have to start again that its agents restart, and have been told to.
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
        _proof(
            PodFacts(
                desired,
                pod,
                changes_of,
                now=now,
                template_current=template_current,
                agent=None if agents is None else agents.get(pod.uid, _NOT_ASKED),
            ),
            in_window=pod.start.name in in_window,
        )
        for pod in pods
    )


def _start_of_readers(desired: DesiredContent, pod: ObservedPod) -> PodStart:
    """Return when the containers of a pod started that read desired content at their start."""
    return pod.start if desired.files_read_at_start else pod.start.of_content_read_at_start()


def _proof(facts: PodFacts, *, in_window: bool) -> PodProof:
    """Conclude how far the desired content has got in one pod.

    `in_window`: it may have started while a source had other content.
    """
    desired, pod = facts.desired, facts.pod
    counts = pod.ready or not desired.require_ready
    if pod.start.at is None or pod.mounted_at is None or pod.waiting_reason or not counts:
        nothing = _not_serving(facts)
        projected = nothing if desired.has_files else None
        return PodProof(pod, projected, nothing, long_unready=_is_long_unready(facts))
    files = projected_files(facts, pod.mounted_at)
    projected = files if desired.has_files else None
    if pod.start.is_outdated:
        why = "created before the template used these sources, and its controller keeps it"
        return PodProof(pod, projected, Stage(Confidence.UNKNOWN, why))
    read = read_at_start(facts, pod.mounted_at)
    loaded = [stage for stage, _ in read]
    missing = [in_place for stage, in_place in read if not stage.reached]
    if in_window and (loaded or not desired.has_files):
        why = "may have started while the source had other content"
        loaded = [Stage(Confidence.UNKNOWN, why)]
    files_pending = False
    if desired.files_changed != -inf and not desired.files_read_at_start:
        files_pending = (
            facts.agent is None
            and desired.pinned is None  # kubelets do not update what they keep
            and not files.reached
            and all(stage.reached for stage in loaded)
        )
        loaded.append(reloaded_files(facts, files, pod.mounted_at))
    loaded += [_mounted_class(facts, wanted, pod.start) for wanted in desired.classes]
    return PodProof(
        pod,
        projected,
        weakest(loaded),
        files_pending,
        long_unready=_is_long_unready(facts),
        restart_pending=bool(missing) and all(missing) and _may_restart(facts),
    )


def _is_long_unready(facts: PodFacts) -> bool:
    """Return whether it runs and has had time to become Ready, and is not."""
    at = facts.pod.start.at
    return not facts.pod.ready and at is not None and facts.now - at >= _READY_WITHIN


def _may_restart(facts: PodFacts) -> bool:
    """Return whether its agent was nudged so recently that a restart may still follow."""
    nudged, at = facts.pod.nudged, facts.pod.nudged_at
    is_told = nudged is not None and nudged.frozen == facts.desired.target.frozen
    is_recent = at is not None and facts.now < at + KUBELET_SYNC
    return is_told and is_recent and facts.replaced is None


def _mounted_class(facts: PodFacts, wanted: DesiredClass, start: PodStart) -> Stage:
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
        return reread_files(facts, mounted.updated_at)
    return Stage(Confidence.UNKNOWN, f"files of {name} were updated after it had started")


def _not_serving(facts: PodFacts) -> Stage:
    """Return why a pod proves nothing; the state of its agent precedes its readiness."""
    if facts.agent is not None:
        unreached = Stage(Confidence.UNKNOWN, "")
        stage = agent_stage(facts.agent, facts.announcement, synced=unreached)
        if stage.state in (PodState.REFUSED, PodState.FAILED):
            return stage
    return Stage(Confidence.UNKNOWN, _why_not_serving(facts.pod))


def _why_not_serving(pod: ObservedPod) -> str:
    if pod.waiting_reason:
        return f"not running ({pod.waiting_reason})"
    return "not started" if pod.start.at is None or pod.mounted_at is None else "not ready"
