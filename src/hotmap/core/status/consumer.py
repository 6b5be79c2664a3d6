"""The status of a consumer: whether every pod has the current content, and if not, why.

| state | meaning |
|---|---|
| current | all its pods have the current content of its sources, as far as can be known |
| delivered | all its pods have the current files, and nothing shows whether processes use them |
| unverified | it was adopted or rolled out, and its pods have not been checked since |
| waiting | pods are not up to date yet; its own controller, or a user, has to act |
| paused | the same, and its rollout is paused |
| stuck | the same, and no progress by itself: a user has to delete a pod |
| latent | pods may have older content; it takes effect at their next restart |
| held | a rollout would do harm or nothing; a user has to act |
| refused | agents refused the content, so the old one stays in use; a user has to act |
| failed | a write was refused, or agents could not load the content; it is retried |
| unknown | agents in pods cannot be asked, or a source cannot be read any more |

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

from hotmap.core.duration import format_time_of_day
from hotmap.core.model.consumer import Argo, Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck
from hotmap.core.status.desired import DesiredContent
from hotmap.core.status.pods import PodProof
from hotmap.core.status.stage import PodState
from hotmap.core.text import join_names

__all__ = [
    "NO_PODS",
    "UP_TO_DATE",
    "ConsumerStatus",
    "LastDecision",
    "RolloutProgress",
    "State",
    "derive_status",
    "describe_agents",
    "pending_status",
    "rollout_status",
    "status_before_replacement",
    "status_from_pods",
]


class State(enum.Enum):
    """The states above."""

    CURRENT = "current"
    DELIVERED = "delivered"
    UNVERIFIED = "unverified"
    WAITING = "waiting"
    PAUSED = "paused"
    STUCK = "stuck"
    LATENT = "latent"
    HELD = "held"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


class ConsumerStatus(NamedTuple):
    """A consumer's state, with the reason."""

    state: State
    reason: str
    #: How many of its pods are not known to be up to date, as far as they were counted.
    behind: int = 0
    #: Whether a user has to act, independent of the state.
    needs_action: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether nothing is left to do: its pods have the content, as far as can be known."""
        return self.state in (State.CURRENT, State.DELIVERED)

    @property
    def action_required(self) -> bool:
        """Whether it cannot become current by itself."""
        return self.needs_action or self.state in _FINAL


#: The states that last until a user acts. A pod that is `stuck` may still become Ready, unless it
#: has had the time for that (`needs_action`).
_FINAL = (State.HELD, State.REFUSED, State.LATENT)


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
    #: Whether it waits without an action: for the own controller of the consumer, or a user.
    only_waits: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more follows from the decision."""
        return not (self.failed or self.held or self.waits)


class RolloutProgress(enum.Enum):
    """Whether a consumer's own controller has reported progress of its rollout lately."""

    RECENT = "recent"
    #: Not for a while.
    STALLED = "stalled"
    #: Not for so long that kubelets have restarted what crashes, after their longest back-off.
    RETRIED = "retried"


_NOT_RECONCILED = ConsumerStatus(State.UNVERIFIED, "not reconciled yet")
_NOT_VERIFIED = ConsumerStatus(State.UNVERIFIED, "not verified yet")
_LATENT = ConsumerStatus(State.LATENT, "some pods may run with older content")
UP_TO_DATE = ConsumerStatus(State.CURRENT, "content is up to date")
NO_PODS = ConsumerStatus(State.CURRENT, "no pods; new pods start with the current content")


_DELIVERED = ConsumerStatus(
    State.DELIVERED, "files are up to date; nothing shows whether the application uses them"
)

#: Reasons for which pods may have older content that one status gives.
_DESCRIBED = 3

#: Results of a check after which nothing more happens.
_REACHED = {PodCheck.CURRENT: UP_TO_DATE, PodCheck.DELIVERED: _DELIVERED}


def pending_status(settled_at: float | None) -> ConsumerStatus:
    """Return the status of a consumer whose sources changed and that is not decided on yet.

    Its changes settle until `settled_at`, in POSIX seconds; None: they have settled.
    """
    when = "reconcile pending"
    if settled_at is not None:
        when = f"to be reconciled at {format_time_of_day(settled_at)} UTC, after the settle time"
    return ConsumerStatus(State.WAITING, f"sources changed; {when}")


def derive_status(
    consumer: Consumer,
    last: LastDecision | None,
    pods_checked: PodCheck | None,
    pod_check: ConsumerStatus | None,
    *,
    announced: bool = False,
) -> ConsumerStatus:
    """Derive a consumer's status without a request.

    `last` is None before the first decision, `pods_checked` when there is no record of it, and
    `pod_check` is the result of the last check of its pods, None where all were current.
    `announced`: its pods were nudged with other content since that check, and agents not asked yet.
    """
    if last is None or pods_checked is None:
        return _NOT_RECONCILED
    # Without a pod check, none of its pods counts as having the content that was not applied.
    behind = (pod_check.behind if pod_check else 0) or consumer.pods
    if last.failed:
        return ConsumerStatus(State.FAILED, last.reason, behind)
    if last.held:
        return ConsumerStatus(State.HELD, last.reason, behind)
    if last.missing_sources:
        return _missing_source_status(last.missing_sources)
    if last.waits:
        is_aborted = consumer.argo is not None and consumer.argo.aborted
        state = State.PAUSED if consumer.is_rollout_paused else State.WAITING
        return ConsumerStatus(state, last.reason, needs_action=last.only_waits and is_aborted)
    if pods_checked in _REACHED and not announced:
        return rollout_status(consumer) or _REACHED[pods_checked]
    if pods_checked is PodCheck.LATENT and not announced:
        reported = ConsumerStatus(State.LATENT, last.reason, behind)
        return pod_check or (reported if last.only_reported else _LATENT)
    return pod_check or rollout_status(consumer) or _NOT_VERIFIED


def _missing_source_status(sources: Sequence[ObjectKey]) -> ConsumerStatus:
    names = join_names([str(source) for source in sources])
    verb = "does" if len(sources) == 1 else "do"
    return ConsumerStatus(
        State.WAITING,
        f"{names} {verb} not exist; running pods keep their content, new pods cannot start",
        needs_action=True,
    )


def rollout_status(consumer: Consumer) -> ConsumerStatus | None:
    """Derive from its own status what a consumer's rollout waits for; None: nothing."""
    if not consumer.behind:
        return None
    state, why = State.WAITING, "rollout in progress"
    if consumer.blocked_by:
        why = f"its ReplicaSet cannot create pods: {consumer.blocked_by}"
    if consumer.argo is not None:
        return _argo_status(consumer, consumer.argo)
    if consumer.paused:
        state, why = State.PAUSED, "rollout is paused"
    elif consumer.update_strategy == "OnDelete":
        why = "OnDelete: pods are replaced only when deleted"
    elif consumer.partition:
        why = f"partition {consumer.partition}: pods with a lower ordinal are not updated"
    return _waiting(consumer.behind, why, state=state)


def _argo_status(consumer: Consumer, argo: Argo) -> ConsumerStatus:
    """Describe a rollout that Argo runs, as its own phase does (argo-rollouts: utils/rollout)."""
    if argo.phase == "Degraded":
        # Nothing but an edit, a retry or an undo ends an abort.
        return _waiting(consumer.behind, argo.message or "degraded")._replace(
            needs_action=argo.aborted
        )
    if consumer.is_rollout_paused:
        why = f"rollout is paused ({argo.message})" if argo.message else "rollout is paused"
        return _waiting(consumer.behind, why, state=State.PAUSED)
    if argo.phase == "Healthy":
        return _waiting(consumer.behind, "older pods are kept for scaleDownDelaySeconds")
    return _waiting(consumer.behind, "rollout in progress")


def status_from_pods(
    consumer: Consumer,
    proofs: Sequence[PodProof],
    desired: DesiredContent,
    *,
    progress: RolloutProgress = RolloutProgress.RECENT,
) -> ConsumerStatus:
    """Derive the status of a consumer from its pods, after a rollout or an adoption.

    It is current when every pod is ready and has evidence for the desired content; otherwise the
    reason is the first of: stuck, refused or not loaded by agents, not running, rollout not
    complete, agents at work, unknown, older content, not ready.
    """
    rollout = rollout_status(consumer)
    stalled = progress is not RolloutProgress.RECENT
    retried = progress is RolloutProgress.RETRIED
    if rollout is not None and stalled and (stuck := _find_stuck_pod(consumer, proofs, retried)):
        name = stuck.pod.start.name
        why = f"{name} is not ready and not of the newest template, so it is not replaced"
        status = _waiting(consumer.behind, f"{why}; delete pod {name}", state=State.STUCK)
        return status._replace(needs_action=retried or stuck.long_unready)
    for state in (PodState.REFUSED, PodState.FAILED):
        if found := [proof for proof in proofs if proof.state is state]:
            return _status_of_agents(found, len(proofs))
    down = [proof for proof in proofs if proof.pod.is_down]
    unready = [proof for proof in proofs if not proof.pod.ready and desired.require_ready]
    if any(proof.pod.waiting_reason for proof in down) or (down and rollout is None):
        return _waiting_for(down, consumer.behind, "running")
    if rollout is not None:
        blocked = stalled and rollout.state is not State.PAUSED and unready
        return _waiting_for(unready, consumer.behind, "ready") if blocked else rollout
    serving = [proof for proof in proofs if proof.pod.ready or not desired.require_ready]
    older = [proof for proof in serving if not proof.loaded.reached]
    if found := [proof for proof in older if proof.loaded.state is not None]:
        return _status_of_agents(found, len(proofs))
    if older:
        return _status_of_older_pods(consumer, older, len(proofs), desired)
    if unready:
        waiting = _waiting_for(unready, len(unready), "ready")
        if all(proof.long_unready for proof in unready):
            return waiting._replace(reason=f"{waiting.reason}; {_NEVER_READY}")
        return waiting
    if not proofs and consumer.pods:
        why = "its own controller reports them, but no pod is listed that is not terminating"
        return _waiting(consumer.pods, why)
    return _current_status(proofs)


#: What an agent says, and the state of its consumer; other states are waited for.
_BY_POD_STATE = {
    PodState.REFUSED: State.REFUSED,
    PodState.FAILED: State.FAILED,
    PodState.UNKNOWN: State.UNKNOWN,
}


#: What to do about a pod that is never Ready, and need not be.
_NEVER_READY = (
    'if its pods are never ready by design, annotate it with hotmap.dev/require-ready: "false"'
)


def _status_of_agents(found: Sequence[PodProof], total: int) -> ConsumerStatus:
    """Describe the pods whose agents do not report the state current; the worst state first."""
    known = [proof for proof in found if proof.state is not PodState.UNKNOWN] or found
    first = known[0]
    same = [proof for proof in known if proof.state is first.state]
    reason = describe_agents(same, total)
    state = _BY_POD_STATE.get(first.state, State.WAITING)
    if state is State.WAITING:
        reason = f"waiting for {reason}"
    cannot_run = any(proof.loaded.permanent for proof in same)
    return ConsumerStatus(state, reason, len(found), needs_action=cannot_run)


def describe_agents(proofs: Sequence[PodProof], total: int) -> str:
    """Describe the pods with one agent state among `total` pods, and name the command for more."""
    first = proofs[0]
    names = join_names([proof.pod.start.name for proof in proofs])
    text = f"{len(proofs)} of {_count_pods(total)} ({names}): {first.loaded.reason}"
    if first.state is PodState.REFUSED:
        return f"{text}; see {first.pod.agent.output_command}"
    if first.state is PodState.FAILED:
        return f"{text}; see {first.pod.agent.log_command}"
    return text


def _status_of_older_pods(
    consumer: Consumer,
    older: Sequence[PodProof],
    total: int,
    desired: DesiredContent,
) -> ConsumerStatus:
    """Return whether pods without evidence for the desired content get it by themselves."""
    names = join_names([proof.pod.start.name for proof in older])
    if consumer.runs:
        why = f"the run in progress may have older content ({_describe_starts(older)})"
        return _waiting(len(older), f"{why}; the next one reads the current content")
    if all(proof.restart_pending for proof in older):
        why = f"the agent in {names} has not restarted the application yet"
        return _waiting(len(older), why)
    if all(proof.files_pending for proof in older):
        targets = [proof.pod.nudged for proof in older]
        nudged = all(target and target.live == desired.target.live for target in targets)
        when = (
            "being updated, which takes at most 5s"
            if nudged
            else "updated at the kubelet's next sync, within 90s"
        )
        return _waiting(len(older), f"files are {when}")
    # New pods read a source that hotmap may not read, too, but nothing would show what they read.
    outlook = "takes effect at the next restart"
    if desired.pinned is not None:
        outlook = f"takes effect once no pod on the node uses {desired.pinned}"
    if desired.unseen is not None:
        outlook = f"not known until hotmap may read {desired.unseen} again"
    return ConsumerStatus(
        State.LATENT,
        f"{len(older)} of {_count_pods(total)} may run with older content "
        f"({_describe_starts(older)}); {outlook}",
        len(older),
    )


def _describe_starts(proofs: Sequence[PodProof]) -> str:
    """Return why the first pods may have older content; those of one reason are one item."""
    alike: dict[str, list[str]] = {}
    for proof in proofs:
        alike.setdefault(proof.loaded.reason, []).append(proof.pod.start.name)
    parts = [f"{join_names(names)}: {reason}" for reason, names in alike.items()]
    left = sum(map(len, list(alike.values())[_DESCRIBED:]))
    more = [f"and {left} more"] if left else []
    return "; ".join(parts[:_DESCRIBED] + more)


def _find_stuck_pod(
    consumer: Consumer, proofs: Sequence[PodProof], retried: bool
) -> PodProof | None:
    """Return the pod that its StatefulSet waits for without progress."""
    if not consumer.ordered or consumer.update_strategy == "OnDelete":
        return None
    for proof in proofs:
        pod = proof.pod
        is_other = bool(pod.template) and pod.template != consumer.template_version
        if is_other and not pod.ready and (retried or not pod.is_down):
            return proof
    return None


def status_before_replacement(latent: ConsumerStatus) -> ConsumerStatus:
    """Return the status of a latent consumer whose older pods the controller may replace itself."""
    return _waiting(latent.behind, "may run with older content; checking whether to replace it")


def _waiting_for(proofs: Sequence[PodProof], behind: int, condition: str) -> ConsumerStatus:
    """Describe pods that are not running or not ready; a surge makes them more than are behind."""
    reasons = sorted({proof.pod.waiting_reason for proof in proofs if proof.pod.waiting_reason})
    names = join_names([proof.pod.start.name for proof in proofs])
    verb = "is" if len(proofs) == 1 else "are"
    why = f" ({', '.join(reasons)})" if reasons else ""
    return _waiting(max(len(proofs), behind), f"{names} {verb} not {condition}{why}")


def _waiting(behind: int, why: str, *, state: State = State.WAITING) -> ConsumerStatus:
    return ConsumerStatus(state, f"waiting for {_count_pods(behind)}: {why}", behind)


def _current_status(proofs: Sequence[PodProof]) -> ConsumerStatus:
    if not proofs:
        return NO_PODS
    delivered = [proof for proof in proofs if proof.state in (PodState.TOLD, PodState.DELIVERED)]
    if delivered:
        return ConsumerStatus(State.DELIVERED, describe_agents(delivered, len(proofs)))
    ways = sorted({proof.loaded.confidence.value for proof in proofs})
    return UP_TO_DATE._replace(reason=f"{UP_TO_DATE.reason} ({', '.join(ways)})")


def _count_pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
