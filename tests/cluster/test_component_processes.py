"""A component is exactly the process that was started for it: stopped, paused, killed, found."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.components import MARK, Component, Processes, State, end
from tests.cluster.errors import TestBedError

SECONDS = 10.0


def sleeper(name: str = "sleeper") -> Component:
    return Component(name, ("sleep", "1000"), lambda: None)


def python(name: str, code: str) -> Component:
    return Component(name, (sys.executable, "-c", code), lambda: None)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path)
    yield found
    for process in found.leftovers():
        end(process, seconds=0)


def wait_until_said(processes: Processes, name: str, text: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not processes.log(name).exists() or text not in processes.log(name).read_text():
        assert time.monotonic() < deadline, f"{name} never said {text}"
        time.sleep(0.01)


def test_never_started_cluster_is_reported(processes: Processes) -> None:
    """No record, no process."""
    assert processes.state("sleeper") is State.NOT_STARTED
    assert processes.leftovers() == []


def test_starting_twice_starts_once(processes: Processes) -> None:
    """The second start finds the first process and leaves it alone."""
    assert processes.start(sleeper())
    first = processes.process("sleeper")
    assert not processes.start(sleeper())
    assert processes.process("sleeper") == first
    assert processes.leftovers() == [first]


def test_stopped_component_leaves_no_process_or_record(processes: Processes) -> None:
    """Neither process nor record is left."""
    processes.start(sleeper())
    processes.stop("sleeper")
    assert processes.state("sleeper") is State.NOT_STARTED
    assert processes.leftovers() == []


def test_component_that_ignores_sigterm_is_killed_after_its_grace(processes: Processes) -> None:
    """`stop` does not wait forever."""
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True)"
    processes.start(python("stubborn", f"{code}; time.sleep(1000)"))
    wait_until_said(processes, "stubborn", "ready")
    processes.stop("stubborn", seconds=0.1)
    assert processes.leftovers() == []


def test_paused_component_can_be_stopped(processes: Processes) -> None:
    """SIGTERM alone would wait in a frozen process until it is continued."""
    processes.start(sleeper())
    processes.pause("sleeper")
    processes.stop("sleeper", seconds=SECONDS)
    assert processes.leftovers() == []


def test_pause_and_resume_are_seen_as_states(processes: Processes) -> None:
    """The kernel's own state letter decides, not what we remember."""
    processes.start(sleeper())
    processes.pause("sleeper")
    deadline = time.monotonic() + SECONDS
    while processes.state("sleeper") is not State.PAUSED:
        assert time.monotonic() < deadline
    processes.resume("sleeper")
    while processes.state("sleeper") is not State.RUNNING:
        assert time.monotonic() < deadline


def test_killed_component_is_reported_until_restart(
    processes: Processes,
) -> None:
    """The record of the dead process is what tells killed from never started."""
    processes.start(sleeper())
    processes.kill("sleeper")
    assert processes.state("sleeper") is State.KILLED
    assert processes.start(sleeper())
    assert processes.state("sleeper") is State.RUNNING


def test_component_that_does_not_run_cannot_be_paused(processes: Processes) -> None:
    """The sentence names the component and the signal."""
    with pytest.raises(TestBedError, match=r"sleeper does not run.*SIGSTOP"):
        processes.pause("sleeper")


def test_reused_process_id_is_not_mistaken_for_component(
    processes: Processes, tmp_path: Path
) -> None:
    """A record of this test's own id with another start time must not get the test killed."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "sleeper.json").write_text(json.dumps([os.getpid(), 1]))
    assert processes.state("sleeper") is State.KILLED
    processes.stop("sleeper")
    assert processes.state("sleeper") is State.NOT_STARTED


def test_component_whose_starter_was_killed_is_adopted(
    processes: Processes, tmp_path: Path
) -> None:
    """Between the start and the record nothing is lost: the process carries the mark."""
    processes.start(sleeper())
    first = processes.process("sleeper")
    (tmp_path / "run" / "sleeper.json").unlink()
    assert not processes.start(sleeper())
    assert processes.process("sleeper") == first


def test_children_of_a_component_are_leftovers_too(processes: Processes) -> None:
    """As containerd's shims: they outlive their parent and have no record."""
    code = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    processes.start(python("parent", f"{code}; print('ready', flush=True)"))
    wait_until_said(processes, "parent", "ready")
    processes.stop("parent")
    (child,) = processes.leftovers()
    end(child, seconds=SECONDS)
    assert processes.leftovers() == []


def test_another_clusters_processes_are_not_ours(processes: Processes, tmp_path: Path) -> None:
    """Folders whose names begin alike are still different clusters."""
    other = Processes(tmp_path / "other")
    other.start(sleeper())
    try:
        assert processes.leftovers() == []
    finally:
        other.stop("sleeper")


def test_component_inherits_little_from_its_caller(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller's HTTP proxy would otherwise sit between the components."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    processes.start(python("printer", "import os; print(sorted(os.environ))"))
    wait_until_said(processes, "printer", MARK)
    assert "HTTPS_PROXY" not in processes.log("printer").read_text()


def test_missing_program_is_named(processes: Processes) -> None:
    """posix_spawn(3) would otherwise only say: no such file."""
    absent = Component("absent", ("no-such-program",), lambda: None)
    with pytest.raises(TestBedError, match="no-such-program is not installed"):
        processes.start(absent)
    assert processes.state("absent") is State.NOT_STARTED
