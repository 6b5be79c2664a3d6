"""A failure that goes on for hours is a few lines of the log."""

from __future__ import annotations

from itertools import pairwise

from hotmap.kube.log_throttle import BETWEEN, BETWEEN_REPETITIONS, MOST, LogThrottle


def _log_times(minutes: int, *, every: float, words: list[str]) -> list[float]:
    """List the times at which a repeated failure is logged."""
    throttle = LogThrottle()
    times = [step * every for step in range(int(minutes * 60 / every))]
    return [
        at
        for step, at in enumerate(times)
        if throttle.should_log("Forbidden", words[step % len(words)], now=at)
    ]


def test_repeated_message_is_logged_once() -> None:
    """Once, and again every hour: a missing right may be meant."""
    assert _log_times(180, every=20, words=["no right"]) == [0, 3600, 7200]


def test_changing_messages_are_throttled() -> None:
    """A request's number or a time in them makes no more than one line a minute of it."""
    logged = _log_times(
        60, every=7, words=[f"no right, request {number}" for number in range(1000)]
    )
    assert len(logged) > 50
    assert all(later - earlier >= BETWEEN for earlier, later in pairwise(logged))


def test_kinds_of_failures_are_logged_separately() -> None:
    """A server that is gone is not a repetition of a missing right."""
    throttle = LogThrottle()
    assert throttle.should_log("Forbidden", "no right", now=0)
    assert throttle.should_log("Unreachable", "refused", now=1)
    assert not throttle.should_log("Forbidden", "no right", now=2)


def test_recurring_failure_is_logged_once() -> None:
    """Its return is news, though not within the same minute."""
    throttle = LogThrottle()
    logged = []
    for second in range(0, 300, 5):
        if throttle.should_log("Unreachable", "reset", now=second):
            logged.append(second)
        assert throttle.end("Unreachable") is (second in logged)
    assert logged == [0, 60, 120, 180, 240]
    assert BETWEEN < BETWEEN_REPETITIONS


def test_kind_that_was_logged_longest_ago_is_forgotten() -> None:
    """Namespaces come and go; what they refused is not remembered for good."""
    throttle = LogThrottle()
    assert throttle.should_log("first", "refused", now=0)
    for number in range(MOST - 1):
        assert throttle.should_log(f"namespace-{number}", "refused", now=0)
    assert throttle.should_log("first", "denied", now=BETWEEN)
    assert throttle.should_log("another", "refused", now=BETWEEN)
    assert not throttle.should_log("first", "denied", now=BETWEEN)
    assert throttle.should_log("namespace-0", "refused", now=BETWEEN)
