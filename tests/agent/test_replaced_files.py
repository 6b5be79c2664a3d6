"""Files that the agent replaces in a directory that it may share with another container."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hotmap.agent.act.config_output import ConfigOutput
from hotmap.agent.act.replace_file import replace_file
from hotmap.agent.act.state_file import StateFile
from hotmap.agent.decide.progress import KeptAttempt
from hotmap.agent.settings.settings import RenderSettings


def save_state(path: Path) -> Path:
    """Write a state file; returns its draft."""
    state = StateFile(str(path))
    state.save({"default": KeptAttempt("digest", done=True)})
    state.close()
    assert state.problem == ""
    return path.with_name(f"{path.name}.{os.getpid()}")


def write_output(path: Path) -> Path:
    """Write a rendered configuration; returns its draft."""
    ConfigOutput(RenderSettings("/etc/app", str(path)), {}).write({"/etc/app": {"a": b"new"}})
    return path.with_name(f"{path.name}.tmp")


@pytest.mark.parametrize("write", [save_state, write_output])
def test_link_in_the_place_of_a_draft_is_not_followed(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Else another container could make the agent overwrite any file that it may write."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    draft = write(tmp_path / "file")
    draft.symlink_to(victim)
    (tmp_path / "file").unlink()
    write(tmp_path / "file")
    assert victim.read_text() == "kept"
    assert (tmp_path / "file").is_file()
    assert not (tmp_path / "file").is_symlink()


def test_pipe_in_the_place_of_a_draft_does_not_stop_the_agent(tmp_path: Path) -> None:
    """To open one waits until another process reads it."""
    os.mkfifo(tmp_path / "draft")
    replace_file(str(tmp_path / "file"), b"new", draft=str(tmp_path / "draft"), mode=0o600)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
