"""Reads the state of a consumer's pods and of their agents; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hotmap.controller.report.agents import AgentClient, AgentQuery
from hotmap.controller.watch.pods import in_groups, list_pods, with_all_runs
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_rules import has_mounts
from hotmap.core.model.config_volumes import VolumeDigest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.status.agent_announcement import agent_announcement
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.agent_stages import restart_progress
from hotmap.core.status.consumer import RolloutProgress
from hotmap.core.status.desired import (
    DesiredContent,
    desired_content,
    with_volume_digests,
)
from hotmap.core.status.observed_pods import ObservedPod, observe_pods
from hotmap.core.status.pod_check import PodCheckResult, conclude_from_pods
from hotmap.core.status.pods import pod_proofs
from hotmap.kube.client import Client

__all__ = ["PodReader"]


class _Reports(NamedTuple):
    """What is known of a consumer's pods: facts, and the reports of their agents."""

    desired: DesiredContent
    pods: tuple[ObservedPod, ...]
    #: By uid; None: they have no agents.
    agents: Mapping[str, AgentReport] | None = None


async def _observe(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[ObservedPod, ...]:
    """Reduce pods to facts, about their agents too if these reload anything."""
    live = frozenset(source.source for source in snapshot.sources if source.live)
    agents = live if _has_agents(snapshot) else frozenset[ObjectKey]()
    followed = [
        use
        for source in snapshot.sources
        if source.source not in snapshot.unfollowed and not has_mounts(source)
        for use in source.uses
    ]
    observed = [
        pod
        async for group in in_groups(pods)
        for pod in observe_pods(snapshot.consumer, group, read_by_agents=agents, followed=followed)
    ]
    return tuple(observed)


def _has_agents(snapshot: Snapshot) -> bool:
    policy = snapshot.policy
    return policy.agent is not None and (policy.takes_live_changes() or policy.agent_restarts)


class PodReader:
    """Lists pods and queries their agents."""

    def __init__(
        self,
        client: Client,
        agents: AgentClient,
        payload_digests: Callable[[Consumer], Awaitable[tuple[VolumeDigest, ...]]],
    ) -> None:
        """`payload_digests` digests the desired content of a consumer's ConfigMap volumes."""
        self._client = client
        self._agents = agents
        self._payload_digests = payload_digests
        #: How often the agents of a consumer were nudged with other content.
        self._changes: Counter[ObjectKey] = Counter()

    def expire_reports(self, key: ObjectKey) -> None:
        """Ignore earlier reports of a consumer's agents, since they were nudged again."""
        self._changes[key] += 1

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        self._changes.pop(key, None)

    async def read_restarts(
        self, snapshot: Snapshot, pods: Iterable[Pod]
    ) -> Mapping[str, RestartProgress]:
        """Query the agents of pods for their restarts; by uid, without unknown ones."""
        desired, _, reports = await self._ask_agents(snapshot, list(pods))
        progress_by_uid = {
            uid: restart_progress(each, desired.target) for uid, each in (reports or {}).items()
        }
        return {uid: progress for uid, progress in progress_by_uid.items() if progress is not None}

    async def check(
        self, snapshot: Snapshot, *, progress: RolloutProgress = RolloutProgress.RECENT
    ) -> PodCheckResult:
        """Determine which content a consumer's pods have.

        Sends one LIST (of a CronJob two), and one request to the agent of each pod that is older
        than the change. `progress` is that of the consumer's rollout.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        consumer = await with_all_runs(self._client, snapshot.consumer)
        snapshot = snapshot._replace(consumer=consumer)
        pods = await list_pods(self._client, consumer, runs=True)
        desired, observed, agents = await self._ask_agents(snapshot, pods)
        return conclude_from_pods(
            snapshot,
            desired,
            observed,
            now=self._client.server_time(),
            agents=agents,
            progress=progress,
        )

    async def _ask_agents(self, snapshot: Snapshot, pods: list[Pod]) -> _Reports:
        """Reduce pods to facts, and query their agents, if there are any.

        Pods that read the content at their start are not queried. `pods` is emptied, since they are
        large and queries take a while.
        """
        consumer, desired = snapshot.consumer, desired_content(snapshot)
        observed = await _observe(snapshot, pods)
        if not _has_agents(snapshot):
            return _Reports(desired, observed)
        desired = with_volume_digests(desired, consumer, await self._payload_digests(consumer))
        now = self._client.server_time()
        unproven = {
            proof.pod.uid: proof.pod
            for proof in pod_proofs(desired, observed, now=now, agents={})
            if not proof.loaded.reached
        }
        queries = [
            AgentQuery(
                pod.metadata.uid,
                self._agents.addresses(pod),
                agent_announcement(desired, unproven[pod.metadata.uid], now),
            )
            for pod in pods
            if pod.metadata.uid in unproven
        ]
        pods.clear()
        agents = await self._agents.ask(queries, desired, change=self._changes[consumer.key])
        return _Reports(desired, observed, agents)
