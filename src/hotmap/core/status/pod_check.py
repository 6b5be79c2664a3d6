"""What one check of a consumer's pods concludes: the proof of each pod, and the status of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.consumer import ConsumerStatus, status_from_pods
from hotmap.core.status.desired import DesiredContent, has_current_template
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.pods import PodProof, pod_proofs

__all__ = ["PodCheckResult", "conclude_from_pods"]


class PodCheckResult(NamedTuple):
    """The result of one check of a consumer's pods."""

    desired: DesiredContent
    pods: tuple[PodProof, ...]
    status: ConsumerStatus


def conclude_from_pods(
    snapshot: Snapshot,
    desired: DesiredContent,
    pods: Sequence[ObservedPod],
    *,
    now: float,
    agents: Mapping[str, AgentReport] | None = None,
    stalled: bool = False,
    retried: bool = False,
) -> PodCheckResult:
    """Determine which content the pods of a consumer have.

    `now` is POSIX seconds of the API server, `agents` has the reports of agents by the uid of their
    pods; None: there are none. `stalled` means that the consumer's own controller has reported no
    progress for a while, `retried` that this has lasted longer than the maximum back-off of
    kubelets.
    """
    proofs = pod_proofs(
        desired,
        pods,
        now=now,
        template_current=has_current_template(snapshot),
        windows=snapshot.record.windows if snapshot.record else (),
        agents=agents,
    )
    status = status_from_pods(snapshot.consumer, proofs, desired, stalled=stalled, retried=retried)
    return PodCheckResult(desired, proofs, status)
