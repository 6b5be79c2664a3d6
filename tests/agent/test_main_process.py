"""The agent as a container's main process: what the kernel and the kubelet expect of PID 1."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually
from tests.support.processes import children_of
from tests.support.requires import requires

from hotmap.agent.process.spawn import exit_status


@contextmanager
def first(folder: Path, *flags: object) -> Iterator[tuple[Agent, int]]:
    """Run an agent as number 1 of a process namespace; gives its number outside, too."""
    requires("root", available=os.geteuid() == 0, reason="a process namespace needs root")
    alone = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with agent(folder, *flags, before=alone) as running:
        (number,) = eventually(lambda: children_of(running.pid), "the agent's start")
        try:
            yield running, number
        finally:
            if running.process.poll() is None:
                os.kill(number, signal.SIGKILL)


def zombies_of(pid: int) -> list[int]:
    """List the children of a process that have not been reaped."""
    found = []
    for item in children_of(pid):
        with suppress(FileNotFoundError):  # it was reaped while we looked
            if ") Z " in Path(f"/proc/{item}/stat").read_text():
                found.append(item)
    return found


def names_below(pid: int) -> set[str]:
    """Name the programs that a process and its children run."""
    found = set()
    for item in [below for child in children_of(pid) for below in (child, *children_of(child))]:
        with suppress(FileNotFoundError, ProcessLookupError):
            found.add(Path(f"/proc/{item}/comm").read_text().strip())
    return found


def test_pid_1_reaps_orphans(tmp_path: Path) -> None:
    """Everything in the container whose parent ended is its own, and none stays as a zombie."""
    volume = Volume(tmp_path / "volume", text="one")
    orphans = "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.0$i &) ; done; touch $0; exec sleep 600"
    program = ("--", "sh", "-c", orphans, str(tmp_path / "left"))
    with first(tmp_path, "--dir", volume, *program) as (running, number):
        eventually((tmp_path / "left").exists)
        eventually(lambda: len(children_of(number)) == 1, "the end of all orphans")
        volume.write(text="two")
        eventually(lambda: running.status()["application"]["starts"] == 2)
        eventually(lambda: len(children_of(number)) == 1 and not zombies_of(number))
        assert Path(f"/proc/{number}/status").read_text().partition("NSpid:")[2].split()[1] == "1"


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (("sleep", "600"), 128 + signal.SIGTERM),
        (("sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.01; done"), 7),
    ],
)
def test_sigterm_exits_with_the_applications_status(
    tmp_path: Path, program: tuple[str, ...], status: int
) -> None:
    """The kernel gives PID 1 no default actions, so it has to take TERM itself, and does."""
    volume = Volume(tmp_path / "volume", text="one")
    with first(tmp_path, "--dir", volume, "--", *program) as (running, number):
        running.reaches("loaded")
        # The last thing that both programs come to, with their handlers set.
        eventually(lambda: "sleep" in names_below(number))
        os.kill(number, signal.SIGTERM)
        assert running.process.wait(20) == status


def test_killed_application_stops_the_container(tmp_path: Path) -> None:
    """The kubelet is to see it, and to decide by the pod's restart policy."""
    volume = Volume(tmp_path / "volume", text="one")
    with first(tmp_path, "--dir", volume, "--", "sleep", "600") as (running, number):
        running.reaches("loaded")
        (application,) = eventually(lambda: children_of(number))
        os.kill(application, signal.SIGKILL)
        assert running.process.wait(20) == 128 + signal.SIGKILL


def test_forked_children_are_not_found_as_processes(tmp_path: Path) -> None:
    """What checks and calls is not found by the name that the application has, too."""
    volume = Volume(tmp_path / "volume", text="one")
    script = tmp_path / "application"
    script.write_text(
        f"#!{sys.executable} -S\nimport signal, sys\n"
        "signal.signal(signal.SIGHUP, lambda *_: sys.exit(9))\nwhile True: signal.pause()\n"
    )
    script.chmod(0o755)
    flags = ("--dir", volume, "--check", "sleep 0.01", "--signal", "HUP")
    with first(tmp_path, *flags, "--", script) as (running, number):
        running.reaches("loaded")
        eventually(lambda: children_of(number))
        volume.write(text="two")
        assert running.process.wait(20) == 9


def test_another_agent_is_not_found_as_process(tmp_path: Path) -> None:
    """Two agents in a pod see each other, and each other's flags."""
    volume, mark = Volume(tmp_path / "volume", text="one"), tmp_path / "mark"
    touches = ("--dir", volume, "--touch", mark)
    tells = ("--dir", volume, "--signal", "HUP", "--process", f"command:{mark}")
    with agent(tmp_path / "first", *touches) as other, agent(tmp_path / "second", *tells) as own:
        other.reaches("told")
        own.reaches("failing")
        # The other one has its name only once its interpreter has started.
        eventually(lambda: f"no process with command {mark} found" in own.message)


def test_parent_of_the_agent_is_not_found_as_process(tmp_path: Path) -> None:
    """An init such as tini has the agent's flags in its own command line."""
    volume, mark = Volume(tmp_path / "volume", text="one"), tmp_path / "mark"
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"command:{mark}")
    with agent(tmp_path, *flags, before=("timeout", "600")) as running:
        running.reaches("failing")
        assert f"no process with command {mark} found" in running.message


#: Holds a lock while it lives; says so when another copy does.
LOCKED = """
import fcntl, os, signal, sys, time
folder, seconds = sys.argv[1], float(sys.argv[2])
def note(text):
    with open(folder + "/copies", "a") as file: file.write(text + "\\n")
def end(*_):
    time.sleep(seconds)
    sys.exit()
signal.signal(signal.SIGTERM, end)
file = open(folder + "/lock", "w")
try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError: note("two copies")
else: note("one copy")
while True: time.sleep(0.01)
"""


@pytest.mark.parametrize("seconds", ["0", "0.05", "600"], ids=["quick", "slow", "stubborn"])
def test_next_instance_starts_after_end_of_previous(tmp_path: Path, seconds: str) -> None:
    """However often content changes while a copy ends, the next one starts after its end."""
    volume = Volume(tmp_path / "volume", text="0")
    program = ("--", sys.executable, "-S", "-c", LOCKED, str(tmp_path), seconds)
    flags = ("--dir", volume, "--settle", "0", "--grace", "100ms")
    copies = tmp_path / "copies"
    with agent(tmp_path, *flags, *program) as running:
        for number in range(1, 13):
            before = copies.read_text() if copies.exists() else ""
            for part in range(5):
                volume.write(text=f"{number}.{part}")
            eventually(lambda b=before: copies.exists() and copies.read_text() != b)
        running.reaches("loaded")
        assert running.status()["application"]["starts"] >= 12
    assert set(copies.read_text().split("\n")) == {"one copy", ""}


def test_unrunnable_program_exits_with_126(tmp_path: Path) -> None:
    """As a shell has it; the sentence names the program."""
    volume, program = Volume(tmp_path / "volume", text="one"), tmp_path / "program"
    program.write_text("no program")
    with agent(tmp_path, "--dir", volume, "--", program) as running:
        assert running.process.wait(20) == 126
        assert "Errno" not in running.log
        assert f"{program} cannot be started: permission denied" in running.log


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGABRT, signal.SIGKILL, signal.SIGPIPE])
def test_exit_status_of_a_signal_is_128_and_its_number(number: int) -> None:
    """As the kubelet shows it of any container."""
    process = subprocess.Popen(["sleep", "60"])
    process.send_signal(number)
    assert exit_status(os.waitpid(process.pid, 0)[1]) == 128 + number
    process.returncode = 0  # it has been reaped here
