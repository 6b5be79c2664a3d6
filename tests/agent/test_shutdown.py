"""SIGTERM in any state: the agent exits within a second, after its application.

A second on a machine with nothing else to do. So that a busy one does not fail the test, and an
agent that waits for something does, a bare process is ended at the same moment: the time that it
takes, three times, or half a second, may be lost to whatever else is running.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, run_program
from tests.agent.states import STATES, standing
from tests.support.processes import children_of


@contextmanager
def bare_process() -> Iterator[subprocess.Popen[bytes]]:
    """A Python that does nothing and ends on TERM, through as much clean-up as any."""
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
        "print(flush=True)\n"
        "while True: signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process, process.stdout:
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def ends_at_once(running: Agent, *, own: float = 0.0) -> int:
    """End an agent and a bare process together; `own` are the seconds that a child takes.

    A busy machine delays both; what an agent could wait for takes ten seconds or more.
    """
    with bare_process() as bare:
        began = time.monotonic()
        running.process.terminate()
        bare.terminate()
        took = _both(lambda: running.process.poll() is not None, lambda: bare.poll() is not None)
        status = running.process.wait()
    assert took[0] - began < 5.0 + own + 5 * (took[1] - began)
    return status


def _both(first: Callable[[], bool], other: Callable[[], bool]) -> tuple[float, float]:
    """Record when each of two things came true."""
    times: dict[int, float] = {}

    def check() -> bool:
        for number, came_true in enumerate((first, other)):
            if number not in times and came_true():
                times[number] = time.monotonic()
        return len(times) == 2

    eventually(check, "the end of both")
    return times[0], times[1]


@pytest.mark.parametrize("name", STATES)
def test_sigterm_stops_the_agent_in_any_state(tmp_path: Path, name: str) -> None:
    """Whatever is under way is dropped; what it had started goes with it; status 0."""
    with standing(tmp_path, name) as (scene, running):
        children = children_of(running.pid)
        assert ends_at_once(running) == 0
        eventually(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
        assert not (tmp_path / "agent.sock").exists()
        if scene.state.hold:
            assert scene.loads().count("two") <= 1


def test_sigterm_stops_the_agent_without_directory(tmp_path: Path) -> None:
    """An agent that waits for its volume ends like any other."""
    with agent(tmp_path, "--dir", tmp_path / "missing") as running:
        running.reaches("waiting")
        assert ends_at_once(running) == 0


def test_sigterm_stops_the_agent_while_terminating_a_container(tmp_path: Path) -> None:
    """A restart by TERM of a process that does not end does not delay the shutdown."""
    volume = Volume(tmp_path / "volume", text="one")
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    with run_program([sys.executable, "-S", "-c", deaf, str(tmp_path / "mark")]) as process:
        flags = (
            *("--dir", volume, "--restart", "term", "--process", f"command:{tmp_path}/mark"),
            *("--grace", "10m"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            volume.write(text="two")
            running.reaches("pending")
            assert ends_at_once(running) == 0
            assert process.poll() is None


#: An application that takes half a second to end, and says when it begins to.
SLOW = """
import signal, sys, time
def end(*_):
    open(sys.argv[1] + "/ending", "w").close()
    time.sleep(0.5)
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1] + "/started", "w").close()
while True: time.sleep(0.01)
"""

#: Of an agent around an application: flags, and how newer content brings it there.
AROUND = {
    "not started": ("--check", "false"),
    "running": (),
    "checking": ("--check", "sh -c 'grep -q one {dir}/text || sleep 600'"),
    "stopping": (),
}


@pytest.mark.parametrize("name", AROUND)
def test_sigterm_stops_the_supervised_application(tmp_path: Path, name: str) -> None:
    """It gets its own time, once, also when it was being restarted already; its status is kept."""
    volume = Volume(tmp_path / "volume", text="one")
    program = ("--", sys.executable, "-S", "-c", SLOW, str(tmp_path))
    with agent(tmp_path, "--dir", volume, *AROUND[name], *program) as running:
        if name == "not started":
            running.reaches("refused")
            assert ends_at_once(running) == 128 + signal.SIGTERM
            assert not (tmp_path / "started").exists()
            return
        eventually((tmp_path / "started").exists)
        if name != "running":
            volume.write(text="two")
            running.reaches("pending")
        if name == "stopping":
            eventually((tmp_path / "ending").exists)
        assert ends_at_once(running, own=0.5) == 3
        assert "restarted" not in running.log


def test_sigint_stops_the_agent(tmp_path: Path) -> None:
    """INT, as a terminal sends it, ends the agent and its application in the same way."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--", "sleep", "600") as running:
        running.reaches("loaded")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(20) == 128 + signal.SIGINT
