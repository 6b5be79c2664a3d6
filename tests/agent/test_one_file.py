"""The agent as one file, in an image that has Python and nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.agent.agents import Volume

from hotmap import __version__
from hotmap.agent.build import build


def test_it_runs_without_the_package(tmp_path: Path) -> None:
    """Isolated from all installed packages it checks, publishes and ends."""
    program, volume = tmp_path / "agent.pyz", Volume(tmp_path / "volume", text="good")
    build(str(program))
    flags = ("--dir", volume.path, "--stage", tmp_path / "stage", "--once", "--listen", "none")
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, *flags, "--check", "grep -q good {dir}/text"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "stage" / "text").read_text() == "good"


def test_equal_sources_are_an_equal_file(tmp_path: Path) -> None:
    """The file depends on nothing but the sources, so it can be pinned by its digest."""
    build(str(tmp_path / "one"))
    build(str(tmp_path / "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o755


def test_the_file_may_be_called_hotmap(tmp_path: Path) -> None:
    """As the entry point of an image, which gets what `hotmap inject` writes: agent and flags."""
    program = tmp_path / "hotmap"
    build(str(program))
    for words in (["agent", "--version"], ["--version"]):
        done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
        assert __version__ in done.stdout
