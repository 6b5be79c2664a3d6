"""How many pods may be disrupted now, by the PodDisruptionBudgets that select them.

    no selector                  selects no pod, an empty one every pod of the namespace
    status of an older spec      allows none: it says nothing of the present one
    status.disruptionsAllowed    as many as the eviction API permits now
    pods known not to be Ready   count against it, though the status may not show them yet

kubernetes: pkg/registry/core/pod/storage/eviction.go, pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotmap.core.model.objects import LabelExpression, LabelSelector, Pod, PodDisruptionBudget

__all__ = ["DisruptionBudget", "budgets_of_pods", "selector_matches"]


class DisruptionBudget(NamedTuple):
    """What a PodDisruptionBudget allows for some pods of one namespace."""

    name: str
    #: Names of the pods that it selects.
    pods: frozenset[str]
    #: How many of them, and of other pods, may be disrupted now.
    allowed: int
    #: Healthy pods that it requires and pods that it expects, by its status.
    required: int = 0
    expected: int = 0

    @property
    def is_never_satisfied(self) -> bool:
        """Whether it allows no disruption although every pod is healthy."""
        return self.allowed <= 0 and 0 < self.expected <= self.required


def budgets_of_pods(
    budgets: Sequence[PodDisruptionBudget], pods: Sequence[Pod], *, not_ready: frozenset[str]
) -> tuple[DisruptionBudget, ...]:
    """Return the budgets that select any of the pods, by name.

    All are in one namespace; `not_ready` has the names of pods that are known not to be Ready.
    """
    found = []
    for budget in sorted(budgets, key=lambda each: each.metadata.name):
        names = frozenset(
            pod.metadata.name
            for pod in pods
            if selector_matches(budget.spec.selector, pod.metadata.labels or {})
        )
        if names:
            found.append(_budget(budget, names, len(names & not_ready)))
    return tuple(found)


def _budget(budget: PodDisruptionBudget, names: frozenset[str], not_ready: int) -> DisruptionBudget:
    status = budget.status
    allowed = min(
        status.disruptions_allowed, status.expected_pods - not_ready - status.desired_healthy
    )
    if status.observed_generation < budget.metadata.generation:
        allowed = 0
    return DisruptionBudget(
        budget.metadata.name,
        names,
        max(0, allowed),
        status.desired_healthy,
        status.expected_pods,
    )


def selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches labels.

    An absent one matches nothing, an empty one everything; an unknown operator matches nothing
    (apimachinery: metav1.LabelSelectorAsSelector).
    """
    if selector is None:
        return False
    return all(
        labels.get(key) == value for key, value in (selector.match_labels or {}).items()
    ) and all(_expression_matches(each, labels) for each in selector.match_expressions or ())


def _expression_matches(expression: LabelExpression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in (expression.values or ())
        case "NotIn":
            return value is None or value not in (expression.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
