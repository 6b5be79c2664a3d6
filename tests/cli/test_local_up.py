"""What scripts and terminals rely on when they run `hotmap local up`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.walkthroughs.local import running_plane

if TYPE_CHECKING:
    from collections.abc import Iterator

#: SIGHUP in the masks of /proc/<pid>/status.
HANGUP = 1 << (signal.SIGHUP - 1)


def test_kubeconfig_line_is_one_command_of_a_shell(tmp_path: Path) -> None:
    """Also if the path of the directory has blanks and quotes, or is no text."""
    for name in ("it's a plane", os.fsdecode(b"plane \xff")):
        with running_plane(tmp_path / name) as plane:
            assert plane.kubeconfig.exists()


def signal_mask(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields[name], 16)


@pytest.fixture
def ignored_hangup() -> Iterator[None]:
    """Processes that the test starts ignore SIGHUP, as under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("ignored_hangup")
def test_plane_below_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    with running_plane(tmp_path / "plane") as plane:
        assert signal_mask(plane.process.pid, "SigIgn") & HANGUP


def test_end_of_the_terminal_is_like_ctrl_c(tmp_path: Path) -> None:
    """The exit status is 0, and the administrator's kubeconfig is gone."""
    with running_plane(tmp_path / "plane") as plane:
        assert plane.stop(signal.SIGHUP) == 0
        assert not plane.kubeconfig.exists()
