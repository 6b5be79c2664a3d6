"""What one check of a consumer's pods concludes: the proof of each pod, and the status of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.status.agent_answers import AgentReport
from hotmap.core.status.consumer import ConsumerStatus, RolloutProgress, status_from_pods
from hotmap.core.status.desired import DesiredContent, has_current_template
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.pods import PodProof, pod_proofs
from hotmap.core.status.stage import Confidence

__all__ = ["PodCheckResult", "conclude_from_pods"]

#: Seconds after a nudge in which a pod is not Ready any more if its kubelet was down then: the node
#: is NotReady 50 s after its last sign of life, and the next look at it is 5 s later (kubernetes:
#: kube-controller-manager, --node-monitor-grace-period and --node-monitor-period).
_NODE_IS_LOST_AFTER = 65.0


class PodCheckResult(NamedTuple):
    """The result of one check of a consumer's pods."""

    desired: DesiredContent
    pods: tuple[PodProof, ...]
    status: ConsumerStatus
    #: Seconds until it shows whether the kubelets of nudged pods were running; 0: it shows already.
    confirmed_in: float = 0.0
    #: Seconds until the content has reached the pods that only have to wait for it; inf: there are
    #: none.
    reached_in: float = inf


def conclude_from_pods(
    snapshot: Snapshot,
    desired: DesiredContent,
    pods: Sequence[ObservedPod],
    *,
    now: float,
    agents: Mapping[str, AgentReport] | None = None,
    progress: RolloutProgress = RolloutProgress.RECENT,
) -> PodCheckResult:
    """Determine which content the pods of a consumer have.

    `now` is POSIX seconds of the API server, `agents` has the reports of agents by the uid of their
    pods; None: there are none. `progress` is that of the consumer's rollout.
    """
    proofs = pod_proofs(
        desired,
        pods,
        now=now,
        template_current=has_current_template(snapshot),
        windows=snapshot.record.windows if snapshot.record else (),
        agents=agents,
    )
    status = status_from_pods(snapshot.consumer, proofs, desired, progress=progress)
    confirmed_in = 0.0 if agents is not None else _confirmed_in(proofs, now)
    return PodCheckResult(desired, proofs, status, confirmed_in, _reached_in(proofs, now))


def _reached_in(proofs: Sequence[PodProof], now: float) -> float:
    waiting = [proof.loaded.reached_at for proof in proofs if proof.loaded.reached_at != inf]
    return max(0.0, max(waiting) - now) if waiting else inf


def _confirmed_in(proofs: Sequence[PodProof], now: float) -> float:
    nudged_at = (
        proof.pod.nudged_at
        for proof in proofs
        if proof.projected is not None and proof.projected.confidence is Confidence.INFERRED
    )
    last = max((at for at in nudged_at if at is not None), default=0.0)
    return max(0.0, last + _NODE_IS_LOST_AFTER - now)
