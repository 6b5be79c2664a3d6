"""Which workloads may be rolled out now, if a source has a limit.

A rollout takes a turn of each changed source with a limit, from its write until all pods of the
workload are replaced and available. A bad value therefore reaches no more workloads than the limit
says: one that does not become available keeps its turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import ROLLABLE

__all__ = ["describe_wait", "is_rolled_out", "replaces_pods", "sources_of_rollout"]

_ROLLOUTS = (ActionType.ROLLOUT, ActionType.RESTART_PODS)


def sources_of_rollout(decision: Decision) -> list[ObjectKey]:
    """List the sources whose change a decision rolls out; none if it replaces no pods now."""
    plan = decision.plan
    rolls_out = any(action.type in _ROLLOUTS and not action.pauses for action in plan.actions)
    if not rolls_out or not replaces_pods(decision.snapshot.consumer):
        return []
    return decision.changed_sources()


def replaces_pods(consumer: Consumer) -> bool:
    """Return whether a workload's own controller replaces pods after a rollout, without a user."""
    return (
        consumer.key.kind in ROLLABLE
        and not consumer.paused
        and consumer.replicas != 0
        and consumer.update_strategy != "OnDelete"
        and (consumer.replicas is None or consumer.partition < consumer.replicas)
    )


def is_rolled_out(consumer: Consumer, generation: int) -> bool:
    """Return whether all pods are replaced and available, or no pod is replaced any more.

    `generation` is that of the rollout. Pods below the partition of a StatefulSet are not replaced.
    """
    if consumer.generation < generation:
        return False
    if not replaces_pods(consumer):
        return True
    replaced = not consumer.rolling or 0 < consumer.behind <= consumer.partition
    return replaced and consumer.available >= consumer.wanted


def describe_wait(limits: Mapping[ObjectKey, int]) -> str:
    """Describe why a rollout waits for its turn; `limits` are those of the sources in question."""
    source, limit = min(limits.items(), key=lambda item: (item[1], item[0]))
    command = f"hotmap status {source.kind.lower()}/{source.name} -n {source.namespace}"
    return (
        f"waits for its turn: {source} allows {limit} {'workload' if limit == 1 else 'workloads'} "
        f"at a time (see '{command}')"
    )
