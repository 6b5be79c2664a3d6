"""Whether a process has read its content at its start, from looked-up times alone."""

from __future__ import annotations

import pytest
from tests.agent.reconcilers import reconciler

from hotmap.agent.decide.facts import StartAttempt
from hotmap.agent.decide.start_evidence import (
    Lookups,
    ProcessStart,
    StartEvidence,
    WrittenContent,
    find_start_evidence,
)

#: How processes and files round their times down, in seconds.
PRECISION = 0.01
#: When the content was there, and a start clearly before and after.
DESIRED, OLDER, YOUNGER = 50.0, 40.0, 60.0

SIGNAL = ("--signal", "HUP", "--process", "name:app")
RESTART = ("--restart", "term", "--process", "name:app")
CHILD = ("--restart", "supervised", "--", "app")


def find(
    *flags: str,
    process: ProcessStart | str = "no process app",
    shell: ProcessStart | None = None,
    application: ProcessStart | None = None,
    written: WrittenContent | None = None,
    doubted_since: float | None = None,
    at_start: bool = False,
    published: bool = False,
    is_proven: bool = False,
    reads_for: float = 0.0,
) -> StartEvidence | None:
    """Find the evidence for the only rule of an agent with these flags, about /d."""
    (state, *_) = reconciler(*flags).rules
    command = StartAttempt(state.rule, 0, (), DESIRED, doubted_since, at_start, is_proven)
    lookups = Lookups(
        lambda _: process, lambda _: shell or process, lambda: application, lambda _: written,
        PRECISION,
    )  # fmt: skip
    return find_start_evidence(command, lookups, ["/d"], published=published, reads_for=reads_for)


def started(at: float, *, fork: bool = False) -> ProcessStart:
    return ProcessStart(7, at, fork)


CERTAIN = StartEvidence()


@pytest.mark.parametrize(
    ("flags", "process", "expected"),
    [
        pytest.param(SIGNAL, started(YOUNGER), CERTAIN, id="a process that is signalled"),
        pytest.param(SIGNAL, started(DESIRED), None, id="in the same moment"),
        pytest.param(SIGNAL, started(OLDER), None, id="it is older"),
        pytest.param(SIGNAL, started(YOUNGER, fork=True), None, id="a fork may have older memory"),
        pytest.param(SIGNAL, "two processes", None, id="it is not known which one"),
        pytest.param(RESTART, started(YOUNGER), CERTAIN, id="a process that is restarted"),
        pytest.param(RESTART, started(YOUNGER, fork=True), CERTAIN, id="a fork is not restarted"),
        pytest.param((*RESTART, "--exec", "true"), started(YOUNGER), None,
                     id="the command may have to run for each content"),
        pytest.param(("--exec", "true"), started(YOUNGER), None, id="it names no process"),
        pytest.param(("--url", "http://127.0.0.1:1/"), started(YOUNGER), None, id="nor does a URL"),
        pytest.param(CHILD, started(YOUNGER), None, id="the application is adopted at its start"),
    ],
)  # fmt: skip
def test_process_that_started_after_its_content_was_there_has_read_it(
    flags: tuple[str, ...], process: ProcessStart | str, expected: StartEvidence | None
) -> None:
    assert find(*flags, process=process) == expected


@pytest.mark.parametrize(
    ("probe", "at_start", "expected"),
    [
        pytest.param("workers name:app", False, None, id="a probe that detects a change"),
        pytest.param("workers name:app", True, CERTAIN, id="at the first start"),
        pytest.param("http http://127.0.0.1:1/", False, CERTAIN, id="a probe of the state"),
    ],
)
def test_process_that_has_ended_by_an_edit_is_signalled_for_its_probe(
    probe: str, at_start: bool, expected: StartEvidence | None
) -> None:
    """Only an action can make such a probe show that the next one does not end by it too."""
    flags = (*SIGNAL, "--verify", probe)
    assert find(*flags, process=started(YOUNGER), at_start=at_start) == expected


@pytest.mark.parametrize(
    ("flags", "process", "application", "expected"),
    [
        pytest.param(SIGNAL, started(OLDER), None, CERTAIN, id="it has run all the time"),
        pytest.param(SIGNAL, started(DESIRED), None, None, id="it started in that moment"),
        pytest.param(SIGNAL, started(DESIRED - PRECISION), None, None, id="or just before"),
        pytest.param(SIGNAL, "no process", None, None, id="it is not found"),
        pytest.param(RESTART, started(OLDER), None, CERTAIN, id="a restarted one"),
        pytest.param(CHILD, "no process", started(OLDER), CERTAIN, id="the application"),
        pytest.param(CHILD, "no process", started(YOUNGER), None, id="the application is younger"),
        pytest.param(CHILD, started(OLDER), None, None, id="the application does not run"),
        pytest.param((*SIGNAL, "--exec", "true"), started(OLDER), None, None, id="and a command"),
    ],
)
def test_process_that_is_older_than_a_doubt_still_has_its_content(
    flags: tuple[str, ...],
    process: ProcessStart | str,
    application: ProcessStart | None,
    expected: StartEvidence | None,
) -> None:
    """Other content was visible since then, which only a younger process may have read."""
    found = find(*flags, process=process, application=application, doubted_since=DESIRED)
    assert found == expected


FIRST = WrittenContent(OLDER, is_first=True)
UPDATED = WrittenContent(OLDER, is_first=False)
BY_CLOCK = StartEvidence(
    "process 7 started after the last update of /d by the wall clock, which may have been set since"
)
ALL = ("--restart", "all-containers")


@pytest.mark.parametrize("flags", [SIGNAL, RESTART])
def test_process_that_an_older_shell_has_started_is_younger(flags: tuple[str, ...]) -> None:
    """A shell runs it again when it ends: what it has read is not as old as the shell."""
    shell = started(OLDER)
    assert find(*flags, process=started(OLDER), shell=shell, doubted_since=DESIRED) == CERTAIN
    assert find(*flags, process=started(YOUNGER), shell=shell, doubted_since=DESIRED) is None


@pytest.mark.parametrize(
    ("executed_at", "expected"),
    [
        pytest.param(0.0, CERTAIN, id="never"),
        pytest.param(45.0, CERTAIN, id="before the doubt"),
        pytest.param(YOUNGER, None, id="since"),
    ],
)
def test_process_that_has_executed_a_program_since_may_have_other_content(
    executed_at: float, expected: StartEvidence | None
) -> None:
    """It is as old as before, and has read its configuration again."""
    process = started(OLDER)._replace(executed_again_at=executed_at)
    assert find(*SIGNAL, process=process, doubted_since=DESIRED) == expected


@pytest.mark.parametrize(
    ("process", "written", "expected"),
    [
        pytest.param(started(45.0), FIRST, CERTAIN, id="mounted before it, and never updated"),
        pytest.param(started(OLDER), FIRST, CERTAIN, id="in the same moment"),
        pytest.param(started(OLDER - 0.1), FIRST, None, id="it is older than its files"),
        pytest.param(started(45.0), UPDATED, BY_CLOCK, id="after an update"),
        pytest.param(started(OLDER), UPDATED, None, id="in the moment of an update"),
        pytest.param(started(OLDER - 0.1), UPDATED, None, id="before an update"),
        pytest.param(started(45.0), None, None, id="the time of the update is unknown"),
        pytest.param("no process app", FIRST, StartEvidence("", "no process app"), id="not found"),
    ],
)
def test_first_content_is_compared_with_the_start_of_the_process_that_is_restarted(
    process: ProcessStart | str, written: WrittenContent | None, expected: StartEvidence | None
) -> None:
    """What an agent finds when it starts; a process is not restarted for what it has read."""
    assert find(*RESTART, process=process, written=written, at_start=True) == expected


def test_first_content_is_told_to_a_process_that_needs_no_restart() -> None:
    """A signal too many does no harm."""
    assert find(*SIGNAL, process=started(45.0), written=FIRST, at_start=True) is None


@pytest.mark.parametrize(
    ("written", "published", "doubt"),
    [
        pytest.param(FIRST, False, "", id="never updated"),
        pytest.param(FIRST, True, "whether all containers have started", id="published by us"),
        pytest.param(UPDATED, False, "whether all containers have started", id="updated"),
        pytest.param(None, False, "whether all containers have started", id="unknown"),
    ],
)
def test_restart_of_all_containers_is_judged_by_the_files_alone(
    written: WrittenContent | None, published: bool, doubt: str
) -> None:
    found = find(*ALL, written=written, at_start=True, published=published)
    assert found is not None
    assert found.error == ""
    assert doubt in found.doubt if doubt else found == CERTAIN


def test_published_content_counts_as_updated() -> None:
    """The agent writes it after the process has started, perhaps."""
    found = find(*RESTART, process=started(OLDER), written=FIRST, at_start=True, published=True)
    assert found is None


@pytest.mark.parametrize(
    ("flags", "reads_for", "is_proven", "is_certain"),
    [
        pytest.param(RESTART, 1.0, False, True, id="it has read its files by then"),
        pytest.param(RESTART, 20.0, False, False, id="it may have read them late"),
        pytest.param(RESTART, 20.0, True, True, id="a probe had confirmed it"),
        pytest.param(CHILD, 20.0, False, False, id="the application"),
        pytest.param(SIGNAL, 20.0, False, True, id="part of the time, for a signal"),
    ],
)
def test_process_that_may_have_read_other_content_late_is_in_doubt(
    flags: tuple[str, ...], reads_for: float, is_proven: bool, is_certain: bool
) -> None:
    """It started shortly before that was visible, and is not restarted for the possibility."""
    found = find(
        *flags, process=started(OLDER), application=started(OLDER), doubted_since=DESIRED,
        reads_for=reads_for, is_proven=is_proven,
    )  # fmt: skip
    assert found is not None
    assert (found.doubt == "") is is_certain
    if not is_certain:
        assert found.doubt.startswith("process 7 started 10.0s before other content")
