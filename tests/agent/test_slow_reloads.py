"""An application that takes its time is told once, and a newer change does not wait for it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, run_program, webhook

from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings

#: Counts its HUPs; some seconds after each, it shows what it has loaded, unless that is invalid.
SLOW = """
import os, signal, sys, time
folder, source, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
signal.signal(signal.SIGHUP, lambda *_: None)
def show(text):
    with open(folder + "/shown.new", "w") as file: file.write(text)
    os.rename(folder + "/shown.new", folder + "/shown")
show("at the start")
while True:
    signal.sigwait([signal.SIGHUP])
    with open(folder + "/hups", "a") as file: file.write("x")
    with open(source) as file: text = file.read()
    time.sleep(seconds)
    if text != "invalid": show(text)
"""


@contextmanager
def slow_program(folder: Path, volume: Volume, *, seconds: float) -> Iterator[str]:
    """Run that program; yields how an agent finds it."""
    source, pidfile = volume.path / "text", folder / "pid"
    command = [sys.executable, "-S", "-c", SLOW, str(folder), str(source), str(seconds)]
    with run_program(command) as program:
        eventually((folder / "shown").exists)
        pidfile.write_text(str(program.pid))
        yield f"pidfile:{pidfile}"


def hups(folder: Path) -> int:
    """Count the signals that the slow program took."""
    path = folder / "hups"
    return len(path.read_text()) if path.exists() else 0


def test_process_that_loads_slowly_is_signalled_once(tmp_path: Path) -> None:
    """Verification times out five times meanwhile; it goes on without another signal."""
    volume = Volume(tmp_path / "volume", text="one")
    with slow_program(tmp_path, volume, seconds=2) as process:
        flags = (
            *("--dir", volume, "--signal", "HUP", "--process", process),
            *("--verify", f"output cat {tmp_path}/shown", "--verify-timeout", "200ms"),
        )
        with agent(tmp_path, *flags) as running:
            assert "has not changed" in running.reaches("failing")["message"]
            running.reaches("loaded")
            assert running.rule()["failures"] >= 3
            assert hups(tmp_path) == 1


def test_lost_signal_is_repeated_after_the_action_timeout(tmp_path: Path) -> None:
    """A process that ignored the signal gets it again, with growing pauses."""
    volume = Volume(tmp_path / "volume", text="one")
    with slow_program(tmp_path, volume, seconds=600):
        counter = tmp_path / "count"
        flags = (
            *("--dir", volume, "--exec", f"sh -c 'echo >> {counter}'"),
            *("--verify", f"output cat {tmp_path}/shown", "--verify-timeout", "500ms"),
            *("--action-timeout", "300ms"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("failing")
            began = time.monotonic()
            eventually(lambda: counter.read_text().count("\n") == 3)
            assert time.monotonic() - began > 0.5, "after 0.3 s, then after 0.6 s"


def test_endpoint_that_answers_late_is_not_called_forever(tmp_path: Path) -> None:
    """The time limit doubles: 0.3 s, 0.6 s, 1.2 s, in which it answers."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:

        def answer_late() -> None:
            time.sleep(0.9)

        with webhook(called=answer_late) as endpoint:
            flags = ("--dir", volume, "--url", endpoint.url, "--action-timeout", "300ms")
            with agent(tmp_path, *flags) as running:
                assert "within 0.3s" in running.reaches("failing")["message"]
                running.reaches("loaded")
                assert len(endpoint.calls) <= 3


@pytest.mark.slow
def test_endpoint_that_answers_after_12_seconds_is_called_once(tmp_path: Path) -> None:
    """With the default time limit, which is a minute."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook(called=lambda: time.sleep(12)) as endpoint:
        flags = ("--dir", str(volume), "--url", endpoint.url)
        limit = load_settings(parse_arguments(flags)).actions.timeout
        assert limit == 60
        with agent(tmp_path, *flags, "--action-timeout", f"{limit:g}s") as running:
            running.reaches("loaded")
        assert len(endpoint.calls) == 1


def test_late_answer_is_replaced_by_probes(tmp_path: Path) -> None:
    """Where a probe can tell, a call without an answer is not repeated at all."""
    volume = Volume(tmp_path / "volume", text="one")
    shown = tmp_path / "shown"
    shown.write_text("one")
    with webhook() as endpoint:
        endpoint.hang.clear()
        flags = (
            *("--dir", volume, "--url", endpoint.url, "--action-timeout", "2s"),
            *("--verify", f"output cat {shown}", "--verify-timeout", "1s"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("failing")
            shown.write_text("two")
            running.reaches("loaded")
            assert len(endpoint.calls) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_newer_content_does_not_wait_for_an_answer(tmp_path: Path, host: str) -> None:
    """The call under way is given up, on the loop or in a child, and the newer one is made."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        never, endpoint.hang = threading.Event(), threading.Event()
        url = endpoint.url.replace("127.0.0.1", host)
        with agent(tmp_path, "--dir", volume, "--url", url) as running:
            eventually(lambda: len(endpoint.calls) == 1)
            endpoint.hang = threading.Event()
            endpoint.hang.set()
            volume.write(text="two")
            running.reaches("loaded")  # the first call would have ten minutes
            assert len(endpoint.calls) == 2
        never.set()


def test_load_under_way_does_not_confirm_newer_content(tmp_path: Path) -> None:
    """The process still loads one change when it is told of the next, which it refuses silently."""
    volume = Volume(tmp_path / "volume", text="one")
    with slow_program(tmp_path, volume, seconds=1) as process:
        flags = (
            *("--dir", volume, "--signal", "HUP", "--process", process),
            *("--verify", f"output cat {tmp_path}/shown", "--verify-timeout", "3s"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            volume.write(text="two")
            eventually(lambda: hups(tmp_path) == 2)
            volume.write(text="invalid")
            eventually(lambda: hups(tmp_path) == 3)
            assert (tmp_path / "shown").read_text() == "two"
            assert "has not changed" in running.reaches("failing")["message"]


@pytest.mark.parametrize("by_command", [False, True])
def test_newer_content_waits_for_the_load_and_not_for_later_probes(
    tmp_path: Path, by_command: bool
) -> None:
    """The first probe confirms a load after 4.5 s of 5; the second one would take 5 s more.

    A command that tells the program to load still runs when the newer content arrives.
    """
    volume, healthy = Volume(tmp_path / "volume", text="one"), tmp_path / "healthy"
    healthy.touch()
    with slow_program(tmp_path, volume, seconds=4.5) as process:
        action = ["--signal", "HUP", "--process", process]
        if by_command:
            action = ["--exec", f"sh -c 'kill -HUP $(cat {tmp_path}/pid); sleep 2'"]
        flags = (
            *("--dir", volume, *action),
            *("--verify", f"output cat {tmp_path}/shown", "--verify-timeout", "5s"),
            *("--verify", f"exec test -e {healthy}"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            healthy.unlink()
            volume.write(text="two")
            eventually(lambda: hups(tmp_path) == 2)
            told = time.monotonic()
            volume.write(text="three")
            eventually(lambda: hups(tmp_path) == 3)
            assert time.monotonic() - told < 9


def test_load_of_a_call_in_progress_does_not_confirm_newer_content(tmp_path: Path) -> None:
    """The endpoint does nothing at a call that comes while it loads."""
    volume, loads = Volume(tmp_path / "volume", text="one"), tmp_path / "loads"
    busy = threading.Lock()

    def load() -> None:
        if busy.acquire(blocking=False):
            text = (volume.path / "text").read_text()
            (tmp_path / "reads").write_text(text)
            time.sleep(1)
            with loads.open("a") as file:
                file.write(f"{text}\n")
            busy.release()

    with webhook(called=load) as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--verify", f"file {loads}")
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            volume.write(text="two")
            eventually(lambda: (tmp_path / "reads").read_text() == "two")
            volume.write(text="three")
            running.reaches("loaded")
            assert loads.read_text() == "one\ntwo\nthree\n"


def test_load_that_a_killed_agent_began_does_not_confirm_newer_content(tmp_path: Path) -> None:
    """The next agent knows from the state file that the process may still load."""
    volume = Volume(tmp_path / "volume", text="one")
    with slow_program(tmp_path, volume, seconds=1) as process:
        flags = (
            *("--dir", volume, "--signal", "HUP", "--process", process),
            *("--verify", f"output cat {tmp_path}/shown", "--verify-timeout", "3s"),
            *("--state", tmp_path / "state"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            volume.write(text="two")
            eventually(lambda: hups(tmp_path) == 2)
            running.process.kill()
        volume.write(text="three")
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            assert (tmp_path / "shown").read_text() == "three"
            assert hups(tmp_path) == 3


def test_newer_content_does_not_wait_for_verification(tmp_path: Path) -> None:
    """The process is told of it while the last change is still being confirmed by its value."""
    volume, told = Volume(tmp_path / "volume", text="one"), tmp_path / "told"
    flags = (
        *("--dir", volume, "--exec", f"sh -c 'cat {volume}/text >> {told}'"),
        *("--verify", "exec false", "--verify-timeout", "10m"),
    )
    with agent(tmp_path, *flags):
        eventually(lambda: told.exists() and told.read_text() == "one")
        volume.write(text="two")
        eventually(lambda: told.read_text() == "onetwo")


def test_newer_content_waits_for_a_command(tmp_path: Path) -> None:
    """Two commands never run beside each other; what came last is what is loaded last."""
    volume, told = Volume(tmp_path / "volume", text="one"), tmp_path / "told"
    script = tmp_path / "script"
    script.write_text(
        f"cp {volume}/text {tmp_path}/now; echo begin >> {told}\n"
        f"while [ -e {tmp_path}/hold ]; do sleep 0.02; done; echo end >> {told}\n"
    )
    (tmp_path / "hold").touch()
    with agent(tmp_path, "--dir", volume, "--exec", f"sh {script}") as running:
        eventually(told.exists)
        for text in ("two", "three"):
            before = running.rule()["desired"]
            volume.write(text=text)
            eventually(lambda before=before: running.rule()["desired"] != before)
        assert told.read_text() == "begin\n"
        (tmp_path / "hold").unlink()
        eventually(lambda: told.read_text().count("end") == 2)
        eventually(lambda: running.rule()["state"] == "told")
        assert told.read_text() == "begin\nend\n" * 2
        assert (tmp_path / "now").read_text() == "three"


def test_content_that_waited_is_not_told_after_newer_content(tmp_path: Path) -> None:
    """The second one waits for a command, and the third one takes its place."""
    volume, told = Volume(tmp_path / "volume", text="one"), tmp_path / "told"
    script, hold, ready = tmp_path / "script", tmp_path / "hold", tmp_path / "ready"
    script.write_text(
        f"cat {volume}/text >> {told}; while [ -e {hold} ]; do sleep 0.02; done\n"
        f"touch {tmp_path}/end\n"
    )
    hold.touch()
    flags = (
        *("--dir", volume, "--exec", f"sh {script}", "--verify", f"exec test -e {ready}"),
        *("--verify-timeout", "10m"),
    )
    with agent(tmp_path, *flags) as running:
        eventually(lambda: told.exists() and told.read_text() == "one")
        volume.write(text="two")
        eventually(lambda: running.rule()["superseded"] == 1)
        hold.unlink()
        eventually((tmp_path / "end").exists)
        volume.write(text="three")
        eventually(lambda: told.read_text() == "onethree")
        ready.touch()
        running.reaches("loaded")
        assert told.read_text() == "onethree"
