"""Reads the state of a consumer's pods and of their agents; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from hotmap.controller.report.agents import AgentClient, AgentQuery
from hotmap.controller.watch.pods import list_pods
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.config_volumes import VolumeDigest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.status.agents import AgentReport, restart_progress
from hotmap.core.status.consumer import ConsumerStatus, status_from_pods
from hotmap.core.status.pods import (
    DesiredContent,
    ObservedPod,
    PodProof,
    agent_announcement,
    desired_content,
    has_current_template,
    observe_pods,
    pod_proofs,
    with_volume_digests,
)
from hotmap.kube.client import Client

__all__ = ["PodCheckResult", "PodReader", "conclude_from_pods"]


class PodCheckResult(NamedTuple):
    """The result of one check of a consumer's pods."""

    desired: DesiredContent
    pods: tuple[PodProof, ...]
    status: ConsumerStatus


def conclude_from_pods(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    *,
    now: float,
    desired: DesiredContent | None = None,
    agents: Mapping[str, AgentReport] | None = None,
    stalled: bool = False,
    retried: bool = False,
) -> PodCheckResult:
    """Determine which content the pods of a consumer have; see `PodReader.check`.

    `agents` has the reports of their agents about the `desired` content, by uid.
    """
    consumer, record = snapshot.consumer, snapshot.record
    desired = desired or desired_content(snapshot)
    proofs = pod_proofs(
        desired,
        _observe(snapshot, pods),
        now=now,
        template_current=has_current_template(snapshot),
        windows=record.windows if record else (),
        agents=agents,
    )
    status = status_from_pods(
        consumer,
        proofs,
        desired,
        stalled=stalled,
        retried=retried,
        agents_restart=snapshot.policy.agent_restarts,
    )
    return PodCheckResult(desired, proofs, status)


def _observe(snapshot: Snapshot, pods: Sequence[Pod]) -> tuple[ObservedPod, ...]:
    """Reduce pods to facts, about their agents too if these reload anything."""
    live = frozenset(source.source for source in snapshot.sources if source.live)
    agents = live if _has_agents(snapshot) else frozenset[ObjectKey]()
    return observe_pods(snapshot.consumer, pods, read_by_agents=agents)


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
        self, snapshot: Snapshot, pods: Sequence[Pod]
    ) -> Mapping[str, RestartProgress]:
        """Query the agents of pods for their restarts; by uid, without unknown ones."""
        desired, reports = await self._ask_agents(snapshot, desired_content(snapshot), pods)
        progress_by_uid = {
            uid: restart_progress(each, desired.target) for uid, each in (reports or {}).items()
        }
        return {uid: progress for uid, progress in progress_by_uid.items() if progress is not None}

    async def check(
        self, snapshot: Snapshot, *, stalled: bool = False, retried: bool = False
    ) -> PodCheckResult:
        """Determine which content a consumer's pods have.

        Sends one LIST, and one request to the agent of each pod that is older than the change.
        `stalled` means that the consumer's own controller has reported no progress for a while,
        `retried` that this has lasted longer than the maximum back-off of kubelets.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        pods = await list_pods(self._client, snapshot.consumer)
        desired, agents = await self._ask_agents(snapshot, desired_content(snapshot), pods)
        return conclude_from_pods(
            snapshot,
            pods,
            desired=desired,
            agents=agents,
            now=self._client.server_time(),
            stalled=stalled,
            retried=retried,
        )

    async def _ask_agents(
        self, snapshot: Snapshot, desired: DesiredContent, pods: Sequence[Pod]
    ) -> tuple[DesiredContent, Mapping[str, AgentReport] | None]:
        """Query the agents of pods, if there are any; return the queried content and the reports.

        Pods that read the content at their start are not queried.
        """
        consumer = snapshot.consumer
        if not _has_agents(snapshot):
            return desired, None
        desired = with_volume_digests(desired, consumer, await self._payload_digests(consumer))
        now = self._client.server_time()
        proofs = pod_proofs(desired, _observe(snapshot, pods), now=now, agents={})
        announcements = {
            proof.pod.uid: agent_announcement(desired, proof.pod, now)
            for proof in proofs
            if not proof.loaded.reached
        }
        queries = [
            AgentQuery(pod, announcements[pod.metadata.uid])
            for pod in pods
            if pod.metadata.uid in announcements
        ]
        return desired, await self._agents.ask(queries, desired, change=self._changes[consumer.key])
