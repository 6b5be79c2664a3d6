"""How a consumer stands: is what was asked of it real in all its pods, and if not, why not?

| state | meaning |
|---|---|
| current | all its pods hold what its sources have now, as far as can be known |
| unproven | it was adopted or rolled out, and its pods have not been looked at since |
| waiting | pods are not up to date yet; its own controller, or somebody, has to go on |
| paused | the same, and its rollout is paused |
| stuck | the same, and nothing goes on by itself: a person has to delete a pod |
| latent | pods may hold older content, and nobody acts; it takes effect at their next restart |
| held | a rollout would do harm or nothing; a person has to do something |
| failed | a write was refused; it is tried again |

A StatefulSet replaces one pod at a time and waits for each to be ready. A pod that runs with a bad
value and never gets ready therefore stays, also when the value is taken back: the newest template
is right, and the pod is not of it (kubernetes: pkg/controller/statefulset, updateStatefulSet; the
documentation calls it forced rollback). Only its deletion helps. One that crashes is another
matter: its kubelet starts it again, after 5 minutes at most, and then it reads what is there; only
if that has not helped it counts as stuck too.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import PodCheck
from hotmap.core.status.pods import Desired, PodProof

__all__ = [
    "CURRENT",
    "NEW",
    "ConsumerStatus",
    "Last",
    "State",
    "conclude",
    "remaining_rollout",
    "stand",
]


class State(enum.Enum):
    """The states above."""

    CURRENT = "current"
    UNPROVEN = "unproven"
    WAITING = "waiting"
    PAUSED = "paused"
    STUCK = "stuck"
    LATENT = "latent"
    HELD = "held"
    FAILED = "failed"


class ConsumerStatus(NamedTuple):
    """A consumer's state, with the reason in words."""

    state: State
    reason: str
    #: How many of its pods are not up to date, as far as anybody has counted.
    behind: int = 0


class Last(NamedTuple):
    """What the last decision on a consumer left behind."""

    reason: str
    #: Whether it failed, waits for a person, or waits for something to happen.
    failed: bool = False
    held: bool = False
    waits: bool = False
    #: Whether something changed and was only reported.
    only_reported: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the decision was the end of the matter."""
        return not (self.failed or self.held or self.waits)


NEW = ConsumerStatus(State.UNPROVEN, "it has not been looked at yet")
_UNSEEN = ConsumerStatus(State.UNPROVEN, "its pods have not been looked at since")
CURRENT = ConsumerStatus(State.CURRENT, "all pods hold the present content")
_LATENT = ConsumerStatus(State.LATENT, "pods were found that may hold older content")


def stand(
    consumer: Consumer,
    last: Last | None,
    pods_checked: PodCheck | None,
    found: ConsumerStatus | None,
) -> ConsumerStatus:
    """Conclude how a consumer stands, without a request.

    `last` is None before the first decision, `looked` when nothing is known of it, `found` what
    the last look at its pods has shown, where it was not that all is current.
    """
    if last is None or pods_checked is None:
        return NEW
    if last.failed:
        return ConsumerStatus(State.FAILED, last.reason)
    if last.held:
        return ConsumerStatus(State.HELD, last.reason)
    if last.waits:
        return ConsumerStatus(State.WAITING, last.reason)
    if pods_checked is PodCheck.CURRENT:
        return CURRENT
    if pods_checked is PodCheck.LATENT:
        reported = ConsumerStatus(State.LATENT, last.reason) if last.only_reported else _LATENT
        return found or reported
    return found or remaining_rollout(consumer) or _UNSEEN


def remaining_rollout(consumer: Consumer) -> ConsumerStatus | None:
    """Say what a consumer's own controller still has to do, by its own word; None: nothing."""
    if not consumer.behind:
        return None
    state, why = State.WAITING, "its rollout is in progress"
    if consumer.paused and consumer.key.kind != "Rollout":
        state, why = State.PAUSED, "its rollout is paused"
    elif consumer.update_strategy == "OnDelete":
        why = "OnDelete replaces a pod when somebody deletes it"
    elif consumer.partition:
        why = f"its partition keeps the pods below ordinal {consumer.partition} as they are"
    elif consumer.key.kind == "Rollout":
        why = "its canary is in progress" + (", and paused" if consumer.paused else "")
    return ConsumerStatus(state, f"waiting for {_pods(consumer.behind)}: {why}", consumer.behind)


def conclude(
    consumer: Consumer,
    proofs: Sequence[PodProof],
    desired: Desired,
    *,
    stalled: bool = False,
    retried: bool = False,
    agents_restart: bool = False,
) -> ConsumerStatus:
    """Conclude from its pods how a consumer stands, whose content was asked for or adopted.

    `stalled` says that its own controller has reported no progress for a while, `retried` that it
    has not for so long that kubelets have started again what crashes;
    `agents_restart` says that agents in its pods take what is read at start, once they are told.
    """
    left = remaining_rollout(consumer)
    if left is not None and stalled and (name := _stuck_pod(consumer, proofs, retried=retried)):
        why = f"{name} is not ready and not of the newest template, so nothing replaces it"
        reason = f"waiting for {_pods(consumer.behind)}: {why}; delete pod {name}"
        return ConsumerStatus(State.STUCK, reason, consumer.behind)
    down = [proof for proof in proofs if proof.seen.is_down]
    if any(proof.seen.trouble for proof in down) or (down and left is None):
        return _not_yet(down, max(len(down), consumer.behind), "run")
    if left is not None:
        unready = [proof for proof in proofs if not proof.seen.ready]
        blocked = stalled and left.state is not State.PAUSED and unready
        return _not_yet(unready, consumer.behind, "get ready") if blocked else left
    older = [proof for proof in proofs if not proof.loaded.reached]
    if not older:
        return ConsumerStatus(State.CURRENT, _how_known(proofs))
    names = _listed([proof.seen.start.name for proof in older])
    told = [one.seen.told.frozen == desired.target.frozen for one in older if one.seen.told]
    if agents_restart and len(told) == len(older) and all(told):
        why = f"the agents of {names} have not restarted the application yet"
        return ConsumerStatus(State.WAITING, f"waiting for {_pods(len(older))}: {why}", len(older))
    if all(proof.follows for proof in older):
        why = "files follow with the kubelet's own sync, within 90 s of the change"
        return ConsumerStatus(State.WAITING, f"waiting for {_pods(len(older))}: {why}", len(older))
    why = older[0].loaded.why
    return ConsumerStatus(
        State.LATENT,
        f"{len(older)} of {_pods(len(proofs))} may hold older content ({names}: {why}); "
        "it takes effect at the next restart",
        len(older),
    )


def _stuck_pod(consumer: Consumer, proofs: Sequence[PodProof], *, retried: bool) -> str:
    """Name the pod that its StatefulSet waits for in vain, or ""."""
    if not consumer.ordered or consumer.update_strategy == "OnDelete":
        return ""
    for proof in proofs:
        seen = proof.seen
        is_other = bool(seen.template) and seen.template != consumer.template_version
        if is_other and not seen.ready and (retried or not seen.is_down):
            return seen.start.name
    return ""


def _not_yet(late: Sequence[PodProof], behind: int, what: str) -> ConsumerStatus:
    """Say which pods a rollout waits for, that do not do something."""
    reasons = sorted({proof.seen.trouble for proof in late if proof.seen.trouble})
    names = _listed([proof.seen.start.name for proof in late])
    verb = "does" if len(late) == 1 else "do"
    why = f" ({', '.join(reasons)})" if reasons else ""
    return ConsumerStatus(
        State.WAITING, f"waiting for {_pods(behind)}: {names} {verb} not {what}{why}", behind
    )


def _how_known(proofs: Sequence[PodProof]) -> str:
    if not proofs:
        return "it has no pods; the next ones read what is there"
    ways = {proof.loaded.known.value for proof in proofs}
    return f"all pods hold the present content ({' or '.join(sorted(ways))})"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
