"""What the state file says counts only while this agent alone keeps it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, webhook

from hotmap.agent.act.state_file import StateFile
from hotmap.agent.decide.progress import KeptAttempt

LOADED = {
    "default": KeptAttempt("digest of A", done=True),
    "frozen": KeptAttempt("fingerprint", done=True, is_adopted=True),
}


def kept(path: Path) -> dict[str, KeptAttempt]:
    """Read what the next agent would, in a process of its own."""
    code = (
        "import sys; from hotmap.agent.act.state_file import StateFile\n"
        "print({name: tuple(each) for name, each in StateFile(sys.argv[1]).attempts.items()})"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    return {name: KeptAttempt(*each) for name, each in eval(found.stdout).items()}


def test_state_is_kept_for_the_next_agent(tmp_path: Path) -> None:
    """Key and attempts; the lock ends with the agent that had it."""
    state = StateFile(str(tmp_path / "state"))
    state.save(LOADED)
    assert state.problem == ""
    state.close()
    assert kept(tmp_path / "state") == LOADED


def test_time_of_another_boot_is_not_kept(tmp_path: Path) -> None:
    """It is not known then what a process has read."""
    path, times = tmp_path / "state", {"default": KeptAttempt("A", done=True, exposed_since=5.0)}
    state = StateFile(str(path))
    state.save(times)
    state.close()
    assert kept(path) == times
    written = json.loads(path.read_text())
    path.write_text(json.dumps({**written, "boot": "another"}))
    assert kept(path) == {"default": KeptAttempt("A", done=False)}


@pytest.mark.parametrize("exposed", [10**400, "5.0", True], ids=["large", "text", "boolean"])
def test_time_that_is_none_is_not_kept(tmp_path: Path, exposed: object) -> None:
    """Nothing that another container writes ends the agent."""
    path = tmp_path / "state"
    state = StateFile(str(path))
    state.save({"default": KeptAttempt("A", done=True, exposed_since=5.0)})
    state.close()
    path.write_text(path.read_text().replace('"exposed": 5.0', f'"exposed": {json.dumps(exposed)}'))
    assert kept(path) == {"default": KeptAttempt("A", done=False)}


def test_state_of_another_agent_is_not_used(tmp_path: Path) -> None:
    """Its process has loaded the content, which says nothing of ours."""
    first = StateFile(str(tmp_path / "state"))
    first.save(LOADED)
    assert kept(tmp_path / "state") == {}
    code = (
        "import sys; from hotmap.agent.act.state_file import StateFile\n"
        "from hotmap.agent.decide.progress import KeptAttempt\n"
        "second = StateFile(sys.argv[1])\n"
        "second.save({'default': KeptAttempt('digest of B', done=True)})\n"
        "print(second.problem)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert (
        told.stdout == f"{tmp_path}/state is used by another agent; set --state to another file\n"
    )
    first.close()
    assert kept(tmp_path / "state") == LOADED


def test_state_that_cannot_be_written_is_removed(tmp_path: Path) -> None:
    """It says that A is loaded; after an attempt with B and a crash that would be wrong."""
    state = StateFile(str(tmp_path / "state"))
    state.save(LOADED)
    draft = tmp_path / f"state.{os.getpid()}"
    draft.mkdir()
    state.save({"default": KeptAttempt("digest of B", done=False)})
    assert state.problem == f"cannot write {tmp_path}/state: is a directory"
    state.close()
    assert kept(tmp_path / "state") == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_state_in_a_read_only_directory_is_not_used(tmp_path: Path) -> None:
    """It was written before the directory became read-only, so it may be outdated."""
    state = StateFile(str(tmp_path / "state"))
    state.save(LOADED)
    state.close()
    for path in tmp_path.iterdir():
        path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert kept(tmp_path / "state") == {}
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(["mkfifo"], "not a regular file", id="a pipe"),
        pytest.param(["ln", "-s", "/dev/zero"], "cannot read", id="a link"),
        pytest.param(["truncate", "--size=1T"], "too large", id="a terabyte"),
    ],
)
def test_foreign_file_in_the_place_of_the_state_is_replaced(
    tmp_path: Path, command: list[str], words: str
) -> None:
    """Another container that shares the directory must not keep the agent from starting."""
    path = tmp_path / "state"
    subprocess.run([*command, str(path)], check=True)
    state = StateFile(str(path))
    assert words in state.problem
    assert state.attempts == {}
    state.save(LOADED)
    assert state.problem == ""
    state.close()
    assert kept(path) == LOADED


def test_two_agents_with_one_state_file_both_load(tmp_path: Path) -> None:
    """Neither takes what the other has loaded for its own."""
    volume, state = Volume(tmp_path / "volume", text="one"), tmp_path / "state"
    with webhook() as first, webhook() as second:
        flags = ("--dir", volume, "--state", state)
        with agent(tmp_path / "first", *flags, "--url", first.url) as running:
            running.reaches("loaded")
            with agent(tmp_path / "second", *flags, "--url", second.url) as other:
                other.reaches("loaded")
                assert len(second.calls) == 1
                assert "is used by another agent" in other.log
        with agent(tmp_path / "first", *flags, "--url", first.url) as running:
            running.reaches("loaded")
        assert len(first.calls) == 1
