"""Which signals end the agent, how, and with which exit status."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from tests.agent.agents import TIMEOUT, Volume, agent, eventually

#: Notes the signals that it gets, and exits with 7 at TERM, INT, QUIT and RTMIN+3.
NOTING = """
import signal, sys, time
def note(number, _):
    with open(sys.argv[1], "a") as file: file.write(f"{number}\\n")
    if number in (2, 3, 15, 37): sys.exit(7)
for number in (2, 3, 10, 14, 15, 29, 34, 37, 64): signal.signal(number, note)
open(sys.argv[1], "a").close()
while True: time.sleep(0.01)
"""

OTHERS = (signal.SIGALRM, signal.SIGIO, signal.SIGUSR1, signal.SIGRTMIN, signal.SIGRTMAX)


def catches(pid: int, number: int) -> bool:
    """Return whether the application has set a handler for a signal (proc(5), SigCgt)."""
    program, flag, _ = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0-c\0")
    if not flag or b"\0agent\0" in program:
        return False  # it has not called exec yet, or is just doing it
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(mask >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop_signal_reaches_the_application_as_it_is(tmp_path: Path, number: int) -> None:
    """INT stays INT, TERM stays TERM; the exit status is the application's."""
    volume, notes = Volume(tmp_path / "volume", text="one"), tmp_path / "notes"
    words = ("--", sys.executable, "-S", "-c", NOTING, notes)
    with agent(tmp_path, "--dir", volume, *words) as running:
        eventually(notes.exists)
        running.process.send_signal(number)
        assert running.process.wait(TIMEOUT) == 7
    assert notes.read_text().split() == [str(int(number))]


@pytest.mark.parametrize("number", OTHERS)
def test_other_signal_is_forwarded(tmp_path: Path, number: int) -> None:
    """A timer's or an application's own signal reaches it, and ends nothing."""
    volume, notes = Volume(tmp_path / "volume", text="one"), tmp_path / "notes"
    words = ("--", sys.executable, "-S", "-c", NOTING, notes)
    with agent(tmp_path, "--dir", volume, *words) as running:
        eventually(notes.exists)
        running.process.send_signal(number)
        eventually(lambda: notes.read_text().split() == [str(int(number))])


def test_other_signals_do_not_end_the_agent(tmp_path: Path) -> None:
    """Without an application they are ignored."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--touch", tmp_path / "touched") as running:
        running.reaches("told")
        for number in OTHERS:
            running.process.send_signal(number)
        volume.write(text="two")
        eventually(lambda: running.rule()["loads"] == 2)
        assert running.end() == 0


@pytest.mark.parametrize("flags", [("--", "sleep", "600"), ("--once",)])
def test_term_before_anything_ran_exits_with_143(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """An init container that was stopped before its content passed did not succeed."""
    folder, stage = tmp_path / "missing", tmp_path / "stage"
    with agent(tmp_path, "--dir", folder, "--stage", stage, *flags) as running:
        running.reaches("waiting")
        assert running.end() == 143


@pytest.mark.parametrize(("name", "number"), [("QUIT", 3), ("SIGRTMIN+3", 37), ("37", 37)])
@pytest.mark.parametrize("sent", [signal.SIGTERM, 0])
def test_stop_signal_of_the_application_is_used(
    tmp_path: Path, name: str, number: int, sent: int
) -> None:
    """At TERM, at the stop signal itself (lifecycle.stopSignal), and for restarts."""
    volume, notes = Volume(tmp_path / "volume", text="one"), tmp_path / "notes"
    words = ("--stop-signal", name, "--", sys.executable, "-S", "-c", NOTING, notes)
    with agent(tmp_path, "--dir", volume, *words) as running:
        eventually(notes.exists)
        volume.write(text="two")
        eventually(lambda: running.status()["application"]["starts"] == 2)
        assert notes.read_text().split() == [str(number)]
        eventually(lambda: catches(running.status()["application"]["pid"], number))
        running.process.send_signal(sent or number)
        assert running.process.wait(TIMEOUT) == 7
    assert notes.read_text().split() == [str(number)] * 2
