"""Restarts in place, a few pods of a workload at a time.

An agent restarts its application when its pod is told of other content that is read at start. So
pods are told in waves: `core.decide.restart_wave` chooses, and this keeps when each was told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from hotmap.core.decide.restart_wave import RestartPod, RestartProgress, Wave, next_wave
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.patch.nudge import Target, read_target

__all__ = ["ReadAgents", "RestartWaves", "restarts_in_place"]


#: Asks the agents of pods; by uid, without those that cannot be asked.
ReadAgents = Callable[[Snapshot, Sequence[Pod]], Awaitable[Mapping[str, RestartProgress]]]


async def _read_no_agents(snapshot: Snapshot, pods: Sequence[Pod]) -> Mapping[str, RestartProgress]:
    return {}


class RestartWaves:
    """When the pods of each consumer were told to restart, in one term of leading."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        report_stop: Callable[[Consumer, str], None],
        read_agents: ReadAgents = _read_no_agents,
    ) -> None:
        """`report_stop` gets the reason why no other pod of a consumer is told."""
        self._clock = clock
        self._report_stop = report_stop
        self._read_agents = read_agents
        #: Pods that an earlier leader told were told before this.
        self._began = clock()
        #: By consumer: the target, and by uid when a pod was told.
        self._requests: dict[ObjectKey, tuple[Target, dict[str, float]]] = {}
        #: Why pods wait, by consumer; and the reason that was reported last.
        self._reasons: dict[ObjectKey, str] = {}
        self._reported: dict[ObjectKey, str] = {}

    def reason(self, key: ObjectKey) -> str:
        """Say why pods of a consumer wait to restart; "" when none does."""
        return self._reasons.get(key, "")

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept of a consumer that is gone."""
        self._requests.pop(key, None)
        self._reasons.pop(key, None)
        self._reported.pop(key, None)

    def record_requests(self, key: ObjectKey, target: Target, uids: Sequence[str]) -> None:
        """Record which pods were told now; those that were told before keep their time."""
        known = self._requests.get(key)
        times = known[1] if known and _has_same_content(known[0], target) else {}
        self._requests[key] = target, dict.fromkeys(uids, self._clock()) | times

    async def held_back(
        self, snapshot: Snapshot, target: Target, pods: Sequence[Pod], new: set[str]
    ) -> set[str]:
        """Return the uids of pods that are new to a target and have to wait."""
        consumer = snapshot.consumer
        restarting = {
            pod.metadata.uid
            for pod in pods
            if pod.metadata.uid in new and restarts_in_place(snapshot, pod, target)
        }
        if not restarting:
            self._reasons.pop(consumer.key, None)
            return set()
        wave = await self._next_wave(snapshot, target, pods, restarting)
        held = {
            pod.metadata.uid
            for pod in pods
            if pod.metadata.uid in restarting and pod.metadata.name not in wave.names
        }
        self._reasons[consumer.key] = wave.reason
        if wave.stopped and self._reported.get(consumer.key) != wave.reason:
            self._reported[consumer.key] = wave.reason
            self._report_stop(consumer, wave.reason)
        return held

    async def _next_wave(
        self, snapshot: Snapshot, target: Target, pods: Sequence[Pod], restarting: set[str]
    ) -> Wave:
        consumer = snapshot.consumer
        told, times = self._requests.get(consumer.key, (target, {}))
        if not _has_same_content(told, target):
            times = {}
        agents = await self._read_agents(
            snapshot, [pod for pod in pods if pod.metadata.uid not in restarting]
        )
        now = self._clock()
        known = []
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            uid = pod.metadata.uid
            progress = agents.get(uid)
            known.append(
                RestartPod(
                    pod.metadata.name,
                    _is_ready(pod),
                    None if uid in restarting else now - times.get(uid, self._began),
                    progress.loaded if progress else None,
                    progress.failure if progress else "",
                )
            )
        return next_wave(known, max_unavailable=consumer.max_unavailable)


def restarts_in_place(snapshot: Snapshot, pod: Pod, target: Target) -> bool:
    """Return whether an agent restarts its application when a pod is told of a target.

    For other content that is read at start; with a supervised application, whose environment is
    made of mounted files, for other files too.
    """
    policy = snapshot.policy
    if policy.agent is None or not policy.agent_restarts:
        return False
    told = read_target(pod) or snapshot.recorded_target
    if told is None:
        return False  # it started with what is there
    if told.frozen != target.frozen:
        return True
    return policy.agent.restart == "supervised" and told.live != target.live


def _has_same_content(one: Target, other: Target) -> bool:
    return (one.live, one.frozen) == (other.live, other.frozen)


def _is_ready(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    conditions = [each.status for each in pod.status.conditions or () if each.type == "Ready"]
    return (
        bool(statuses)
        and all(status.ready for status in statuses)
        and all(status == "True" for status in conditions)
    )
