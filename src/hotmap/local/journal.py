"""The store on disk: an append log and snapshots, so that a plane survives its process.

Each write is in the log, and the log's bytes are with the operating system, before the write is
acknowledged: a killed process loses nothing. They are synced to the disk once a second, so a
machine that loses power loses at most that (docs/decisions/0018-store-on-disk.md).

    lock                the process that has the directory open
    snapshot-<revision> every key as it was at a revision
    log-<revision>      each write after a revision, in order

A new log begins with each snapshot; what is older is removed once the snapshot is complete. What
the files look like is in `store_file`.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from typing import TYPE_CHECKING

from hotmap.core.errors import SettingsError, api_error
from hotmap.local.store import MVCCStore
from hotmap.local.store_file import FIRST_LINE, damaged, encode_record, read_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotmap.local.store import Entry

__all__ = ["DiskJournal", "open_store"]

_log = logging.getLogger(__name__)

# Bytes of log after which a snapshot is made, unless the last snapshot is larger: then the log
# may grow to its size, so that snapshots never cost more than the writes themselves.
_LOG_LIMIT = 16 << 20
_SYNC_INTERVAL = 1.0


class DiskJournal:
    """Keeps writes in a directory that no other process has open."""

    def __init__(self, directory: Path, *, log_limit: int = _LOG_LIMIT) -> None:
        """Open a directory, and make it where it does not exist.

        Raises:
            SettingsError: it cannot be used, or another process has it open.
        """
        self._directory = directory
        self._limit = self._log_limit = log_limit
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError(
                f"the store in {directory} cannot be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SettingsError(
                f"the store in {directory} is in use by another process; "
                "stop it, or choose another directory"
            ) from None
        self._log = -1
        self._end = 0
        self._failure = ""
        # Why the last write was refused.
        self._refused = ""
        self._dirty = threading.Event()
        self._closing = threading.Event()
        self._files = threading.Lock()
        self._snapshot: threading.Thread | None = None
        self._syncer = threading.Thread(target=self._sync, name="store-sync", daemon=True)

    def load(self, store: MVCCStore) -> None:
        """Bring an empty store to the state that was kept, and continue its log.

        Raises:
            SettingsError: the files are of another format, or damaged.
        """
        try:
            begin, end = self._load(store)
            self._open_log(begin, end)
        except OSError as error:
            text = f"the store in {self._directory} cannot be read: {error.strerror}"
            raise SettingsError(text) from None
        self._syncer.start()

    @property
    def is_long(self) -> bool:
        return self._end > self._limit and self._snapshot is None

    @property
    def failure(self) -> str:
        return self._failure or self._refused

    def append(self, write: Entry) -> None:
        """Keep a write.

        Raises:
            Unavailable: there is no room for it, or an earlier write could not be synced. The log
                is as before.
        """
        if self._failure:
            raise _refusal(self._failure)
        record = encode_record(write)
        at, left = self._end, memoryview(record)
        try:
            while left:
                written = os.pwrite(self._log, left, at)
                at, left = at + written, left[written:]
        except OSError as error:
            # What was written of it lies behind the end, where the next record overwrites it.
            try:
                os.ftruncate(self._log, self._end)
            except OSError:
                _log.debug("the log was not cut", exc_info=True)
            self._refused = error.strerror or str(error)
            raise _refusal(self._refused) from None
        self._end, self._refused = at, ""
        if not self._dirty.is_set():
            self._dirty.set()

    def compact(self, entries: Sequence[Entry], revision: int) -> None:
        """Begin a new log, and write a snapshot in the background."""
        try:
            self._open_log(revision, len(FIRST_LINE))
        except OSError as error:
            # Another attempt when as much again was written.
            self._limit = self._end + self._log_limit
            _log.warning(
                "cannot write a snapshot of the store, so its log grows: %s", error.strerror
            )
            return
        self._snapshot = threading.Thread(
            target=self._write_snapshot, args=(entries, revision), name="store-snapshot"
        )
        self._snapshot.start()

    def close(self) -> None:
        """Sync the log and give the directory free."""
        self._closing.set()
        self._dirty.set()
        if self._syncer.is_alive():
            self._syncer.join()
        snapshot = self._snapshot
        if snapshot is not None:
            snapshot.join()
        if self._log >= 0:
            os.close(self._log)
        os.close(self._lock)

    def _load(self, store: MVCCStore) -> tuple[int, int]:
        """Load the newest snapshot and the logs behind it; return start and end of the last log."""
        for path in self._directory.glob("*.partial"):
            path.unlink()
        snapshots, logs = self._files_of("snapshot"), self._files_of("log")
        begin = max(snapshots, default=store.revision)
        if snapshots:
            found = read_records(snapshots[begin])
            if found.torn:
                raise SettingsError(damaged(snapshots[begin]))
            store.restore(found.entries, begin)
        last, end = begin, len(FIRST_LINE)
        for last in sorted(start for start in logs if start >= begin):
            end = self._replay(store, logs[last], is_last=last == max(logs))
        self._remove_older(begin)
        self._adapt_limit(begin)
        return last, end

    def _replay(self, store: MVCCStore, path: Path, *, is_last: bool) -> int:
        """Repeat the writes of a log; return where they end."""
        found = read_records(path)
        if found.torn and not is_last:
            raise SettingsError(damaged(path))
        for write in found.entries:
            if write.mod_revision != store.revision + 1:
                raise SettingsError(damaged(path))
            store.apply(write.key, write.value, write.mod_revision)
        if found.torn > 0:
            _log.warning("%s: dropped %d bytes of an incomplete write", path, found.torn)
        return found.end

    def _open_log(self, revision: int, end: int) -> None:
        """Write to the log after a revision from now on, after its valid part."""
        path = self._directory / f"log-{revision:020}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.pwrite(descriptor, FIRST_LINE, 0) < len(FIRST_LINE):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
            _sync_directory(self._directory)
        except OSError:
            os.close(descriptor)
            raise
        with self._files:
            previous, self._log, self._end = self._log, descriptor, end
            if previous >= 0:
                os.fdatasync(previous)
                os.close(previous)

    def _write_snapshot(self, entries: Sequence[Entry], revision: int) -> None:
        path = self._directory / f"snapshot-{revision:020}"
        partial = path.with_suffix(".partial")
        try:
            with partial.open("wb") as file:
                file.write(FIRST_LINE)
                file.writelines(map(encode_record, entries))
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
            _sync_directory(self._directory)
            self._remove_older(revision)
        except OSError as error:
            _log.warning(
                "cannot write a snapshot of the store, so its log is kept: %s", error.strerror
            )
            partial.unlink(missing_ok=True)
        self._adapt_limit(revision)
        self._snapshot = None

    def _adapt_limit(self, revision: int) -> None:
        try:
            size = (self._directory / f"snapshot-{revision:020}").stat().st_size
        except OSError:
            size = 0
        self._limit = max(self._log_limit, size)

    def _remove_older(self, revision: int) -> None:
        """Remove what a snapshot makes dispensable."""
        for kind in ("snapshot", "log"):
            for start, path in self._files_of(kind).items():
                if start < revision:
                    path.unlink(missing_ok=True)

    def _files_of(self, kind: str) -> dict[int, Path]:
        found = self._directory.glob(f"{kind}-*")
        return {int(path.name.partition("-")[2]): path for path in found if path.suffix == ""}

    def _sync(self) -> None:
        """Sync the log once a second while there are writes."""
        while not self._closing.is_set():
            self._dirty.wait()
            self._dirty.clear()
            try:
                with self._files:
                    os.fdatasync(self._log)
            except OSError as error:
                # The kernel may have dropped what it could not write: nothing is certain any more.
                self._failure = f"its log could not be synced ({error.strerror})"
                _log.error("the store refuses writes from now on: %s", self._failure)
                return
            self._closing.wait(_SYNC_INTERVAL)


def open_store(directory: Path, *, log_limit: int = _LOG_LIMIT) -> tuple[MVCCStore, DiskJournal]:
    """Open the store of a directory; close the journal after the last use of the store.

    Raises:
        SettingsError: the directory is in use, or of another format, or damaged.
    """
    journal = DiskJournal(directory, log_limit=log_limit)
    store = MVCCStore(journal=journal)
    try:
        journal.load(store)
    except SettingsError:
        journal.close()
        raise
    return store, journal


def _refusal(why: str) -> Exception:
    text = f"Internal error occurred: the store cannot keep the write: {why}"
    causes = {"causes": [{"message": f"the store cannot keep the write: {why}"}]}
    return api_error(500, text, reason="InternalError", details=causes)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
