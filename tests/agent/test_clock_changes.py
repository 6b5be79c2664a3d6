"""The wall clock is set forward or back: no change is lost, and no process is told needlessly.

The host's clock cannot be set for a test. So the agent's own reading of it is bent, in a real
process, by as much as a file says; time since boot is moved by a time namespace.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agents import Volume, agent, eventually, reader, run_program, tick, webhook
from tests.support.processes import with_modules
from tests.support.requires import requires

from hotmap.agent.process import process_table
from hotmap.agent.runtime.clock import WallClock, since_boot
from hotmap.agent.watch import detector as detector_module
from hotmap.agent.watch.detector import Detector

DAY = 86400.0

BEND = """
import os, time
real = time.time
def bent():
    with open(os.environ["BEND"]) as file: return real() + float(file.read() or 0)
time.time = bent
"""


class Bend:
    """A wall clock that one agent sees, and that can be set."""

    def __init__(self, folder: Path) -> None:
        (folder / "sitecustomize.py").write_text(BEND)
        self._file = folder / "bend"
        self.options: dict[str, Any] = {"env": with_modules(folder, BEND=str(self._file))}
        self.set(0)

    def set(self, seconds: float) -> None:
        """Set the clock, by seconds from the right time."""
        draft = self._file.with_suffix(".new")
        draft.write_text(str(seconds))
        draft.rename(self._file)


@pytest.fixture
def bend(tmp_path: Path) -> Bend:
    return Bend(tmp_path)


@pytest.mark.parametrize("step", [0, DAY, -DAY])
def test_newer_content_is_loaded_after_a_clock_change(
    tmp_path: Path, bend: Bend, step: float
) -> None:
    """Edited while no agent was there, after which the clock was set: the process is signalled."""
    volume = Volume(tmp_path / "volume", text="one")
    with reader(volume.path / "text", tmp_path) as process:
        volume.write(text="two")
        bend.set(step)
        flags = ("--dir", volume, "--signal", "HUP", "--process", f"command:{process.output}")
        with agent(tmp_path, *flags, **bend.options) as running:
            running.reaches("told")
            eventually(lambda: process.loads == ["one", "two"])


@pytest.mark.parametrize("step", [0, DAY, -DAY])
def test_process_started_with_the_content_is_not_signalled(
    tmp_path: Path, bend: Bend, step: float
) -> None:
    """However the clock was set between the content and the start of the process."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"command:{tmp_path}/loaded")
    with agent(tmp_path, *flags, **bend.options) as running:
        running.reaches("failing")
        bend.set(step)
        tick()
        with reader(volume.path / "text", tmp_path) as process:
            running.reaches("loaded")
            assert process.loads == ["one"]


def test_clock_changes_have_no_effect_on_timers(tmp_path: Path, bend: Bend) -> None:
    """Retries, settle time and time-outs go on; each content is delivered once."""
    volume = Volume(tmp_path / "volume", text="0")
    flags = ("--dir", volume, "--settle", "20ms", "--state", tmp_path / "state")
    with webhook() as endpoint:
        with agent(tmp_path, *flags, "--url", endpoint.url, **bend.options) as running:
            for number, step in enumerate([DAY, -DAY, 3650 * DAY, 0], start=1):
                running.reaches("loaded")
                endpoint.status = 500
                volume.write(text=str(number))
                running.reaches("failing")
                bend.set(step)
                calls = len(endpoint.calls)
                eventually(lambda c=calls: len(endpoint.calls) > c + 2)
                endpoint.status = 200
                running.reaches("loaded")
                assert running.get("/healthz")[0] == 200
            assert running.rule()["loads"] == 5
            running.end()
        calls = len(endpoint.calls)
        bend.set(-DAY)
        with agent(tmp_path, *flags, "--url", endpoint.url, **bend.options) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == calls


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_pid_file_stays_valid_after_a_clock_change(tmp_path: Path, bend: Bend, step: float) -> None:
    """Written before the clock was set or after it: the process that it names is signalled."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid")
    with (
        agent(tmp_path, *flags, "--poll-interval", "20ms", **bend.options) as running,
        reader(volume.path / "text", tmp_path) as process,
    ):
        running.reaches("told")
        bend.set(step)
        volume.write(text="two")
        eventually(lambda: process.loads[-1] == "two")
        # As the process would write it by the clock as it is now.
        again = process.pidfile.stat().st_mtime + step
        os.utime(process.pidfile, (again, again))
        volume.write(text="three")
        eventually(lambda: process.loads[-1] == "three")


@pytest.mark.parametrize("since", ["86400", "-10"])
def test_time_namespace_is_supported(tmp_path: Path, since: str) -> None:
    """With another time of boot, starts of processes are compared in the same way."""
    requires("root", available=os.geteuid() == 0, reason="a time namespace needs root")
    moved = ("unshare", "--time", "--fork", "--kill-child", "--boottime", since)
    probe = subprocess.run([*moved, "true"], capture_output=True, check=False)
    requires("timens", available=probe.returncode == 0, reason="the kernel has none")
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid")
    with agent(tmp_path, *flags, before=moved) as running:
        running.reaches("failing")
        tick()
        with reader(volume.path / "text", tmp_path) as process:
            running.reaches("loaded")
            volume.write(text="two")
            eventually(lambda: process.loads == ["one", "two"])
        running.process.kill()  # unshare takes no TERM; its child goes with it


@pytest.mark.parametrize(
    ("steps", "date", "latest"),
    [
        ([], 1050.0, 50.0),
        ([3600.0], 1050.0, 50.0),  # written before the clock was set forward
        ([3600.0], 4650.0, 3650.0),  # written after it: may be older, cannot be younger
        ([-900.0], 1050.0, 950.0),  # written before it was set back
        ([-900.0], 150.0, 50.0),  # written after it
        ([-900.0, 0.0], 150.0, 50.0),  # written between two settings
    ],
)
def test_file_time_is_compared_with_every_offset_seen(
    steps: list[float], date: float, latest: float
) -> None:
    """At boot it was 1,000; the latest answer counts, so that no file is wrongly too old."""
    now = [1000.0]
    clock = WallClock(lambda: now[0] + 100.0, lambda: 100.0)
    for step in steps:
        now[0] = 1000.0 + step
        clock.observe()
    assert clock.latest_since_boot(date) == latest


@pytest.mark.parametrize("single", [False, True], ids=["directory", "single file"])
def test_plain_files_are_read_twice_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single: bool
) -> None:
    """Times of files go in steps: what is written in the same step is found by another look."""
    file = tmp_path / "text"
    place = str(file if single else tmp_path)
    file.write_text("one")
    monkeypatch.setattr(detector_module, "signature", lambda *_: "the same step")
    detector = Detector([place], b"key")
    try:
        assert detector.read().contents == {place: {"text": b"one"}}
        file.write_text("two")
        assert detector.poll() == [], "it does not show a change"
        assert detector.take_doubtful()
        assert detector.read().contents == {place: {"text": b"two"}}
        assert detector.poll() == []
        assert not detector.take_doubtful(), "nothing is read forever"
    finally:
        detector.close()


def test_pid_file_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read belongs to the file that was read, not to the one in its place."""
    pidfile = tmp_path / "pid"
    pidfile.write_text(str(os.getpid()))
    start_ticks = process_table.start_ticks

    def replace_then_look(pid: int) -> int | None:
        if pid == os.getpid():
            (tmp_path / "new").write_text(str(os.getppid()))
            (tmp_path / "new").rename(pidfile)
        return start_ticks(pid)

    monkeypatch.setattr(process_table, "start_ticks", replace_then_look)
    assert process_table.find(f"pidfile:{pidfile}").pid == os.getpid()
    assert process_table.find(f"pidfile:{pidfile}").pid == os.getppid()


def test_pid_file_rewritten_in_the_same_step_of_time_is_read_again(tmp_path: Path) -> None:
    """Times of files go in steps; another number in the file shows that it was written again."""
    pidfile = tmp_path / "pid"
    pidfile.write_text(str(os.getpid()))
    assert process_table.find(f"pidfile:{pidfile}").pid == os.getpid()
    found = pidfile.stat()
    pidfile.write_text(str(os.getppid()))
    os.utime(pidfile, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert process_table.find(f"pidfile:{pidfile}").pid == os.getppid()


def test_reused_process_number_is_detected_without_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a pid file was found to be right, it names that process and no later one."""
    pidfile = tmp_path / "pid"
    with run_program(["sleep", "60"]) as process:
        pidfile.write_text(str(process.pid))
        found = process_table.find(f"pidfile:{pidfile}")
        assert found.pid == process.pid
        assert abs(process_table.started_at(found) - since_boot()) < 20
        later = process_table.Process(process.pid, found.started + 1)
        monkeypatch.setattr(process_table, "start_ticks", lambda _: later.started)
        with pytest.raises(process_table.ProcessError, match="its number was reused"):
            process_table.find(f"pidfile:{pidfile}")
        pidfile.unlink()
        pidfile.write_text(f"{process.pid} ")
        assert process_table.find(f"pidfile:{pidfile}") == later
