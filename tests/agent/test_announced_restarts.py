"""Restarts for an announcement: what is read at start has changed."""

from __future__ import annotations

import pytest
from tests.agent.reconcilers import (
    finish,
    only_attempt,
    pass_check,
    reconciler,
    refuse,
    snapshot,
)

from hotmap.agent.decide.facts import (
    ERROR,
    PASSED,
    REFUSED,
    ApplicationStartFailed,
    AttemptFinished,
    CheckFinished,
    StartApplication,
    StartAttempt,
    StartCheck,
    Unreadable,
)
from hotmap.core.target import Target


def test_frozen_rule_restarts_for_a_second_announcement_only() -> None:
    """The containers started with the first one; content has nothing to do with it."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    assert decided.decide(1.0) == []
    decided.record(Target(2, "live", "frozen-2"), 2.0)
    assert only_attempt(decided.decide(2.0)).rule.name == "frozen"


@pytest.mark.parametrize("flags", [(), ("--stage", "/s")], ids=["mounted", "staged"])
def test_application_is_not_started_for_an_announcement_before_content_has_passed(
    flags: tuple[str, ...],
) -> None:
    """Neither while nothing can be read, nor after the first content was refused."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen", *flags, "--", "app")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    decided.record(Target(2, "live", "frozen-2"), 2.0)
    assert decided.decide(2.0) == []
    refuse(decided, "a", read=3.0, refused=3.0)
    assert decided.decide(3.0) == []
    assert decided.next_time() is None
    started, attempt = pass_check(decided, "b", read=4.0, passed=4.0)
    assert isinstance(started, StartApplication)
    assert isinstance(attempt, StartAttempt)


@pytest.mark.parametrize("ends", ["reverted", "replaced"])
def test_announced_restart_waits_while_refused_content_is_mounted(ends: str) -> None:
    """A process that is restarted for its environment would read the refused files too."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.record(snapshot("b"), 3.0)
    decided.decide(3.0)
    decided.record(Target(2, "live", "frozen-2"), 4.0)
    assert decided.decide(4.0) == [], "it is being checked"
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 5.0)
    assert decided.decide(5.0) == []
    assert decided.next_time() is None
    if ends == "replaced":
        decided.record(snapshot("c"), 6.0)
        decided.decide(6.0)
        decided.record(CheckFinished(snapshot("c"), PASSED), 7.0)
    else:
        decided.record(snapshot("a"), 6.0)
    attempts = [each for each in decided.decide(7.0) if isinstance(each, StartAttempt)]
    assert [each.rule.name for each in attempts if each.rule.name == "frozen"] == ["frozen"]


def test_announced_restart_waits_for_an_update_that_is_not_read_yet() -> None:
    """Otherwise the process would be restarted with the files before, and again for the update."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.decide(2.0)
    decided.record(Target(2, "live", "frozen-2"), 3.0)
    assert decided.decide(3.0, is_changing=True) == []
    assert decided.next_time() is None
    decided.record(snapshot("a"), 3.5)
    assert only_attempt(decided.decide(3.5)).rule.name == "frozen"


def test_announced_restart_waits_while_files_cannot_be_read() -> None:
    """The application would start without them."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    pass_check(decided, "a", read=1.0, passed=2.0)
    decided.record(Unreadable("/d"), 3.0)
    decided.record(Target(2, "live", "frozen-2"), 4.0)
    assert decided.decide(4.0) == []
    assert decided.next_time() is None
    decided.record(snapshot("a"), 5.0)
    assert only_attempt(decided.decide(5.0)).rule.name == "frozen"


def test_announced_restart_with_a_stage_does_not_wait() -> None:
    """No process sees the refused content."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen", "--stage", "/s")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    refuse(decided, "b", read=3.0, refused=4.0)
    decided.record(Target(2, "live", "frozen-2"), 5.0)
    assert only_attempt(decided.decide(5.0)).rule.name == "frozen"


@pytest.mark.parametrize("result", [PASSED, REFUSED, ERROR])
def test_announced_restart_with_a_stage_waits_for_one_check(result: str) -> None:
    """What is checked may have been announced with it, and restarts the application as well."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen", "--stage", "/s")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    pass_check(decided, "a", read=1.0, passed=1.0)
    finish(decided, 2.0)
    decided.record(Target(2, "live", "frozen-2"), 3.0)
    assert decided.decide(3.0, is_changing=True) == []
    decided.record(snapshot("b"), 3.5)
    assert [type(each) for each in decided.decide(3.5)] == [StartCheck]
    decided.record(CheckFinished(snapshot("b"), result), 4.0)
    attempts = [each for each in decided.decide(4.0) if isinstance(each, StartAttempt)]
    assert "frozen" in [each.rule.name for each in attempts]


@pytest.mark.parametrize("doubted_at", [5.0, 7.5], ids=["before", "while it is restarted"])
def test_restart_for_an_announcement_ends_the_doubt_about_the_process_before(
    doubted_at: float,
) -> None:
    """Not one that begins while it is restarted: that may be about the new process."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen", "--", "app")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    pass_check(decided, "a", read=1.0, passed=1.0)
    default = decided.rules[0]

    def doubt(when: float) -> None:
        refuse(decided, "b", read=when - 0.1, refused=when - 0.1)
        decided.record(snapshot("a"), when)
        assert only_attempt(decided.decide(when)).rule.name == "default"
        doubted = AttemptFinished("default", "", 0, 1234.0, by_itself=True, doubt="read late?")
        decided.record(doubted, when)
        assert default.state == "told"

    if doubted_at < 6:
        doubt(doubted_at)
    decided.record(Target(2, "live", "frozen-2"), 6.0)
    assert only_attempt(decided.decide(7.0)).rule.name == "frozen"
    if doubted_at > 7:
        doubt(doubted_at)
    decided.record(AttemptFinished("frozen", "", 0, 1234.0), 8.0)
    assert default.state == ("loaded" if doubted_at < 6 else "told")


def test_announced_restart_that_was_held_back_counts_once_another_one_succeeds() -> None:
    """The controller asks for which announcement the application was restarted."""
    flags = ("--target-file", "/x", "--restart-on", "frozen", "--", "app")
    decided = reconciler(*flags)
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    pass_check(decided, "a", read=1.0, passed=1.0)
    decided.record(Target(2, "live", "frozen-2"), 2.0)
    assert only_attempt(decided.decide(2.0)).rule.name == "frozen"
    decided.record(AttemptFinished("frozen", "", 0, 1234.0), 3.0)
    decided.record(ApplicationStartFailed("it does not start"), 4.0)
    frozen = next(state for state in decided.rules if state.is_frozen)
    assert frozen.state == "failing"
    assert only_attempt(pass_check(decided, "b", read=5.0, passed=5.0)).rule.name == "default"
    finish(decided, 6.0)
    assert (frozen.state, frozen.loaded_by_itself) == ("loaded", False)
