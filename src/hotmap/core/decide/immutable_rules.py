"""The freshness rule for immutable sources that were recreated (rule 7).

A kubelet serves an immutable source for as long as a pod on its node uses it, whatever replaces it
in the cluster; also to new pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from hotmap.core.decide.assessment import Case, Finding, OtherUse, Verdict
from hotmap.core.decide.evidence import MARGIN, PodStart, all_created_since, all_started_after
from hotmap.core.decide.immutable_uses import has_unrecorded_predecessor
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import SourceRecord

__all__ = [
    "assess_recreated_immutable",
    "assess_unrecorded_pin",
    "may_be_pinned",
    "serves_another",
]

#: Seconds until a hold is checked again, since nothing announces its end: while it waits for new
#: pods or for pods of others, and while it waits for pods that are terminating. A user who has
#: scaled to zero may scale up as soon as the last pods have ended.
_WAIT_FOR_OTHERS, _WAIT_FOR_LAST_PODS = 10.0, 1.0

_NOT_HELD = "it is not held any more"
_TO_ZERO = f"scale to zero until {_NOT_HELD}"
_NO_NODE = f"give it a nodeSelector that matches no node until {_NOT_HELD}"


def assess_unrecorded_pin(case: Case) -> Finding | None:
    """Rule 7, where the record of the source does not show that it was immutable before."""
    current, record, recorded = case.current, case.snapshot.record, case.recorded
    if not current.exists:
        return None
    if recorded is None or not recorded.uid:
        if current.replaces_immutable:
            return assess_recreated_immutable(case)
        if (pinned := _assess_pinned_for_new_consumer(case)) is not None:
            return pinned
    if record is None or recorded is None:
        return None
    return assess_recreated_immutable(case) if has_unrecorded_predecessor(record, current) else None


def may_be_pinned(recorded: SourceRecord, current: SourceSnapshot) -> bool:
    """Return whether a kubelet may serve the content of an immutable source that was replaced.

    Also when the content of both was the same at first.
    """
    was_immutable = recorded.immutable or current.replaces_immutable
    return recorded.pinned or (was_immutable and recorded.uid != current.uid)


def serves_another(recorded: SourceRecord, current: SourceSnapshot) -> bool:
    """Return whether kubelets may serve an immutable source with other content than is current."""
    return may_be_pinned(recorded, current) and recorded.content != current.content


def _pods_never_overlap(consumer: Consumer, recorded_generation: int) -> bool:
    """Return whether no node has had two pods of a consumer at once, as far as its spec says.

    Those of a StatefulSet may share a node; with a single one, the recorded generation says that
    there were not more in between. A DaemonSet's may overlap: its controller replaces a pod that
    has ended before the pod is gone, and the kubelet serves the old content until then.
    """
    is_same_spec = consumer.generation == recorded_generation
    return consumer.key.kind == "StatefulSet" and consumer.wanted == 1 and is_same_spec


def assess_recreated_immutable(case: Case) -> Finding:
    """Rule 7: a kubelet serves the old content while any pod on its node uses the source.

    Also to pods of other workloads. So it ends when no pod of the namespace uses the source; or
    when a consumer has new pods that never overlap with its old ones, and has been the only user.
    """
    consumer, current, starts = case.snapshot.consumer, case.current, case.starts
    change = "recreated" if current.exists else "deleted"
    what = f"{current.source} was immutable and has been {change}"
    # A CronJob has pods only at times; they are found in the same way as pods of others.
    without_pods = consumer.has_no_pods or consumer.key.kind == "CronJob"
    if not without_pods:
        is_daemon_set = consumer.key.kind == "DaemonSet"  # it cannot be scaled to zero
        if not is_daemon_set and not _pods_never_overlap(consumer, case.recorded_generation):
            return _held(current, what)
        if starts is None:
            return Finding(current, Verdict.CHECK_OTHERS, f"{what}: checking when its pods started")
        if is_daemon_set and starts:
            return _held(current, what, remedy=_NO_NODE, recheck_in=_WAIT_FOR_OTHERS)
        if not _have_pods_read_it(starts, case.recorded, current):
            return _held(current, what, remedy="delete its pods", recheck_in=_WAIT_FOR_OTHERS)
    if current.source not in case.others:
        return Finding(current, Verdict.CHECK_OTHERS, f"{what}: checking which pods use it")
    if (other := case.others[current.source]) is not None:
        return _held_beside(other, case, current, what)
    why = "no pods use it" if without_pods or not starts else "all pods started after that"
    return Finding(current, Verdict.ADOPT, f"{what}; {why}")


def _have_pods_read_it(
    starts: Sequence[PodStart], recorded: SourceRecord | None, current: SourceSnapshot
) -> bool:
    """Return whether all pods are younger than a source, and than its last use by other pods."""
    shared_at = 0.0 if recorded is None else recorded.shared_at
    return _are_pods_younger(starts, current) and all_created_since(starts, shared_at + MARGIN)


def _assess_pinned_for_new_consumer(case: Case) -> Finding | None:
    """Rule 7 for a consumer that is new: pods from before may keep the old source in use.

    They are those of others, or its own: a workload that was deleted without its pods and created
    again adopts them.
    """
    snapshot, current = case.snapshot, case.current
    before = current.pinned_before
    if before is None:
        return None
    what = f"{current.source} was immutable and has been recreated"
    if current.source not in case.others:
        return Finding(current, Verdict.CHECK_OTHERS, f"{what}: checking which pods use it")
    held = current._replace(replaces_immutable=True)
    remedy = _NO_NODE if snapshot.consumer.key.kind == "DaemonSet" else _TO_ZERO
    own_before = before
    if before == inf:  # of its own, the pods that it has adopted from a deleted workload
        own_before = snapshot.template_at - MARGIN if snapshot.predecessor is not None else -inf
    if any(start.created < own_before for start in case.starts or ()):
        return _held(held, what, remedy=remedy)
    other = case.others[current.source]
    if other is not None and other.created < before:
        return _held_beside(other, case, held, what)
    if current.kept_in_use and case.starts:
        return _held(held, what, remedy=remedy, shared_at=snapshot.now)
    return None


def _held_beside(other: OtherUse, case: Case, current: SourceSnapshot, what: str) -> Finding:
    """Hold a source that another pod uses, or a terminating one of the consumer, until it ends."""
    again = _WAIT_FOR_LAST_PODS if other.own or other.ends else _WAIT_FOR_OTHERS
    # Only what later pods are compared with is kept: it would be written at each check.
    consumer = case.snapshot.consumer
    is_compared = consumer.key.kind == "StatefulSet" and not consumer.has_no_pods
    shared_at = case.snapshot.now if is_compared and not other.own else 0.0
    return _held(current, what, other.pod, shared_at=shared_at, recheck_in=again)


def _held(
    current: SourceSnapshot,
    what: str,
    pod: str = "",
    *,
    remedy: str = _TO_ZERO,
    shared_at: float = 0.0,
    recheck_in: float = 0.0,
) -> Finding:
    """Hold a source that kubelets may serve another one for; `pod` is another's that uses it."""
    why = f"{what}; kubelets serve the old content to new pods while any pod on the node uses it"
    if pod:
        why += f", as {pod} does"
        remedy = f"scale all workloads that use it to zero until {_NOT_HELD}"
    why += f". Use a new name, or {remedy}"
    return Finding(current, Verdict.HOLD, why, shared_at=shared_at, recheck_in=recheck_in)


def _are_pods_younger(starts: Sequence[PodStart], current: SourceSnapshot) -> bool:
    """Return whether all pods began to use a source after its last change.

    A container that is restarted gets what its kubelet serves to the pod since it was created.
    """
    at = current.changed_at
    if not all_started_after(starts, at, files=current.is_mounted):
        return False
    restarted = [start for start in starts if start.restarted]
    return not restarted or (at is not None and all_created_since(restarted, at + MARGIN))
