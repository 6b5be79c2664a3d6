"""How a rolling update moves: one direction per step, within maxSurge and maxUnavailable."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.local.controllers.objects import Object, deployment, replica_set, rolling

from hotmap.local.controllers.rolling import (
    Bounds,
    Scale,
    bounds_of,
    lasting_replicas,
    plan_recreate,
    plan_rolling,
    total_replicas,
)


@pytest.mark.parametrize(
    ("replicas", "max_surge", "max_unavailable", "expected"),
    [
        (3, "25%", "25%", (1, 0)),
        (4, "25%", "25%", (1, 1)),
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (3, 0, 1, (0, 1)),
        (3, 0, 0, (0, 1)),
        (3, "0%", "0%", (0, 1)),
        (2, "10%", "10%", (1, 0)),
        (2, 1, 5, (1, 2)),
        (0, "25%", "25%", (0, 0)),
        (100, "7%", "7%", (7, 7)),
    ],
)
def test_surge_is_rounded_up_and_unavailability_down(
    replicas: int, max_surge: int | str, max_unavailable: int | str, expected: tuple[int, int]
) -> None:
    """Percentages are of the replicas; both zero means that one may be unavailable."""
    strategy = rolling(max_surge, max_unavailable)
    bounds = bounds_of(deployment(replicas, strategy=strategy))
    assert expected == (bounds.max_surge, bounds.max_unavailable)


def test_recreate_allows_no_surge() -> None:
    """The Recreate strategy has neither surge nor unavailability to work with."""
    assert bounds_of(deployment(3, strategy={"type": "Recreate"})) == Bounds(3, 0, 0)


def test_three_replicas_roll_in_kubernetes_order() -> None:
    """new 0→1, old 3→2, new 1→2, old 2→1, new 2→3, old 1→0, each new pod becoming available."""
    bounds = bounds_of(deployment(3))
    sizes = {"old": 3, "new": 1}  # the new ReplicaSet is born with what the surge allows
    steps = []
    while True:
        new, old = (replica_set(name, sizes[name]) for name in ("new", "old"))
        plan = plan_rolling(bounds, new, [old])
        if not plan:
            break
        for changed, replicas in plan:
            name = changed["metadata"]["name"]
            steps.append((name, sizes[name], replicas))
            sizes[name] = replicas
    assert steps == [("old", 3, 2), ("new", 1, 2), ("old", 2, 1), ("new", 2, 3), ("old", 1, 0)]


def _sizes(plan: list[Scale]) -> dict[str, int]:
    return {scaled["metadata"]["name"]: replicas for scaled, replicas in plan}


@pytest.mark.parametrize(
    ("bounds", "new", "old", "expected"),
    [
        pytest.param(
            Bounds(3, 1, 0), (1, 0), [(3, 3)], {}, id="waits while the new pod is not available"
        ),
        pytest.param(
            Bounds(3, 1, 0), (1, 0), [(3, 2)], {}, id="an unhealthy old pod is not spare by itself"
        ),
        pytest.param(
            Bounds(4, 1, 1), (1, 0), [(4, 4)], {"old-0": 3}, id="maxUnavailable is used at once"
        ),
        pytest.param(
            Bounds(3, 1, 0), (5, 5), [], {"new": 3}, id="a new ReplicaSet that is too big shrinks"
        ),
        pytest.param(
            Bounds(10, 3, 2),
            (5, 0),
            [(8, 7)],
            {},
            id="new pods that crash keep old ones from going",
        ),
        pytest.param(
            Bounds(10, 3, 2),
            (5, 5),
            [(4, 0), (4, 4)],
            {"old-0": 0, "old-1": 3},
            id="unhealthy old pods go first, then what can be spared",
        ),
        pytest.param(
            Bounds(3, 1, 0),
            (0, 0),
            [(2, 0), (2, 2)],
            {"old-0": 1},
            id="rolling over: the stuck revision makes room for the next",
        ),
    ],
)
def test_rolling_step_sizes_replica_sets_within_bounds(
    bounds: Bounds,
    new: tuple[int, int],
    old: list[tuple[int, int]],
    expected: dict[str, int],
) -> None:
    """(wished, available) of the new and the old ReplicaSets, oldest first → their new sizes."""
    old_sets = [
        replica_set(f"old-{i}", size, available=available, created=f"2026-01-01T00:00:0{i}Z")
        for i, (size, available) in enumerate(old)
    ]
    new_set = replica_set("new", new[0], available=new[1], created="2026-01-02T00:00:00Z")
    assert _sizes(plan_rolling(bounds, new_set, old_sets)) == expected


def test_rolling_step_does_not_count_surplus_pods_twice() -> None:
    """A ReplicaSet that still reports more pods than it wants counts only what it keeps."""
    old = replica_set("old", 3, reported=4, available=4)
    new = replica_set("new", 1)
    assert _sizes(plan_rolling(Bounds(4, 0, 1), new, [old])) == {"old": 2}


@st.composite
def _rollouts(draw: st.DrawFn) -> tuple[Bounds, Object, list[Object]]:
    replicas = draw(st.integers(0, 12))
    surge = draw(st.integers(0, 5))
    unavailable = draw(st.integers(0 if surge else 1, 5))
    sets = []
    for i in range(draw(st.integers(1, 4))):
        size = draw(st.integers(0, 8))
        available = draw(st.integers(0, size + 2))
        sets.append(replica_set(f"rs-{i}", size, available=available))
    return Bounds(replicas, surge, min(unavailable, replicas)), sets[-1], sets[:-1]


@given(_rollouts())
def test_rolling_step_keeps_bounds(rollout: tuple[Bounds, Object, list[Object]]) -> None:
    """No step takes pods above the surge, or available pods below the minimum."""
    bounds, new, old = rollout
    plan = {s["metadata"]["uid"]: replicas for s, replicas in plan_rolling(bounds, new, old)}
    assume(plan)
    everything = [*old, new]
    after = [plan.get(rs["metadata"]["uid"], rs["spec"]["replicas"]) for rs in everything]
    before = total_replicas(everything)
    assert sum(after) <= max(before, bounds.max_pods)
    surviving = sum(map(min, map(lasting_replicas, everything), after))
    lasting = sum(map(lasting_replicas, everything))
    shrinking_new = plan.get(new["metadata"]["uid"], 0) < new["spec"]["replicas"]
    if not (shrinking_new and new["metadata"]["uid"] in plan):
        assert surviving >= min(lasting, bounds.min_available)


@given(_rollouts())
def test_rollout_ends_when_all_pods_are_available(
    rollout: tuple[Bounds, Object, list[Object]],
) -> None:
    """Step after step, with every pod becoming available, only the new ReplicaSet remains."""
    bounds, new, old = rollout
    for _ in range(200):
        for rs in (new, *old):
            rs["status"]["availableReplicas"] = rs["spec"]["replicas"]
        plan = plan_rolling(bounds, new, old)
        if not plan:
            break
        for changed, replicas in plan:
            changed["spec"]["replicas"] = replicas
    assert [rs["spec"]["replicas"] for rs in (new, *old)] == [bounds.replicas, *(0 for _ in old)]


def test_recreate_empties_old_before_filling_new() -> None:
    """Old ReplicaSets go to nothing in one step; the new one comes in the next."""
    bounds = Bounds(3, 0, 0)
    new = replica_set("new", 0)
    assert _sizes(plan_recreate(bounds, new, [replica_set("a", 2), replica_set("b", 1)])) == {
        "a": 0,
        "b": 0,
    }
    assert _sizes(plan_recreate(bounds, new, [replica_set("a", 0)])) == {"new": 3}
    assert plan_recreate(bounds, replica_set("new", 3), []) == []
    assert plan_recreate(bounds, None, []) == []
