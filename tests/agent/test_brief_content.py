"""Content that is replaced and reverted before the agent reads it: processes may have read it."""

from __future__ import annotations

from pathlib import Path

from tests.agent.agents import Volume, agent, eventually, reader, tick


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
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            assert process.loads == ["one", "one"], "the agent's first reading"
            for number in range(1, 6):
                volume.swap()
                eventually(lambda n=number: running.status()["detector"]["updates"] >= n)
            running.reaches("told")
            eventually(lambda: running.log.count("process loaded it at start") > 0)
            assert process.loads == ["one", "one"]


def test_process_that_started_just_before_refused_content_was_read_is_signalled(
    tmp_path: Path,
) -> None:
    """The content was there for the settle time before the agent read it."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--settle", "1s", "--check", f"grep -q one {volume}/text"),
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
