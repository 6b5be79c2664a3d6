"""A watcher tells which mounted sources were published again, and misses none."""

from __future__ import annotations

import errno
import os
import resource
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.requires import requires
from tests.support.volumes import files

from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.watcher import VolumeWatcher, _Inotify, read_revision

#: Seconds; a bound for a hanging test, never waited for when all is well.
TIMEOUT = 60.0


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let every new descriptor of this process fail with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def make_mounts(tmp_path: Path, *names: str) -> list[str]:
    """Make volumes that have been written once."""
    for name in names:
        (tmp_path / name).mkdir()
        AtomicWriter(str(tmp_path / name)).write(files(a="0"))
    return [str(tmp_path / name) for name in names]


def publish(mount: str, content: str) -> None:
    AtomicWriter(mount).write(files(a=content))


def is_readable(watcher: VolumeWatcher) -> bool:
    return bool(select.select([watcher], [], [], 0)[0])


def test_swap_makes_the_descriptor_readable_and_is_reported_once(tmp_path: Path) -> None:
    """The event is there when the writer returns; asking twice gives nothing twice."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        assert watcher.statistics().mode == "inotify"
        assert not is_readable(watcher)
        publish(mount, "1")
        assert is_readable(watcher)
        assert watcher.read_events() == [mount]
        assert watcher.read_events() == []
        assert watcher.poll() == []
        assert watcher.statistics().updates == 1


def test_watch_outlives_any_number_of_swaps(tmp_path: Path) -> None:
    """The watch is on the mount root, so the second and the hundredth swap are seen too."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        for number in range(1, 101):
            publish(mount, str(number))
            assert watcher.read_events() == [mount]
        statistics = watcher.statistics()
    assert (statistics.updates, statistics.updates_by_poll, statistics.watches_lost) == (100, 0, 0)


def test_burst_is_one_report_of_the_last_revision(tmp_path: Path) -> None:
    """However many swaps wait, the directory is listed once and shows the last one."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        for number in range(1, 51):
            publish(mount, str(number))
        assert watcher.read_events() == [mount]
        assert read_revision(mount).files == {"a": b"50"}
        assert watcher.statistics().updates == 1


def test_several_directories_share_one_instance(tmp_path: Path) -> None:
    """Changed directories are listed in the order given, the others are not."""
    mounts = make_mounts(tmp_path, "a", "b", "c")
    with VolumeWatcher(mounts) as watcher:
        publish(mounts[2], "1")
        publish(mounts[0], "1")
        assert watcher.read_events() == [mounts[0], mounts[2]]
        assert watcher.statistics().watched == 3


def test_one_volume_under_two_paths_is_reported_under_both(tmp_path: Path) -> None:
    """The kernel gives one watch for one directory; both of its names hear of the swap."""
    [mount] = make_mounts(tmp_path, "a")
    alias = str(tmp_path / "alias")
    Path(alias).symlink_to(mount)
    with VolumeWatcher([mount, alias, mount]) as watcher:
        publish(mount, "1")
        assert watcher.read_events() == [mount, alias]
        shutil.rmtree(mount)
        assert watcher.read_events() == []
        assert watcher.statistics().watched == 0
        make_mounts(tmp_path, "a")
        assert watcher.poll() == [mount, alias]


def test_other_files_in_the_mount_are_not_reported(tmp_path: Path) -> None:
    """What is made, renamed or written beside `..data` wakes, but is not reported."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        Path(mount, "x").write_text("1")
        Path(mount, "x").rename(Path(mount, "y"))
        AtomicWriter(mount).write(files(a="0"))
        assert watcher.read_events() == []


def test_rename_to_the_same_target_is_ignored(tmp_path: Path) -> None:
    """Where the link points decides, not that it was replaced."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        Path(mount, "..data_tmp").symlink_to(Path(mount, "..data").readlink())
        Path(mount, "..data_tmp").rename(Path(mount, "..data"))
        assert watcher.read_events() == []


def test_swap_reported_as_create_is_seen(tmp_path: Path) -> None:
    """A writer that removes the link and makes it again is noticed like one that renames."""
    [mount] = make_mounts(tmp_path, "a")
    Path(mount, "..rev1").mkdir()
    with VolumeWatcher([mount]) as watcher:
        Path(mount, "..data").unlink()
        assert watcher.read_events() == []
        Path(mount, "..data").symlink_to("..rev1")
        assert watcher.read_events() == [mount]


def test_wait_returns_at_a_swap(tmp_path: Path) -> None:
    """A waiting thread is woken by the swap, long before its time is over."""
    mounts = make_mounts(tmp_path, "a", "b")
    with VolumeWatcher(mounts) as watcher:
        writer = threading.Timer(0.05, publish, [mounts[1], "1"])
        writer.start()
        assert watcher.wait(TIMEOUT) == [mounts[1]]
        writer.join()
        assert watcher.wait(0) == []


def test_full_event_queue_loses_no_update(tmp_path: Path) -> None:
    """When the kernel drops events it says so, and every directory is looked at."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    requires("small-inotify-queue", available=limit <= 65536, reason=f"the queue holds {limit}")
    mounts = make_mounts(tmp_path, "a", "b")
    names = [os.path.join(mounts[0], name) for name in ("x", "y")]  # noqa: PTH118
    with VolumeWatcher(mounts) as watcher:
        Path(names[0]).write_text("")
        for number in range(limit + 1):
            os.rename(names[number % 2], names[(number + 1) % 2])  # noqa: PTH104
        publish(mounts[1], "1")
        assert watcher.read_events() == [mounts[1]]
        assert watcher.statistics().overflows == 1


@pytest.mark.parametrize("way", ["removed", "moved away"])
@pytest.mark.parametrize("look", ["read_events", "poll"])
def test_directory_that_is_replaced_is_watched_again(tmp_path: Path, way: str, look: str) -> None:
    """A mount that goes and comes back is reported when it is back, and watched from then on."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        if way == "removed":
            shutil.rmtree(mount)
        else:
            Path(mount).rename(tmp_path / "elsewhere")
        assert getattr(watcher, look)() == []
        assert (watcher.statistics().watched, watcher.statistics().watches_lost) == (0, 1)
        make_mounts(tmp_path, "a")
        assert watcher.poll() == [mount]
        assert (watcher.statistics().watched, watcher.statistics().updates_by_poll) == (1, 1)
        publish(mount, "1")
        assert watcher.read_events() == [mount]


def test_replacement_between_two_polls_is_reported(tmp_path: Path) -> None:
    """A directory that was already replaced when its end is read is reported with that."""
    [mount] = make_mounts(tmp_path, "a")
    with VolumeWatcher([mount]) as watcher:
        Path(mount).rename(tmp_path / "elsewhere")
        make_mounts(tmp_path, "a")
        assert watcher.read_events() == [mount]
        assert watcher.read_events() == []
        AtomicWriter(str(tmp_path / "elsewhere")).write(files(a="of no concern"))
        assert not is_readable(watcher)
        publish(mount, "1")
        assert watcher.read_events() == [mount]


def test_directory_may_be_absent_at_first(tmp_path: Path) -> None:
    """A mount that does not exist yet is picked up when it is there."""
    mount = str(tmp_path / "a")
    with VolumeWatcher([mount]) as watcher:
        assert watcher.poll() == []
        make_mounts(tmp_path, "a")
        assert watcher.poll() == [mount]
        publish(mount, "1")
        assert watcher.read_events() == [mount]


def test_polling_takes_over_where_inotify_is_not_to_be_had(tmp_path: Path) -> None:
    """Without an inotify instance swaps are still found, and the statistics say by what and why."""
    mounts = make_mounts(tmp_path, "a", "b")
    with no_descriptors_left():
        watcher = VolumeWatcher(mounts)
    with watcher:
        statistics = watcher.statistics()
        assert (statistics.mode, statistics.watched) == ("polling", 0)
        assert statistics.reason == (
            "inotify is not available: the limit of instances, or of open files, is reached; raise "
            "fs.inotify.max_user_instances on the node"
        )
        assert watcher.fileno() == -1
        publish(mounts[1], "1")
        assert watcher.read_events() == []
        assert watcher.poll() == [mounts[1]]
        publish(mounts[0], "1")
        assert watcher.wait(TIMEOUT) == [mounts[0]]
        assert watcher.statistics().updates_by_poll == 2


def test_polling_is_quicker_where_it_is_alone(tmp_path: Path) -> None:
    """Beside inotify the poll is a slow net; alone it is what the delay depends on."""
    with VolumeWatcher([str(tmp_path)]) as watcher:
        beside = watcher.poll_interval
    with no_descriptors_left():
        alone = VolumeWatcher([str(tmp_path)]).poll_interval
    assert alone < beside <= 30


@pytest.mark.parametrize(
    ("refused", "mode", "watched"), [("b", "inotify", 1), ("ab", "polling", 0)], ids=["one", "all"]
)
def test_directory_whose_watch_is_refused_is_polled_until_it_can_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, mode: str, watched: int
) -> None:
    """Another container may have used up the watches of the user; the others are watched."""
    mounts = make_mounts(tmp_path, "a", "b")
    add, is_limited = _Inotify.add, True

    def limited(inotify: _Inotify, directory: str) -> int:
        if is_limited and directory[-1] in refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return add(inotify, directory)

    monkeypatch.setattr(_Inotify, "add", limited)
    with VolumeWatcher(mounts) as watcher:
        statistics = watcher.statistics()
        assert (statistics.mode, statistics.watched) == (mode, watched)
        assert statistics.reason.startswith("cannot add an inotify watch on ")
        publish(mounts[1], "1")
        assert watcher.poll() == [mounts[1]]
        is_limited = False
        assert watcher.poll() == []
        statistics = watcher.statistics()
        assert (statistics.mode, statistics.watched, statistics.reason) == ("inotify", 2, "")


def test_closed_watcher_has_given_its_descriptor_back(tmp_path: Path) -> None:
    """Closing ends the descriptor, and closing again is not an error."""
    watcher = VolumeWatcher([str(tmp_path)])
    descriptor = watcher.fileno()
    watcher.close()
    watcher.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


MOUNTED_OVER = """
import subprocess, sys
from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.watcher import VolumeWatcher
from tests.support.volumes import files

mount = sys.argv[1]
with VolumeWatcher([mount]) as watcher:
    subprocess.run(["mount", "-t", "tmpfs", "none", mount], check=True)
    AtomicWriter(mount).write(files(a="covered"))
    print(watcher.read_events() == [], watcher.poll() == [mount])
    AtomicWriter(mount).write(files(a="again"))
    print(watcher.read_events() == [mount])
    subprocess.run(["umount", mount], check=True)
    print(watcher.read_events() == [mount], watcher.statistics().watches_lost)
    AtomicWriter(mount).write(files(a="below"))
    print(watcher.read_events() == [mount])
"""


def test_mount_over_the_directory_is_followed(tmp_path: Path) -> None:
    """Another file system on the same path sends no event; the poll finds it, and its end."""
    unshare = ["unshare", "--mount", "--map-root-user", "--user"]
    tried = shutil.which("unshare") and subprocess.run([*unshare, "true"], check=False).returncode
    requires("userns", available=tried == 0, reason="user namespaces cannot be made here")
    [mount] = make_mounts(tmp_path, "a")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", MOUNTED_OVER, mount],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=TIMEOUT,
    )
    assert done.stdout.split() == ["True", "True", "True", "True", "2", "True"], done.stderr
