"""Restarts in place, a few pods of a workload at a time.

An agent restarts its application when its pod is nudged with other content that is read at start.
So pods are nudged in waves: `core.decide.restart_wave` chooses the pods, and this module keeps the
time of each request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from hotmap.core.decide.disruption_budget import DisruptionBudget, budgets_of_pods
from hotmap.core.decide.restart_wave import (
    RestartPod,
    RestartProgress,
    Wave,
    next_wave,
    pending_disruptions,
)
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod, PodDisruptionBudget
from hotmap.core.model.pod_conditions import is_ready
from hotmap.core.patch.nudge import read_target
from hotmap.core.status.pod_facts import KUBELET_SYNC
from hotmap.core.target import Target

__all__ = ["ReadAgents", "RestartWaves", "restarts_in_place"]


#: Queries the agents of pods; by uid, without those that cannot be queried.
ReadAgents = Callable[[Snapshot, Sequence[Pod]], Awaitable[Mapping[str, RestartProgress]]]


async def _read_no_agents(snapshot: Snapshot, pods: Sequence[Pod]) -> Mapping[str, RestartProgress]:
    return {}


#: Finds the PodDisruptionBudgets of a namespace that select some pods, and which of them; none
#: where that is not permitted.
FindBudgets = Callable[
    [str, Sequence[Pod]], Awaitable[Sequence[tuple[PodDisruptionBudget, frozenset[str]]]]
]

#: Seconds for which a pod that was told to restart counts against shared budgets. After that it has
#: restarted, or it is not Ready and the status of the budget shows that.
_RESERVATION = 15.0


async def _find_no_budgets(
    namespace: str, pods: Sequence[Pod]
) -> Sequence[tuple[PodDisruptionBudget, frozenset[str]]]:
    return ()


class RestartWaves:
    """The restart requests to the pods of each consumer, in one term of leadership."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        report_stop: Callable[[Consumer, str], None],
        read_agents: ReadAgents = _read_no_agents,
        find_budgets: FindBudgets = _find_no_budgets,
    ) -> None:
        """`report_stop` is called with the reason why no other pod of a consumer is restarted."""
        self._clock = clock
        self._report_stop = report_stop
        self._read_agents = read_agents
        self._find_budgets = find_budgets
        #: An earlier leader sent its requests before this time.
        self._began = clock()
        #: By consumer: the target, and the time of the request by uid.
        self._requests: dict[ObjectKey, tuple[Target, dict[str, float]]] = {}
        #: Why pods wait, by consumer; and the reason that was reported last.
        self._reasons: dict[ObjectKey, str] = {}
        self._reported: dict[ObjectKey, str] = {}
        #: Pods about to restart, by budget and consumer, and until when they count for others.
        self._reserved: dict[ObjectKey, dict[ObjectKey, tuple[int, float]]] = {}
        #: Consumers whose pods wait for other content, or for another budget.
        self._stalled: set[ObjectKey] = set()

    def reason(self, key: ObjectKey) -> str:
        """Return why pods of a consumer wait to restart; "" if none waits."""
        return self._reasons.get(key, "")

    def is_stalled(self, key: ObjectKey) -> bool:
        """Whether no pod of a consumer restarts soon: something else has to change before."""
        return key in self._stalled

    def end_wait(self, key: ObjectKey) -> None:
        """Let no pod of a consumer wait any longer: it is not to be restarted in place."""
        self._stalled.discard(key)
        self._reasons.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        self.end_wait(key)
        self._requests.pop(key, None)
        self._reported.pop(key, None)

    def record_requests(self, key: ObjectKey, target: Target, uids: Sequence[str]) -> None:
        """Record requests to pods; pods with an earlier request keep its time."""
        known = self._requests.get(key)
        times = known[1] if known and known[0].names_same_content(target) else {}
        self._requests[key] = target, dict.fromkeys(uids, self._clock()) | times

    async def held_back(
        self, snapshot: Snapshot, target: Target, pods: Sequence[Pod], new: set[str]
    ) -> set[str]:
        """Return the uids of pods that need a nudge with a new target and have to wait."""
        consumer = snapshot.consumer
        restarting = {
            pod.metadata.uid
            for pod in pods
            if pod.metadata.uid in new and restarts_in_place(snapshot, pod, target)
        }
        if not restarting:
            self.end_wait(consumer.key)
            return set()
        self._stalled.discard(consumer.key)
        wave = await self._next_wave(snapshot, target, pods, restarting)
        chosen = frozenset(wave.names)
        held = {
            pod.metadata.uid
            for pod in pods
            if pod.metadata.uid in restarting and pod.metadata.name not in chosen
        }
        self._reasons[consumer.key] = wave.reason
        if wave.stopped or wave.forbidden:
            self._stalled.add(consumer.key)
            if self._reported.get(consumer.key) != wave.reason:
                self._reported[consumer.key] = wave.reason
                self._report_stop(consumer, wave.reason)
        return held

    async def _next_wave(
        self, snapshot: Snapshot, target: Target, pods: Sequence[Pod], restarting: set[str]
    ) -> Wave:
        consumer = snapshot.consumer
        told, times = self._requests.get(consumer.key, (target, {}))
        if not told.names_same_content(target):
            times = {}
        agents = await self._read_agents(
            snapshot, [pod for pod in pods if pod.metadata.uid not in restarting]
        )
        selected = await self._find_budgets(consumer.key.namespace, pods)
        now = self._clock()
        known = []
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            uid = pod.metadata.uid
            progress = agents.get(uid)
            known.append(
                RestartPod(
                    pod.metadata.name,
                    is_ready(pod),
                    None if uid in restarting else now - times.get(uid, self._began),
                    progress.loaded if progress else None,
                    progress.failure if progress else "",
                    progress.retried if progress else False,
                )
            )
        not_ready = frozenset(pod.name for pod in known if not pod.ready)
        budgets = [
            self._without_reserved(consumer.key, budget, now)
            for budget in budgets_of_pods(selected, not_ready=not_ready)
        ]
        wave = next_wave(known, max_unavailable=consumer.max_unavailable, budgets=budgets)
        self._reserve(consumer.key, known, wave, budgets, now)
        return wave

    def _without_reserved(
        self, key: ObjectKey, budget: DisruptionBudget, now: float
    ) -> DisruptionBudget:
        """Take off what pods of other consumers are about to use of a budget."""
        uses = self._reserved.get(_budget_key(key, budget), {})
        others = sum(count for of, (count, until) in uses.items() if of != key and until > now)
        return budget._replace(allowed=max(0, budget.allowed - others))

    def _reserve(
        self,
        key: ObjectKey,
        pods: Sequence[RestartPod],
        wave: Wave,
        budgets: Sequence[DisruptionBudget],
        now: float,
    ) -> None:
        for budget in budgets:
            told = {pod.name for pod in pods if pod.ready} & budget.pods & set(wave.names)
            count = len(told) + pending_disruptions(pods, budget.pods)
            uses = self._reserved.get(_budget_key(key, budget), {})
            uses = {of: use for of, use in uses.items() if of != key and use[1] > now}
            if count:
                uses[key] = count, now + _RESERVATION
            self._reserved[_budget_key(key, budget)] = uses
        self._reserved = {of: uses for of, uses in self._reserved.items() if uses}


def restarts_in_place(snapshot: Snapshot, pod: Pod, target: Target) -> bool:
    """Return whether an agent restarts its application when its pod is nudged with a target.

    It does for other content that is read at start. Some agents do for other files too: not because
    of the nudge, so only until the kubelet has updated the files by itself.
    """
    policy = snapshot.policy
    if policy.agent is None:
        return False
    told = read_target(pod) or snapshot.recorded_target
    if told is None:
        return False  # it started with the current content
    if policy.agent.restart != "none" and told.frozen != target.frozen:
        return True
    if not policy.agent.restarts_for_files or told.live == target.live:
        return False
    changed = snapshot.files_changed_at
    return changed is None or snapshot.now < changed + KUBELET_SYNC


def _budget_key(consumer: ObjectKey, budget: DisruptionBudget) -> ObjectKey:
    return ObjectKey("PodDisruptionBudget", consumer.namespace, budget.name)
