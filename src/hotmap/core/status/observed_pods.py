"""The facts about the pods of a consumer: start, readiness, last nudge, and where the agent runs.

They are read from Pods and concluded from in `pods`. They are small: Pods can be dropped before
agents are queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.pod_starts import earliest_mount, pod_starts
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ContainerState, ContainerStatus, ObjectKey, Pod
from hotmap.core.model.pod_conditions import is_ready
from hotmap.core.model.references import Use
from hotmap.core.patch.nudge import nudge_time, read_target
from hotmap.core.status.agent_coverage import AgentCoverage, agent_coverage
from hotmap.core.status.agent_locations import AgentContainer, agent_container
from hotmap.core.target import Target
from hotmap.core.text import printable

__all__ = ["ObservedPod", "observe_pods"]

#: The label by which workload controllers name the template that a pod was made from.
_TEMPLATE_LABEL = "controller-revision-hash"

#: Waiting reasons that are ordinary steps of a container's start.
_STARTING = ("ContainerCreating", "PodInitializing")


class ObservedPod(NamedTuple):
    """The facts about one pod from which its content is concluded."""

    start: PodStart
    #: The earliest moment at which its volumes were written, POSIX seconds of the API server;
    #: None while its kubelet has not acknowledged it.
    mounted_at: float | None
    ready: bool
    #: Why it is not scheduled or a container of it is not running, as Kubernetes' reason; "" when
    #: all run or start.
    waiting_reason: str
    #: Names the template that it was made from; "" where its kind has no such name.
    template: str
    #: The target of its last nudge.
    nudged: Target | None
    uid: str = ""
    #: Where its agent runs.
    agent: AgentContainer = AgentContainer("", "")
    #: When it was last nudged, POSIX seconds of the API server; None: unknown.
    nudged_at: float | None = None
    #: What its agents are about; None: it has no agent, or mounts no followed files.
    coverage: AgentCoverage | None = None

    @property
    def is_down(self) -> bool:
        """Whether a container that reads a source is not running, or any container cannot."""
        return self.start.at is None or bool(self.waiting_reason)


def observe_pods(
    consumer: Consumer,
    pods: Iterable[Pod],
    *,
    read_by_agents: frozenset[ObjectKey] = frozenset(),
    followed: Sequence[Use] | None = None,
) -> tuple[ObservedPod, ...]:
    """Reduce a consumer's pods to facts; terminating and finished ones do not count.

    `read_by_agents` are the followed sources in live use, if agents may reload them. `followed` are
    the uses of all followed sources, by default those of the template.
    """
    by_name = {pod.metadata.name: pod for pod in pods}
    return tuple(
        _observe_pod(start, by_name[start.name], read_by_agents)
        for start in pod_starts(consumer, by_name.values(), followed=followed)
    )


def _observe_pod(start: PodStart, pod: Pod, read_by_agents: frozenset[ObjectKey]) -> ObservedPod:
    return ObservedPod(
        start,
        mounted_at=earliest_mount(pod),
        ready=is_ready(pod),
        waiting_reason=printable(_waiting_reason(pod)),
        template=(pod.metadata.labels or {}).get(_TEMPLATE_LABEL, ""),
        nudged=read_target(pod),
        nudged_at=nudge_time(pod),
        uid=pod.metadata.uid,
        agent=agent_container(pod),
        coverage=agent_coverage(pod, read_by_agents) if read_by_agents else None,
    )


def _waiting_reason(pod: Pod) -> str:
    """Find the first reason for which a container is not running, init containers first.

    A pod without a node has a condition instead of statuses of containers (kubernetes:
    api/core/v1/types.go, PodReasonUnschedulable and PodReasonSchedulingGated). Between two starts
    a crashing container is shown as waiting, or as terminated until the kubelet's next sync. An
    init container that has completed needs no reason.
    """
    for status in pod.status.init_container_statuses or []:
        if (reason := _not_running_reason(status)) not in ("", "Completed"):
            return reason
    for status in pod.status.container_statuses or []:
        if reason := _not_running_reason(status):
            return reason
    for condition in pod.status.conditions or []:
        if (condition.type, condition.status) == ("PodScheduled", "False"):
            return condition.reason
    return ""


def _not_running_reason(status: ContainerStatus) -> str:
    state = status.state or ContainerState()
    if state.waiting and state.waiting.reason not in _STARTING:
        return state.waiting.reason
    return state.terminated.reason if state.terminated else ""
