"""The status of a consumer: whether every pod has the current content, and if not, why.

| state | meaning |
|---|---|
| current | all its pods have the current content of its sources, as far as can be known |
| unverified | it was adopted or rolled out, and its pods have not been checked since |
| waiting | pods are not up to date yet; its own controller, or a user, has to act |
| paused | the same, and its rollout is paused |
| stuck | the same, and no progress by itself: a user has to delete a pod |
| latent | pods may have older content; it takes effect at their next restart |
| held | a rollout would do harm or nothing; a user has to act |
| failed | a write was refused; it is retried |

A StatefulSet replaces one pod at a time and waits for each to be ready. A pod that runs with a bad
value and never gets ready therefore stays, even if the value is reverted: the newest template is
right, and the pod is not of it (kubernetes: pkg/controller/statefulset, updateStatefulSet; the
documentation calls it forced rollback). Only its deletion helps. A crashing pod is different: its
kubelet restarts it after 5 minutes at most, and then it reads the current content; only if that has
not helped it counts as stuck.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck
from hotmap.core.status.pods import DesiredContent, PodProof

__all__ = [
    "NO_PODS",
    "UP_TO_DATE",
    "ConsumerStatus",
    "LastDecision",
    "State",
    "derive_status",
    "rollout_status",
    "status_from_pods",
]


class State(enum.Enum):
    """The states above."""

    CURRENT = "current"
    UNVERIFIED = "unverified"
    WAITING = "waiting"
    PAUSED = "paused"
    STUCK = "stuck"
    LATENT = "latent"
    HELD = "held"
    FAILED = "failed"


class ConsumerStatus(NamedTuple):
    """A consumer's state, with the reason."""

    state: State
    reason: str
    #: How many of its pods are not known to be up to date, as far as they were counted.
    behind: int = 0


class LastDecision(NamedTuple):
    """The parts of the last decision on a consumer that its status needs."""

    reason: str
    #: Whether it failed, needs a user, or waits for something to happen.
    failed: bool = False
    held: bool = False
    waits: bool = False
    #: Whether something changed and was only reported.
    only_reported: bool = False
    #: Sources that some container requires and that do not exist.
    missing_sources: tuple[ObjectKey, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more follows from the decision."""
        return not (self.failed or self.held or self.waits)


_NOT_RECONCILED = ConsumerStatus(State.UNVERIFIED, "not reconciled yet")
_NOT_VERIFIED = ConsumerStatus(State.UNVERIFIED, "not verified yet")
_LATENT = ConsumerStatus(State.LATENT, "some pods may run with older content")
UP_TO_DATE = ConsumerStatus(State.CURRENT, "content is up to date")
NO_PODS = ConsumerStatus(State.CURRENT, "no pods; new pods start with the current content")


def derive_status(
    consumer: Consumer,
    last: LastDecision | None,
    pods_checked: PodCheck | None,
    pod_check: ConsumerStatus | None,
) -> ConsumerStatus:
    """Derive a consumer's status without a request.

    `last` is None before the first decision, `pods_checked` when there is no record of it, and
    `pod_check` is the result of the last check of its pods, None where all were current.
    """
    if last is None or pods_checked is None:
        return _NOT_RECONCILED
    if last.failed:
        return ConsumerStatus(State.FAILED, last.reason)
    if last.held:
        return ConsumerStatus(State.HELD, last.reason)
    if last.missing_sources:
        return _missing_source_status(last.missing_sources)
    if last.waits:
        return ConsumerStatus(State.WAITING, last.reason)
    if pods_checked is PodCheck.CURRENT:
        return UP_TO_DATE
    if pods_checked is PodCheck.LATENT:
        reported = ConsumerStatus(State.LATENT, last.reason) if last.only_reported else _LATENT
        return pod_check or reported
    return pod_check or rollout_status(consumer) or _NOT_VERIFIED


def _missing_source_status(sources: Sequence[ObjectKey]) -> ConsumerStatus:
    names = _join_names([str(source) for source in sources])
    verb = "is" if len(sources) == 1 else "are"
    return ConsumerStatus(
        State.WAITING,
        f"{names} {verb} gone; running pods keep what they have, new pods cannot start",
    )


def rollout_status(consumer: Consumer) -> ConsumerStatus | None:
    """Derive from its own status what a consumer's rollout waits for; None: nothing."""
    if not consumer.behind:
        return None
    state, why = State.WAITING, "rollout in progress"
    if consumer.paused and consumer.key.kind != "Rollout":
        state, why = State.PAUSED, "rollout is paused"
    elif consumer.update_strategy == "OnDelete":
        why = "OnDelete: pods are replaced only when deleted"
    elif consumer.partition:
        why = f"partition {consumer.partition}: pods with a lower ordinal are not updated"
    elif consumer.key.kind == "Rollout":
        why = "canary is paused" if consumer.paused else "canary in progress"
    return _waiting(consumer.behind, why, state=state)


def status_from_pods(
    consumer: Consumer,
    proofs: Sequence[PodProof],
    desired: DesiredContent,
    *,
    stalled: bool = False,
    retried: bool = False,
    agents_restart: bool = False,
) -> ConsumerStatus:
    """Derive the status of a consumer from its pods, after a rollout or an adoption.

    It is current when every pod is ready and has evidence for the desired content; otherwise the
    reason is the first of: stuck, not running, rollout not complete, older content, not ready.

    `stalled` says that its own controller has reported no progress for a while, `retried` that it
    has not for so long that kubelets have restarted what crashes; `agents_restart` says that
    agents in its pods restart the application for content that is read at start.
    """
    rollout = rollout_status(consumer)
    if rollout is not None and stalled and (name := _find_stuck_pod(consumer, proofs, retried)):
        why = f"{name} is not ready and not of the newest template, so it is not replaced"
        return _waiting(consumer.behind, f"{why}; delete pod {name}", state=State.STUCK)
    down = [proof for proof in proofs if proof.pod.is_down]
    unready = [proof for proof in proofs if not proof.pod.ready]
    if any(proof.pod.waiting_reason for proof in down) or (down and rollout is None):
        return _waiting_for(down, max(len(down), consumer.behind), "running")
    if rollout is not None:
        blocked = stalled and rollout.state is not State.PAUSED and unready
        return _waiting_for(unready, consumer.behind, "ready") if blocked else rollout
    older = [proof for proof in proofs if proof.pod.ready and not proof.loaded.reached]
    if older:
        return _status_of_older_pods(older, len(proofs), desired, agents_restart=agents_restart)
    if unready:
        return _waiting_for(unready, len(unready), "ready")
    return _current_status(proofs)


def _status_of_older_pods(
    older: Sequence[PodProof], total: int, desired: DesiredContent, *, agents_restart: bool
) -> ConsumerStatus:
    """Return whether pods without evidence for the desired content get it by themselves."""
    names = _join_names([proof.pod.start.name for proof in older])
    targets = [proof.pod.nudged for proof in older]
    if agents_restart and all(
        target is not None and target.frozen == desired.target.frozen for target in targets
    ):
        why = f"the agent in {names} has not restarted the application yet"
        return _waiting(len(older), why)
    if all(proof.files_pending for proof in older):
        return _waiting(len(older), "files are updated at the kubelet's next sync, within 90s")
    return ConsumerStatus(
        State.LATENT,
        f"{len(older)} of {_count_pods(total)} may run with older content "
        f"({names}: {older[0].loaded.reason}); takes effect at the next restart",
        len(older),
    )


def _find_stuck_pod(consumer: Consumer, proofs: Sequence[PodProof], retried: bool) -> str:
    """Return the pod that its StatefulSet waits for without progress, or ""."""
    if not consumer.ordered or consumer.update_strategy == "OnDelete":
        return ""
    for proof in proofs:
        pod = proof.pod
        is_other = bool(pod.template) and pod.template != consumer.template_version
        if is_other and not pod.ready and (retried or not pod.is_down):
            return pod.start.name
    return ""


def _waiting_for(proofs: Sequence[PodProof], behind: int, condition: str) -> ConsumerStatus:
    """Describe the pods that are not running or not ready."""
    reasons = sorted({proof.pod.waiting_reason for proof in proofs if proof.pod.waiting_reason})
    names = _join_names([proof.pod.start.name for proof in proofs])
    verb = "is" if len(proofs) == 1 else "are"
    why = f" ({', '.join(reasons)})" if reasons else ""
    return _waiting(behind, f"{names} {verb} not {condition}{why}")


def _waiting(behind: int, why: str, *, state: State = State.WAITING) -> ConsumerStatus:
    return ConsumerStatus(state, f"waiting for {_count_pods(behind)}: {why}", behind)


def _current_status(proofs: Sequence[PodProof]) -> ConsumerStatus:
    if not proofs:
        return NO_PODS
    ways = sorted({proof.loaded.confidence.value for proof in proofs})
    return UP_TO_DATE._replace(reason=f"{UP_TO_DATE.reason} ({', '.join(ways)})")


def _count_pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _join_names(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
