"""A consumer that is rolled again and again is rolled less and less often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.flap_breaker import (
    LIMIT,
    WINDOW,
    limit_flapping,
    note_rollout,
    rollout_allowed_at,
)
from hotmap.core.decide.plan import Action, ActionType, Plan
from hotmap.core.model.state import RolloutTimes

ROLL = Plan(
    Verdict.FROZEN,
    (Action(ActionType.ROLLOUT),),
    "it changed: rolling out",
    "it changed",
    settles=True,
)
NUDGE = Plan(Verdict.LIVE, (Action(ActionType.NUDGE),), "it changed: nudge", settles=True)
NOW = 1_000_000.0


def rolled(*seconds_ago: float) -> RolloutTimes:
    rolls = RolloutTimes()
    for ago in sorted(seconds_ago, reverse=True):
        rolls = note_rollout(rolls, NOW - ago)
    return rolls


def test_first_rollouts_are_allowed() -> None:
    """Fewer than five in ten minutes are not limited."""
    assert limit_flapping(ROLL, rolled(4, 3, 2, 1), now=NOW, writers=()) == ROLL


def test_sixth_in_ten_minutes_is_held() -> None:
    """It is held until the first of the five is ten minutes old, and says who wrote."""
    plan = limit_flapping(
        ROLL, rolled(100, 80, 60, 40, 20), now=NOW, writers=("ci", "argocd", "ci")
    )
    assert plan.actions == ()
    assert plan.requeue_after == WINDOW - 100
    assert (plan.warning, plan.settles) == (True, False)
    assert plan.reason == (
        "it changed: rollout suppressed: 5 in 10m; last modified by argocd and ci"
    )


def test_five_in_more_than_ten_minutes_are_allowed() -> None:
    """What lies farther back does not count."""
    assert limit_flapping(ROLL, rolled(601, 80, 60, 40, 20), now=NOW, writers=()) == ROLL


def test_nudge_is_never_held() -> None:
    """A nudge is no disruption."""
    assert limit_flapping(NUDGE, rolled(5, 4, 3, 2, 1), now=NOW, writers=()) == NUDGE


def test_repeated_flapping_is_held_longer() -> None:
    """Each rollout right after a hold doubles the window, up to eight times."""
    rolls, now, waits = rolled(5, 4, 3, 2, 1), NOW, []
    for _ in range(40):
        ready = rollout_allowed_at(rolls, now)
        waits.append(ready - now)
        now = max(now, ready)
        rolls = note_rollout(rolls, now)
    # In the end five rollouts take eight times ten minutes.
    assert sum(waits[-2 * LIMIT :]) >= 2 * 8 * WINDOW - 1


def test_quiet_hour_resets_the_breaker() -> None:
    """After an hour without rollouts the window is the first one again."""
    rolls = RolloutTimes(tuple(NOW - 8000 - n for n in range(LIMIT, 0, -1)), held=3)
    assert rollout_allowed_at(rolls, NOW) == NOW
    assert note_rollout(rolls, NOW) == RolloutTimes((NOW,), 0)


@given(st.lists(st.floats(0, 2000), min_size=1, max_size=60))
def test_at_most_five_rollouts_in_ten_minutes(pauses: list[float]) -> None:
    """Any ten minutes have at most five rollouts, whenever they are requested."""
    rolls, now, times = RolloutTimes(), NOW, []
    for pause in pauses:
        now += pause
        if rollout_allowed_at(rolls, now) <= now:
            rolls = note_rollout(rolls, now)
            times.append(now)
    for start in times:
        assert sum(start <= at < start + WINDOW for at in times) <= LIMIT
