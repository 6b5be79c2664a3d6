"""Content that is replaced and reverted before the agent reads it: processes may have read it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, reader, tick, webhook

from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.runtime.log import Log
from hotmap.agent.runtime.loop import Loop
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.watch.detector import Detector
from hotmap.agent.watch.observer import Observer
from hotmap.agent.watch.plain_files import moving


def test_process_that_started_with_brief_content_is_signalled(tmp_path: Path) -> None:
    """It read what was replaced and reverted within the settle time."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--settle", "1s", "--settle-max", "60s"),
        *("--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid"),
    )
    with agent(tmp_path, *flags) as running:
        with reader(volume.path / "text", tmp_path):
            running.reaches("told")
        (tmp_path / "loaded.pid").unlink()
        volume.write(text="two")
        with reader(volume.path / "text", tmp_path) as process:
            eventually(lambda: process.loads[-1] == "two")
            volume.write(text="one")
            eventually(lambda: process.loads[-1] == "one")
            running.reaches("told")


def test_process_older_than_brief_content_is_left_alone(tmp_path: Path) -> None:
    """It has read nothing else."""
    volume = Volume(tmp_path / "volume", text="one")
    with reader(volume.path / "text", tmp_path) as process:
        tick()
        flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid")
        # After that, it has read its files.
        with agent(tmp_path, *flags, "--verify-timeout", "1ms") as running:
            running.reaches("told")
            # A signal that was sent may not have been handled yet.
            eventually(lambda: process.loads == ["one", "one"], "the agent's first reading")
            # What changes before the agent is idle may have been there when the process read.
            running.status()
            tick()
            for number in range(1, 6):
                volume.swap()
                eventually(lambda n=number: running.status()["detector"]["updates"] >= n)
            running.reaches("told")
            eventually(lambda: running.log.count("process still has it") > 0)
            assert process.loads == ["one", "one"]


def test_update_during_a_poll_is_not_taken_for_one_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts before the poll has ended may have read it."""
    volume = Volume(tmp_path / "volume", text="one")
    settings = load_settings(parse_arguments(["--dir", str(volume), "--exec", "true"]))
    loop = Loop()
    observer = Observer(
        loop, Log("text", "warning"), settings.watch, b"0" * 16, polled=lambda: None
    )
    observer.begin()
    compare = Detector.poll

    def poll(detector: Detector) -> list[str]:
        changed = compare(detector)
        written.append(loop.now())
        volume.swap()
        tick()
        return changed

    written: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(Detector, "poll", poll)
        observer.poll()
    observer.poll()
    observer.read()
    observer.close()
    snapshot = observer.take()[-1]
    assert isinstance(snapshot, Snapshot)
    assert snapshot.changed_since is not None
    assert snapshot.changed_since <= written[0]


def test_files_that_change_while_they_are_read_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart for an announcement would let the application read them. The wait has a limit."""
    settings = load_settings(parse_arguments(["--dir", str(tmp_path), "--exec", "true"]))
    loop = Loop()
    observer = Observer(loop, Log("text", "error"), settings.watch, b"0" * 16, polled=lambda: None)
    observer.begin()
    assert not observer.is_changing
    began = loop.now()

    def read(detector: Detector) -> Snapshot:
        raise moving("it changed while it was read")

    with monkeypatch.context() as patch:
        patch.setattr(Detector, "read", read)
        for seconds, waits in ((1.0, True), (9.0, True), (12.0, False)):
            patch.setattr(loop, "now", lambda seconds=seconds: began + seconds)
            observer.read()
            assert observer.is_changing == waits
    observer.read()
    assert not observer.is_changing
    observer.close()


def test_process_that_was_not_signalled_is_after_refused_content(tmp_path: Path) -> None:
    """It could not be found before, and is as old as that."""
    volume, away = Volume(tmp_path / "volume", text="good one"), tmp_path / "away.pid"
    flags = (
        *("--dir", volume, "--check", "grep -q good {dir}/text"),
        *("--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid"),
    )
    with reader(volume.path / "text", tmp_path) as process, agent(tmp_path, *flags) as running:
        # It writes the file whenever it loads.
        eventually(lambda: process.loads == ["good one", "good one"], "the agent's first reading")
        running.reaches("told")
        process.pidfile.rename(away)
        volume.write(text="good two")
        running.reaches("failing")
        volume.write(text="bad")
        running.reaches("refused")
        away.rename(process.pidfile)
        volume.write(text="good two")
        running.reaches("told")
        eventually(lambda: process.loads[-1] == "good two")


def test_process_that_started_just_before_refused_content_was_read_is_signalled(
    tmp_path: Path,
) -> None:
    """The content was there for the settle time before the agent read it."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--settle", "1s", "--check", "grep -q one {dir}/text"),
        *("--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid"),
    )
    with agent(tmp_path, *flags) as running:
        with reader(volume.path / "text", tmp_path):
            running.reaches("told")
        (tmp_path / "loaded.pid").unlink()
        volume.write(text="two")
        with reader(volume.path / "text", tmp_path) as process:
            eventually(lambda: process.loads[-1] == "two")
            running.reaches("refused")
            volume.write(text="one")
            eventually(lambda: process.loads[-1] == "one")
            running.reaches("told")


#: Notes what it reads at its start, and ends at TERM as soon as a file allows it.
SLOW_TO_STOP = """
import os, signal, sys, time
folder = sys.argv[1]
def wait_to_exit(*_):
    open(folder + "/stopping", "w").close()
    while not os.path.exists(folder + "/may-stop"): time.sleep(0.01)
    os._exit(0)
signal.signal(signal.SIGTERM, wait_to_exit)
with open(folder + "/volume/text") as file: text = file.read()
with open(folder + "/loaded", "a") as file: file.write(text + "\\n")
while True: time.sleep(60)
"""


def test_application_that_was_restarted_with_refused_content_is_restarted_again(
    tmp_path: Path,
) -> None:
    """The content was replaced while the instance before was stopping."""
    volume = Volume(tmp_path / "volume", text="one")

    def loads() -> list[str]:
        path = tmp_path / "loaded"
        return path.read_text().split() if path.exists() else []

    # After that time, it has read its files.
    check = ("--check", "sh -c '! grep -q bad {dir}/text'", "--verify-timeout", "1ms")
    flags = ("--dir", volume, *check)
    command = ("--", sys.executable, "-S", "-c", SLOW_TO_STOP, str(tmp_path))
    with agent(tmp_path, *flags, "--restart", "supervised", *command) as running:
        eventually(lambda: loads() == ["one"])
        running.reaches("loaded")
        volume.write(text="two")
        eventually((tmp_path / "stopping").exists)
        volume.write(text="bad")
        running.reaches("refused")
        (tmp_path / "may-stop").touch()
        eventually(lambda: loads() == ["one", "bad"])
        volume.write(text="two")
        eventually(lambda: loads() == ["one", "bad", "two"])
        running.reaches("loaded")
        tick()
        volume.write(text="bad")
        running.reaches("refused")
        volume.write(text="two")
        running.reaches("loaded")
        assert loads() == ["one", "bad", "two"], "that one is older than the refused content"


#: Reads its file when it may, some time after its start.
SLOW_READER = """
import os, sys, time
folder = sys.argv[1]
with open(folder + "/started", "a") as file: file.write("x")
while not os.path.exists(folder + "/may-read"): time.sleep(0.01)
with open(folder + "/volume/text") as file: text = file.read()
with open(folder + "/loaded", "a") as file: file.write(text + "\\n")
while True: time.sleep(60)
"""


@pytest.mark.parametrize("confirmed", [False, True])
def test_application_that_may_have_read_refused_content_late_is_not_called_loaded(
    tmp_path: Path, confirmed: bool
) -> None:
    """It is not restarted either: most have read their files by then. A probe tells."""
    volume, may_read = Volume(tmp_path / "volume", text="one"), tmp_path / "may-read"
    flags = ["--dir", volume, "--check", "sh -c '! grep -q bad {dir}/text'"]
    flags += ["--verify", f"exec grep -q one {tmp_path}/loaded"] if confirmed else []
    command = ("--", sys.executable, "-S", "-c", SLOW_READER, str(tmp_path))
    loads = tmp_path / "loaded"
    with agent(tmp_path, *flags, "--restart", "supervised", *command) as running:
        eventually((tmp_path / "started").exists)
        running.reaches("loaded")
        tick()
        if confirmed:
            may_read.touch()
            eventually(loads.exists)
            volume.write(text="one more")
            eventually(lambda: loads.read_text().endswith("one more\n"))
            running.reaches("loaded")
            tick()
        good = (volume.path / "text").read_text()
        volume.write(text="bad")
        running.reaches("refused")
        may_read.touch()
        eventually(loads.exists)
        eventually(lambda: loads.read_text().endswith("one more\n" if confirmed else "bad\n"))
        for _ in range(2):
            volume.write(text=good)
            if confirmed:
                running.reaches("loaded")
            else:
                assert "may have read that" in running.reaches("told")["message"]
            volume.write(text="bad")
            running.reaches("refused")
        assert len((tmp_path / "started").read_text()) == (2 if confirmed else 1)


@pytest.mark.parametrize("ran_before", [False, True])
def test_process_that_a_probe_has_confirmed_at_its_start_is_loaded(
    tmp_path: Path, ran_before: bool
) -> None:
    """Nothing was done for it, and the probe shows that it had read its files by then."""
    volume = Volume(tmp_path / "volume", text="one")
    check = ("--check", "sh -c '! grep -q bad {dir}/text'", "--verify", "exec true")
    flags = ("--restart", "term", "--process", f"pidfile:{tmp_path}/loaded.pid")
    state = ("--state", tmp_path / "state")
    with reader(volume.path / "text", tmp_path):
        tick()
        if ran_before:  # and no other content was mounted since, as far as its files tell
            with agent(tmp_path, "--dir", volume, *flags, *state) as running:
                running.reaches("loaded")
            tick()
        more = state if ran_before else check
        with agent(tmp_path, "--dir", volume, *flags, *more) as running:
            running.reaches("loaded")
            if not ran_before:
                tick()
                volume.write(text="bad")
                running.reaches("refused")
                volume.write(text="one")
                running.reaches("loaded")


def test_process_that_restarted_with_brief_content_is_restarted_again(tmp_path: Path) -> None:
    """Other content was replaced within the settle time: the agent has not read it."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--settle", "3s", "--settle-max", "60s"),
        *("--restart", "term", "--process", f"pidfile:{tmp_path}/loaded.pid"),
        *("--verify-timeout", "1ms"),
    )
    with agent(tmp_path, *flags) as running:
        running.reaches("failing")
        tick()
        volume.write(text="two")
        with reader(volume.path / "text", tmp_path) as process:
            assert process.loads == ["two"]
            volume.write(text="one")
            eventually(lambda: process.process.poll() is not None, "the restart")
        (tmp_path / "loaded.pid").unlink()
        with reader(volume.path / "text", tmp_path) as process:
            assert process.loads[-1] == "one"
            running.reaches("loaded")
            adopted = running.log.count("process still has it")
            volume.swap()
            eventually(lambda: running.log.count("process still has it") == adopted + 1)
            assert process.process.poll() is None


def test_process_that_read_refused_content_late_is_signalled(tmp_path: Path) -> None:
    """It started while the content was there that returns, and read its files a moment later."""
    volume = Volume(tmp_path / "volume", text="one")
    check = ("--check", "sh -c '! grep refused {dir}/text'")
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid")
    with agent(tmp_path, *check, *flags) as running:
        running.reaches("failing")
        tick()
        with reader(volume.path / "text", tmp_path) as process:
            running.reaches("loaded")
            volume.write(text="refused")
            running.reaches("refused")
            volume.write(text="one")
            eventually(lambda: process.loads == ["one", "one"], "the second reading")
            running.reaches("told")


@pytest.mark.parametrize("mounted", ["one", "refused"])
def test_process_that_read_refused_content_after_the_end_of_its_agent_is_signalled(
    tmp_path: Path, mounted: str
) -> None:
    """It handles the last signal of that agent late; the next one finds that or other content."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--check", "sh -c '! grep refused {dir}/text'"),
        *("--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid"),
        *("--state", tmp_path / "state"),
    )
    with reader(volume.path / "text", tmp_path) as process:
        process.process.send_signal(signal.SIGSTOP)
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            running.process.kill()
        volume.write(text="refused")
        process.process.send_signal(signal.SIGCONT)
        eventually(lambda: process.loads == ["one", "refused"])
        if mounted == "one":
            volume.write(text="one")
        with agent(tmp_path, *flags) as running:
            if mounted == "refused":
                running.reaches("refused")
                volume.write(text="one")
            running.reaches("told")
            eventually(lambda: process.loads == ["one", "refused", "one"])


def test_process_is_not_signalled_for_an_edit_of_other_files_while_no_agent_ran(
    tmp_path: Path,
) -> None:
    """Nothing says that its own files were other ones in between."""
    volume, folders = Volume(tmp_path / "volume", a="one", b="one"), {}
    for name in ("a", "b"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
    rules = tmp_path / "rules"
    rules.write_text(
        "".join(
            f'[[rule]]\nname = "{name}"\nfiles = ["{name}"]\n'
            f'actions = [{{ signal = "HUP", process = "pidfile:{folder}/loaded.pid" }}]\n'
            for name, folder in folders.items()
        )
    )
    flags = ("--dir", volume, "--rules", rules, "--state", tmp_path / "state")
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(reader(volume.path / name, folder))
            for name, folder in folders.items()
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            eventually(lambda: first.loads == second.loads == ["one", "one"])
            running.process.kill()
        volume.write(a="one", b="two")
        with agent(tmp_path, *flags) as running:
            eventually(lambda: second.loads == ["one", "one", "two"])
            running.reaches("told")
            assert "process still has it" in running.log
        assert first.loads == ["one", "one"]


@pytest.mark.parametrize("mounted", ["one", "refused"])
@pytest.mark.parametrize("is_older", [True, False], ids=["older", "younger"])
def test_process_is_restarted_if_it_started_with_refused_content_that_an_earlier_agent_saw(
    tmp_path: Path, is_older: bool, mounted: str
) -> None:
    """That agent was killed; the next one finds the earlier content again, or later."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--check", "sh -c '! grep refused {dir}/text'"),
        *("--restart", "term", "--process", f"pidfile:{tmp_path}/loaded.pid"),
        *("--state", tmp_path / "state", "--verify-timeout", "1ms"),
    )
    with ExitStack() as stack:
        process = stack.enter_context(reader(volume.path / "text", tmp_path))
        tick()
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            tick()
            volume.write(text="refused")
            running.reaches("refused")
            running.process.kill()
        if not is_older:
            process.end()
            process.pidfile.unlink()
            process = stack.enter_context(reader(volume.path / "text", tmp_path))
        if mounted == "one":
            volume.write(text="one")
        running = stack.enter_context(agent(tmp_path, *flags))
        if mounted == "refused":
            running.reaches("refused")
            volume.write(text="one")
        if is_older:
            running.reaches("loaded")
            assert "process still has it" in running.log
            assert process.process.poll() is None
        else:
            eventually(lambda: process.process.poll() is not None, "the restart")


def test_command_that_read_brief_content_runs_again(tmp_path: Path) -> None:
    """It was running when that was mounted."""
    volume = Volume(tmp_path / "volume", text="one")
    script = tmp_path / "load"
    script.write_text(
        f"touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done\n"
        f"cat {volume}/text >> {tmp_path}/loads; echo >> {tmp_path}/loads\n"
    )

    def loads() -> list[str]:
        path = tmp_path / "loads"
        return path.read_text().split() if path.exists() else []

    flags = ("--dir", volume, "--settle", "500ms", "--settle-max", "60s")
    with agent(tmp_path, *flags, "--exec", f"sh {script}") as running:
        eventually((tmp_path / "started").exists)
        volume.write(text="two")
        (tmp_path / "go").touch()
        eventually(lambda: loads() == ["two"])
        volume.write(text="one")
        eventually(lambda: loads() == ["two", "one"])
        running.reaches("told")


def test_endpoint_that_may_have_read_brief_content_is_called_again(tmp_path: Path) -> None:
    """It had not answered when that was mounted."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--settle", "200ms", "--settle-max", "60s")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        endpoint.hang.clear()
        eventually(lambda: len(endpoint.calls) == 1)
        volume.write(text="two")
        volume.write(text="one")
        eventually(lambda: running.status()["detector"]["updates"] > 0)
        time.sleep(0.5)  # the settle time
        endpoint.hang.set()
        eventually(lambda: len(endpoint.calls) == 2)
        running.reaches("loaded")


@pytest.mark.parametrize("action", ["endpoint", "command"])
def test_content_that_was_replaced_while_no_agent_ran_is_loaded_again(
    tmp_path: Path, action: str
) -> None:
    """A process that started meanwhile has read the other one, and may be the one that loads."""
    volume, calls = Volume(tmp_path / "volume", text="one"), tmp_path / "calls"
    with webhook() as endpoint:
        flags = ["--dir", volume, "--state", tmp_path / "state"]
        flags += ["--url", endpoint.url] if action == "endpoint" else []
        flags += ["--exec", f"sh -c 'echo >> {calls}'"] if action == "command" else []
        state = "loaded" if action == "endpoint" else "told"

        def count() -> int:
            return len(endpoint.calls) or calls.read_bytes().count(b"\n")

        with agent(tmp_path, *flags) as running:
            running.reaches(state)
        with agent(tmp_path, *flags) as running:
            running.reaches(state)
            assert count() == 1, "nothing was replaced"
        volume.write(text="two")
        volume.write(text="one")
        with agent(tmp_path, *flags) as running:
            running.reaches(state)
            assert count() == 2
        with agent(tmp_path, *flags) as running:
            running.reaches(state)
            assert count() == 2, "nothing was replaced since"


def test_files_that_were_replaced_while_no_agent_ran_are_loaded_again(tmp_path: Path) -> None:
    """As above, in a directory that no kubelet writes."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "text").write_text("one")
    with webhook() as endpoint:
        flags = ("--dir", folder, "--state", tmp_path / "state", "--url", endpoint.url)
        for calls in (1, 1):  # nothing is replaced between the two
            with agent(tmp_path, *flags) as running:
                running.reaches("loaded")
                assert len(endpoint.calls) == calls
        (folder / "text").write_text("two")
        (folder / "text").write_text("one")
        for calls in (2, 2):
            with agent(tmp_path, *flags) as running:
                running.reaches("loaded")
                assert len(endpoint.calls) == calls


def test_nothing_is_told_to_read_refused_content(tmp_path: Path) -> None:
    """A retry for the content before would make the application read what is mounted now."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--check", "sh -c '! grep -q bad {dir}/text'")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        endpoint.status = 500
        volume.write(text="two")
        running.reaches("failing")
        volume.write(text="bad")
        running.reaches("refused")
        time.sleep(0.2)  # a call may have been under way
        calls = len(endpoint.calls)
        endpoint.status = 200
        time.sleep(1)  # five retries
        assert len(endpoint.calls) == calls
        assert running.rule()["state"] == "failing"
        volume.write(text="two")
        running.reaches("loaded")
        assert len(endpoint.calls) == calls + 1


def test_nothing_is_told_to_read_content_that_cannot_be_read(tmp_path: Path) -> None:
    """A retry waits for files that are missing now."""
    folder, away = tmp_path / "plain", tmp_path / "away"
    folder.mkdir()
    (folder / "text").write_text("one")
    with webhook(status=500) as endpoint:
        flags = ("--dir", folder, "--url", endpoint.url, "--poll-interval", "50ms")
        with agent(tmp_path, *flags) as running:
            running.reaches("failing")
            folder.rename(away)
            running.reaches("waiting")
            time.sleep(0.2)  # a call may have been under way
            calls = len(endpoint.calls)
            endpoint.status = 200
            time.sleep(1)  # five retries
            assert len(endpoint.calls) == calls
            away.rename(folder)
            running.reaches("loaded")
            assert len(endpoint.calls) == calls + 1


@pytest.mark.parametrize("way", ["too large", "missing"])
def test_endpoint_is_called_again_after_content_that_was_unreadable(
    tmp_path: Path, way: str
) -> None:
    """Its process may have started meanwhile, and have read it or nothing."""
    folder, away = tmp_path / "plain", tmp_path / "away"
    folder.mkdir()
    (folder / "text").write_text("one")
    with webhook() as endpoint:
        flags = ("--dir", folder, "--url", endpoint.url, "--poll-interval", "50ms")
        with agent(tmp_path, *flags, "--max-directory-size", "4Ki") as running:
            running.reaches("loaded")
            if way == "missing":
                folder.rename(away)
            else:
                (folder / "text").write_text("x" * 5000)
            running.reaches("waiting")
            assert len(endpoint.calls) == 1
            if way == "missing":
                away.rename(folder)
            else:
                away.write_text("one")
                away.rename(folder / "text")  # never seen empty
            eventually(lambda: len(endpoint.calls) == 2)
            running.reaches("loaded")


@pytest.mark.parametrize("starts_again", [True, False])
def test_application_that_started_while_files_could_not_be_read_is_not_called_loaded(
    tmp_path: Path, starts_again: bool
) -> None:
    """It is not restarted: it may write them itself when it starts."""
    folder, same = tmp_path / "plain", tmp_path / "same"
    folder.mkdir()
    for path in (folder / "text", same):
        path.write_text("one")
    flags = (
        *("--dir", folder, "--poll-interval", "50ms", "--max-directory-size", "4Ki"),
        *("--restart", "term", "--process", f"pidfile:{tmp_path}/loaded.pid"),
        *("--verify-timeout", "1ms"),
    )
    with ExitStack() as stack:
        running = stack.enter_context(agent(tmp_path, *flags))
        running.reaches("failing")
        tick()
        process = stack.enter_context(reader(folder / "text", tmp_path))
        running.reaches("loaded")
        tick()
        (folder / "text").write_text("x" * 5000)
        running.reaches("waiting")
        tick()
        if starts_again:
            process.end()
            process.pidfile.unlink()
            process = stack.enter_context(reader(folder / "text", tmp_path))
        same.rename(folder / "text")
        if starts_again:
            words = "started while the files could not be read, and may have read others"
            assert words in running.reaches("told")["message"]
        else:
            running.reaches("loaded")
        assert process.process.poll() is None


def test_endpoint_is_called_again_if_no_agent_ran_while_unreadable_content_ended(
    tmp_path: Path,
) -> None:
    """The next agent finds the files as they were: another one beside them was too large."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "text").write_text("one")
    with webhook() as endpoint:
        flags = (
            *("--dir", folder, "--url", endpoint.url, "--state", tmp_path / "state"),
            *("--poll-interval", "50ms", "--max-directory-size", "4Ki"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            (folder / "other").write_text("x" * 5000)
            running.reaches("waiting")
            running.process.kill()
        (folder / "other").unlink()
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == 2


#: A reader that executes itself again at USR1.
EXECUTES_ITSELF = """
import os, signal, sys
source, output = sys.argv[1:]
def load(*_):
    with open(source) as file, open(output, "a") as loads: loads.write(file.read() + "\\n")
signal.signal(signal.SIGHUP, load)
words = [sys.executable, *sys.orig_argv[1:]]
signal.signal(signal.SIGUSR1, lambda *_: os.execv(words[0], words))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
load()
while True: signal.pause()
"""


def test_process_that_executed_itself_with_refused_content_is_signalled(tmp_path: Path) -> None:
    """It is as old as before, and has read the refused content."""
    volume, output = Volume(tmp_path / "volume", text="good"), tmp_path / "loads"
    program = tmp_path / "executes-itself.py"
    program.write_text(EXECUTES_ITSELF)
    command = [sys.executable, "-S", str(program), str(volume.path / "text"), str(output)]

    def loads() -> list[str]:
        return output.read_text().split() if output.exists() else []

    flags = ("--check", "grep -q good {dir}/text", "--signal", "HUP")
    with subprocess.Popen(command) as process:
        try:
            eventually(lambda: loads() == ["good"], "the start")
            target = ("--process", f"command:{program}")
            with agent(tmp_path, "--dir", volume, *flags, *target) as running:
                running.reaches("told")
                eventually(lambda: loads() == ["good", "good"])
                volume.write(text="bad")
                running.reaches("refused")
                process.send_signal(signal.SIGUSR1)
                eventually(lambda: loads() == ["good", "good", "bad"])
                volume.write(text="good")
                eventually(lambda: loads() == ["good", "good", "bad", "good"])
                running.reaches("told")
        finally:
            process.kill()
