"""A failure that goes on for hours is a few lines of the log."""

from __future__ import annotations

from itertools import pairwise

from hotmap.kube.complaints import BETWEEN, BETWEEN_REPETITIONS, Complaints


def _said(minutes: int, *, every: float, words: list[str]) -> list[float]:
    """List the times at which a failure that is met again and again is said."""
    complaints = Complaints()
    times = [step * every for step in range(int(minutes * 60 / every))]
    return [
        at
        for step, at in enumerate(times)
        if complaints.is_news("Forbidden", words[step % len(words)], now=at)
    ]


def test_repeated_message_is_logged_once() -> None:
    """Once, and again every hour: a missing right may be meant."""
    assert _said(180, every=20, words=["no right"]) == [0, 3600, 7200]


def test_changing_messages_are_throttled() -> None:
    """A request's number or a time in them makes no more than one line a minute of it."""
    said = _said(60, every=7, words=[f"no right, request {number}" for number in range(1000)])
    assert len(said) > 50
    assert all(later - earlier >= BETWEEN for earlier, later in pairwise(said))


def test_kinds_of_failures_are_logged_separately() -> None:
    """A server that is gone is no repetition of a missing right."""
    complaints = Complaints()
    assert complaints.is_news("Forbidden", "no right", now=0)
    assert complaints.is_news("Unreachable", "refused", now=1)
    assert not complaints.is_news("Forbidden", "no right", now=2)


def test_recurring_failure_is_logged_once() -> None:
    """Its return is news, though not within the same minute."""
    complaints = Complaints()
    said = []
    for second in range(0, 300, 5):
        if complaints.is_news("Unreachable", "reset", now=second):
            said.append(second)
        assert complaints.over("Unreachable") is (second in said)
    assert said == [0, 60, 120, 180, 240]
    assert BETWEEN < BETWEEN_REPETITIONS
