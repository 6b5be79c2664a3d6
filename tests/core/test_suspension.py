"""A user suspends all actions of a workload, or of all workloads of a Namespace."""

from __future__ import annotations

import pytest
from tests.support.objects import ENV, consumer

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.plan import Action, ActionType, Plan
from hotmap.core.decide.suspension import suspend
from hotmap.core.policy.annotations import read_policy

SUSPEND = "hotmap.dev/suspend"
ON_NAMESPACE = "hotmap.dev/suspend: true on the Namespace"


@pytest.mark.parametrize(
    ("own", "of_namespace", "suspended_by"),
    [
        (None, None, ""),
        ("true", None, "hotmap.dev/suspend: true"),
        (None, "true", ON_NAMESPACE),
        (None, "false", ""),
        ("false", "true", ""),
        ("true", "false", "hotmap.dev/suspend: true"),
        ("soon", None, "hotmap.dev/suspend: soon"),
        (None, "soon", "hotmap.dev/suspend: soon on the Namespace"),
    ],
)
def test_annotation_suspends(own: str | None, of_namespace: str | None, suspended_by: str) -> None:
    """That of the workload is used before that of its Namespace; an invalid one suspends."""
    web = consumer("Deployment", ENV, annotations={SUSPEND: own} if own else {})
    above = {SUSPEND: of_namespace} if of_namespace else {}
    assert read_policy(web, namespace_annotations=above).suspended_by == suspended_by


@pytest.mark.parametrize(
    "types",
    [
        *((type_,) for type_ in ActionType if type_ is not ActionType.NOTIFY),
        (ActionType.NUDGE, ActionType.NOTIFY),
    ],
)
def test_suspended_actions_are_held(types: tuple[ActionType, ...]) -> None:
    """The change stays to be applied, so it is not recorded; the reason says what suspends it."""
    plan = Plan(
        Verdict.FROZEN,
        tuple(map(Action, types)),
        "app changed: rolling out",
        "app changed",
        settles=True,
    )
    held = suspend(plan, ON_NAMESPACE)
    assert held.actions == ()
    assert held.reason == f"app changed: suspended by {ON_NAMESPACE}"
    assert (held.settles, held.warning, held.requeue_after) == (False, True, None)


@pytest.mark.parametrize("types", [(), (ActionType.NOTIFY,)])
def test_plan_that_writes_nothing_is_not_suspended(types: tuple[ActionType, ...]) -> None:
    """There is nothing to hold, so the content is recorded as otherwise."""
    plan = Plan(Verdict.UP_TO_DATE, tuple(map(Action, types)), "up to date", settles=True)
    assert suspend(plan, ON_NAMESPACE) is plan


def test_without_the_annotation_nothing_is_suspended() -> None:
    """The plan is carried out as it is."""
    plan = Plan(Verdict.FROZEN, (Action(ActionType.ROLLOUT),), "app changed: rolling out")
    assert suspend(plan, "") is plan
