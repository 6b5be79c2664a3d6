"""How many pods may be disrupted now, by the PodDisruptionBudgets that select them.

    no selector                  selects no pod, an empty one every pod of the namespace
    status of an older spec      allows none: it says nothing of the present one
    status.disruptionsAllowed    as many as the eviction API permits now
    pods known not to be Ready   count against it, though the status may not show them yet
    more than MAX_BUDGETS        the next one allows none, and further ones are not compared, also
                                 where each selects another pod
    a very large selector        counts as one that selects every pod

kubernetes: pkg/registry/core/pod/storage/eviction.go, pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hotmap.core.model.objects import LabelExpression, LabelSelector, Pod, PodDisruptionBudget

__all__ = [
    "MAX_BUDGETS",
    "DisruptionBudget",
    "budgets_of_pods",
    "names_selected",
    "selector_matches",
]

#: Budgets of one workload that count: mostly there is one, since the eviction API refuses a pod
#: with two. A tenant may have thousands that select all of its pods.
MAX_BUDGETS: Final = 10

#: Labels, expressions and values of the largest selector that is compared with each pod's labels.
_MAX_SELECTOR = 500


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


def names_selected(budget: PodDisruptionBudget, pods: Sequence[Pod]) -> Iterator[str]:
    """Name those of some pods of its namespace that a budget selects."""
    selector = budget.spec.selector
    is_large = _is_large(selector)
    for pod in pods:
        if is_large or selector_matches(selector, pod.metadata.labels or {}):
            yield pod.metadata.name


def budgets_of_pods(
    selected: Sequence[tuple[PodDisruptionBudget, frozenset[str]]], *, not_ready: frozenset[str]
) -> tuple[DisruptionBudget, ...]:
    """Return what budgets allow for the pods of a workload that each of them selects.

    `selected` has the names of these pods, and one budget more than MAX_BUDGETS at most, which
    allows none; `not_ready` has the names of pods that are known not to be Ready.
    """
    found = [
        _budget(budget, names, len(names & not_ready)) for budget, names in selected[:MAX_BUDGETS]
    ]
    rest = selected[MAX_BUDGETS:]
    return (*found, *(DisruptionBudget(budget.metadata.name, names, 0) for budget, names in rest))


def _is_large(selector: LabelSelector | None) -> bool:
    if selector is None:
        return False
    expressions = selector.match_expressions or ()
    size = len(selector.match_labels or ()) + len(expressions)
    if size > _MAX_SELECTOR:
        return True
    return size + sum(len(each.values or ()) for each in expressions) > _MAX_SELECTOR


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
