"""The store on disk: what was acknowledged is there after any crash, and nothing else is."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hotmap.core.errors import ApiError, SettingsError
from hotmap.local.journal import open_store
from hotmap.local.store import Entry, MVCCStore
from hotmap.local.store_file import FORMAT, encode_record

if TYPE_CHECKING:
    from hotmap.local.journal import DiskJournal

# Small enough for a snapshot every few dozen writes.
LOG_LIMIT = 2_000

WRITER = """
import pathlib, sys
from hotmap.local.journal import open_store
store, _ = open_store(pathlib.Path(sys.argv[1]), log_limit=20_000)
number = 0
while True:
    number += 1
    key = f"/registry/configmaps/default/c{number % 50}"
    entry = store.get(key)
    value = b"%d" % number * 20
    if entry is None:
        revision = store.create(key, value)
    else:
        revision = store.update(key, value, expected=entry.mod_revision)
    sys.stdout.write(f"{revision} {key} {number}\\n")
    sys.stdout.flush()
"""


class Model:
    """A dict of what was acknowledged, beside a store on disk."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.crashes = 0
        self.store, self.journal = open_store(directory / "0", log_limit=LOG_LIMIT)
        self.entries: dict[str, Entry] = {}

    def step(self) -> None:
        key = f"/registry/configmaps/n{self.random.randrange(3)}/c{self.random.randrange(8)}"
        value = self.random.randbytes(self.random.randrange(200))
        known = self.entries.get(key)
        if known is None:
            revision = self.store.create(key, value)
            self.entries[key] = Entry(key, value, revision, revision)
        elif self.random.random() < 0.3:
            self.store.delete(key, expected=known.mod_revision)
            del self.entries[key]
        else:
            revision = self.store.update(key, value, expected=known.mod_revision)
            self.entries[key] = known._replace(value=value, mod_revision=revision)

    def crash(self) -> None:
        """Go on with what a kill at this moment would leave: copies of the files as they are."""
        self.crashes += 1
        left = self.directory / str(self.crashes)
        revision = self.store.revision
        copy_files(self.directory / str(self.crashes - 1), left)
        if self.random.random() < 0.5:
            self._tear(left, revision)
        self.journal.close()
        shutil.rmtree(self.directory / str(self.crashes - 1))
        self.store, self.journal = open_store(left, log_limit=LOG_LIMIT)
        assert self.store.revision == revision
        assert {entry.key: entry for entry in self.store.entries()} == self.entries

    def _tear(self, directory: Path, revision: int) -> None:
        """Leave the beginning of a write that was never acknowledged."""
        torn = encode_record(Entry("/registry/torn", b"x" * 50, revision + 1, revision + 1))
        with max(directory.glob("log-*")).open("ab") as log:
            log.write(torn[: self.random.randrange(1, len(torn))])


def copy_files(source: Path, target: Path) -> None:
    """Copy files that a snapshot may be replacing: from the oldest log to the newest."""
    target.mkdir()
    while True:
        try:
            names = sorted(path.name for path in source.iterdir())
            for name in names:
                shutil.copyfile(source / name, target / name)
        except FileNotFoundError:
            shutil.rmtree(target)
            target.mkdir()
            continue
        if names == sorted(path.name for path in source.iterdir()):
            return
        shutil.rmtree(target)
        target.mkdir()


def run_model(directory: Path, steps: int, seed: int) -> None:
    model = Model(directory, seed)
    for _ in range(steps):
        model.step()
        if model.random.random() < 0.03:
            model.crash()
    model.crash()
    model.journal.close()
    assert model.crashes > 1


def test_store_equals_model_after_crashes(tmp_path: Path) -> None:
    run_model(tmp_path, 400, seed=1)


@pytest.mark.slow  # some hundred crashes, each with a sync to the disk
def test_store_equals_model_after_ten_thousand_steps(tmp_path: Path) -> None:
    run_model(tmp_path, 12_000, seed=2)


@pytest.mark.parametrize("attempt", range(3))
def test_killed_process_loses_nothing_acknowledged(tmp_path: Path, attempt: int) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(500 + 700 * attempt)]
        process.send_signal(signal.SIGKILL)
        lines += [line for line in process.stdout.read().splitlines(True) if line.endswith("\n")]
    store, journal = open_store(tmp_path / "store")
    last = {}
    for line in lines:
        revision, key, number = line.split()
        last[key] = (int(revision), number)
    # The last write may be there without having been told of.
    acknowledged = max(revision for revision, _ in last.values())
    assert acknowledged <= store.revision <= acknowledged + 1
    for key, (written, text) in last.items():
        entry = store.get(key)
        assert entry is not None
        assert entry.mod_revision >= written
        if entry.mod_revision == written:
            assert entry.value == text.encode() * 20
    journal.close()


def test_history_outlives_restart(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    first = store.create("/registry/a/x", b"1")
    store.update("/registry/a/x", b"2", expected=first)
    journal.close()
    store, journal = open_store(tmp_path)
    events = store.watch("/registry/a/", since=first).take()
    assert [(event.value, event.prev_value) for event in events] == [(b"2", b"1")]
    journal.close()


def test_torn_tail_is_dropped_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, journal = open_store(tmp_path)
    store.create("/registry/a/x", b"1")
    journal.close()
    with (tmp_path / "log-00000000000000000001").open("ab") as log:
        log.write(b"\0\0\0\x20half")
    store, journal = open_store(tmp_path)
    assert "dropped 8 bytes of an incomplete write" in caplog.text
    store.create("/registry/a/y", b"2")
    journal.close()
    store, journal = open_store(tmp_path)
    assert len(store.entries()) == 2
    journal.close()


def test_log_without_complete_first_line_is_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was being made when its process was killed; nothing of it is dropped."""
    (tmp_path / "log-00000000000000000001").write_bytes(b"hot")
    for count in (0, 1):
        store, journal = open_store(tmp_path)
        assert len(store.entries()) == count
        store.create(f"/registry/a/{count}", b"1")
        journal.close()
    assert "dropped" not in caplog.text


def test_damage_in_middle_is_refused(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    for name in "xyz":
        store.create(f"/registry/a/{name}", name.encode() * 30)
    journal.close()
    log = tmp_path / "log-00000000000000000001"
    log.write_bytes(log.read_bytes().replace(b"y" * 30, b"y" * 29 + b"n"))
    with pytest.raises(SettingsError, match=r"log-0.*1 is corrupt before its end"):
        open_store(tmp_path)


def test_other_format_is_refused(tmp_path: Path) -> None:
    _, journal = open_store(tmp_path)
    journal.close()
    log = tmp_path / "log-00000000000000000001"
    log.write_bytes(log.read_bytes().replace(b"format %d" % FORMAT, b"format 9"))
    with pytest.raises(SettingsError, match=r"has format 9, this version of hotmap reads format 1"):
        open_store(tmp_path)
    log.write_bytes(b"something else\n")
    with pytest.raises(SettingsError, match="is not a file of the store"):
        open_store(tmp_path)


def test_second_process_is_refused(tmp_path: Path) -> None:
    _, journal = open_store(tmp_path)
    with pytest.raises(SettingsError, match="is in use by another process"):
        open_store(tmp_path)
    journal.close()
    open_store(tmp_path)[1].close()


def test_full_disk_refuses_write_and_keeps_rest(tmp_path: Path) -> None:
    """The limit on a file's size fails a write in its middle, as a full disk does."""
    store, journal = open_store(tmp_path)
    kept = store.create("/registry/a/x", b"1")
    watch = store.watch("/registry/a/")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, before[1]))
    try:
        with pytest.raises(ApiError, match=r"the store cannot keep the write: File too large") as e:
            store.create("/registry/a/large", b"x" * 5_000)
        assert store.failure() == "File too large"
        store.create("/registry/a/y", b"2")
        assert store.failure() == ""
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert e.value.code == 500
    assert [event.key for event in watch.take()] == ["/registry/a/y"]
    store.create("/registry/a/large", b"x" * 5_000)
    journal.close()
    store, journal = open_store(tmp_path)
    assert [entry.key[-1] for entry in store.range("/registry/a/").entries] == ["e", "x", "y"]
    entry = store.get("/registry/a/x")
    assert entry is not None
    assert entry.mod_revision == kept
    journal.close()


def test_failed_snapshot_keeps_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store, journal = open_store(tmp_path, log_limit=LOG_LIMIT)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        fill(store, journal)
    assert "so its log is kept: No space left on device" in caplog.text
    assert not list(tmp_path.glob("snapshot-*"))
    fill(store, journal)
    assert len(list(tmp_path.glob("snapshot-*"))) == 1
    journal.close()
    again, journal = open_store(tmp_path)
    assert sorted(again.entries()) == sorted(store.entries())
    journal.close()


def fill(store: MVCCStore, journal: DiskJournal) -> None:
    """Write until a snapshot was attempted, and wait for its end."""
    while True:
        store.create(f"/registry/a/{store.revision}", os.urandom(100))
        running = [t for t in threading.enumerate() if t.name == "store-snapshot"]
        if running:
            running[0].join()
            return


def test_snapshot_replaces_older_files(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path, log_limit=LOG_LIMIT)
    for _ in range(3):
        fill(store, journal)
    journal.close()
    assert len(list(tmp_path.iterdir())) == 3, sorted(tmp_path.iterdir())
