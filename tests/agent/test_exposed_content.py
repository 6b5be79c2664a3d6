"""Content that processes may have read although it is not desired, or not any more.

The reconciler alone; `test_brief_content.py` has the same with processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.agent.reconcilers import (
    finish,
    load,
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
    AttemptFinished,
    CheckFinished,
    ReadDirectories,
    StageAltered,
    StartApplication,
    StartAttempt,
    StartCheck,
    Unreadable,
)
from hotmap.agent.decide.reconciler import Reconciler
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.process.application import ApplicationStatus
from hotmap.agent.report.pod_document import make_pod_document
from hotmap.agent.watch.observer import ObserverStatus
from hotmap.volume.watcher import WatcherStatistics

if TYPE_CHECKING:
    from hotmap.agent.decide.reconciler import Command

#: A process reads its files at once, after its start and after the signal.
SIGNAL = ("--signal", "HUP", "--process", "name:app", "--verify-timeout", "1ms")


def with_loaded_content(*flags: str) -> Reconciler:
    """Create a reconciler that has loaded its first content."""
    decided = reconciler(*flags)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 1.0)
    if decided.decide(1.0):
        finish(decided, 2.0)
    return decided


def near(*times: float) -> object:
    """Equal to times but for those milliseconds."""
    return pytest.approx(times, abs=0.01)


def read_again(decided: Reconciler, digest: str, *, changed_since: float, now: float) -> None:
    """Read content after an update was seen that is not there any more."""
    replaced = snapshot(digest)._replace(changed_since=changed_since, replaced=True)
    decided.record(replaced, now)


def revert_refused(decided: Reconciler) -> None:
    """Load content a, refuse b, and take b back to a."""
    load(decided, "a", read=1.0, passed=2.0, done=3.0)
    refuse(decided, "b", read=4.0, refused=5.0)
    assert decided.decide(5.0) == []
    assert decided.attempts()["default"].exposed_since == 4.0, "the next agent has to know it too"
    decided.record(snapshot("a"), 6.0)


def test_content_is_loaded_again_after_refused_content_was_visible() -> None:
    """A process that started meanwhile has read the refused content."""
    decided = reconciler("--exec", "true")
    revert_refused(decided)
    assert decided.rules[0].state == "pending"
    attempt = only_attempt(decided.decide(6.0))
    assert attempt.doubted_since == 4.0
    finish(decided, 7.0)
    assert decided.decide(7.0) == []
    assert decided.rules[0].state == "told"


def test_content_is_loaded_again_after_content_that_is_known_to_be_refused() -> None:
    """It is not checked again, and a process that started meanwhile has read it all the same."""
    decided = reconciler("--exec", "true")
    revert_refused(decided)
    decided.decide(6.0)
    finish(decided, 7.0)
    decided.record(snapshot("b"), 8.0)
    assert decided.decide(8.0) == []
    assert decided.attempts()["default"].exposed_since == 8.0, "the next agent has to know it too"
    decided.record(snapshot("a"), 9.0)
    attempt = only_attempt(decided.decide(9.0))
    assert attempt.doubted_since == 8.0


def test_failed_attempt_is_repeated_after_refused_content_was_visible() -> None:
    """No process has the content, so none can still have it."""
    decided = reconciler("--exec", "true")
    pass_check(decided, "a", read=1.0, passed=2.0)
    finish(decided, 3.0, error="failed")
    refuse(decided, "b", read=3.0, refused=4.0)
    decided.record(snapshot("a"), 5.0)
    attempt = only_attempt(decided.decide(5.0))
    assert attempt.doubted_since is None


def test_newer_content_is_loaded_though_the_process_still_has_what_was_tried() -> None:
    """The attempt was running while refused content was mounted, and is given up."""
    decided = with_loaded_content(*SIGNAL)
    pass_check(decided, "b", read=3.0, passed=3.0)
    refuse(decided, "x", read=4.0, refused=4.0)
    decided.record(snapshot("b"), 5.0)
    assert pass_check(decided, "c", read=6.0, passed=6.0) == []
    assert only_attempt(decided.decide(7.0)).doubted_since is None


def test_process_may_have_read_refused_content_each_time_it_was_mounted() -> None:
    """Twice, while it was found that the process still has what it had loaded before."""
    decided = with_loaded_content(*SIGNAL)
    for now in (3.0, 5.0, 7.0):
        refuse(decided, "b", read=now, refused=now)
        decided.record(snapshot("a"), now + 1)
        decided.decide(now + 1)
    decided.record(AttemptFinished("default", "", 0, 1234.0, by_itself=True), 9.0)
    doubted_since = only_attempt(decided.decide(9.0)).doubted_since
    assert (doubted_since,) == near(5.0)


def test_process_that_started_with_refused_content_has_not_read_the_first_content() -> None:
    """The first content waited for its attempt while the refused content was mounted."""
    decided = reconciler(*SIGNAL)
    decided.record(snapshot("a"), 1.0)
    decided.decide(1.0)
    decided.record(snapshot("b"), 2.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 3.0)
    decided.decide(3.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    decided.record(snapshot("a"), 6.0)
    assert only_attempt(decided.decide(6.0)).desired_since == 6.0


def test_content_is_not_loaded_again_after_refused_content_with_a_stage() -> None:
    """With a stage no process has seen it."""
    decided = reconciler("--exec", "true", "--stage", "/s")
    load(decided, "a", read=1.0, passed=2.0, done=3.0)
    refuse(decided, "b", read=4.0, refused=5.0)
    decided.record(snapshot("a"), 6.0)
    assert decided.decide(6.0) == []
    assert decided.rules[0].state == "told"


def test_refused_content_counts_since_it_may_have_been_visible() -> None:
    """The settle time passed before it was read."""
    decided = reconciler(*SIGNAL)
    load(decided, "a", read=1.0, passed=1.0, done=2.0)
    read_again(decided, "b", changed_since=3.5, now=4.0)
    decided.decide(4.0)
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 4.0)
    read_again(decided, "a", changed_since=5.5, now=6.0)
    attempt = only_attempt(decided.decide(6.0))
    assert (attempt.doubted_since,) == near(3.5)


@pytest.mark.parametrize("result", [REFUSED, ERROR])
@pytest.mark.parametrize("flags", [SIGNAL, ("--url", "http://127.0.0.1:1/")])
def test_content_that_returns_during_a_check_of_other_content_is_loaded_again(
    flags: tuple[str, ...], result: str
) -> None:
    """A process that started meanwhile has read what is not accepted then."""
    decided = reconciler(*flags)
    load(decided, "a", read=1.0, passed=2.0, done=3.0)
    decided.record(snapshot("b"), 4.0)
    assert decided.decide(4.0) == [StartCheck(snapshot("b"))]
    decided.record(snapshot("a"), 5.0)
    assert decided.decide(5.0) == []
    decided.record(CheckFinished(snapshot("b"), result, "not accepted"), 6.0)
    attempt = only_attempt(decided.decide(6.0))
    assert (attempt.desired_since, attempt.doubted_since) == near(6.0, 4.0)
    finish(decided, 7.0)
    assert decided.directories.rows["/d"].loaded == "a"
    assert (decided.gate.state, decided.gate.error) == (PASSED, "")
    assert decided.next_time() is None


def test_content_that_came_back_is_not_loaded_while_other_content_is_checked() -> None:
    """A process may have read that, and is told when the check is over."""
    decided = reconciler(*SIGNAL)
    for now, digest in ((1.0, "a"), (3.0, "b")):
        decided.record(snapshot(digest), now)
        decided.decide(now)
        if digest == "a":
            decided.record(CheckFinished(snapshot(digest), PASSED), now)
            decided.decide(now)
            finish(decided, 2.0)
    decided.record(snapshot("a"), 4.0)
    statistics = WatcherStatistics("inotify", "", 1, 1, 0, 0, 0, 0)
    observer = ObserverStatus({}, statistics, False, "", "", 0.0)
    document = make_pod_document(4.0, "uid", observer, decided, ApplicationStatus(0, 0))
    assert b'"state":"loading"' in document


@pytest.mark.parametrize(
    ("flags", "doubted_since"),
    [
        (SIGNAL, 3.5),
        ((*SIGNAL, "--stage", "/s"), None),
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
    decided = with_loaded_content(*flags)
    read_again(decided, "a", changed_since=3.5, now=4.0)
    found = [attempt.doubted_since for attempt in decided.decide(4.0)]  # type: ignore[union-attr]
    assert tuple(found) == near(*([] if doubted_since is None else [doubted_since]))
    assert decided.attempts()["default"].done == (not found), "nor does the next agent rely on it"


@pytest.mark.parametrize(
    ("flags", "doubted_since"),
    [
        (SIGNAL, 3.5),
        (("--url", "http://127.0.0.1:1/"), 0.0),
        (("--exec", "true"), 0.0),
        (("--url", "http://127.0.0.1:1/", "--stage", "/s"), None),
        (("--restart", "all-containers"), None),
    ],
    ids=["signal", "endpoint", "command", "staged", "unknown processes"],
)
def test_content_that_is_back_after_unreadable_content_is_loaded_again(
    flags: tuple[str, ...], doubted_since: float | None
) -> None:
    """A process that started meanwhile may have read what the agent could not."""
    decided = with_loaded_content(*flags)
    decided.record(snapshot("a")._replace(changed_since=3.5, unreadable=True), 4.0)
    found = [attempt.doubted_since for attempt in decided.decide(4.0)]  # type: ignore[union-attr]
    assert tuple(found) == near(*([] if doubted_since is None else [doubted_since]))


@pytest.mark.parametrize(("acted", "doubted_since"), [(False, 3.5), (True, 0.0)])
def test_only_an_attempt_that_acted_made_a_process_read(acted: bool, doubted_since: float) -> None:
    """After one that found nothing to do, older processes have not read what was replaced."""
    decided = reconciler(*SIGNAL)
    load(decided, "a", read=1.0, passed=1.0, done=2.0)
    read_again(decided, "a", changed_since=2.5, now=3.0)
    decided.decide(3.0)
    decided.record(AttemptFinished("default", "", 0, 1234.0, by_itself=not acted), 4.0)
    read_again(decided, "a", changed_since=3.5, now=5.0)
    attempt = only_attempt(decided.decide(5.0))
    assert (attempt.doubted_since,) == near(doubted_since)


def test_process_that_started_with_replaced_content_is_not_taken_for_current() -> None:
    """It started after the first reading of the content, and before the second."""
    decided = reconciler(*SIGNAL, "--retry-first", "8s")
    load(decided, "a", read=1.0, passed=1.0, done=2.0)
    decided.record(snapshot("b"), 3.0)
    decided.decide(3.0)
    read_again(decided, "b", changed_since=3.5, now=4.0)
    decided.record(CheckFinished(snapshot("b"), PASSED), 5.0)
    attempt = only_attempt(decided.decide(5.0))
    assert attempt.desired_since == 4.0
    finish(decided, 5.0, error="no such process")
    read_again(decided, "b", changed_since=6.0, now=7.0)
    attempt = only_attempt(decided.decide(13.0))
    assert attempt.desired_since == 7.0


@pytest.mark.parametrize("staged", [False, True], ids=["mounted", "published"])
def test_application_that_started_while_other_content_was_visible_is_restarted(
    staged: bool,
) -> None:
    """Its first content passed when that was not mounted any more."""
    flags = ("--stage", "/s") if staged else ()
    decided = reconciler(*flags, "--restart", "supervised", "--", "app")
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
    decided = reconciler(*SIGNAL)
    pass_check(decided, "a", read=1.0, passed=1.0)
    if ends_at < 4:
        finish(decided, ends_at)
    refuse(decided, "b", read=4.0, refused=4.0)
    if ends_at > 4:
        finish(decided, ends_at)
    decided.record(snapshot("a"), 6.0)
    attempt = only_attempt(decided.decide(6.0))
    assert (attempt.doubted_since,) == near(4.0 if ends_at < 4 else 0.0)


@pytest.mark.parametrize("returns_at", [5.0, 7.0], ids=["during", "after"])
@pytest.mark.parametrize(("by_itself", "doubted_since"), [(True, 4.0), (False, 0.0)])
def test_attempt_that_did_nothing_made_no_process_read_other_content(
    returns_at: float, by_itself: bool, doubted_since: float
) -> None:
    """It only waited for probes, so a process that is older than the other content has not read it.

    Otherwise it would be restarted for nothing.
    """
    decided = reconciler("--restart", "term", "--process", "name:app", "--verify", "exec true")
    pass_check(decided, "a", read=1.0, passed=1.0)
    refuse(decided, "b", read=4.0, refused=4.0)
    finished = AttemptFinished("default", "", 0, 1234.0, by_itself)
    if returns_at > 6:
        decided.record(finished, 6.0)
    decided.record(snapshot("a"), returns_at)
    if returns_at < 6:
        assert decided.decide(returns_at) == []
        decided.record(finished, 6.0)
    attempt = only_attempt(decided.decide(8.0))
    assert (attempt.doubted_since,) == near(doubted_since)


@pytest.mark.parametrize(
    ("flags", "visible_at", "doubted_since"),
    [
        (SIGNAL[:-2], 12.5, 0.0),  # within ten seconds
        (SIGNAL[:-2], 13.5, 3.5),
        ((*SIGNAL[:-2], "--verify", "workers name:app"), 13.0, 3.0),  # the probe has waited
        (("--restart", "term", "--process", "name:app"), 3.5, 3.5),  # it is not restarted twice
    ],
    ids=["soon", "later", "confirmed", "restart"],
)
def test_process_may_read_its_files_some_time_after_a_signal(
    flags: tuple[str, ...], visible_at: float, doubted_since: float
) -> None:
    """Nothing shows when it has, so it may have read refused content, however old it is.

    After its start too.
    """
    decided = reconciler(*flags)
    load(decided, "a", read=1.0, passed=2.0, done=3.0)
    refuse(decided, "b", read=visible_at, refused=visible_at)
    decided.record(snapshot("a"), 20.0)
    attempt = only_attempt(decided.decide(20.0))
    assert attempt.doubted_since == doubted_since


def test_nothing_is_attempted_while_other_content_is_mounted() -> None:
    """The process would read that; and the timer does not expire again and again."""
    decided = reconciler("--exec", "true")
    pass_check(decided, "a", read=1.0, passed=1.0)
    finish(decided, 2.0, error="exit status 1")
    decided.record(snapshot("b"), 2.0)
    assert decided.decide(100.0) == [StartCheck(snapshot("b"))]
    assert decided.next_time() is None
    decided.record(CheckFinished(snapshot("b"), REFUSED, "syntax"), 101.0)
    assert decided.decide(200.0) == []
    assert decided.next_time() is None
    decided.record(snapshot("a"), 201.0)
    assert len(decided.decide(201.0)) == 1


RULES = """
[[rule]]
name = "one"
files = ["one"]
actions = [{ signal = "HUP", process = "name:app" }]
[[rule]]
name = "two"
files = ["two"]
actions = [{ signal = "HUP", process = "name:app" }]
"""


def pair(one: str, two: str) -> Snapshot:
    """Make a reading of two files, one for each rule."""
    files = {"/d/one": one, "/d/two": two}
    return Snapshot({"/d": {}}, files, {"/d": one + two}, one + two, {})


def with_two_rules(folder: Path, rules: str = RULES) -> Reconciler:
    """Make a reconciler with two rules about one process, which has loaded both files."""
    (folder / "rules").write_text(rules)
    decided = reconciler("--rules", str(folder / "rules"), "--verify-timeout", "1ms")
    change(decided, pair("a", "a"), PASSED, 1.0)
    for name in ("one", "two"):
        decided.record(AttemptFinished(name, "", 0, 1234.0), 1.0)
    return decided


def change(decided: Reconciler, read: Snapshot, result: str, now: float) -> Sequence[Command]:
    """Have content read and checked at once; returns the commands that follow."""
    decided.record(read, now)
    decided.decide(now)
    decided.record(CheckFinished(read, result), now)
    return decided.decide(now)


def test_process_is_not_told_to_read_while_content_of_another_rule_is_refused(
    tmp_path: Path,
) -> None:
    decided = with_two_rules(tmp_path)
    decided.record(pair("b", "a"), 3.0)
    decided.decide(3.0)
    decided.record(pair("b", "x"), 4.0)
    decided.record(CheckFinished(pair("b", "a"), PASSED), 5.0)
    assert decided.decide(5.0) == [StartCheck(pair("b", "x"))]
    decided.record(CheckFinished(pair("b", "x"), REFUSED, "syntax"), 6.0)
    assert decided.decide(100.0) == []
    assert decided.next_time() is None
    decided.record(pair("b", "a"), 101.0)
    found = [command.doubted_since for command in decided.decide(101.0)]  # type: ignore[union-attr]
    assert found[0] is None
    assert tuple(found[1:]) == near(4.0)


def test_files_that_change_faster_than_they_are_checked_hold_up_no_other_rule(
    tmp_path: Path,
) -> None:
    """For longer than a check may take, unless the last one refused them."""
    decided = with_two_rules(tmp_path)
    decided.record(pair("b", "10"), 10.0)
    decided.decide(10.0)

    def attempted(now: int, result: str) -> list[str]:
        """Let the check end each time that newer content has been read."""
        decided.record(pair("b", str(now)), now)
        decided.record(CheckFinished(pair("b", str(now - 10)), result), now)
        found = decided.decide(now)
        if ReadDirectories() in found:
            decided.record(pair("b", str(now)), now)
            found.extend(decided.decide(now))
        assert StartCheck(pair("b", str(now))) in found
        return [each.rule.name for each in found if isinstance(each, StartAttempt)]

    results = {20: PASSED, 30: PASSED, 40: PASSED, 50: REFUSED, 60: PASSED}
    assert [attempted(now, result) for now, result in results.items()] == [[], [], [], [], ["one"]]
    decided.record(AttemptFinished("one", "", 0, 1234.0), 60.0)
    decided.record(CheckFinished(pair("b", "60"), REFUSED), 61.0)
    decided.record(pair("b", "a"), 62.0)
    decided.decide(62.0)
    decided.record(CheckFinished(pair("b", "a"), PASSED), 63.0)
    assert only_attempt(decided.decide(63.0)).doubted_since == 0.0, "two was read at the signal"


def test_files_that_can_be_read_again_are_checked_before_a_process_reads_them(
    tmp_path: Path,
) -> None:
    """However long they could not be read."""
    decided = with_two_rules(tmp_path)
    decided.record(pair("b", "a"), 3.0)
    decided.decide(3.0)
    decided.record(Unreadable("/d"), 4.0)
    decided.record(CheckFinished(pair("b", "a"), PASSED), 5.0)
    assert decided.decide(100.0) == []
    decided.record(pair("b", "x"), 101.0)
    assert decided.decide(101.0) == [StartCheck(pair("b", "x"))]


@pytest.mark.parametrize("process", ["name:app", "pidfile:/run/app.pid"])
def test_process_may_have_read_content_of_another_rule_at_a_signal(
    tmp_path: Path, process: str
) -> None:
    """The signal for the one rule was sent before the refused content of the other was read."""
    decided = with_two_rules(tmp_path, RULES.replace("name:app", process, 1))
    assert only_attempt(change(decided, pair("b", "a"), PASSED, 3.0)).rule.name == "one"
    decided.record(AttemptFinished("one", "", 0, 1234.0), 3.0)
    change(decided, pair("b", "x")._replace(changed_since=2.9), REFUSED, 4.0)
    decided.record(pair("b", "a"), 5.0)
    assert only_attempt(decided.decide(5.0)).doubted_since == 0.0


@pytest.mark.parametrize("error", ["", "status 500"], ids=["before it was read", "in a retry"])
@pytest.mark.parametrize(
    "action", ['http = "http://a/"', 'signal = "HUP", process = "pidfile:/run/app.pid"']
)
def test_process_may_have_read_content_of_another_rule_at_a_call(
    tmp_path: Path, error: str, action: str
) -> None:
    """It is not known which process the endpoint is about, or is in the pid file."""
    signal = 'signal = "HUP", process = "name:app"'
    decided = with_two_rules(tmp_path, RULES.replace(signal, action, 1))
    assert only_attempt(change(decided, pair("b", "a"), PASSED, 3.0)).rule.name == "one"
    decided.record(AttemptFinished("one", error, 0, 1234.0), 3.0)
    since = 3.1 if error else 2.9
    change(decided, pair("b", "x")._replace(changed_since=since), REFUSED, 100.0)
    if error:
        assert decided.rules[0].progress.running
        decided.record(AttemptFinished("one", "", 0, 1234.0), 101.0)
    decided.record(pair("b", "a"), 102.0)
    assert only_attempt(decided.decide(102.0)).doubted_since == 0.0


@pytest.mark.parametrize(
    ("flags", "since"), [((), 1.0), (("--stage", "/s"), 2.0)], ids=["mounted", "published"]
)
def test_process_that_starts_during_the_check_has_read_mounted_content(
    flags: tuple[str, ...], since: float
) -> None:
    """It is there before it passes; what is published is there only afterwards."""
    decided = reconciler(*SIGNAL, *flags)
    attempt = only_attempt(pass_check(decided, "a", read=1.0, passed=2.0))
    assert attempt.desired_since == since


def after_earlier_agent(
    *flags: str, when: float, revisions: dict[str, tuple[str, str]] | None = None
) -> Reconciler:
    """Make the reconciler of an agent whose predecessor has loaded content a, and ended then."""
    first = reconciler(*flags)
    load(first, "a", read=1.0, passed=1.0, done=1.0)
    decided = reconciler(*flags, attempts=first.attempts())
    decided.doubt_processes_since(when, revisions)
    return decided


@pytest.mark.parametrize(
    ("flags", "doubted_since"),
    [
        pytest.param(SIGNAL, 5.0, id="signal"),
        pytest.param(("--restart", "term", "--process", "name:app"), 5.0, id="restart"),
        pytest.param((*SIGNAL, "--stage", "/s"), None, id="published"),
        pytest.param(("--url", "http://127.0.0.1:1/"), None, id="endpoint"),
    ],
)
def test_process_that_started_while_no_agent_ran_may_have_read_other_content(
    flags: tuple[str, ...], doubted_since: float | None
) -> None:
    decided = after_earlier_agent(*flags, when=5.0)
    found = pass_check(decided, "a", read=6.0, passed=6.0)
    if doubted_since is None:
        assert found == []
    else:
        assert only_attempt(found).doubted_since == doubted_since


@pytest.mark.parametrize(("mounted_at", "is_signalled"), [(8.0, True), (16.0, False)])
def test_process_may_handle_the_signal_of_an_earlier_agent_late(
    mounted_at: float, is_signalled: bool
) -> None:
    """That agent has ended at 5, and may have sent it just before."""
    flags = ("--signal", "HUP", "--process", "name:app", "--verify-timeout", "10s")
    decided = after_earlier_agent(*flags, when=5.0)
    assert only_attempt(pass_check(decided, "a", read=6.0, passed=6.0)).doubted_since == 5.0
    decided.record(AttemptFinished("default", "", 0, 1234.0, by_itself=True), 6.0)
    refuse(decided, "b", read=mounted_at, refused=mounted_at)
    decided.record(snapshot("a"), 20.0)
    doubted_since = only_attempt(decided.decide(20.0)).doubted_since
    assert doubted_since == (0.0 if is_signalled else mounted_at - 10.0)


@pytest.mark.parametrize(
    ("when", "before", "is_called"),
    [
        pytest.param(5.0, ("..1", "a"), True, id="it was another one in between"),
        pytest.param(5.0, ("..2", "a"), False, id="not updated"),
        pytest.param(5.0, ("..1", "b"), False, id="the earlier agent had read another one last"),
        pytest.param(0.0, ("..1", "a"), False, id="the node was booted"),
    ],
)
def test_endpoint_is_called_again_for_content_that_came_back_while_no_agent_ran(
    when: float, before: tuple[str, str], is_called: bool
) -> None:
    """A kubelet never writes the same content twice in a row."""
    decided = after_earlier_agent(
        "--url", "http://127.0.0.1:1/", when=when, revisions={"/d": before}
    )
    decided.record(snapshot("a")._replace(revisions={"/d": "..2"}), 6.0)
    decided.decide(6.0)
    decided.record(CheckFinished(snapshot("a"), PASSED), 6.0)
    assert bool(decided.decide(6.0)) is is_called


def test_altered_stage_is_checked_and_loaded_again() -> None:
    """A process that has started since may have read what the other program wrote."""
    decided = reconciler(*SIGNAL, "--stage", "/s")
    load(decided, "a", read=1.0, passed=1.0, done=2.0)
    decided.record(StageAltered(3.0), 4.0)
    assert decided.decide(4.0) == [ReadDirectories()]
    attempt = only_attempt(pass_check(decided, "a", read=5.0, passed=5.0))
    assert (attempt.doubted_since,) == near(3.0)


@pytest.mark.parametrize(
    ("mounted", "words"),
    [("a", "they are published again"), ("b", "they stay changed until content passes its check")],
)
def test_altered_stage_is_reported_with_what_follows(mounted: str, words: str) -> None:
    decided = reconciler(*SIGNAL, "--stage", "/s")
    load(decided, "a", read=1.0, passed=1.0, done=2.0)
    if mounted != "a":
        refuse(decided, mounted, read=2.5, refused=2.5)
    decided.take_transitions()
    decided.record(StageAltered(3.0), 4.0)
    (warning,) = decided.take_transitions()
    assert (warning.event, warning.is_warning) == ("stage", True)
    assert words in warning.message
