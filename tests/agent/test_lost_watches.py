"""Queue overflows, covered mounts, removed directories: no change is missed.

The check interval is ten minutes where the kernel's own event has to do it, so that no look that
would have come anyway can hide a fault.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, webhook
from tests.support.requires import requires

ROOT = os.geteuid() == 0

LIMIT_REACHED = (
    "inotify is not available: the limit of instances, or of open files, is reached; raise "
    "fs.inotify.max_user_instances on the node"
)


def test_queue_overflow_hides_no_update(tmp_path: Path) -> None:
    """While the agent is stopped, more events arrive than the kernel keeps."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--poll-interval", "10m")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        running.process.send_signal(signal.SIGSTOP)
        eventually(lambda: ") T " in Path(f"/proc/{running.pid}/stat").read_text())
        _fill_queue(volume.path)
        volume.write(text="two")
        running.process.send_signal(signal.SIGCONT)
        eventually(lambda: len(endpoint.calls) == 2)
        running.reaches("loaded")
        assert running.status()["detector"]["overflows"] == 1
        assert "\nhotmap_agent_overflows_total 1\n" in running.get("/metrics")[1]
        volume.write(text="three")
        eventually(lambda: len(endpoint.calls) == 3)


def _fill_queue(directory: Path) -> None:
    """Cause more events than a queue holds; equal ones in a row would be kept as one."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    names = [os.fspath(directory / "..x"), os.fspath(directory / "..y")]
    for number in range(limit + 2):
        os.close(os.open(names[number % 2], os.O_CREAT | os.O_EXCL))
        os.unlink(names[number % 2])  # noqa: PTH108 - 16,000 times


def test_mount_over_a_mount_is_watched(tmp_path: Path) -> None:
    """Another volume is mounted over the directory and taken away again, before its eyes."""
    requires("root", available=ROOT, reason="mounts need root")
    first, second = Volume(tmp_path / "first", text="one"), Volume(tmp_path / "second", text="two")
    alone = ("unshare", "--mount", "--propagation", "private")
    flags = ("--dir", first, "--poll-interval", "50ms")
    with (
        webhook() as endpoint,
        agent(tmp_path, *flags, "--url", endpoint.url, before=alone) as running,
    ):
        running.reaches("loaded")
        loaded = running.status()["directories"][0]["loaded"]
        _in_its_mounts(running, "mount", "--bind", str(second), str(first))
        eventually(lambda: len(endpoint.calls) == 2)
        second.write(text="three")
        eventually(lambda: len(endpoint.calls) == 3)
        running.reaches("loaded")
        status = running.status()
        assert status["detector"]["watched"] == 1
        assert status["detector"]["watches_lost"] >= 1
        _in_its_mounts(running, "umount", str(first))
        eventually(lambda: len(endpoint.calls) == 4)
        running.reaches("loaded")
        assert running.status()["directories"][0]["loaded"] == loaded
        first.write(text="four")
        eventually(lambda: len(endpoint.calls) == 5)


def _in_its_mounts(running: Agent, *command: str) -> None:
    subprocess.run(["nsenter", f"--mount=/proc/{running.pid}/ns/mnt", *command], check=True)


@pytest.mark.parametrize("way", ["removed", "moved away"])
def test_removed_directory_is_watched_again(tmp_path: Path, way: str) -> None:
    """While it is gone nothing is unloaded; once it is back, inotify reports its updates."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint, agent(tmp_path, "--dir", volume, "--url", endpoint.url) as running:
        running.reaches("loaded")
        if way == "removed":
            shutil.rmtree(volume.path)
        else:
            volume.path.rename(tmp_path / "elsewhere")
        running.process.send_signal(signal.SIGHUP)  # instead of waiting ten seconds for a look
        message = running.reaches("waiting")["message"]
        assert message == f"{volume} does not exist any more: waiting for it"
        assert running.get("/readyz")[0] == 200, "the process still has good content"
        fresh = Volume(tmp_path / "volume", text="two")
        eventually(lambda: len(endpoint.calls) == 2)
        running.reaches("loaded")
        eventually(lambda: running.status()["detector"]["watched"] == 1)
        before = running.status()["detector"]
        fresh.write(text="three")
        eventually(lambda: len(endpoint.calls) == 3)
        assert running.status()["detector"]["updates_by_poll"] == before["updates_by_poll"]


def test_volume_that_disappears_is_not_content(tmp_path: Path) -> None:
    """A poll sees that it is gone; its empty mount point is not loaded, a plain directory is."""
    volume, plain, empty = tmp_path / "volume", tmp_path / "plain", tmp_path / "empty"
    Volume(volume, text="one")
    plain.mkdir()
    empty.mkdir()
    (plain / "text").write_text("two")
    place, draft = tmp_path / "place", tmp_path / "draft"

    def show(folder: Path) -> None:
        """Put it in the place of another one, so that no poll finds nothing."""
        draft.symlink_to(folder)
        draft.rename(place)

    show(volume)
    flags = ("--dir", place, "--poll-interval", "50ms", "--touch", tmp_path / "touched")
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        place.unlink()
        eventually(lambda: running.message == f"{place} does not exist any more: waiting for it")
        show(empty)
        eventually(lambda: running.message == f"{place} is not mounted any more: waiting for it")
        show(volume)
        eventually(lambda: running.rule()["loads"] == 2, "a process may have started without it")
        running.reaches("told")
        show(plain)
        eventually(lambda: running.rule()["loads"] == 3)
        assert running.reaches("told")["directories"][0]["kind"] == "plain"
        show(volume)
        eventually(lambda: running.rule()["loads"] == 4)
        assert running.reaches("told")["directories"][0]["kind"] == "projected"


def test_directory_replaced_by_a_file_is_watched_again(tmp_path: Path) -> None:
    """A file or a directory at the path is read as such; one without permissions is not."""
    place = tmp_path / "place"
    place.write_text("one")
    flags = ("--dir", place, "--poll-interval", "20ms")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        place.unlink()
        running.reaches("waiting")
        volume = Volume(place, text="two")
        eventually(lambda: len(endpoint.calls) == 2)
        running.reaches("loaded")
        assert running.status()["directories"][0]["kind"] == "projected"
        volume.write(text="three")
        eventually(lambda: len(endpoint.calls) == 3)


def test_inotify_limit_is_reported(tmp_path: Path) -> None:
    """The user's last one is held already; status and log say so, and looking does the work."""
    requires("root", available=ROOT, reason="only root can lower the limit in a namespace")
    volume = Volume(tmp_path / "volume", text="one")
    # The instance is held by the process that becomes the agent, for as long as it runs.
    hold = (
        "import ctypes, os, sys; ctypes.CDLL(None).inotify_init1(0); "
        "os.execvp(sys.argv[1], sys.argv[1:])"
    )
    script = 'echo 1 > /proc/sys/user/max_inotify_instances; exec python3 -S -c "$0" "$@"'
    alone = ("unshare", "--user", "--map-root-user", "sh", "-c", script, hold)
    probe = subprocess.run([*alone, "true"], capture_output=True, check=False)
    requires("userns", available=probe.returncode == 0, reason="user namespaces are not allowed")
    flags = ("--dir", volume, "--poll-interval", "50ms")
    with (
        webhook() as endpoint,
        agent(tmp_path, *flags, "--url", endpoint.url, before=alone) as running,
    ):
        running.reaches("loaded")
        detector = running.status()["detector"]
        assert (detector["mode"], detector["reason"]) == (*("polling", LIMIT_REACHED),)
        assert running.status()["directories"][0]["detector"] == "polling"
        volume.write(text="two")
        eventually(lambda: len(endpoint.calls) == 2)
        assert running.log.count("inotify is not available") == 1
