"""The reconciler: facts in, commands out, without files, processes or clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.reconcilers import finish, only_attempt, pass_check, reconciler, refuse, snapshot

from hotmap.agent.decide.facts import (
    ERROR,
    PASSED,
    REFUSED,
    AttemptFinished,
    CheckFinished,
    Exit,
    ReadDirectories,
    StartApplication,
    StartAttempt,
    StartCheck,
)
from hotmap.agent.decide.progress import KeptAttempt
from hotmap.agent.decide.snapshot import Snapshot


@pytest.mark.parametrize(
    ("written", "since", "changed_at"),
    [
        ({"/d": 97.0}, None, 97.0),
        ({"/d": 97.0}, 90.0, 97.0),
        # The wall clock was set meanwhile: what the agent saw of the update counts.
        ({"/d": -3500.0}, 98.0, 98.0),
        ({"/d": 3700.0}, 98.0, 100.0),
        ({}, 98.0, 98.0),
        ({}, None, 100.0),
    ],
)
def test_update_is_as_old_as_it_is_and_not_as_its_reading(
    written: dict[str, float], since: float | None, changed_at: float
) -> None:
    decided = reconciler()
    decided.record(snapshot("one"), 50.0)
    decided.record(snapshot("two")._replace(written=written, changed_since=since), 100.0)
    assert decided.directories.rows["/d"].changed_at == changed_at


def test_new_content_is_checked_and_then_loaded() -> None:
    """Each command is returned once; what was loaded is pending no more."""
    decided = reconciler("--exec", "true")
    decided.record(snapshot("a"), 1.0)
    assert decided.decide(1.0) == [StartCheck(snapshot("a"))]
    assert decided.decide(1.0) == []
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    attempt = only_attempt(decided.decide(2.0))
    assert (attempt.rule.name, attempt.position, attempt.changed) == ("default", 0, ("/d/file",))
    assert decided.next_time() is None
    finish(decided, 3.0)
    assert decided.decide(3.0) == []
    assert decided.directories.rows["/d"].loaded == "a"
    assert [each.event for each in decided.take_transitions()] == ["changed", "told"]


def test_bytes_of_content_are_kept_only_until_the_check_is_over() -> None:
    """What remains of content that passed or was refused are digests."""
    decided = reconciler("--exec", "true")
    for digest, result in (("a", PASSED), ("b", REFUSED)):
        decided.record(snapshot(digest), 1.0)
        decided.decide(1.0)
        decided.record(CheckFinished(snapshot(digest), result, ""), 1.0)
    kept = [value for value in vars(decided).values() if isinstance(value, Snapshot)]
    assert [each.contents for each in kept] == [{}]


def test_directory_is_not_loaded_while_other_content_is_tried() -> None:
    """It was loaded before that, and the process may read either of them now."""
    decided = reconciler("--exec", "true")
    for digest in ("a", "b"):
        pass_check(decided, digest, read=1.0, passed=1.0)
        if digest == "a":
            decided.record(AttemptFinished("default", "", 0, 1.0), 1.0)
    row = decided.directories.rows["/d"]
    decided.record(snapshot("a"), 2.0)
    decided.decide(2.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    assert (row.projected, row.loaded) == ("a", "a")
    assert not row.is_loaded
    assert row.pending_since == 1.0
    decided.record(AttemptFinished("default", "", 0, 2.0), 2.0)
    assert not row.is_loaded
    decided.decide(2.0)
    decided.record(AttemptFinished("default", "", 0, 3.0), 3.0)
    assert row.is_loaded


def test_refused_content_is_not_attempted() -> None:
    """The rule keeps what it has, and the refusal is logged once."""
    decided = reconciler("--exec", "true")
    refuse(decided, "bad", read=1.0, refused=1.0)
    assert decided.decide(1000.0) == []
    assert decided.next_time() is None
    warnings = [each for each in decided.take_transitions() if each.is_warning]
    assert [(each.event, each.message) for each in warnings] == [("refused", "syntax")]


def test_refused_content_is_read_again_to_be_checked_again() -> None:
    """Its bytes were not kept, so a check on request starts with a reading."""
    decided = reconciler("--exec", "true")
    refuse(decided, "bad", read=1.0, refused=1.0)
    decided.retry_now()
    assert decided.decide(2.0) == [ReadDirectories()]
    assert decided.decide(2.5) == [], "until the next attempt to read"
    decided.record(snapshot("bad"), 2.5)
    assert decided.decide(2.5) == [StartCheck(snapshot("bad"))]


def test_content_that_cannot_be_read_again_is_read_later() -> None:
    """The next attempt is a second later."""
    decided = reconciler("--exec", "true")
    refuse(decided, "bad", read=1.0, refused=1.0)
    decided.retry_now()
    decided.decide(2.0)
    assert decided.next_time() == 3.0
    assert decided.decide(3.0) == [ReadDirectories()]


def test_check_error_delays_the_next_check_whatever_is_read() -> None:
    """Reading the same content again does not end the delay."""
    decided = reconciler("--exec", "true", "--retry-first", "8s")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), ERROR, "timed out"), 1.0)
    decided.record(snapshot("a"), 2.0)
    assert decided.decide(2.0) == []
    assert decided.next_time() == 9.0
    assert decided.decide(9.0) == [StartCheck(snapshot("a"))]


def test_once_exits_without_loading() -> None:
    """0 for content that passed, 1 for content that was refused."""
    for result, status in ((PASSED, 0), (REFUSED, 1)):
        decided = reconciler("--once", "--exec", "true")
        decided.record(snapshot("a"), 1.0)
        decided.decide(1.0)
        decided.record(CheckFinished(snapshot("a"), result, ""), 1.0)
        assert decided.decide(1.0) == [Exit(status)]


def test_application_is_started_once_with_the_first_content() -> None:
    """It has loaded what it was started with; later content restarts it."""
    decided = reconciler("--", "program")
    for digest, expected in (("a", StartApplication), ("b", StartAttempt)):
        (command,) = pass_check(decided, digest, read=1.0, passed=1.0)
        assert isinstance(command, expected)


def test_application_is_started_once_with_published_content_while_others_are_refused() -> None:
    """What passes next is loaded: which content it was started with is not known."""
    decided = reconciler("--stage", "/s", "--", "program")
    decided.use_stage()
    assert not decided.has_content
    refuse(decided, "a", read=1.0, refused=1.0)
    assert decided.has_content
    assert decided.decide(1.0) == [StartApplication()]
    refuse(decided, "b", read=2.0, refused=2.0)
    assert decided.decide(2.0) == []
    assert isinstance(only_attempt(pass_check(decided, "c", read=3.0, passed=3.0)), StartAttempt)


def test_process_may_have_read_the_first_content_at_its_start() -> None:
    """Only what the agent finds when it starts; later content came after the process did."""
    decided = reconciler("--restart", "term", "--process", "name:app")
    assert only_attempt(pass_check(decided, "a", read=1.0, passed=1.0)).at_start
    finish(decided, 2.0)
    assert not only_attempt(pass_check(decided, "b", read=3.0, passed=3.0)).at_start
    finish(decided, 4.0)
    assert not only_attempt(pass_check(decided, "a", read=5.0, passed=5.0)).at_start


@pytest.mark.parametrize("flags", [("--signal", "HUP"), ("--restart", "term")])
def test_content_that_an_earlier_agent_did_not_get_loaded_is_not_the_first(
    flags: tuple[str, str],
) -> None:
    """A process that ends by it starts again and again; a restart is compared with the files."""
    target = ("--process", "name:app")
    before = reconciler(*flags, *target)
    pass_check(before, "a", read=1.0, passed=1.0)
    kept = {"default": KeptAttempt(before.rules[0].progress.tried or "", done=False)}
    for digest, at_start in (("a", "--restart" in flags), ("b", True)):
        decided = reconciler(*flags, *target, attempts=kept)
        attempt = only_attempt(pass_check(decided, digest, read=3.0, passed=3.0))
        assert attempt.at_start is at_start


def test_changed_file_that_no_rule_is_about_is_noted(tmp_path: Path) -> None:
    """Nothing makes the process load it, until it is as it was at first."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "a"\nfiles = ["*.conf"]\nactions = [{ exec = "true" }]\n')
    decided = reconciler("--rules", str(rules))

    def read(conf: str, other: str, now: float) -> bool:
        files = {"/d/a.conf": conf, "/d/other": other}
        found = Snapshot({"/d": {}}, files, {"/d": conf + other}, conf + other, {})
        decided.record(found, now)
        decided.decide(now)
        decided.record(CheckFinished(found, PASSED), now)
        return decided.directories.rows["/d"].changed_without_rule

    assert not read("1", "1", 1.0)
    assert not read("2", "1", 2.0)
    assert read("2", "2", 3.0)
    assert not read("2", "1", 4.0)


def test_attempt_of_an_earlier_agent_is_repeated_unless_it_succeeded() -> None:
    """What is kept across restarts is what was tried, and whether it was loaded."""
    first = reconciler("--exec", "true")
    pass_check(first, "a", read=1.0, passed=1.0)
    tried = first.attempts()
    first.record(AttemptFinished("default", "", 0, 0.0), 2.0)
    for attempts, count in ((tried, 1), (first.attempts(), 0)):
        decided = reconciler("--exec", "true", attempts=attempts)
        assert len(pass_check(decided, "a", read=1.0, passed=1.0)) == count


def test_first_failure_with_each_content_is_logged() -> None:
    """After another edit silence would look like success; repetitions are not logged."""
    decided = reconciler("--exec", "false")
    now = 1.0
    for digest in ("a", "b"):
        decided.record(snapshot(digest), now)
        decided.decide(now)
        decided.record(CheckFinished(snapshot(digest), PASSED), now)
        for _ in range(3):
            now += 20
            assert len(decided.decide(now)) == 1
            finish(decided, now, error="exit status 1")
    warnings = [each for each in decided.take_transitions() if each.is_warning]
    assert [(each.event, each.message) for each in warnings] == [("failed", "exit status 1")] * 2
    assert len({each.fields["digest"] for each in warnings}) == 2


def test_newer_content_waits_a_moment_for_a_running_attempt() -> None:
    """Its result still counts; after a tenth of a second it is given up."""
    decided = reconciler("--url", "http://127.0.0.1:1/")
    for digest, at in (("a", 1.0), ("b", 2.0)):
        attempts = pass_check(decided, digest, read=at, passed=at)
        assert len(attempts) == (1 if digest == "a" else 0)
    assert decided.next_time() == 2.1
    assert decided.decide(2.09) == []
    only_attempt(decided.decide(2.1))
    assert decided.next_time() is None
    finish(decided, 3.0)
    assert (decided.rules[0].state, decided.rules[0].loads) == ("loaded", 1)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("ends_at", [2.02, 2.06], ids=["before", "after"])
def test_content_is_loaded_again_after_newer_content_waited(ends_at: float, staged: bool) -> None:
    """The process may have read the newer one, which was there while it was told to read."""
    stage = ("--stage", "/s") if staged else ()
    decided = reconciler("--url", "http://127.0.0.1:1/", *stage)

    def see(digest: str, at: float) -> list[object]:
        decided.record(snapshot(digest), at)
        commands: list[object] = [*decided.decide(at)]
        if StartCheck(snapshot(digest)) in commands:
            decided.record(CheckFinished(snapshot(digest), PASSED), at)
            commands += decided.decide(at)
        return [each for each in commands if isinstance(each, StartAttempt)]

    assert len(see("a", 1.0)) == 1
    assert see("b", 2.0) == []
    if ends_at < 2.05:
        assert see("a", 2.01) == []
    decided.record(AttemptFinished("default", "", 0, 1234.0), ends_at)
    if ends_at > 2.05:
        assert len(decided.decide(ends_at)) == 1
        assert see("a", 2.07) == [], "the attempt for b is running"
        decided.record(AttemptFinished("default", "", 0, 1234.0), 2.08)
    assert decided.rules[0].state == "pending"
    (attempt,) = decided.decide(2.09)
    assert isinstance(attempt, StartAttempt)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    assert decided.rules[0].state == "loaded"
    assert decided.next_time() is None


def test_result_of_an_attempt_counts_while_newer_content_waits() -> None:
    """It ended in time: both are loads."""
    decided = reconciler("--url", "http://127.0.0.1:1/")
    for digest, at in (("a", 1.0), ("b", 2.0)):
        pass_check(decided, digest, read=at, passed=at)
    finish(decided, 2.05)
    only_attempt(decided.decide(2.05))
    finish(decided, 3.0)
    assert (decided.rules[0].state, decided.rules[0].loads) == ("loaded", 2)


def test_restart_waits_for_a_random_part_of_the_splay() -> None:
    """Each replica for another one; content that replaces other content waits no longer."""
    flags = ("--splay", "100s", "--exec", "true", "--restart", "supervised", "--", "app")
    parts = iter([0.3, 0.9, 0.9])
    decided = reconciler(*flags, random=lambda: next(parts))

    def passes(digest: str, now: float) -> list[object]:
        decided.record(snapshot(digest), now)
        assert decided.decide(now) == [StartCheck(snapshot(digest))]
        decided.record(CheckFinished(snapshot(digest), PASSED), now)
        return list(decided.decide(now))

    assert passes("a", 0.0) == [StartApplication()]
    assert passes("b", 1.0) == []
    assert decided.next_time() == 91.0
    assert passes("c", 2.0) == []
    assert decided.next_time() == 91.0
    assert decided.decide(90.0) == []
    only_attempt(decided.decide(91.0))
