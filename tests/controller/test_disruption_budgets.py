"""Which PodDisruptionBudgets of a namespace count for the pods of a workload."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.controller.world import NAMESPACE, World

from hotmap.controller.watch.disruption_budgets import DisruptionBudgets
from hotmap.core.decide.disruption_budget import MAX_BUDGETS
from hotmap.core.model.objects import Pod

PODS = [
    msgspec.convert({"metadata": {"name": name, "labels": {"app": name}}}, Pod)
    for name in ("web", "web-of-a-user")
]


async def create(world: World, name: str, selector: dict[str, Any]) -> None:
    body = {"metadata": {"name": name}, "spec": {"selector": selector, "minAvailable": 1}}
    await world.registry.create("poddisruptionbudgets", NAMESPACE, body, manager="kubectl")


async def find(world: World) -> list[tuple[str, frozenset[str]]]:
    """Find the budgets of PODS: names, and the names of the pods that each selects."""
    found = await DisruptionBudgets(world.client).find(NAMESPACE, PODS)
    return [(budget.metadata.name, names) for budget, names in found]


async def test_budgets_that_select_a_pod_are_found(world: World) -> None:
    """By name, each with the pods that it selects."""
    await create(world, "z", {"matchLabels": {"app": "web"}})
    await create(world, "db", {"matchLabels": {"app": "db"}})
    await create(world, "a", {})
    assert await find(world) == [
        ("a", frozenset({"web", "web-of-a-user"})),
        ("z", frozenset({"web"})),
    ]


async def test_one_budget_too_many_is_found_with_all_pods(world: World) -> None:
    """It allows none of them; the others, of which there may be thousands, are not compared."""
    for number in range(10, 10 + MAX_BUDGETS + 2):
        await create(world, f"web-{number}", {"matchLabels": {"app": "web"}})
    *others, last = await find(world)
    assert others == [(f"web-{number}", frozenset({"web"})) for number in range(10, 20)]
    assert last == ("web-20", frozenset({"web", "web-of-a-user"}))
