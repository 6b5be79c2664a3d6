"""How a change of spec.replicas is followed, also in the middle of a rollout."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.local.controllers.objects import Object, replica_set

from hotmap.local.controllers.rolling import (
    Bounds,
    Scale,
    has_scaling_pending,
    plan_scaling,
    replicas_annotations,
)


def _sizes(plan: list[Scale]) -> dict[str, int]:
    return {scaled["metadata"]["name"]: replicas for scaled, replicas in plan}


def _sized(name: str, replicas: int, bounds: Bounds, **status: Any) -> Object:
    return replica_set(name, replicas, annotations=replicas_annotations(bounds), **status)


def test_scaling_is_detected_by_desired_replicas_annotation() -> None:
    """A different desired-replicas note means scaling; no note or no replicas means none."""
    before = Bounds(3, 1, 0)
    assert has_scaling_pending([_sized("a", 3, before)], 5)
    assert not has_scaling_pending([_sized("a", 3, before)], 3)
    assert not has_scaling_pending([_sized("a", 0, before)], 5)
    assert not has_scaling_pending([replica_set("a", 3)], 5)


def test_scaling_resizes_single_active_replica_set() -> None:
    """One ReplicaSet with pods, whether new or old, becomes as large as the Deployment."""
    new, old = replica_set("new", 0), replica_set("old", 3)
    plan = plan_scaling(Bounds(5, 1, 0), new, [old], rolling=True, status_total=3)
    assert _sizes(plan) == {"old": 5}


def test_scaling_without_active_replica_sets_grows_newest() -> None:
    """Scaled to zero and back: the newest ReplicaSet gets the pods."""
    old = [
        replica_set("a", 0, created="2026-01-01T00:00:00Z"),
        replica_set("b", 0, created="2026-01-01T00:00:01Z"),
    ]
    bounds = Bounds(2, 1, 0)
    assert _sizes(plan_scaling(bounds, None, old, rolling=True, status_total=0)) == {"b": 2}
    new = replica_set("new", 0)
    assert _sizes(plan_scaling(bounds, new, old, rolling=True, status_total=0)) == {"new": 2}
    assert plan_scaling(bounds, None, [], rolling=True, status_total=0) == []


def test_scaling_to_present_size_updates_annotation() -> None:
    """A ReplicaSet sized by hand to the new size keeps it, and the scaling counts as done."""
    rs = _sized("new", 5, Bounds(3, 1, 0))
    bounds = Bounds(5, 2, 1)
    assert _sizes(plan_scaling(bounds, rs, [], rolling=True, status_total=5)) == {"new": 5}


def test_scaling_up_is_proportional() -> None:
    """10 replicas, surge 3, in mid-rollout at 8 and 5, are scaled to 15: 20 pods, 12 and 8."""
    before, after = Bounds(10, 3, 2), Bounds(15, 5, 3)
    old, new = _sized("old", 8, before), _sized("new", 5, before, available=0)
    plan = plan_scaling(after, new, [old], rolling=True, status_total=13)
    assert _sizes(plan) == {"old": 12, "new": 8}


def test_scaling_down_is_proportional() -> None:
    """The same rollout scaled to 5, surge 2: 7 pods, 4 and 3."""
    before, after = Bounds(10, 3, 2), Bounds(5, 2, 1)
    old, new = _sized("old", 8, before), _sized("new", 5, before, available=0)
    plan = plan_scaling(after, new, [old], rolling=True, status_total=13)
    assert _sizes(plan) == {"old": 4, "new": 3}


def test_scaling_to_zero_during_rollout_empties_all_replica_sets() -> None:
    """No replicas means no pods, surge or not."""
    before = Bounds(10, 3, 2)
    old, new = _sized("old", 8, before), _sized("new", 5, before, available=0)
    plan = plan_scaling(Bounds(0, 0, 0), new, [old], rolling=True, status_total=13)
    assert _sizes(plan) == {"old": 0, "new": 0}


def test_saturated_new_replica_set_empties_old_ones() -> None:
    """When the new one has all its pods available, nothing of the old ones is scaled up."""
    bounds = Bounds(3, 1, 0)
    old, new = _sized("old", 1, bounds), _sized("new", 3, bounds)
    assert _sizes(plan_scaling(bounds, new, [old], rolling=True, status_total=4)) == {"old": 0}


def test_recreate_strategy_does_not_scale_proportionally() -> None:
    """Without a rolling strategy there are no shares; the rollout itself sorts it out."""
    before = Bounds(3, 0, 0)
    old, new = _sized("old", 2, before), _sized("new", 1, before, available=0)
    assert plan_scaling(Bounds(5, 0, 0), new, [old], rolling=False, status_total=3) == []


@given(
    st.integers(0, 30),
    st.integers(0, 10),
    st.lists(st.integers(1, 15), min_size=2, max_size=5),
    st.integers(1, 40),
)
def test_proportional_shares_add_up_to_allowed_size(
    replicas: int, surge: int, sizes: list[int], noted: int
) -> None:
    """Whatever the rounding, all pods together are replicas + surge, and no count is below zero."""
    note = replicas_annotations(Bounds(noted, 0, 0))
    sets = [replica_set(f"rs-{i}", n, available=0, annotations=note) for i, n in enumerate(sizes)]
    bounds = Bounds(replicas, surge, 0)
    plan = plan_scaling(bounds, sets[-1], sets[:-1], rolling=True, status_total=sum(sizes))
    after = [scale.replicas for scale in plan]
    assert min(after) >= 0
    allowed = bounds.max_pods if replicas else 0
    assert sum(after) >= allowed
    if sum(sizes) < allowed:
        assert sum(after) == allowed
