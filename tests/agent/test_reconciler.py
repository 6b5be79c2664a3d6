"""The reconciler: facts in, commands out, without files, processes or clocks."""

from __future__ import annotations

import pytest

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
from hotmap.agent.decide.reconciler import Reconciler
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.process.application import ApplicationStatus
from hotmap.agent.report.pod_document import make_pod_document
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.watch.observer import ObserverStatus
from hotmap.core.target import Target
from hotmap.volume.watcher import WatcherStatistics

KEY = b"0123456789abcdef"


def reconciler(*flags: str, attempts: dict[str, tuple[str, bool]] | None = None) -> Reconciler:
    """Make one for the directory /d; delays are their maximum."""
    settings = load_settings(parse_arguments(["--dir", "/d", *flags]))
    return Reconciler(settings, KEY, attempts or {}, lambda: 0.0)


def snapshot(digest: str) -> Snapshot:
    """Make a reading of one file."""
    contents = {"/d": {"file": digest.encode()}}
    return Snapshot(contents, {"/d/file": digest}, {"/d": digest}, digest, {})


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
    (attempt,) = decided.decide(2.0)
    assert isinstance(attempt, StartAttempt)
    assert (attempt.rule.name, attempt.position, attempt.changed) == ("default", 0, ("/d/file",))
    assert decided.next_time() is None
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    assert decided.decide(3.0) == []
    assert decided.directories.rows["/d"].loaded == "a"
    assert [each.event for each in decided.take_transitions()] == ["changed", "told"]


@pytest.mark.parametrize(
    ("flags", "since"), [((), 1.0), (("--stage", "/s"), 2.0)], ids=["mounted", "published"]
)
def test_process_that_starts_during_the_check_has_read_mounted_content(
    flags: tuple[str, ...], since: float
) -> None:
    """It is there before it passes; what is published is there only afterwards."""
    decided = reconciler("--signal", "HUP", "--process", "name:app", *flags)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    (attempt,) = decided.decide(2.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.desired_since == since


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
        decided.record(snapshot(digest), 1.0)
        decided.decide(1.0)
        decided.record(CheckFinished(snapshot(digest), PASSED), 1.0)
        decided.decide(1.0)
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
    decided.record(snapshot("bad"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("bad"), REFUSED, "syntax"), 1.0)
    assert decided.decide(1000.0) == []
    assert decided.next_time() is None
    warnings = [each for each in decided.take_transitions() if each.is_warning]
    assert [(each.event, each.message) for each in warnings] == [("refused", "syntax")]


def test_refused_content_is_read_again_to_be_checked_again() -> None:
    """Its bytes were not kept, so a check on request starts with a reading."""
    decided = reconciler("--exec", "true")
    decided.record(snapshot("bad"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("bad"), REFUSED, "syntax"), 1.0)
    decided.retry_now()
    assert decided.decide(2.0) == [ReadDirectories()]
    assert decided.decide(2.5) == [], "until the next attempt to read"
    decided.record(snapshot("bad"), 2.5)
    assert decided.decide(2.5) == [StartCheck(snapshot("bad"))]


def test_content_that_cannot_be_read_again_is_read_later() -> None:
    """The next attempt is a second later."""
    decided = reconciler("--exec", "true")
    decided.record(snapshot("bad"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("bad"), REFUSED, "syntax"), 1.0)
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
        decided.record(snapshot(digest), 1.0)
        decided.decide(1.0)
        decided.record(CheckFinished(snapshot(digest), PASSED), 1.0)
        (command,) = decided.decide(1.0)
        assert isinstance(command, expected)


def test_attempt_of_an_earlier_agent_is_repeated_unless_it_succeeded() -> None:
    """What is kept across restarts is what was tried, and whether it was loaded."""
    first = reconciler("--exec", "true")
    first.record(snapshot("a"), 1.0)
    first.decide(1.0)
    first.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    first.decide(1.0)
    tried = first.attempts()
    first.record(AttemptFinished("default", "", 0, 0.0), 2.0)
    for attempts, count in ((tried, 1), (first.attempts(), 0)):
        decided = reconciler("--exec", "true", attempts=attempts)
        decided.record(snapshot("a"), 1.0)
        decided.decide(1.0)
        decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
        assert len(decided.decide(1.0)) == count


def test_frozen_rule_restarts_for_a_second_announcement_only() -> None:
    """The containers started with the first one; content has nothing to do with it."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    assert decided.decide(1.0) == []
    decided.record(Target(2, "live", "frozen-2"), 2.0)
    (attempt,) = decided.decide(2.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.rule.name == "frozen"


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


def test_announced_restart_with_a_stage_does_not_wait() -> None:
    """No process sees the refused content."""
    decided = reconciler("--target-file", "/x", "--restart-on", "frozen", "--stage", "/s")
    decided.record(Target(1, "live", "frozen-1"), 1.0)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.record(snapshot("b"), 3.0)
    decided.decide(3.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    decided.record(Target(2, "live", "frozen-2"), 5.0)
    (attempt,) = decided.decide(5.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.rule.name == "frozen"


@pytest.mark.parametrize("result", [REFUSED, ERROR])
@pytest.mark.parametrize(
    "flags", [("--signal", "HUP", "--process", "name:app"), ("--url", "http://127.0.0.1:1/")]
)
def test_content_that_returns_during_a_check_of_other_content_is_loaded_again(
    flags: tuple[str, ...], result: str
) -> None:
    """A process that started meanwhile has read what is not accepted then."""
    decided = reconciler(*flags)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.decide(2.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    decided.record(snapshot("b"), 4.0)
    assert decided.decide(4.0) == [StartCheck(snapshot("b"))]
    decided.record(snapshot("a"), 5.0)
    assert decided.decide(5.0) == []
    decided.record(CheckFinished(snapshot("b"), result, "not accepted"), 6.0)
    (attempt,) = decided.decide(6.0)
    assert isinstance(attempt, StartAttempt)
    assert (attempt.desired_since, attempt.doubted_since) == (6.0, 4.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 7.0)
    assert decided.directories.rows["/d"].loaded == "a"
    assert (decided.gate.state, decided.gate.error) == (PASSED, "")
    assert decided.next_time() is None


def revert_refused(decided: Reconciler) -> None:
    """Load content a, refuse b, and take b back to a."""
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.decide(2.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    decided.record(snapshot("b"), 4.0)
    decided.decide(4.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 5.0)
    assert decided.decide(5.0) == []
    assert not decided.attempts()["default"][1], "the next agent cannot rely on it either"
    decided.record(snapshot("a"), 6.0)


def test_content_is_loaded_again_after_refused_content_was_visible() -> None:
    """A process that started meanwhile has read the refused content."""
    decided = reconciler("--exec", "true")
    revert_refused(decided)
    assert decided.rules[0].state == "pending"
    (attempt,) = decided.decide(6.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.doubted_since == 4.0
    decided.record(AttemptFinished("default", "", 0, 1234.0), 7.0)
    assert decided.decide(7.0) == []
    assert decided.rules[0].state == "told"


def test_content_is_loaded_again_after_content_that_is_known_to_be_refused() -> None:
    """It is not checked again, and a process that started meanwhile has read it all the same."""
    decided = reconciler("--exec", "true")
    revert_refused(decided)
    decided.decide(6.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 7.0)
    decided.record(snapshot("b"), 8.0)
    assert decided.decide(8.0) == []
    assert not decided.attempts()["default"][1], "the next agent cannot rely on it either"
    decided.record(snapshot("a"), 9.0)
    (attempt,) = decided.decide(9.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.doubted_since == 8.0


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
            decided.record(AttemptFinished("default", "exit status 1", 0, 1234.0), now)
    warnings = [each for each in decided.take_transitions() if each.is_warning]
    assert [(each.event, each.message) for each in warnings] == [("failed", "exit status 1")] * 2
    assert len({each.fields["digest"] for each in warnings}) == 2


def test_failed_attempt_is_repeated_after_refused_content_was_visible() -> None:
    """No process has the content, so none can still have it."""
    decided = reconciler("--exec", "true")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.decide(2.0)
    decided.record(AttemptFinished("default", "failed", 0, 1234.0), 3.0)
    decided.record(snapshot("b"), 3.0)
    decided.decide(3.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    decided.record(snapshot("a"), 5.0)
    (attempt,) = decided.decide(5.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.doubted_since is None


def test_content_is_not_loaded_again_after_refused_content_with_a_stage() -> None:
    """With a stage no process has seen it."""
    decided = reconciler("--exec", "true", "--stage", "/s")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 2.0)
    decided.decide(2.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    decided.record(snapshot("b"), 4.0)
    decided.decide(4.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 5.0)
    decided.record(snapshot("a"), 6.0)
    assert decided.decide(6.0) == []
    assert decided.rules[0].state == "told"


def test_newer_content_waits_a_moment_for_a_running_attempt() -> None:
    """Its result still counts; after a tenth of a second it is given up."""
    decided = reconciler("--url", "http://127.0.0.1:1/")
    for digest, at in (("a", 1.0), ("b", 2.0)):
        decided.record(snapshot(digest), at)
        decided.decide(at)
        decided.record(CheckFinished(snapshot(digest), PASSED), at)
        attempts = decided.decide(at)
        assert len(attempts) == (1 if digest == "a" else 0)
    assert decided.next_time() == 2.1
    assert decided.decide(2.09) == []
    (attempt,) = decided.decide(2.1)
    assert isinstance(attempt, StartAttempt)
    assert decided.next_time() is None
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    assert (decided.rules[0].state, decided.rules[0].loads) == ("loaded", 1)


def test_result_of_an_attempt_counts_while_newer_content_waits() -> None:
    """It ended in time: both are loads."""
    decided = reconciler("--url", "http://127.0.0.1:1/")
    for digest, at in (("a", 1.0), ("b", 2.0)):
        decided.record(snapshot(digest), at)
        decided.decide(at)
        decided.record(CheckFinished(snapshot(digest), PASSED), at)
        decided.decide(at)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 2.05)
    (attempt,) = decided.decide(2.05)
    assert isinstance(attempt, StartAttempt)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 3.0)
    assert (decided.rules[0].state, decided.rules[0].loads) == ("loaded", 2)


def test_restart_waits_for_a_random_part_of_the_splay() -> None:
    """Each replica for another one; content that replaces other content waits no longer."""
    flags = ("--dir", "/d", "--splay", "100s", "--exec", "true", "--restart", "supervised")
    settings = load_settings(parse_arguments([*flags, "--", "app"]))
    parts = iter([0.3, 0.9, 0.9])
    decided = Reconciler(settings, KEY, {}, lambda: next(parts))

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
    (attempt,) = decided.decide(91.0)
    assert isinstance(attempt, StartAttempt)


def read_again(decided: Reconciler, digest: str, *, changed_since: float, now: float) -> None:
    """Read content after an update was seen that is not there any more."""
    replaced = snapshot(digest)._replace(changed_since=changed_since, replaced=True)
    decided.record(replaced, now)


@pytest.mark.parametrize(
    ("flags", "doubted_since"),
    [
        (("--signal", "HUP", "--process", "name:app"), 3.5),
        (("--signal", "HUP", "--process", "name:app", "--stage", "/s"), None),
        (("--url", "http://127.0.0.1:1/"), None),
        (("--restart", "term", "--process", "name:app"), 3.5),
        (("--restart", "all-containers"), None),
    ],
    ids=["signal", "staged", "endpoint", "restart", "unknown processes"],
)
def test_content_replaced_before_it_was_read_is_loaded_again(
    flags: tuple[str, ...], doubted_since: float | None
) -> None:
    """A process that started meanwhile has read it, unless it reads what is published."""
    decided = reconciler(*flags)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    if decided.decide(1.0):
        decided.record(AttemptFinished("default", "", 0, 1234.0), 2.0)
    read_again(decided, "a", changed_since=3.5, now=4.0)
    found = [attempt.doubted_since for attempt in decided.decide(4.0)]  # type: ignore[union-attr]
    assert found == ([] if doubted_since is None else [doubted_since])
    assert decided.attempts()["default"][1] == (not found), "nor does the next agent rely on it"


@pytest.mark.parametrize(("acted", "doubted_since"), [(False, 3.5), (True, 0.0)])
def test_only_an_attempt_that_acted_made_a_process_read(acted: bool, doubted_since: float) -> None:
    """After one that found nothing to do, older processes have not read what was replaced."""
    decided = reconciler("--signal", "HUP", "--process", "name:app")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    decided.decide(1.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 2.0)
    read_again(decided, "a", changed_since=2.5, now=3.0)
    decided.decide(3.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0, by_itself=not acted), 4.0)
    read_again(decided, "a", changed_since=3.5, now=5.0)
    (attempt,) = decided.decide(5.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.doubted_since == doubted_since


def test_content_that_came_back_is_not_loaded_while_other_content_is_checked() -> None:
    """A process may have read that, and is told when the check is over."""
    decided = reconciler("--signal", "HUP", "--process", "name:app")
    for now, digest in ((1.0, "a"), (3.0, "b")):
        decided.record(snapshot(digest), now)
        decided.decide(now)
        if digest == "a":
            decided.record(CheckFinished(snapshot(digest), PASSED), now)
            decided.decide(now)
            decided.record(AttemptFinished("default", "", 0, 1234.0), 2.0)
    decided.record(snapshot("a"), 4.0)
    statistics = WatcherStatistics("inotify", "", 1, 1, 0, 0, 0, 0)
    observer = ObserverStatus({}, statistics, False, "", "", 0.0)
    document = make_pod_document(4.0, "uid", observer, decided, ApplicationStatus(0, 0))
    assert b'"state":"loading"' in document


def test_process_that_started_with_replaced_content_is_not_taken_for_current() -> None:
    """It started after the first reading of the content, and before the second."""
    decided = reconciler("--signal", "HUP", "--process", "name:app", "--retry-first", "8s")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    decided.decide(1.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 2.0)
    decided.record(snapshot("b"), 3.0)
    decided.decide(3.0)
    read_again(decided, "b", changed_since=3.5, now=4.0)
    decided.record(CheckFinished(snapshot("b"), PASSED), 5.0)
    (attempt,) = decided.decide(5.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.desired_since == 4.0
    decided.record(AttemptFinished("default", "no such process", 0, 1234.0), 5.0)
    read_again(decided, "b", changed_since=6.0, now=7.0)
    (attempt,) = decided.decide(13.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.desired_since == 7.0


def test_refused_content_counts_since_it_may_have_been_visible() -> None:
    """The settle time passed before it was read."""
    decided = reconciler("--signal", "HUP", "--process", "name:app")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    decided.decide(1.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0), 2.0)
    read_again(decided, "b", changed_since=3.5, now=4.0)
    decided.decide(4.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    read_again(decided, "a", changed_since=5.5, now=6.0)
    (attempt,) = decided.decide(6.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.doubted_since == 3.5


@pytest.mark.parametrize("staged", [False, True], ids=["mounted", "published"])
def test_application_that_started_while_other_content_was_visible_is_restarted(
    staged: bool,
) -> None:
    """Its first content passed when that was not mounted any more."""
    flags = ("--stage", "/s") if staged else ()
    words = ["--dir", "/d", *flags, "--restart", "supervised", "--", "app"]
    settings = load_settings(parse_arguments(words))
    decided = Reconciler(settings, KEY, {}, lambda: 0.0)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(snapshot("b"), 2.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 3.0)
    assert decided.decide(3.0) == [StartApplication(), StartCheck(snapshot("b"))]
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    decided.record(snapshot("a"), 5.0)
    found = [attempt.doubted_since for attempt in decided.decide(5.0)]  # type: ignore[union-attr]
    assert found == ([] if staged else [2.0])


@pytest.mark.parametrize("ends_at", [3.5, 5.0], ids=["before", "after"])
def test_process_may_read_what_is_visible_while_an_attempt_runs(ends_at: float) -> None:
    """However old the process is: it was told to read, and may have done it late."""
    decided = reconciler("--signal", "HUP", "--process", "name:app")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    decided.decide(1.0)
    if ends_at < 4:
        decided.record(AttemptFinished("default", "", 0, 1234.0), ends_at)
    decided.record(snapshot("b"), 4.0)
    decided.decide(4.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    if ends_at > 4:
        decided.record(AttemptFinished("default", "", 0, 1234.0), ends_at)
    decided.record(snapshot("a"), 6.0)
    (attempt,) = decided.decide(6.0)
    assert isinstance(attempt, StartAttempt)
    assert attempt.doubted_since == (4.0 if ends_at < 4 else 0.0)


def test_nothing_is_attempted_while_other_content_is_mounted() -> None:
    """The process would read that; and the timer does not expire again and again."""
    decided = reconciler("--exec", "true")
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    decided.decide(1.0)
    decided.record(AttemptFinished("default", "exit status 1", 0, 1234.0), 2.0)
    decided.record(snapshot("b"), 2.0)
    assert decided.decide(100.0) == [StartCheck(snapshot("b"))]
    assert decided.next_time() is None
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 101.0)
    assert decided.decide(200.0) == []
    assert decided.next_time() is None
    decided.record(snapshot("a"), 201.0)
    assert len(decided.decide(201.0)) == 1
