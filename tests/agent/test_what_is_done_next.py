"""The pure core: content that settles, is checked, wanted, tried and loaded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotmap.agent.decide import Gate, Progress, Settle, pause


def wait(failures: int) -> float:
    return float(failures)


def loaded(digest: str) -> Progress:
    """Make a rule whose process has loaded something."""
    progress = Progress()
    progress.want(digest, 0.0)
    progress.begin()
    progress.succeeded(0.0)
    return progress


def test_changes_in_quick_succession_are_one() -> None:
    """Each change moves the time on, up to the longest wait after the first."""
    settle = Settle(0.1, 0.25)
    settle.touch(10.0)
    assert settle.due_at() == 10.1
    settle.touch(10.05)
    assert settle.due_at() == 10.15000000000000
    settle.touch(10.2)
    assert settle.due_at() == 10.25
    settle.clear()
    assert settle.due_at() is None


def test_settle_time_zero_is_at_once() -> None:
    """With a settle time of 0 a change is due when it happens."""
    settle = Settle(0.0, 0.0)
    settle.touch(5.0)
    assert settle.due_at() == 5.0


def test_first_sight_is_loaded_once() -> None:
    """Content of which nothing is known is loaded, and then left alone."""
    progress = Progress()
    progress.want("a", 1.0)
    assert progress.due(1.0)
    progress.begin()
    assert not progress.due(1.0)
    progress.succeeded(2.0)
    assert (progress.loaded, progress.pending, progress.pending_since) == ("a", False, None)


def test_identical_content_does_nothing() -> None:
    """Wanting what is loaded is nothing to do."""
    progress = loaded("a")
    progress.want("a", 5.0)
    assert not progress.due(5.0)


def test_remembered_content_does_nothing() -> None:
    """An agent that starts again with the content that was confirmed has nothing to do."""
    progress = Progress(tried="a", done=True)
    progress.want("a", 0.0)
    assert not progress.pending


def test_a_kill_in_the_middle_of_an_attempt_is_tried_again() -> None:
    """What was tried and never confirmed is loaded again at the next start."""
    progress = Progress(tried="a", done=False)
    progress.want("a", 0.0)
    assert progress.due(0.0)


def test_going_back_after_a_failed_load_loads_again() -> None:
    """Once something else was tried, the process may hold anything."""
    progress = loaded("good")
    progress.want("bad", 1.0)
    progress.begin()
    progress.failed("no", position=0, now=1.0, wait=wait)
    progress.want("good", 1.5)
    assert progress.due(1.5)


def test_an_edit_taken_back_before_it_was_tried_does_nothing() -> None:
    """As long as nothing else was tried, the process still has what it had."""
    progress = loaded("a")
    progress.want("b", 1.0)
    progress.want("a", 1.1)
    assert not progress.pending
    assert progress.pending_since is None


def test_a_failure_waits_and_newer_content_does_not() -> None:
    """Pauses grow with failures in a row; newer content starts afresh at once."""
    progress = Progress()
    progress.want("a", 0.0)
    progress.begin()
    progress.failed("no", position=1, now=0.0, wait=wait)
    assert not progress.due(0.9)
    assert progress.due(1.0)
    assert progress.begin() == 1
    progress.failed("no", position=1, now=1.0, wait=wait)
    assert not progress.due(2.9)
    progress.want("b", 1.5)
    assert progress.due(1.5)
    assert progress.begin() == 0


def test_newer_content_during_an_attempt_is_loaded_after_it() -> None:
    """What arrives while an attempt runs is neither lost nor mixed up with it."""
    progress = Progress()
    progress.want("a", 0.0)
    progress.begin()
    progress.want("b", 0.5)
    progress.succeeded(1.0)
    assert progress.loaded == "a"
    assert progress.due(1.0)
    progress.begin()
    progress.want("c", 1.5)
    progress.failed("no", position=2, now=2.0, wait=wait)
    assert progress.due(2.0), "the failure was about older content"
    assert progress.begin() == 0


def test_refused_content_stays_refused_until_it_changes() -> None:
    """A verdict holds for the content it was given on."""
    gate = Gate()
    gate.see("bad")
    gate.begin()
    gate.refuse("syntax")
    assert not gate.due(99.0)
    gate.see("good")
    assert gate.due(99.0)
    gate.begin()
    assert gate.passed() == "good"
    gate.see("bad")
    assert gate.due(99.0), "a check may look at more than the content; ask again"


def test_going_back_from_refused_to_good_content_asks_nothing() -> None:
    """The good content was never taken away, so there is nothing to check or to load."""
    gate = Gate()
    gate.see("good")
    gate.begin()
    gate.passed()
    gate.see("bad")
    gate.begin()
    gate.refuse("syntax")
    gate.see("good")
    assert not gate.undecided
    assert gate.error == ""


def test_trouble_with_the_checker_is_no_verdict() -> None:
    """A checker that did not end is asked again after a pause."""
    gate = Gate()
    gate.see("a")
    gate.begin()
    gate.trouble("it hangs", now=0.0, wait=wait)
    assert not gate.due(0.5)
    assert gate.due(1.0)


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1))
def test_pauses_are_bounded(failures: int, chance: float) -> None:
    """A pause is never longer than the longest, and never less than half of what it would be."""
    seconds = pause(failures, first=0.25, last=15.0, random=lambda: chance)
    assert 0.125 <= seconds <= 15.0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("want"), st.sampled_from("abc")),
            st.tuples(st.just("act"), st.booleans()),
            st.tuples(st.just("restart"), st.just("")),
        ),
        max_size=40,
    )
)
def test_whatever_happens_the_last_content_is_loaded(steps: list[tuple[str, object]]) -> None:
    """Under random changes, failures and kills, the process ends up with what is there.

    The model is the process: a failed attempt may have given it the content or not, so here it
    takes it, which is the harder case for going back.
    """
    progress, held, now = Progress(), None, 0.0
    for step, value in steps:
        now += 100.0
        if step == "want":
            progress.want(str(value), now)
        elif step == "restart":
            wanted = progress.wanted
            progress = Progress(tried=progress.tried or "", done=progress.done)
            if wanted is not None:
                progress.want(wanted, now)
        elif progress.due(now):
            progress.begin()
            held = progress.tried
            if value:
                progress.succeeded(now)
            else:
                progress.failed("no", position=0, now=now, wait=wait)
    now += 1000.0
    if progress.due(now):
        progress.begin()
        held = progress.tried
        progress.succeeded(now)
    assert not progress.pending
    assert progress.wanted is None or held == progress.wanted == progress.loaded
