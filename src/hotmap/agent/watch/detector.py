"""Which directories changed, and one consistent reading of all of them.

A mounted ConfigMap or Secret is watched by `hotmap.volume.watcher`; other directories are compared
at each poll (`plain_files`).
"""

from __future__ import annotations

import os

from hotmap.agent.decide.digest import digest_of, tree_digest
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.runtime.clock import since_boot, wall
from hotmap.agent.watch.plain_files import (
    NotReadable,
    moving,
    not_readable,
    read_plain,
    signature,
    too_large,
    without_memory,
)
from hotmap.agent.watch.tokens import is_service_account_token
from hotmap.core.errors import NotProjected, TooLarge, TornRead
from hotmap.volume.data_link import DATA_LINK
from hotmap.volume.watcher import VolumeWatcher, read_revision

__all__ = ["Detector", "make_snapshot"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotmap.volume.watcher import WatcherStatistics

#: Instead of the digest of a service-account token: another one is not a change for a rule.
_ANY_TOKEN = "token"


class Detector:
    """Watches directories and reads them."""

    def __init__(
        self,
        directories: Iterable[str],
        key: bytes,
        *,
        also: Iterable[str] = (),
        payloads: bool = False,
        permissions: bool = False,
        max_size: int = 64 << 20,
    ) -> None:
        """Watch `directories`, and those in `also`, which are not read here.

        key: of digests; payloads: whether to compute payload digests as well
        permissions: whether to read modes and groups as well
        max_size: bytes that a directory may hold
        """
        self._max_size = max_size
        self._payloads = payloads
        self._permissions = permissions
        self.directories = tuple(dict.fromkeys(directories))
        self._key = key
        self._watcher = VolumeWatcher((*self.directories, *also))
        #: By directory that a kubelet writes: the name of the revision that was read last.
        self.revisions: dict[str, str] = {}
        self._plain: dict[str, object] = {}
        #: By plain directory: links to files that are in no directory, as of the last reading.
        self.ignored: dict[str, list[str]] = {}
        #: By directory with a link: the revision as it was before it was read. No kubelet writes
        #: into one that it has published, but others do that make such a link in an emptyDir.
        self._published: dict[str, dict[str, tuple[int, int, int]] | None] = {}
        #: Plain directories to be read once more: file times have a granularity of milliseconds, so
        #: what is written within the same step as our reading has the same signature.
        self._again: set[str] = set()

    def close(self) -> None:
        """Close the inotify instance."""
        self._watcher.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable when `read_events` has work; -1 for none."""
        return self._watcher.fileno()

    @property
    def poll_interval(self) -> float:
        """Seconds after which `poll` should be called again."""
        return self._watcher.poll_interval

    def statistics(self) -> WatcherStatistics:
        """Return how directories are watched, and what was seen."""
        return self._watcher.statistics()

    def mode_of(self, directory: str) -> str:
        """Return how changes of one directory are detected: inotify, polling or comparing."""
        if self._plain.get(directory) is not None:
            return "comparing"
        return "inotify" if self._watcher.is_watched(directory) else "polling"

    def read_events(self) -> list[str]:
        """List directories that inotify events show to be updated."""
        return self._watcher.read_events()

    def poll_volumes(self) -> list[str]:
        """List directories that a kubelet has updated, without waiting for an event or a poll."""
        return self._watcher.poll()

    def poll(self) -> list[str]:
        """List directories that changed, by checking each of them."""
        changed = self._watcher.poll()
        for directory in self.directories:
            if directory not in changed and self._files_changed(directory):
                changed.append(directory)
        return changed

    def take_doubtful(self) -> bool:
        """Whether plain directories have to be read once more, a moment later; asked once."""
        doubtful, self._again = bool(self._again), set()
        return doubtful

    def incomplete(self) -> bool:
        """Whether a writer has published files and not yet linked all of them.

        The kubelet links new files after the update (atomic_writer.go, step 10). A process that
        is told to reload in between misses a file.
        """
        for directory in self.directories:
            try:
                names = os.listdir(os.path.join(directory, DATA_LINK))
                linked = os.listdir(directory)
            except OSError:
                continue
            if not set(names).issubset(linked):
                return True
        return False

    def read(self) -> Snapshot:
        """Read all directories, each as one consistent set.

        Raises:
            NotReadable: one of them is missing, or something in it cannot be read; try again
                when it changes, or after a while.
        """
        # First: an update meanwhile would make what is read seem younger than it is.
        written = _written(self.directories)
        contents = {directory: self._read(directory) for directory in self.directories}
        permissions: dict[str, dict[str, tuple[int, int]]] = {}
        if self._permissions:
            permissions = {
                directory: _read_permissions(directory, found)
                for directory, found in contents.items()
            }
        signatures = {
            directory: digest_of(repr(self._plain[directory]).encode(), self._key)
            for directory in contents
            if directory not in self.revisions
        }
        snapshot = make_snapshot(contents, self._key, payloads=self._payloads)
        return snapshot._replace(permissions=permissions, written=written, signatures=signatures)

    def _read(self, directory: str) -> dict[str, bytes]:
        try:
            return self._read_any(directory)
        except NotReadable as error:
            error.directory = directory
            raise

    def _read_any(self, directory: str) -> dict[str, bytes]:
        try:
            self._published[directory] = _published_files(directory)
            found = read_revision(directory, max_size=self._max_size)
            self.revisions[directory] = found.name
            self.ignored.pop(directory, None)
            return found.files
        except (NotProjected, NotADirectoryError):
            files = self._read_plain(directory)
            if not files and directory in self.revisions:
                # The place of a volume that is not mounted, which is not content.
                raise NotReadable(f"{directory} is not mounted any more: waiting for it") from None
            self.revisions.pop(directory, None)
            return files
        except TooLarge:
            raise too_large(directory, self._max_size) from None
        except TornRead as error:
            raise moving(str(error)) from None
        except FileNotFoundError:
            word = "any more" if directory in self.revisions else "yet"
            raise NotReadable(f"{directory} does not exist {word}: waiting for it") from None
        except OSError as error:
            raise not_readable(error, directory) from None
        except RecursionError:
            raise NotReadable(f"cannot read {directory}: nested too deeply") from None
        except MemoryError:
            raise without_memory(directory) from None

    def _read_plain(self, directory: str) -> dict[str, bytes]:
        before, now = self._plain.get(directory), self._signature(directory)
        self._plain[directory] = now
        if now != before:
            self._again.add(directory)
        ignored: list[str] = []
        found = read_plain(directory, self._max_size, ignored)
        roots = tuple(f"{os.path.realpath(each)}/" for each in self.directories)
        self.ignored[directory] = [
            link for link in ignored if not os.path.realpath(link).startswith(roots)
        ]
        if self._signature(directory) != self._plain[directory]:
            self._plain[directory] = None
            raise moving(f"{directory} changed while it was read")
        return found

    def _signature(self, directory: str) -> object:
        return signature(directory, self._max_size)

    def _files_changed(self, directory: str) -> bool:
        if os.path.islink(os.path.join(directory, DATA_LINK)):
            if self._plain.pop(directory, None) is not None:
                return True
            published = _published_files(directory)
            before, self._published[directory] = self._published.get(directory), published
            return before != published
        if directory in self.revisions and directory not in self._plain:
            return True  # it was a volume until now
        now = self._signature(directory)
        changed = now != self._plain.get(directory, now)
        self._plain[directory] = now
        if changed:
            self._again.add(directory)
        return changed


def make_snapshot(contents: dict[str, dict[str, bytes]], key: bytes, *, payloads: bool) -> Snapshot:
    """Digest the content of directories; `payloads`: also without a key, to compare it."""
    files: dict[str, str] = {}
    directories: dict[str, str] = {}
    payload_digests: dict[str, str] = {}
    for directory, found in contents.items():
        digests = {path: digest_of(data, key) for path, data in found.items()}
        directories[directory] = tree_digest(digests, key)
        for path, data in found.items():
            if is_service_account_token(data):
                digests[path] = _ANY_TOKEN
        files.update((f"{directory}/{path}", each) for path, each in digests.items())
        if payloads:
            # Few agents follow announcements; it loads binascii, and with that libz.
            from hotmap.core.payload_digest import file_digest, payload_digest

            digest = payload_digest({path: file_digest(data) for path, data in found.items()})
            payload_digests[directory] = digest
    return Snapshot(contents, files, directories, tree_digest(directories, key), payload_digests)


def _written(directories: Iterable[str]) -> dict[str, float]:
    """Return when a kubelet wrote each directory, in seconds since boot; those that it writes."""
    found = {}
    for directory in directories:
        try:
            date = os.lstat(os.path.join(directory, DATA_LINK)).st_mtime
        except OSError:
            continue
        found[directory] = since_boot() - (wall() - date)
    return found


def _published_files(directory: str) -> dict[str, tuple[int, int, int]] | None:
    """Summarize the files of a revision; None where they cannot be listed.

    Without the time of status changes: a kubelet sets their group at each sync (fsGroup).
    """
    found: dict[str, tuple[int, int, int]] = {}
    try:
        _summarize(os.path.join(directory, DATA_LINK), found)
    except (OSError, RecursionError):
        return None
    return found


def _summarize(folder: str, found: dict[str, tuple[int, int, int]]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _summarize(entry.path, found)
            else:
                status = entry.stat(follow_symlinks=False)
                found[entry.path] = status.st_ino, status.st_size, status.st_mtime_ns


def _read_permissions(directory: str, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Read the permission bits and the group of files; without those that no longer exist."""
    found = {}
    for path in paths:
        try:
            status = os.stat(os.path.join(directory, path))
        except OSError:
            continue
        found[path] = status.st_mode & 0o777, status.st_gid
    return found
