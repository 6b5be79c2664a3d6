"""An agent that starts after an edit does not take an older process for current."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, reader, tick
from tests.agent.test_clock_changes import DAY, Bend


def term(volume: Volume, folder: Path) -> tuple[object, ...]:
    """Flags that restart the reader in a folder by TERM."""
    return ("--dir", volume, "--restart", "term", "--process", f"command:{folder}/loaded")


def test_process_older_than_the_last_update_is_restarted(tmp_path: Path) -> None:
    """It has read what was there before; its successor is not restarted again."""
    volume = Volume(tmp_path / "volume", text="one")
    tick()
    with reader(volume.path / "text", tmp_path) as process:
        tick()
        volume.write(text="two")
        with agent(tmp_path, *term(volume, tmp_path)) as running:
            eventually(lambda: process.process.poll() == -15, "the restart")
            (tmp_path / "loaded.pid").unlink()
            with reader(volume.path / "text", tmp_path) as successor:
                running.reaches("loaded")
                assert successor.loads[-1] == "two"
                assert successor.process.poll() is None


def test_process_of_an_ordinary_pod_is_not_restarted(tmp_path: Path) -> None:
    """The kubelet has written the files, then the process has started, then the agent."""
    volume = Volume(tmp_path / "volume", text="one")
    with (
        reader(volume.path / "text", tmp_path) as process,
        agent(tmp_path, *term(volume, tmp_path)) as running,
    ):
        running.reaches("loaded")
        assert "process loaded it at start" in running.log
        assert process.process.poll() is None


@pytest.mark.parametrize("step", [0, DAY])
def test_process_that_is_younger_by_the_wall_clock_only_is_not_confirmed(
    tmp_path: Path, step: float
) -> None:
    """A clock that was set forward makes an update appear older than the process that missed it."""
    volume, bend = Volume(tmp_path / "volume", text="one"), Bend(tmp_path)
    tick()
    if not step:
        volume.write(text="two")
        tick()
    with reader(volume.path / "text", tmp_path) as process:
        if step:
            tick()
            volume.write(text="two")
            bend.set(step)
        for _ in range(2):
            flags = (*term(volume, tmp_path), "--state", tmp_path / "state")
            with agent(tmp_path, *flags, **bend.options) as running:
                message = running.reaches("told")["message"]
                assert "by the wall clock, which may have been set since" in message
                assert process.process.poll() is None


def test_process_is_restarted_after_the_clock_was_set_back(tmp_path: Path) -> None:
    """The files appear younger than they are: a restart that was not needed loses nothing."""
    volume, bend = Volume(tmp_path / "volume", text="one"), Bend(tmp_path)
    tick()
    with reader(volume.path / "text", tmp_path) as process:
        bend.set(-DAY)
        with agent(tmp_path, *term(volume, tmp_path), **bend.options):
            eventually(lambda: process.process.poll() == -15, "the restart")


def test_process_that_restarted_without_the_agent_is_restarted(tmp_path: Path) -> None:
    """It has read content that was reverted before the next agent read anything."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (*term(volume, tmp_path), "--state", tmp_path / "state")
    with reader(volume.path / "text", tmp_path), agent(tmp_path, *flags) as running:
        running.reaches("loaded")
        running.end()
    (tmp_path / "loaded.pid").unlink()
    tick()
    volume.write(text="two")
    with reader(volume.path / "text", tmp_path) as process:
        assert process.loads[-1] == "two"
        tick()
        volume.write(text="one")
        with agent(tmp_path, *flags):
            eventually(lambda: process.process.poll() == -15, "the restart")


def test_terminated_process_is_not_current_before_it_starts_again(tmp_path: Path) -> None:
    """While the kubelet waits, nothing has read the content; when that takes too long, it fails."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (*term(volume, tmp_path), "--action-timeout", "1s", "--retry-max", "100ms")
    with agent(tmp_path, *flags) as running:
        running.reaches("failing")
        with reader(volume.path / "text", tmp_path) as process:
            running.reaches("loaded")
            tick()
            volume.write(text="two")
            assert process.process.wait(20) == -15
            assert running.status()["state"] == "pending"
            assert running.rule()["loads"] == 0
            running.reaches("failing")
            assert "was terminated and has not started again within 1s" in running.log
        (tmp_path / "loaded.pid").unlink()
        with reader(volume.path / "text", tmp_path) as process:
            running.reaches("loaded")
            assert process.process.poll() is None


def test_process_that_ran_while_the_agent_was_away_is_current(tmp_path: Path) -> None:
    """It has loaded what the state file says, and nothing has changed since."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (*term(volume, tmp_path), "--state", tmp_path / "state")
    with reader(volume.path / "text", tmp_path) as process:
        for _ in range(2):
            with agent(tmp_path, *flags) as running:
                running.reaches("loaded")
                assert process.process.poll() is None


@pytest.mark.parametrize("edited", [False, True], ids=["as mounted", "edited before"])
def test_containers_of_unknown_age_are_not_called_current(tmp_path: Path, edited: bool) -> None:
    """The agent sees none of their processes, so only a volume that is as at first is proof."""
    volume = Volume(tmp_path / "volume", text="one")
    if edited:
        tick()
        volume.write(text="two")
    with agent(tmp_path, "--dir", volume, "--restart", "all-containers") as running:
        status = running.reaches("told" if edited else "loaded")
        assert ("it is not known whether all containers" in status["message"]) == edited
        assert running.process.poll() is None


def test_other_containers_are_not_as_young_as_a_supervised_application(tmp_path: Path) -> None:
    """The agent starts its application after the edit; the other containers may be older."""
    volume = Volume(tmp_path / "volume", text="one")
    tick()
    volume.write(text="two")
    flags = ("--dir", volume, "--restart", "all-containers", "--", "sleep", "600")
    with agent(tmp_path, *flags) as running:
        message = running.reaches("told")["message"]
        assert "it is not known whether all containers have started since" in message
        assert running.process.poll() is None


def test_restart_of_all_containers_is_not_confirmed_by_its_request(tmp_path: Path) -> None:
    """Where the pod has no rule for the exit status, only the agent starts again."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--restart", "all-containers", "--state", tmp_path / "state")
    with agent(tmp_path, *flags) as running:
        running.reaches("loaded")
        tick()
        volume.write(text="two")
        assert running.process.wait(20) == 88
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        assert running.process.poll() is None


def test_other_process_beside_an_application_is_told(tmp_path: Path) -> None:
    """That the agent starts its application says nothing of another process."""
    volume = Volume(tmp_path / "volume", text="one")
    with reader(volume.path / "text", tmp_path) as process:
        volume.write(text="two")
        flags = ("--dir", volume, "--signal", "HUP", "--process", f"command:{tmp_path}/loaded")
        with agent(tmp_path, *flags, "--", *("sleep", "600")) as running:
            running.reaches("told")
            eventually(lambda: process.loads == ["one", "two"])
        assert subprocess.call(["kill", "-0", str(process.process.pid)]) == 0
