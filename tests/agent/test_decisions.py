"""The parts of the reconciler: settle timer, gate, progress and backoff."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from hotmap.agent.decide.backoff import backoff
from hotmap.agent.decide.gate import Gate
from hotmap.agent.decide.progress import Progress
from hotmap.agent.decide.settle import SettleTimer


def delay(failures: int) -> float:
    return float(failures)


def loaded(digest: str) -> Progress:
    """Make a rule whose process has loaded something."""
    progress = Progress()
    progress.set_desired(digest, 0.0)
    progress.begin()
    progress.record_success(0.0)
    return progress


def test_settle_timer_joins_quick_changes() -> None:
    """Each change moves the time on, up to the longest wait after the first."""
    settle = SettleTimer(0.1, 0.25)
    settle.touch(10.0)
    assert settle.due_at() == 10.1
    settle.touch(10.05)
    assert settle.due_at() == 10.15000000000000
    settle.touch(10.2)
    assert settle.due_at() == 10.25
    settle.clear()
    assert settle.due_at() is None


def test_settle_time_zero_is_due_at_once() -> None:
    """With a settle time of 0 a change is due when it happens."""
    settle = SettleTimer(0.0, 0.0)
    settle.touch(5.0)
    assert settle.due_at() == 5.0


def test_unknown_content_is_loaded_once() -> None:
    """Content of which nothing is known is loaded, and then left alone."""
    progress = Progress()
    progress.set_desired("a", 1.0)
    assert progress.due(1.0)
    progress.begin()
    assert not progress.due(1.0)
    progress.record_success(2.0)
    assert (progress.loaded, progress.pending, progress.pending_since) == ("a", False, None)


def test_identical_content_is_not_pending() -> None:
    """Wanting what is loaded is nothing to do."""
    progress = loaded("a")
    progress.set_desired("a", 5.0)
    assert not progress.due(5.0)


def test_content_loaded_before_a_restart_is_not_pending() -> None:
    """An agent that starts again with the content that was confirmed has nothing to do."""
    progress = Progress(tried="a", done=True)
    progress.set_desired("a", 0.0)
    assert not progress.pending


def test_interrupted_attempt_is_repeated() -> None:
    """What was tried and never confirmed is loaded again at the next start."""
    progress = Progress(tried="a", done=False)
    progress.set_desired("a", 0.0)
    assert progress.due(0.0)


def test_revert_after_a_failed_load_loads_again() -> None:
    """Once something else was tried, the process may hold anything."""
    progress = loaded("good")
    progress.set_desired("bad", 1.0)
    progress.begin()
    progress.record_failure("no", position=0, now=1.0, delay=delay)
    progress.set_desired("good", 1.5)
    assert progress.due(1.5)


def test_revert_before_an_attempt_is_not_pending() -> None:
    """As long as nothing else was tried, the process still has what it had."""
    progress = loaded("a")
    progress.set_desired("b", 1.0)
    progress.set_desired("a", 1.1)
    assert not progress.pending
    assert progress.pending_since is None


def test_failure_is_delayed_and_newer_content_is_not() -> None:
    """Pauses grow with failures in a row; newer content starts afresh at once."""
    progress = Progress()
    progress.set_desired("a", 0.0)
    progress.begin()
    progress.record_failure("no", position=1, now=0.0, delay=delay)
    assert not progress.due(0.9)
    assert progress.due(1.0)
    assert progress.begin() == 1
    progress.record_failure("no", position=1, now=1.0, delay=delay)
    assert not progress.due(2.9)
    progress.set_desired("b", 1.5)
    assert progress.due(1.5)
    assert progress.begin() == 0


def test_newer_content_during_an_attempt_is_loaded_next() -> None:
    """What arrives while an attempt runs is neither lost nor mixed up with it."""
    progress = Progress()
    progress.set_desired("a", 0.0)
    progress.begin()
    progress.set_desired("b", 0.5)
    progress.record_success(1.0)
    assert progress.loaded == "a"
    assert progress.due(1.0)
    progress.begin()
    progress.set_desired("c", 1.5)
    progress.record_failure("no", position=2, now=2.0, delay=delay)
    assert progress.due(2.0), "the failure was about older content"
    assert progress.begin() == 0


def test_content_that_failed_to_load_is_not_still_loaded() -> None:
    """Other content was visible while it was tried, and that does not make it loaded before."""
    progress = loaded("a")
    progress.set_desired("b", 1.0)
    progress.begin()
    progress.expose(2.0)
    progress.restore(3.0, 3.0)
    progress.record_failure("no", position=0, now=4.0, delay=delay)
    assert progress.due(5.0)
    assert progress.doubted_since is None


def test_content_that_cannot_be_loaded_is_held_until_it_changes() -> None:
    """The application has started and ended again; a user may ask for another attempt."""
    progress = loaded("a")
    progress.set_desired("b", 1.0)
    progress.begin()
    progress.record_success(1.0)
    progress.hold("it does not start", 2.0)
    assert (progress.pending, progress.due(1e9), progress.next_time()) == (True, False, inf)
    assert (progress.done, progress.is_certain) == (False, False)
    progress.set_desired("c", 3.0)
    assert progress.due(3.0)
    progress.begin()
    progress.record_success(3.0)
    progress.hold("it does not start", 4.0)
    progress.retry_now()
    assert progress.due(4.0)


def test_newer_content_is_tried_after_a_restart_that_failed() -> None:
    """What is held is what was tried, not what is desired by now."""
    progress = loaded("a")
    progress.set_desired("b", 1.0)
    progress.begin()
    progress.set_desired("c", 1.5)
    progress.record_success(1.6)
    progress.hold("it does not start", 2.0)
    assert progress.due(2.0)


def test_attempt_that_was_undone_has_failed_however_it_ends() -> None:
    """A probe may have confirmed it by the process that was started instead."""
    progress = loaded("a")
    progress.set_desired("b", 1.0)
    progress.begin()
    progress.hold("it does not start", 2.0)
    progress.retry_now()
    assert not progress.due(2.0), "it has not ended"
    progress.end_undone(3.0)
    assert (progress.pending, progress.error) == (True, "it does not start")
    assert progress.due(3.0)
    assert progress.begin() == 0, "all actions are performed again"
    progress.record_success(4.0)
    assert not progress.pending


def test_content_that_returns_during_its_own_attempt_is_doubted() -> None:
    """The attempt may have made the process read what was visible meanwhile."""
    progress = Progress()
    progress.set_desired("a", 1.0)
    progress.begin()
    progress.expose(5.0)
    progress.restore(6.0, 6.0)
    assert (progress.doubted_since, progress.exposed_since) == (5.0, None)


def test_refusal_holds_until_content_changes() -> None:
    """A verdict holds for the content it was given on."""
    gate = Gate()
    gate.see("bad", 1.0)
    gate.begin()
    gate.refuse("syntax")
    assert not gate.due(99.0)
    gate.see("good", 1.0)
    assert gate.due(99.0)
    gate.begin()
    gate.accept()
    assert gate.passed == "good"
    gate.see("bad", 1.0)
    assert gate.due(99.0), "a check may look at more than the content; ask again"


def test_revert_to_passed_content_needs_no_check() -> None:
    """The good content was never taken away, so there is nothing to check or to load."""
    gate = Gate()
    gate.see("good", 1.0)
    gate.begin()
    gate.accept()
    gate.see("bad", 1.0)
    gate.begin()
    gate.refuse("syntax")
    gate.see("good", 1.0)
    assert not gate.undecided
    assert gate.error == ""


def test_check_error_is_retried_after_a_delay() -> None:
    """A checker that did not end is asked again after a pause."""
    gate = Gate()
    gate.see("a", 1.0)
    gate.begin()
    gate.fail("it hangs", now=0.0, delay=delay)
    assert not gate.due(0.5)
    assert gate.due(1.0)


def test_check_stays_an_error_while_it_is_repeated() -> None:
    """A reader would wait for a result that may never come, or see it change every second."""
    gate = Gate()
    gate.see("a", 1.0)
    gate.begin()
    assert gate.state == "running"
    gate.fail("it hangs", now=0.0, delay=delay)
    gate.begin()
    assert gate.state == "error"
    gate.see("b", 2.0)
    assert gate.state == "running", "the error was about older content"


def test_new_content_is_not_an_error_before_its_check() -> None:
    """What was refused before it says nothing about it."""
    gate = Gate()
    gate.see("bad", 1.0)
    gate.begin()
    gate.refuse("syntax")
    gate.see("good", 2.0)
    assert gate.state == "waiting"


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1))
def test_backoff_is_bounded(failures: int, chance: float) -> None:
    """A pause is never longer than the longest, and never less than half of what it would be."""
    seconds = backoff(failures, first=0.25, longest=15.0, random=lambda: chance)
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
def test_last_content_is_loaded_after_random_events(steps: list[tuple[str, object]]) -> None:
    """Under random changes, failures and kills, the process ends up with what is there.

    The model is the process: a failed attempt may have given it the content or not, so here it
    takes it, which is the harder case for going back.
    """
    progress, held, now = Progress(), None, 0.0
    for step, value in steps:
        now += 100.0
        if step == "want":
            progress.set_desired(str(value), now)
        elif step == "restart":
            desired = progress.desired
            progress = Progress(tried=progress.tried or "", done=progress.done)
            if desired is not None:
                progress.set_desired(desired, now)
        elif progress.due(now):
            progress.begin()
            held = progress.tried
            if value:
                progress.record_success(now)
            else:
                progress.record_failure("no", position=0, now=now, delay=delay)
    now += 1000.0
    if progress.due(now):
        progress.begin()
        held = progress.tried
        progress.record_success(now)
    assert not progress.pending
    assert progress.desired is None or held == progress.desired == progress.loaded
