"""A consumer that is rolled again and again is rolled less and less often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.decide.flap_breaker import LIMIT, WINDOW, brake, note_roll, ready_at
from hotmap.core.decide.freshness import Verdict
from hotmap.core.decide.plan import Act, Action, Plan
from hotmap.core.model.state import Rolls

ROLL = Plan(Verdict.FROZEN, (Action(Act.ROLLOUT),), "it changed: rollout", settles=True)
NUDGE = Plan(Verdict.LIVE, (Action(Act.NUDGE),), "it changed: nudge", settles=True)
NOW = 1_000_000.0


def rolled(*seconds_ago: float) -> Rolls:
    rolls = Rolls()
    for ago in sorted(seconds_ago, reverse=True):
        rolls = note_roll(rolls, NOW - ago)
    return rolls


def test_the_first_rollouts_are_free() -> None:
    """Fewer than five in ten minutes are nobody's business."""
    assert brake(ROLL, rolled(4, 3, 2, 1), now=NOW, writers=()) == ROLL


def test_the_sixth_in_ten_minutes_is_held() -> None:
    """It is held until the first of the five is ten minutes old, and says who wrote."""
    plan = brake(ROLL, rolled(100, 80, 60, 40, 20), now=NOW, writers=("ci", "argocd", "ci"))
    assert plan.actions == ()
    assert plan.requeue_after == WINDOW - 100
    assert (plan.warning, plan.settles) == (True, False)
    assert plan.reason == (
        "it changed: rollout; held, since it was rolled 5 times in 10 minutes; "
        "written last by argocd and ci"
    )


def test_five_in_more_than_ten_minutes_are_free() -> None:
    """What lies farther back does not count."""
    assert brake(ROLL, rolled(601, 80, 60, 40, 20), now=NOW, writers=()) == ROLL


def test_a_nudge_is_never_held() -> None:
    """It disturbs nobody."""
    assert brake(NUDGE, rolled(5, 4, 3, 2, 1), now=NOW, writers=()) == NUDGE


def test_who_goes_on_waits_longer() -> None:
    """Each rollout right after a hold doubles the window, up to eight times."""
    rolls, now, waits = rolled(5, 4, 3, 2, 1), NOW, []
    for _ in range(40):
        ready = ready_at(rolls, now)
        waits.append(ready - now)
        now = max(now, ready)
        rolls = note_roll(rolls, now)
    # In the end five rollouts take eight times ten minutes.
    assert sum(waits[-2 * LIMIT :]) >= 2 * 8 * WINDOW - 1


def test_an_hour_of_peace_gives_everything_back() -> None:
    """Nothing is held against a consumer for ever."""
    rolls = Rolls(tuple(NOW - 8000 - n for n in range(LIMIT, 0, -1)), held=3)
    assert ready_at(rolls, NOW) == NOW
    assert note_roll(rolls, NOW) == Rolls((NOW,), 0)


@given(st.lists(st.floats(0, 2000), min_size=1, max_size=60))
def test_never_more_than_five_in_ten_minutes(pauses: list[float]) -> None:
    """Whoever asks whenever: any ten minutes see at most five rollouts."""
    rolls, now, times = Rolls(), NOW, []
    for pause in pauses:
        now += pause
        if ready_at(rolls, now) <= now:
            rolls = note_roll(rolls, now)
            times.append(now)
    for start in times:
        assert sum(start <= at < start + WINDOW for at in times) <= LIMIT
