"""PodDisruptionBudgets allow as many disruptions as their status and their pods say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hotmap.core.decide.disruption_budget import (
    MAX_BUDGETS,
    DisruptionBudget,
    budgets_of_pods,
    names_selected,
    selector_matches,
)
from hotmap.core.model.objects import (
    DisruptionBudgetSpec,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
)

LABELS = {"app": "web", "tier": "front"}


def selector(**fields: Any) -> LabelSelector:
    return msgspec.convert(fields, LabelSelector)


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    expressions = [{"key": key, "operator": operator, "values": list(values)}]
    return selector(matchExpressions=expressions)


@pytest.mark.parametrize(
    ("given", "matches"),
    [
        (None, False),
        (selector(), True),
        (selector(matchLabels={"app": "web"}), True),
        (selector(matchLabels={"app": "web", "tier": "back"}), False),
        (selector(matchLabels={"zone": ""}), False),
        (expression("app", "In", "api", "web"), True),
        (expression("app", "In", "api"), False),
        (expression("zone", "In", "a"), False),
        (expression("app", "NotIn", "web"), False),
        (expression("zone", "NotIn", "a"), True),
        (expression("app", "Exists"), True),
        (expression("zone", "Exists"), False),
        (expression("zone", "DoesNotExist"), True),
        (expression("app", "DoesNotExist"), False),
        (expression("app", "Matches", "web"), False),
    ],
)
def test_selector_matches_as_in_kubernetes(given: LabelSelector | None, matches: bool) -> None:
    """An absent selector matches nothing, an empty one everything."""
    assert selector_matches(given, LABELS) is matches


def pod(name: str, **labels: str) -> Pod:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Pod)


def budget(name: str = "web", *, generation: int = 1, **status: int) -> PodDisruptionBudget:
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    content = {
        "metadata": {"name": name, "generation": generation},
        "spec": spec,
        "status": {"observedGeneration": 1, "desiredHealthy": 2, "expectedPods": 4, **status},
    }
    return msgspec.convert(content, PodDisruptionBudget)


PODS = (pod("a", app="web"), pod("b", app="web"), pod("c", app="api"))


def of_pods(*budgets: PodDisruptionBudget, not_ready: str = "") -> tuple[DisruptionBudget, ...]:
    """What budgets allow for the pods that each selects of PODS."""
    selected = [(each, frozenset(names_selected(each, PODS))) for each in budgets]
    return budgets_of_pods(selected, not_ready=frozenset(not_ready.split()))


@pytest.mark.parametrize(
    ("given", "not_ready", "allowed"),
    [
        (budget(disruptionsAllowed=2), "", 2),
        (budget(disruptionsAllowed=0), "", 0),
        # The status does not show yet that a pod is not Ready.
        (budget(disruptionsAllowed=2), "a", 1),
        (budget(disruptionsAllowed=2), "a b", 0),
        (budget(disruptionsAllowed=1), "a", 1),
        (budget(disruptionsAllowed=2), "c", 2),
        (budget(disruptionsAllowed=2, generation=2), "", 0),
        (budget(disruptionsAllowed=-1), "", 0),
    ],
)
def test_budget_allows_what_its_status_says(
    given: PodDisruptionBudget, not_ready: str, allowed: int
) -> None:
    """Less the pods that are known not to be Ready, and nothing by an older status."""
    (found,) = of_pods(given, not_ready=not_ready)
    assert (found.allowed, found.pods) == (allowed, frozenset("ab"))


@pytest.mark.parametrize(
    ("status", "never"),
    [
        pytest.param({"disruptionsAllowed": 0, "desiredHealthy": 4}, True, id="it requires all"),
        pytest.param({"disruptionsAllowed": 0, "desiredHealthy": 5}, True, id="and more"),
        pytest.param({"disruptionsAllowed": 0}, False, id="some pods are not healthy now"),
        pytest.param({"disruptionsAllowed": 2}, False, id="it allows some"),
        pytest.param({"disruptionsAllowed": 0, "expectedPods": 0}, False, id="it has no pods"),
    ],
)
def test_budget_that_no_healthy_pod_satisfies_is_distinguished(
    status: dict[str, int], never: bool
) -> None:
    """Waiting helps only if the pods are not all healthy now."""
    (found,) = of_pods(budget("web", **status))
    assert found.is_never_satisfied is never


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param(selector(matchLabels={"app": "web"}), "a b", id="labels"),
        pytest.param(selector(matchLabels={"app": "db"}), "", id="other labels"),
        pytest.param(selector(), "a b c", id="empty"),
        pytest.param(None, "", id="none"),
        pytest.param(expression("app", "In", *map(str, range(499))), "", id="the largest"),
        pytest.param(expression("app", "In", *map(str, range(500))), "a b c", id="too many values"),
        pytest.param(
            selector(matchExpressions=[{"key": "app", "operator": "DoesNotExist"}] * 501),
            "a b c",
            id="too many expressions",
        ),
    ],
)
def test_large_selector_selects_every_pod(given: LabelSelector | None, names: str) -> None:
    """It is not compared with the labels of thousands of pods, so it may select any."""
    found = msgspec.structs.replace(budget(), spec=DisruptionBudgetSpec(selector=given))
    assert list(names_selected(found, PODS)) == names.split()


def test_one_budget_too_many_allows_nothing() -> None:
    """A workload has one, and the eviction API refuses a pod with two."""
    given = [budget(f"web-{n}", disruptionsAllowed=2) for n in range(MAX_BUDGETS + 1)]
    assert [each.allowed for each in of_pods(*given)] == [2] * MAX_BUDGETS + [0]
