"""Which directories changed, and what they hold: one consistent reading of all of them.

A mounted ConfigMap or Secret is watched by `hotmap.volume.watcher`. Anything else (an emptyDir, a
host path, a single file) has no `..data` link to watch, so its files are compared at each check.
What a directory is, and why it cannot be live if it cannot, is said in one sentence.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple

from hotmap.agent.digest import digest_of, tree_digest
from hotmap.core.errors import NotProjected, TornRead
from hotmap.core.payload_digest import file_digest, payload_digest
from hotmap.volume.atomic_writer import DATA_LINK
from hotmap.volume.watcher import VolumeWatcher, read_revision

__all__ = ["Detector", "Directory", "NotReadable", "Snapshot", "describe", "matches", "selected"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import NamedTuple

    from hotmap.volume.watcher import WatcherStatistics

    class Snapshot(NamedTuple):
        contents: dict[str, dict[str, bytes]]
        files: dict[str, str]
        directories: dict[str, str]
        digest: str
        payloads: dict[str, str]

    class Directory(NamedTuple):
        kind: str
        note: str

else:
    Snapshot = namedtuple("Snapshot", "contents files directories digest payloads")
    Snapshot.__doc__ = """What all directories held at one time.

    contents: bytes by directory and relative path
    files: digests by absolute path
    directories: digests by directory
    digest: of everything
    payloads: digests of `core.payload_digest` by directory, where they are asked for; anybody can
        compute them, so they are compared and never shown
    """

    Directory = namedtuple("Directory", "kind note")
    Directory.__doc__ = """What is mounted somewhere: projected, plain, file or missing; a sentence
    where it cannot be live, or is live only by comparing its files."""

#: Bytes that one directory may hold where nothing else bounds it; Kubernetes' own limit is 1 MiB.
_MOST = 64 << 20


class NotReadable(Exception):
    """Raised when a directory cannot be read now; its text is one sentence."""

    #: Which of the watched directories it is about.
    directory = ""


class Detector:
    """Watches directories and reads them."""

    def __init__(
        self,
        directories: Iterable[str],
        key: bytes,
        *,
        also: Iterable[str] = (),
        payloads: bool = False,
    ) -> None:
        """Watch `directories`, and those in `also`, which are not read here.

        `payloads` asks for digests that others can compute, too.
        """
        self._payloads = payloads
        self.directories = tuple(dict.fromkeys(directories))
        self._key = key
        self._watcher = VolumeWatcher((*self.directories, *also))
        self._plain: dict[str, object] = {}
        #: Plain directories to be read once more: times of files go in steps of some milliseconds,
        #: and what is written in the same step as our reading looks as it did before.
        self._again: set[str] = set()

    def close(self) -> None:
        """Give the inotify instance back."""
        self._watcher.close()

    def fileno(self) -> int:
        """Give the descriptor that becomes readable when `changed` has work; -1 for none."""
        return self._watcher.fileno()

    @property
    def poll_interval(self) -> float:
        """Seconds after which `poll` should be called again."""
        return self._watcher.poll_interval

    def statistics(self) -> WatcherStatistics:
        """Say by which means directories are watched, and what was seen."""
        return self._watcher.statistics()

    def mode_of(self, directory: str) -> str:
        """Say how changes of one directory are noticed: inotify, polling or comparing."""
        if self._plain.get(directory) is not None:
            return "comparing"
        return "inotify" if self._watcher.is_watched(directory) else "polling"

    def changed(self) -> list[str]:
        """List directories that waiting events show to be published anew."""
        return self._watcher.read_events()

    def poll(self) -> list[str]:
        """List directories that changed, found by looking at each of them."""
        changed = self._watcher.poll()
        for directory in self.directories:
            if directory not in changed and self._plain_changed(directory):
                changed.append(directory)
        return changed

    def incomplete(self) -> bool:
        """Tell whether a writer is still making its links to files that are published already.

        The kubelet makes the links to new files after the swap (atomic_writer.go, step 10). Who
        tells a process in between makes it miss a file.
        """
        for directory in self.directories:
            try:
                names = os.listdir(os.path.join(directory, DATA_LINK))
            except OSError:
                continue
            if not all(os.path.lexists(os.path.join(directory, name)) for name in names):
                return True
        return False

    def read(self) -> Snapshot:
        """Read all directories, each as one consistent set.

        Raises:
            NotReadable: one of them is missing, or something in it cannot be read; try again
                when it changes, or after a while.
        """
        contents = {directory: self._read(directory) for directory in self.directories}
        payloads: dict[str, str] = {}
        files: dict[str, str] = {}
        directories: dict[str, str] = {}
        for directory, found in contents.items():
            digests = {path: digest_of(data, self._key) for path, data in found.items()}
            directories[directory] = tree_digest(digests, self._key)
            files.update((f"{directory}/{path}", one) for path, one in digests.items())
            if self._payloads:
                payloads[directory] = payload_digest({p: file_digest(d) for p, d in found.items()})
        return Snapshot(contents, files, directories, tree_digest(files, self._key), payloads)

    def _read(self, directory: str) -> dict[str, bytes]:
        try:
            return self._read_any(directory)
        except NotReadable as error:
            error.directory = directory
            raise

    def _read_any(self, directory: str) -> dict[str, bytes]:
        try:
            return read_revision(directory).files
        except (NotProjected, NotADirectoryError):
            return self._read_plain(directory)
        except TornRead as error:
            raise NotReadable(str(error)) from None
        except FileNotFoundError:
            raise NotReadable(f"{directory} is not there; waiting for it") from None
        except OSError as error:
            raise NotReadable(_unreadable(error, directory)) from None

    def _read_plain(self, directory: str) -> dict[str, bytes]:
        before, now = self._plain.get(directory), _signature(directory)
        self._plain[directory] = now
        if now != before:
            self._again.add(directory)
        found: dict[str, bytes] = {}
        size = 0
        alone = not os.path.isdir(directory)
        folder = os.path.dirname(directory) if alone else directory
        for path in [directory] if alone else _plain_files(directory):
            found[os.path.relpath(path, folder)] = data = _read_file(path)
            size += len(data)
            if size > _MOST:
                raise NotReadable(f"{directory} holds more than {_MOST >> 20} MiB; watch a part")
        if _signature(directory) != self._plain[directory]:
            self._plain[directory] = None
            raise NotReadable(f"{directory} was written while it was read")
        return found

    def _plain_changed(self, directory: str) -> bool:
        if os.path.lexists(os.path.join(directory, DATA_LINK)):
            return self._plain.pop(directory, None) is not None
        signature = _signature(directory)
        changed = signature != self._plain.get(directory, signature)
        self._plain[directory] = signature
        if directory in self._again and not changed:
            self._again.discard(directory)
            return True
        return changed


def describe(directory: str) -> Directory:
    """Say what is mounted at a path, and what follows for changes."""
    try:
        os.lstat(directory)
    except FileNotFoundError:
        return Directory("missing", f"{directory} is not there; waiting for it")
    except OSError as error:
        return Directory("missing", _unreadable(error, directory))
    if not os.path.isdir(directory):
        return Directory(
            "file",
            f"{directory} is a single file: mounted with subPath it never changes while the "
            "container runs; mount the whole source as a directory",
        )
    if os.path.islink(os.path.join(directory, DATA_LINK)):
        return Directory("projected", _frozen_below(directory))
    return Directory(
        "plain",
        f"{directory} has no {DATA_LINK} link, so it is no mounted ConfigMap or Secret (or one "
        "mounted with subPath, which never changes); its files are compared at each check",
    )


def _frozen_below(directory: str) -> str:
    """Say which files in a directory are mounts of their own, since those never change."""
    below = sorted(mount for mount in _mount_points() if mount.startswith(f"{directory}/"))
    if not below:
        return ""
    return f"{', '.join(below)}: mounted with subPath, never changes while the container runs"


def _mount_points() -> list[str]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return [line.split(" ")[4].replace("\\040", " ") for line in file]
    except (OSError, IndexError):
        return []


def _plain_files(directory: str) -> list[str]:
    """List regular files below a directory; links are followed as long as they stay inside."""
    root = os.path.realpath(directory)
    found: list[str] = []

    def walk(folder: str) -> None:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if not target.startswith(f"{root}/"):
                        continue  # outside: not this directory's content
                    if os.path.isfile(target):
                        found.append(entry.path)
                elif entry.is_dir():
                    walk(entry.path)
                elif entry.is_file():
                    found.append(entry.path)

    try:
        walk(directory)
    except OSError as error:
        raise NotReadable(_unreadable(error, directory)) from None
    return found


def _signature(directory: str) -> object:
    """Tell plain content apart as cheaply as can be: by names, sizes, times and inodes."""
    try:
        if not os.path.isdir(directory):
            return _stamp(directory)
        return [(path, _stamp(path)) for path in _plain_files(directory)]
    except (OSError, NotReadable):
        return None


def _stamp(path: str) -> tuple[int, int, int, int]:
    # The change time as well: tools that copy with times set the other one back.
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_file(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotReadable(f"{path} is no file that can be read at once")
            return file.read(_MOST)
    except OSError as error:
        raise NotReadable(_unreadable(error, path)) from None


def _unreadable(error: OSError, place: str) -> str:
    where = error.filename if isinstance(error.filename, str) else ""
    if where and not where.startswith("/"):
        where = f"{place}/…/{where}"
    user = f" by user {os.geteuid()}" if isinstance(error, PermissionError) else ""
    return f"{where or place} cannot be read{user}: {(error.strerror or str(error)).lower()}"


def selected(files: Mapping[str, str], patterns: Iterable[str], roots: Iterable[str]) -> set[str]:
    """Choose files by patterns: `*` and `?`, over the path in its directory, or with `/` over all.

    A pattern without a leading slash is held against the path relative to its directory, one with
    it against the absolute path. `*` stands for any characters, slashes too.
    """
    wanted = list(patterns)
    if wanted == ["*"]:
        return set(files)
    chosen = set()
    for path in files:
        texts = [path, *(path[len(root) + 1 :] for root in roots if path.startswith(f"{root}/"))]
        if any(matches(one, text) for one in wanted for text in texts):
            chosen.add(path)
    return chosen


def matches(pattern: str, text: str) -> bool:
    """Match a text against `*` (anything) and `?` (one character), in linear space and no regex."""
    at = mark = 0
    star = -1
    place = 0
    while place < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[place]):
            at += 1
            place += 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return pattern[at:].strip("*") == ""
