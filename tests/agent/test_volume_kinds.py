"""Missing, unreadable, foreign and static mounts; no inotify; restricted containers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, reader, run_program, tick, webhook
from tests.support.requires import requires

from hotmap.agent.watch.detector import Detector
from hotmap.agent.watch.plain_files import read_file

ROOT = os.geteuid() == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users may reach; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="hotmap-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_missing_directory_is_reported_and_awaited(tmp_path: Path) -> None:
    """It is loaded once it is there; until then the status says what is waited for."""
    place = tmp_path / "volume"
    with webhook() as endpoint, agent(tmp_path, "--dir", place, "--url", endpoint.url) as running:
        assert (
            running.reaches("waiting")["message"] == f"{place} does not exist yet: waiting for it"
        )
        assert running.get("/readyz")[0] == 503
        assert running.log.count("does not exist yet") == 1
        Volume(place, text="one")
        running.reaches("loaded")
        assert running.status()["directories"][0]["kind"] == "projected"


def test_recreated_directory_is_watched_again(tmp_path: Path) -> None:
    """A directory that is removed and made again is watched again."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--poll-interval", "50ms")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        shutil.rmtree(volume.path)
        fresh = Volume(tmp_path / "volume", text="two")
        eventually(lambda: len(endpoint.calls) == 2)
        eventually(lambda: running.status()["detector"]["watched"] == 1)
        fresh.write(text="three")
        eventually(lambda: len(endpoint.calls) == 3)


def test_plain_files_are_compared(tmp_path: Path) -> None:
    """An emptyDir has no link to watch: its files are compared, and the status shows it."""
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "text").write_text("one")
    flags = ("--dir", plain, "--poll-interval", "20ms")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        directory = running.status()["directories"][0]
        assert directory["kind"] == "plain"
        assert "its files are compared at each poll" in directory["note"]
        (plain / "text").write_text("two")
        eventually(lambda: len(endpoint.calls) == 2)


@pytest.mark.parametrize("way", ["in-place", "rename", "another directory", "after a while"])
def test_files_written_below_an_unchanged_link_are_loaded(tmp_path: Path, way: str) -> None:
    """No kubelet does that; programs that write an emptyDir with such a link do."""
    volume = Volume(tmp_path / "volume", text="one")
    published = (volume.path / "..data").resolve()
    flags = ("--dir", volume, "--poll-interval", "20ms")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        if way == "in-place":
            (published / "text").write_text("two")
        elif way == "rename":
            (published / "draft").write_text("two")
            (published / "draft").rename(published / "text")
        else:
            draft = published.with_name("..draft")
            draft.mkdir()
            (draft / "text").write_text("two")
            shutil.rmtree(published)
            if way == "after a while":
                eventually(lambda: running.status()["directories"][0]["error"])
            draft.rename(published)
        eventually(lambda: len(endpoint.calls) == 2)


def test_group_that_a_kubelet_sets_is_not_a_change(tmp_path: Path) -> None:
    """It sets that of all files at each sync (fsGroup)."""
    volume = Volume(tmp_path / "volume", text="one")
    detector = Detector([str(volume)], b"0123456789abcdef")
    detector.read()
    file = (volume.path / "..data" / "text").resolve()
    changed_at = file.stat().st_ctime_ns
    tick()
    file.chmod(0o640)
    assert file.stat().st_ctime_ns != changed_at
    assert detector.poll() == []
    file.write_text("two")
    assert detector.poll() == [str(volume)]
    detector.close()


def test_single_file_is_reported_as_static(tmp_path: Path) -> None:
    """A file mounted with subPath never changes; that is logged at the start, in one sentence."""
    (tmp_path / "text").write_text("one")
    with agent(tmp_path, "--dir", tmp_path / "text") as running:
        directory = running.reaches("told")["directories"][0]
        assert directory["kind"] == "file"
        assert "with subPath it never changes" in directory["note"]
        assert running.log.count("with subPath it never changes") == 1


def test_subpath_inside_a_volume_is_reported(tmp_path: Path) -> None:
    """A mount below a directory is frozen even where the directory is live."""
    requires("root", available=ROOT, reason="bind mounts need root")
    volume = Volume(tmp_path / "volume", text="one")
    script = f'mount --bind {volume}/text {volume}/text && exec "$@"'
    unshared = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    with agent(tmp_path, "--dir", volume, before=unshared) as running:
        note = running.reaches("told")["directories"][0]["note"]
        assert "mounted with subPath, never changes while the container runs" in note


@pytest.mark.parametrize(
    ("frozen", "problem"),
    [
        ("instances", "inotify is not available: "),
        ("watches", "cannot add an inotify watch on "),
    ],
)
def test_polling_replaces_inotify(tmp_path: Path, frozen: str, problem: str) -> None:
    """When the kernel gives no inotify, changes are found by polling, and the metric shows it."""
    requires("root", available=ROOT, reason="only root can lower the limit in a namespace")
    volume = Volume(tmp_path / "volume", text="one")
    limit = f"echo 0 > /proc/sys/user/max_inotify_{frozen}"
    unshared = ("unshare", "--user", "--map-root-user", "sh", "-c", f'{limit}; exec "$@"', "sh")
    probe = subprocess.run([*unshared, "true"], capture_output=True, check=False)
    requires("userns", available=probe.returncode == 0, reason="user namespaces are not allowed")
    flags = ("--dir", volume, "--poll-interval", "50ms")
    with (
        webhook() as endpoint,
        agent(tmp_path, *flags, "--url", endpoint.url, before=unshared) as running,
    ):
        running.reaches("loaded")
        detector = running.status()["detector"]
        assert detector["reason"].startswith(problem)
        assert detector["mode"] == "polling"
        assert 'hotmap_agent_detector_info{mode="polling"' in running.get("/metrics")[1]
        volume.write(text="two")
        eventually(lambda: len(endpoint.calls) == 2)


def test_used_up_watches_are_replaced_by_polling_each_second(tmp_path: Path) -> None:
    """One of two directories gets no watch: the log says so, and it is polled like without any."""
    requires("root", available=ROOT, reason="only root can lower the limit in a namespace")
    first, second = Volume(tmp_path / "first", text="one"), Volume(tmp_path / "second", text="one")
    limit = "echo 1 > /proc/sys/user/max_inotify_watches"
    unshared = ("unshare", "--user", "--map-root-user", "sh", "-c", f'{limit}; exec "$@"', "sh")
    probe = subprocess.run([*unshared, "true"], capture_output=True, check=False)
    requires("userns", available=probe.returncode == 0, reason="user namespaces are not allowed")
    flags = ("--dir", first, "--dir", second)
    with (
        webhook() as endpoint,
        agent(tmp_path, *flags, "--url", endpoint.url, before=unshared) as running,
    ):
        status = running.reaches("loaded")
        assert [each["detector"] for each in status["directories"]] == ["inotify", "polling"]
        assert status["detector"]["mode"] == "inotify"
        assert f"cannot add an inotify watch on {second}" in status["detector"]["reason"]
        assert running.log.count("raise fs.inotify.max_user_watches on the node: polling") == 1
        began = time.monotonic()
        for number in range(4):
            second.write(text=f"again {number}")
            eventually(lambda number=number: len(endpoint.calls) == 2 + number)
        # At the interval beside inotify, which is ten seconds, three of them took 30.
        assert time.monotonic() - began < 25
        # The watch of the first ends; another directory in its place gets it back.
        first.path.rename(tmp_path / "elsewhere")
        Volume(tmp_path / "first", text="two")
        eventually(lambda: len(endpoint.calls) == 6)


def test_unreadable_file_is_reported(shared: Path) -> None:
    """It names the file and the user; nothing is acted on until it can be read."""
    requires("root", available=ROOT, reason="another user is needed")
    volume = Volume(shared / "volume", text="one")
    secret = (volume.path / "text").resolve()
    secret.chmod(0o600)
    with agent(shared / "agent", "--dir", volume, before=_as_nobody(shared)) as running:
        message = running.reaches("waiting")["message"]
        assert "as user 65534: permission denied" in message
        secret.chmod(0o644)
        running.reaches("told")


def _as_nobody(folder: Path) -> tuple[str, ...]:
    """Run as in a restricted pod: no root, no capability; the agent's folder can be written."""
    (folder / "agent").mkdir(exist_ok=True)
    (folder / "agent").chmod(0o777)
    dropped = ("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--clear-groups")
    return ("setpriv", "--reuid=65534", "--regid=65534", *dropped, "--")


def test_agent_runs_in_a_restricted_container(shared: Path) -> None:
    """Non-root, no capability, no new privileges, read-only root, all at once.

    Stage, state and copies for the check go to an emptyDir and to memory; a process of the same
    user is told; one of another user is not, and EPERM is explained by both users and what to do.
    """
    requires("root", available=ROOT, reason="a read-only root needs mount rights first")
    volume = Volume(shared / "volume", text="good")
    folder, pidfile = shared / "agent", shared / "pid"
    nobody = _as_nobody(shared)
    script = f'mount --bind {folder} {folder} && mount -o remount,ro,bind / && exec "$@"'
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *nobody)
    flags = (
        *("--dir", volume, "--stage", folder / "stage", "--state", folder / "state"),
        *("--check", "grep -q good {dir}/text"),
        *("--signal", "HUP", "--process", f"pidfile:{pidfile}"),
    )
    with run_program(["sleep", "60"]) as other, agent(folder, *flags, before=before) as running:
        running.reaches("failing")
        restricted = Path(f"/proc/{running.pid}/status").read_text()
        for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"):
            assert line in restricted
        assert "NoNewPrivs:\t1" in restricted
        assert "Uid:\t65534\t65534\t65534\t65534" in restricted
        mounts = Path(f"/proc/{running.pid}/mountinfo").read_text().splitlines()
        assert any(line.split()[4] == "/" and line.split()[5].startswith("ro") for line in mounts)
        pidfile.write_text(str(other.pid))
        volume.write(text="good 2")
        message = eventually(lambda: "runs as user" in running.message and running.message)
        assert f"process {other.pid} runs as user 0, the agent as user 65534" in message
        assert "set the same runAsUser for both containers" in message
        assert other.poll() is None
        eventually(lambda: (folder / "stage" / "text").read_text() == "good 2")
        assert (folder / "state").stat().st_uid == 65534
        waiting = [*nobody, "sh", "-c", "trap 'exit 9' HUP; while :; do sleep 0.05; done"]
        with run_program(waiting) as ours:
            pidfile.unlink()
            pidfile.write_text(str(ours.pid))
            volume.write(text="good 3")
            assert ours.wait(20) == 9
        eventually(lambda: (folder / "stage" / "text").read_text() == "good 3")


def test_missing_shared_process_namespace_is_explained(tmp_path: Path) -> None:
    """An agent that sees no other processes says which field of the pod is missing."""
    requires("root", available=ROOT, reason="a process namespace needs root")
    volume = Volume(tmp_path / "volume", text="one")
    alone = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    flags = ("--dir", volume, "--signal", "HUP", "--process", "name:nginx")
    with agent(tmp_path, *flags, before=alone) as running:
        message = running.reaches("failing")["message"]
        assert message.endswith("set shareProcessNamespace: true in the pod")
        running.process.kill()  # unshare takes no TERM; its child goes with it


def test_file_names_that_are_not_utf8_are_supported(tmp_path: Path) -> None:
    """A file name that is not UTF-8 is content like any other, in status and environment too."""
    plain = tmp_path / "plain"
    plain.mkdir()
    with open(os.fsencode(plain) + b"/caf\xe9", "wb") as file:  # noqa: PTH123
        file.write(b"1")
    flags = ("--dir", plain, "--exec", f"sh -c 'echo \"$HOTMAP_CHANGED\" > {tmp_path}/seen'")
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        assert (tmp_path / "seen").read_bytes() == os.fsencode(plain) + b"/caf\xe9\n"


def test_links_out_of_the_directory_are_ignored(tmp_path: Path) -> None:
    """A link in a plain directory to a file elsewhere is not read; log and status say so."""
    plain = tmp_path / "plain"
    plain.mkdir()
    (tmp_path / "outside").write_text("secret")
    (plain / "escape").symlink_to(tmp_path / "outside")
    (plain / "text").write_text("one")
    with agent(tmp_path, "--dir", plain, "--stage", tmp_path / "stage") as running:
        running.reaches("told")
        assert not (tmp_path / "stage" / "escape").exists()
        note = f"{plain}/escape is a link to a file outside {plain}, whose changes are not seen"
        assert running.log.count(note) == 1
        assert note in running.status()["directories"][0]["note"]
        assert (tmp_path / "stage" / "text").read_text() == "one"


def test_link_to_another_directory_that_is_watched_is_not_reported(tmp_path: Path) -> None:
    """As sites-enabled and sites-available: a change of the file is seen there."""
    enabled, available = tmp_path / "enabled", tmp_path / "available"
    enabled.mkdir()
    available.mkdir()
    (available / "site").write_text("one")
    (enabled / "site").symlink_to(available / "site")
    flags = ("--dir", enabled, "--dir", available, "--exec", "true", "--poll-interval", "50ms")
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        (available / "site").write_text("two")
        eventually(lambda: running.rule()["loads"] == 2)
        assert "is a link to a file outside" not in running.log


def test_directory_replacing_a_file_is_read(tmp_path: Path) -> None:
    """Nested paths (items with a path) are files like others."""
    volume = Volume(tmp_path / "volume")
    volume.publish({"conf.d/site.conf": b"1", "main": b"2"})
    with agent(tmp_path, "--dir", volume, "--stage", tmp_path / "stage") as running:
        running.reaches("told")
        assert (tmp_path / "stage" / "conf.d" / "site.conf").read_text() == "1"


def test_port_in_use_does_not_stop_the_agent(tmp_path: Path) -> None:
    """Reloads go on; the status says that the port is taken, and it is taken over when free."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        flags = ("--dir", volume, "--listen", f"127.0.0.1:{endpoint.port}")
        with agent(tmp_path, *flags, "--poll-interval", "50ms") as running:
            running.reaches("told")
            assert running.status()["problems"] == [
                f"cannot listen on port {endpoint.port}: address already in use"
            ]
            endpoint.close()
            eventually(lambda: running.status()["problems"] == [])


def test_listen_address_that_is_not_a_name_does_not_stop_the_agent(tmp_path: Path) -> None:
    """The problem has the resolver's words, not the number of an unknown error."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--listen", "a..b:9533") as running:
        running.reaches("told")
        (problem,) = running.status()["problems"]
        assert problem.startswith("cannot listen on port 9533: ")
        assert "unknown error" not in problem


def test_large_and_many_files_are_delivered(tmp_path: Path) -> None:
    """1,000 files and a file of 1 MiB are read, published and reported."""
    volume = Volume(tmp_path / "volume")
    files = {f"file-{number}": b"x" * 100 for number in range(1000)}
    volume.publish({**files, "large": b"y" * (1 << 20)})
    with agent(tmp_path, "--dir", volume, "--stage", tmp_path / "stage") as running:
        running.reaches("told")
        assert len(list((tmp_path / "stage").iterdir())) == 1001 + 2
        volume.publish({**files, "file-7": b"z", "large": b"y" * (1 << 20)})
        eventually(lambda: (tmp_path / "stage" / "file-7").read_bytes() == b"z")


@pytest.mark.parametrize(
    ("flags", "limit"), [((), 64 << 20), (("--max-directory-size", "1Ki"), 1024)]
)
def test_plain_file_over_the_limit_is_refused(
    tmp_path: Path, flags: tuple[str, ...], limit: int
) -> None:
    """It is never published cut off; up to the limit it is published whole."""
    folder, stage = tmp_path / "plain", tmp_path / "stage"
    folder.mkdir()
    (folder / "file").write_bytes(b"x" * limit)
    more = ("--poll-interval", "50ms", *flags)
    with agent(tmp_path, "--dir", folder, "--stage", stage, *more) as running:
        running.reaches("told")
        assert (stage / "file").stat().st_size == limit
        with (folder / "file").open("ab") as file:
            file.write(b"y")
        # It may have been read meanwhile, and be read again for that.
        eventually(lambda: f"{folder} has more than {limit} bytes" in running.message)
        assert running.status()["state"] == "waiting"
        assert "--max-directory-size" in running.message
        assert (stage / "file").stat().st_size == limit
        (folder / "file").write_bytes(b"z")
        eventually(lambda: (stage / "file").read_bytes() == b"z")
        running.reaches("told")


def test_file_takes_its_own_size_of_memory_whatever_the_limit_is(tmp_path: Path) -> None:
    """Of 10,000 files in a plain directory, each would take the limit for a moment."""
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    tracemalloc.start()
    try:
        assert len(read_file(str(tmp_path / "file"), 64 << 20)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert len(read_file(str(tmp_path / "file"), 70_000)) == 70_000


def test_volume_over_the_limit_is_refused(tmp_path: Path) -> None:
    """A file of gigabytes, which no kubelet writes, takes neither the memory nor the time."""
    volume = Volume(tmp_path / "volume", file="one")
    touched = tmp_path / "touched"
    with agent(tmp_path, "--dir", volume, "--touch", touched) as running:
        running.reaches("told")
        volume.write(file="two", other="")
        eventually(lambda: running.rule()["loads"] == 2)
        os.truncate(volume.path / "..data" / "other", 3 << 30)
        volume.swap()
        message = running.reaches("waiting")["message"]
        assert f"{volume} has more than {64 << 20} bytes" in message
        assert "--max-directory-size" in message
        volume.write(file="three")
        running.reaches("told")


def test_directory_that_is_too_large_is_not_read_each_second(tmp_path: Path) -> None:
    """Reading it takes as long as reading the largest content; polls show when it has changed."""
    folder, limit = tmp_path / "plain", 4 << 20
    folder.mkdir()
    (folder / "file").write_bytes(b"x" * (limit + 1))
    flags = ("--poll-interval", "50ms", "--max-directory-size", "4Mi")
    with agent(tmp_path, "--dir", folder, "--touch", tmp_path / "touched", *flags) as running:
        running.reaches("waiting")

        def bytes_read() -> int:
            lines = Path(f"/proc/{running.pid}/io").read_text().splitlines()
            return int(dict(line.split(": ") for line in lines)["rchar"])

        before = bytes_read()
        time.sleep(2.5)
        assert bytes_read() - before < 2 * limit, "once more for the granularity of file times"
        assert f"{folder} has more than {limit} bytes" in running.message
        (folder / "file").write_bytes(b"z")
        running.reaches("told")


def test_too_many_plain_files_are_refused(tmp_path: Path) -> None:
    """Empty files take memory too; what was loaded stays, and fewer of them are loaded again."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "file").write_text("one")
    flags = ("--poll-interval", "50ms", "--max-directory-size", "1Mi")
    with agent(tmp_path, "--dir", folder, "--touch", tmp_path / "touched", *flags) as running:
        running.reaches("told")
        for number in range(1000):
            (folder / f"empty-{number}").touch()
        eventually(lambda: f"{folder} has more than 1000 files" in running.message)
        assert running.status()["state"] == "waiting"
        assert "--max-directory-size" in running.message
        (folder / "empty-7").unlink()
        running.reaches("told")
        assert not running.message


@pytest.mark.parametrize("layout", ["plain", "copy of a volume"])
def test_plain_directory_is_reported_once(tmp_path: Path, layout: str) -> None:
    """It is read once more for the granularity of file times, which is no other content."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "text").write_text("one")
    if layout == "copy of a volume":
        (folder / "..data").mkdir()
        (folder / "..data" / "text").write_text("one")
    with reader(folder / "text", tmp_path) as process:
        flags = ("--signal", "HUP", "--process", f"command:{tmp_path}/loaded")
        with agent(tmp_path, "--dir", folder, *flags, "--poll-interval", "20ms") as running:
            running.reaches("told")
            draft = tmp_path / "draft"
            draft.write_text("two")
            draft.rename(folder / "text")  # at once: no poll sees an empty file
            eventually(lambda: running.rule()["loads"] == 2)
            time.sleep(0.5)  # twenty polls
            assert running.rule()["loads"] == 2
            assert "adopted" not in running.log
        assert process.loads[-1] == "two"


def test_empty_directory_is_loaded(tmp_path: Path) -> None:
    """Asked for another verdict on content that is gone, the agent waits instead of spinning."""
    volume = Volume(tmp_path / "volume", text="evil")
    with agent(tmp_path, "--dir", volume, "--check", "false") as running:
        running.reaches("refused")
        shutil.rmtree(volume.path)
        running.process.send_signal(signal.SIGHUP)
        running.reaches("waiting")
        before = _cpu_ticks(running.pid)
        time.sleep(0.5)
        assert _cpu_ticks(running.pid) - before < 20, "of 50"


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])
