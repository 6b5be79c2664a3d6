"""A consumer that is rolled again and again is rolled less and less often."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.flap_breaker import (
    LIMIT,
    WINDOW,
    add_rollout,
    find_hold,
    limit_flapping,
    release,
    remaining_spacing,
)
from hotmap.core.decide.plan import Action, ActionType, Plan
from hotmap.core.model.objects import ObjectKey
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
WEB = ObjectKey("Deployment", "shop", "web")


def rolled(contents: str, *, every: float, until: float = NOW, limit: int = LIMIT) -> RolloutTimes:
    """Roll a consumer from the first of some contents to each of the others, the last at `until`"""
    rollouts = RolloutTimes()
    for n, content in enumerate(contents[1:]):
        at = until - every * (len(contents) - 2 - n)
        rollouts = add_rollout(rollouts, at, content=content, previous=contents[n], limit=limit)
    return rollouts


def limited(
    rollouts: RolloutTimes, content: str = "B", plan: Plan = ROLL, now: float = NOW, **given: Any
) -> Plan:
    given = {"writers": (), "limit": LIMIT, **given}
    return limit_flapping(plan, rollouts, consumer=WEB, content=content, now=now, **given)


@pytest.mark.parametrize(
    ("contents", "every", "then", "until"),
    [
        # Four rollouts between two contents are a person who tries something.
        ("ABABA", 20, "B", None),
        # The sixth in ten minutes is held until the first of the five is ten minutes old.
        ("ABABAB", 20, "A", WINDOW - 80),
        ("ABCABC", 100, "A", WINDOW - 400),
        # Content that was not among them is let through: it is a correction.
        ("ABABAB", 20, "C", None),
        # In more than ten minutes it is not flapping.
        ("ABABAB", 151, "A", None),
        # A person's own edits.
        ("ABCDEFGH", 61, "I", None),
        ("ABCDEF", 60, "A", None),
        # A rate of a program.
        ("ABCDEF", 10, "G", 20),
        ("ABCDEFGHIJKLMNOPQRSTU", 70, "V", 1800 - 19 * 70),
        ("ABCDEFGHIJKLMNOPQRST", 70, "V", None),
    ],
)
def test_flapping_is_held_and_edits_are_not(
    contents: str, every: float, then: str, until: float | None
) -> None:
    """Repeated contents and high rates are held, deliberate edits are not."""
    hold = find_hold(rolled(contents, every=every), then, NOW)
    assert (hold and hold.until - NOW) == until


def test_limit_of_one_holds_the_first_return() -> None:
    """Also what was there before the first rollout is content to return to."""
    rollouts = rolled("AB", every=1, until=NOW - 61, limit=1)
    assert find_hold(rollouts, "A", NOW, limit=1) is not None
    assert find_hold(rollouts, "C", NOW, limit=1) is None


def test_limit_of_zero_holds_no_rollout() -> None:
    """The last one is remembered, and nothing counted or spaced."""
    rollouts = rolled("ABABABABAB", every=1, limit=0)
    assert (len(rollouts.times), rollouts.contents) == (1, ("B",))
    assert find_hold(rollouts, "A", NOW, limit=0) is None
    assert remaining_spacing(rollouts, NOW, limit=0) == 0


def test_hold_says_since_when_until_when_and_how_to_release() -> None:
    """The message is what a person acts on."""
    plan = limited(rolled("ABABAB", every=20), "A", writers=("ci", "argocd", "ci"))
    assert plan.actions == ()
    assert plan.requeue_after == WINDOW - 80
    assert (plan.warning, plan.settles) == (True, False)
    assert plan.reason == (
        "it changed: rollout suppressed since 13:46:40 until 13:55:20 UTC: 5 rollouts in 10m "
        "between the same contents; last modified by argocd and ci; to roll out now, run "
        "'hotmap release deployment/web -n shop'"
    )


def test_message_of_a_hold_stays_the_same_while_it_lasts() -> None:
    """So that it is told once."""
    rollouts = rolled("ABABAB", every=20)
    reasons = {limited(rollouts, "A", now=NOW + n).reason for n in range(1, 500)}
    assert len(reasons) == 1


def test_nudge_is_never_held() -> None:
    """It disrupts no pods."""
    assert limited(rolled("ABABAB", every=1), "A", NUDGE) == NUDGE


def test_repeated_flapping_is_held_longer() -> None:
    """Each rollout right after a hold doubles the window, up to eight times."""
    rollouts, now, waits = rolled("ABABAB", every=20), NOW, []
    for n in range(40):
        content = "AB"[n % 2]
        hold = find_hold(rollouts, content, now)
        waits.append(hold.until - now if hold else 0.0)
        now += waits[-1]
        rollouts = add_rollout(rollouts, now, content=content)
    # In the end five rollouts take eight times ten minutes.
    assert sum(waits[-2 * LIMIT :]) >= 2 * 8 * WINDOW - 1


def test_rollout_after_a_hold_by_rate_doubles_the_window() -> None:
    """Who writes on and on is held longer; who stops is not."""
    rollouts = rolled("ABCDEF", every=1)
    held = add_rollout(rollouts, NOW + 56, content="G", since=NOW + 1)
    assert held.held == 1
    assert add_rollout(rollouts, NOW + 70, content="G", since=NOW + 70).held == 0


def test_quiet_hour_resets_the_breaker() -> None:
    """Nothing is held against a consumer forever."""
    rollouts = RolloutTimes(tuple(NOW - 8000 - n for n in range(LIMIT, 0, -1)), 3, ("A", "B") * 3)
    assert find_hold(rollouts, "A", NOW) is None
    many = tuple(NOW - 5000 - n for n in range(4 * LIMIT, 0, -1))
    assert find_hold(RolloutTimes(many, 3), "C", NOW - 1000) is not None
    assert find_hold(RolloutTimes(many, 3), "C", NOW) is None
    assert add_rollout(rollouts, NOW, content="B", previous="A") == RolloutTimes(
        (NOW,), 0, ("A", "B")
    )


def test_release_forgets_the_rollouts() -> None:
    """Any value that was not seen before ends the hold; the same value does so once."""
    rollouts = rolled("ABABAB", every=1)
    released = release(rollouts, "2026-11-22T14:02:11Z")
    assert limited(released, "A") == ROLL
    again = rolled("ABABAB", every=1)
    again = RolloutTimes(again.times, 0, again.contents, released.release)
    assert release(again, "2026-11-22T14:02:11Z") is again
    assert release(again, "please") != again
    assert release(again, None) is again
    assert add_rollout(released, NOW, content="B").release == released.release


def test_clock_that_was_set_back_holds_no_rollout() -> None:
    """Rollouts in the future are not believed."""
    assert find_hold(rolled("ABABAB", every=1, until=NOW + 86400), "A", NOW) is None
    assert remaining_spacing(rolled("ABAB", every=1, until=NOW + 86400), NOW) == 0


@pytest.mark.parametrize(
    ("count", "pause"), [(0, 0.0), (1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (9, 16.0)]
)
def test_rollouts_of_a_minute_are_spaced(count: int, pause: float) -> None:
    """The first at once, each further one later than the last."""
    rollouts = RolloutTimes(tuple(NOW - 5 + n / 100 for n in range(count)))
    latest = rollouts.times[-1] if count else NOW
    assert remaining_spacing(rollouts, latest) == pause
    assert remaining_spacing(rollouts, latest + pause) == 0.0


def test_hundred_edits_in_two_seconds_are_three_rollouts() -> None:
    """Without a settle time, too, and the last one has the last content."""
    rollouts, times = RolloutTimes(), []
    pending, now = False, NOW
    for tick in range(1000):  # ten seconds, each edit with other content
        now, edited = NOW + tick / 100, tick < 200 and tick % 2 == 0
        pending = pending or edited
        if (
            pending
            and remaining_spacing(rollouts, now) == 0
            and find_hold(rollouts, str(tick), now) is None
        ):
            rollouts = add_rollout(rollouts, now, content=str(tick))
            times.append(now - NOW)
            pending = False
    assert not pending
    assert times == [0.0, pytest.approx(1.0, abs=0.02), pytest.approx(3.0, abs=0.02)]


@given(st.lists(st.tuples(st.floats(0, 2000), st.sampled_from("ABC")), max_size=60))
def test_at_most_five_rollouts_between_the_same_contents(edits: list[tuple[float, str]]) -> None:
    """Any ten minutes have at most five returns to the same contents."""
    rollouts, now, times, content = RolloutTimes(), NOW, [], "A"
    for pause, wanted in edits:
        now += pause
        if wanted != content and find_hold(rollouts, wanted, now) is None:
            rollouts = add_rollout(rollouts, now, content=wanted, previous=content)
            times.append(now)
            content = wanted
    for start in times:
        # The third content may be new once.
        assert sum(start <= at < start + WINDOW for at in times) <= LIMIT + 1


@given(st.lists(st.floats(0, 300), max_size=80))
def test_at_most_five_rollouts_in_a_minute_and_twenty_in_half_an_hour(pauses: list[float]) -> None:
    """Whatever the contents are."""
    rollouts, now, times = RolloutTimes(), NOW, []
    for n, pause in enumerate(pauses):
        now += pause
        if find_hold(rollouts, str(n), now) is None:
            rollouts = add_rollout(rollouts, now, content=str(n))
            times.append(now)
    for start in times:
        assert sum(start <= at < start + 60 for at in times) <= LIMIT
        assert sum(start <= at < start + 1800 for at in times) <= 4 * LIMIT
