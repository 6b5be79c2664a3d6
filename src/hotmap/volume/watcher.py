"""Detects updates of a mounted source, and reads one revision consistently.

Two tools for readers of a ConfigMap or Secret volume, both based on the guarantees of the kubelet's
writer (kubernetes: pkg/volume/util/atomic_writer.go, "monitor the ..data symlink"):

* `VolumeWatcher` reports which directories changed. It watches the mount root, never a file in
  it: a watch on a file follows the links to one revision and ends with it (kubernetes#111947).
* `read_revision` reads all files of what `..data` points to, never a mix of two revisions.

The caller compares contents and decides what to do.
No threads, no asyncio: a file descriptor for the caller's loop, and calls that do not block.
"""

# pathlib would cost the agent the import of re, fnmatch and urllib.

from __future__ import annotations

import errno
import os
import select
import struct
import time
from math import inf

from hotmap.core.errors import NotProjected, TooLarge, TornRead
from hotmap.core.value import Value
from hotmap.volume.data_link import DATA_LINK

__all__ = ["Revision", "VolumeWatcher", "WatcherStatistics", "read_revision"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self


class Revision(Value):
    """One published content: an opaque name, and bytes by relative path."""

    name: str
    files: dict[str, bytes]


class WatcherStatistics(Value):
    """Counts of a watcher since it was created.

    mode: "inotify", or "polling" when the kernel gave no inotify instance; reason has the error
    directories, watched: number requested; number with an active inotify watch
    updates, updates_by_poll: changes reported; those that only a poll detected
    watches_lost, overflows: watches that ended (removed, moved, unmounted, covered by another
        mount); event queues that overflowed
    """

    mode: str
    reason: str
    directories: int
    watched: int
    updates: int
    updates_by_poll: int
    watches_lost: int
    overflows: int


#: Attempts of a read before it fails; ours, two swaps within one read mean a writer in a loop.
_ATTEMPTS = 3

#: Bytes of a file that are read at once: nearly all have fewer, and none has more than 1 MiB.
_PIECE = 64 << 10

#: Seconds between polls beside inotify. For what inotify does not report: gVisor and Kata mounts,
#: another mount on the same path. Measured at 1.5 µs for each directory.
_POLL_BESIDE_INOTIFY = 10.0

#: Seconds between polls without inotify.
_POLL_ALONE = 1.0


def read_revision(mount: str, *, max_size: float = inf) -> Revision:
    """Read every file of the current revision of a mounted source, as one consistent set.

    The kubelet publishes by renaming the `..data` link and then deletes the directory it
    pointed to (kubernetes v1.36: pkg/volume/util/atomic_writer.go, steps 9 and 12). So the
    directory is opened once and read through that descriptor; if `..data` has moved by the
    end, the read starts over. Three attempts: ours, two swaps within one read mean a writer
    in a loop.

    `mount` is absolute, as the container sees it. `Revision.files` maps paths relative to
    `mount` to bytes, links resolved; an emptied optional source gives an empty map. Only
    regular files are read: no writer of such volumes makes links, pipes or devices.
    `Revision.name` is opaque: compare it for equality, never for order. Blocks on file I/O only.

    `max_size`: bytes of all files together that are read at most.

    Raises:
        NotProjected: no `..data` here (a subPath or foreign mount). It will never change in
            place, so do not wait for it.
        TooLarge: there are more than `max_size` bytes.
        TornRead: still moving after three attempts, or the link leads nowhere. Transient: try again
            on the next change.
        OSError: the mount or a file in it cannot be opened: absent, or permission denied.
    """
    root = os.open(mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            name = _data_link(root)
            if name is None:
                raise NotProjected(
                    f"{mount} has no {DATA_LINK} link: not a mounted ConfigMap or Secret, or "
                    "mounted with subPath, which never changes while the container runs"
                )
            try:
                files = _read_directory(name, root, max_size)
            except OSError as error:
                # The directory was removed while it was read; network mounts return ESTALE.
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
                continue
            # As long as the link is unchanged, the writer has not begun to delete. Names contain a
            # random number, so a name is never reused.
            if _data_link(root) == name:
                return Revision(name, files)
    finally:
        os.close(root)
    if not os.path.isdir(os.path.join(mount, DATA_LINK)):
        raise TornRead(f"{DATA_LINK} in {mount} points to {name}, which does not exist")
    raise TornRead(f"{mount} was updated during each of {_ATTEMPTS} attempts to read it")


def _data_link(root: int | str) -> str | None:
    """Read where `..data` points in a directory, given as descriptor or path; None if nowhere."""
    try:
        if isinstance(root, int):
            return os.readlink(DATA_LINK, dir_fd=root)
        return os.readlink(os.path.join(root, DATA_LINK))
    except OSError:
        return None  # no such directory, no such link, or something else of that name


def _read_directory(name: str, parent: int, left: float) -> dict[str, bytes]:
    """Read the regular files below a directory, by relative path, never leaving descriptors.

    `left`: bytes that they may have.
    """
    files: dict[str, bytes] = {}
    root = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below = _read_directory(entry.name, root, left)
                    files.update((f"{entry.name}/{path}", data) for path, data in below.items())
                    left -= sum(map(len, below.values()))
                elif entry.is_file(follow_symlinks=False):
                    files[entry.name] = data = _read_file(entry.name, root, left)
                    left -= len(data)
    finally:
        os.close(root)
    return files


def _read_file(name: str, parent: int, left: float) -> bytes:
    """Read a file without a file object, which would take longer than all else."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        pieces, size = [], 0
        while piece := os.read(descriptor, _PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > left:
                raise TooLarge(f"{name} has more bytes than may be read")
        return b"".join(pieces)
    finally:
        os.close(descriptor)


class VolumeWatcher:
    """Reports which of several mounted sources were updated since the last call.

    One inotify instance for all of them (128 per user is a common limit), and a poll of the links
    as a fallback. Only the target of `..data` decides, neither event types nor times: some file
    systems report the swap differently (jimmidyson/configmap-reload#190). Directories may be
    absent, appear, disappear and be mounted over: each is watched again when it exists.

    Without inotify, `statistics()` has the reason, and only polling is used.

    Use: make the watcher first, then read the revisions; a swap in between is reported, so
    none is missed. Then call `wait`, or, in a loop of your own, `read_events` whenever
    `fileno()` is readable and `poll` every `poll_interval` seconds.
    """

    def __init__(self, directories: Iterable[str]) -> None:
        self._watches = [_Watch(directory) for directory in dict.fromkeys(directories)]
        self._inotify: _Inotify | None = None
        self._reason = ""
        #: Directories that exist and cannot be watched, and why: the kernel's limit is used up.
        self._unwatched: dict[str, str] = {}
        self._updates = self._updates_by_poll = self._watches_lost = self._overflows = 0
        try:
            self._inotify = _Inotify()
        except (ImportError, AttributeError, OSError) as error:
            self._reason = f"inotify is not available: {_reason_of(error)}"
        for watch in self._watches:
            # First the watch, then the link: an event of a swap in between is ignored later.
            self._arm(watch)
            watch.name = _data_link(watch.directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the descriptor; a second call does nothing."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
            self._reason = "closed"

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when `read_events` has work; -1 for none."""
        return -1 if self._inotify is None else self._inotify.descriptor

    @property
    def poll_interval(self) -> float:
        """Seconds after which `poll` should be called again."""
        return _POLL_ALONE if self._inotify is None or self._unwatched else _POLL_BESIDE_INOTIFY

    def read_events(self) -> list[str]:
        """List the directories that were updated, according to waiting inotify events.

        In the order they were given, each once however many swaps there were. Never blocks.
        A directory that disappeared is not listed until it is back with another revision.
        """
        if self._inotify is None:
            return []
        touched: set[int] = set()
        for number, mask, name in self._inotify.read():
            if mask & _IN_Q_OVERFLOW:
                self._overflows += 1
                touched.update(watch.number for watch in self._watches)
            elif mask & _WATCH_ENDED:
                self._disarm(number, ended=bool(mask & _IN_IGNORED))
                touched.add(_UNARMED)
            elif name == _DATA_LINK_BYTES:
                touched.add(number)
        return self._moved([watch for watch in self._watches if watch.number in touched])

    def poll(self) -> list[str]:
        """List the directories that were updated, by checking each of them.

        Also watches again what can be watched again: directories that came back, or that
        another mount now covers.
        """
        changed = self.read_events()
        for watch in self._watches:
            if watch.number != _UNARMED and watch.identity != _identity(watch.directory):
                self._disarm(watch.number, ended=False)
        found = self._moved(self._watches)
        self._updates_by_poll += len(found)
        return [
            watch.directory
            for watch in self._watches
            if watch.directory in changed or watch.directory in found
        ]

    def wait(self, seconds: float) -> list[str]:
        """Wait until a directory is updated, and list those that were.

        An empty list means that `seconds`, on the monotonic clock, passed without one.
        """
        deadline = time.monotonic() + seconds
        poller = select.poll()
        if self._inotify is not None:
            poller.register(self._inotify.descriptor, select.POLLIN)
        while True:
            left = max(0.0, deadline - time.monotonic())
            ready = poller.poll(1000 * min(left, self.poll_interval))
            changed = self.read_events() if ready else self.poll()
            if changed or left == 0:
                return changed

    def is_watched(self, directory: str) -> bool:
        """Return whether an inotify watch is on a directory now, so that no poll is needed."""
        return any(
            watch.directory == directory and watch.number != _UNARMED for watch in self._watches
        )

    def statistics(self) -> WatcherStatistics:
        """Return the counts so far and the mode."""
        return WatcherStatistics(
            mode="inotify" if self._inotify is not None and self._is_useful() else "polling",
            reason=self._reason or next(iter(self._unwatched.values()), ""),
            directories=len(self._watches),
            watched=sum(watch.number != _UNARMED for watch in self._watches),
            updates=self._updates,
            updates_by_poll=self._updates_by_poll,
            watches_lost=self._watches_lost,
            overflows=self._overflows,
        )

    def _is_useful(self) -> bool:
        """Return whether inotify announces any change: not if it refused every watch."""
        return not self._unwatched or any(watch.number != _UNARMED for watch in self._watches)

    def _moved(self, watches: list[_Watch]) -> list[str]:
        """Watch unwatched directories again, then list those whose link has moved."""
        changed = []
        for watch in watches:
            self._arm(watch)
            name = _data_link(watch.directory)
            if name is not None and name != watch.name:
                watch.name = name
                changed.append(watch.directory)
        self._updates += len(changed)
        return changed

    def _arm(self, watch: _Watch) -> None:
        if self._inotify is None or watch.number != _UNARMED:
            return
        # The identity first: if the directory is replaced in between, the next poll detects it.
        watch.identity = _identity(watch.directory)
        self._unwatched.pop(watch.directory, None)
        if watch.identity is None:
            return
        try:
            watch.number = self._inotify.add(watch.directory)
        except NotADirectoryError:
            return  # no source is mounted here
        except OSError as error:
            self._unwatched[watch.directory] = (
                f"cannot add an inotify watch on {watch.directory}: {_reason_of(error)}"
            )

    def _disarm(self, number: int, *, ended: bool) -> None:
        """Drop a watch, and remove it in the kernel unless it has ended there."""
        lost = [watch for watch in self._watches if watch.number == number]
        for watch in lost:
            watch.number = _UNARMED
        self._watches_lost += len(lost)
        if lost and not ended and self._inotify is not None:
            self._inotify.remove(number)


def _reason_of(error: Exception) -> str:
    """Describe why the kernel refused something of inotify, with the limit that is used up."""
    number = getattr(error, "errno", None)
    if number == errno.ENOSPC:
        return "the limit of watches is reached; raise fs.inotify.max_user_watches on the node"
    if number == errno.EMFILE:
        return (
            "the limit of instances, or of open files, is reached; raise "
            "fs.inotify.max_user_instances on the node"
        )
    return (getattr(error, "strerror", None) or str(error)).lower()


#: Value of `_Watch.number` without an inotify watch on the directory.
_UNARMED = -1


class _Watch:
    """One directory, where its link pointed when last seen, and the inotify watch on it."""

    __slots__ = ("directory", "identity", "name", "number")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.name: str | None = None
        self.number = _UNARMED
        #: Device and inode of the directory that the watch is on.
        self.identity: tuple[int, int] | None = None


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# linux: include/uapi/linux/inotify.h
_IN_MOVED_TO = 0x00000080
_IN_CREATE = 0x00000100
_IN_DELETE_SELF = 0x00000400
_IN_MOVE_SELF = 0x00000800
_IN_UNMOUNT = 0x00002000
_IN_Q_OVERFLOW = 0x00004000
_IN_IGNORED = 0x00008000
_IN_ONLYDIR = 0x01000000

#: The swap is a rename (MOVED_TO); some file systems report CREATE.
_INTEREST = _IN_MOVED_TO | _IN_CREATE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR

#: After these events the path has another directory, or none.
_WATCH_ENDED = _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_UNMOUNT | _IN_IGNORED

_DATA_LINK_BYTES = os.fsencode(DATA_LINK)

#: struct inotify_event without its name: wd, mask, cookie, len.
_EVENT = struct.Struct("iIII")

#: Bytes per read; enough for some thousand events.
_BUFFER = 65536


class _Inotify:
    """The four system calls of inotify(7), as the C library has them."""

    def __init__(self) -> None:
        import ctypes  # 0.4 MB, and not in every build of Python

        library = ctypes.CDLL(None, use_errno=True)
        self._add_watch = library.inotify_add_watch
        self._remove_watch = library.inotify_rm_watch
        self._errno = ctypes.get_errno
        self.descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise self._error()

    def add(self, directory: str) -> int:
        number: int = self._add_watch(self.descriptor, os.fsencode(directory), _INTEREST)
        if number < 0:
            raise self._error()
        return number

    def remove(self, number: int) -> None:
        # It may have ended by itself meanwhile (EINVAL), which is not a problem.
        self._remove_watch(self.descriptor, number)

    def read(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield watch number, mask and name of every waiting event; never block."""
        while True:
            try:
                buffer = os.read(self.descriptor, _BUFFER)
            except BlockingIOError:
                return
            offset = 0
            while offset < len(buffer):
                number, mask, _, length = _EVENT.unpack_from(buffer, offset)
                offset += _EVENT.size
                yield number, mask, buffer[offset : offset + length].rstrip(b"\0")
                offset += length

    def close(self) -> None:
        os.close(self.descriptor)

    def _error(self) -> OSError:
        number = self._errno()
        return OSError(number, os.strerror(number))
