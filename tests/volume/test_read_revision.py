"""A revision is read as one consistent set of files, or not at all."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.volumes import files, published

from hotmap.core.errors import NotProjected, TooLarge, TornRead
from hotmap.core.payload import Payload, PayloadFile
from hotmap.volume import watcher
from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.watcher import read_revision

SWAPS = 300


def test_revision_has_every_file_by_relative_path(tmp_path: Path) -> None:
    """Paths are relative to the mount and the name is that of what `..data` points to."""
    AtomicWriter(str(tmp_path)).write(files(a="1", n__x="2", n__deep__y=""))
    revision = read_revision(str(tmp_path))
    assert revision.name == published(tmp_path)
    assert revision.files == {"a": b"1", "n/x": b"2", "n/deep/y": b""}


def test_emptied_source_is_an_empty_revision(tmp_path: Path) -> None:
    """No files is a content like any other."""
    AtomicWriter(str(tmp_path)).write({})
    assert read_revision(str(tmp_path)).files == {}


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe would block forever and a link may lead out of the volume: neither is content."""
    AtomicWriter(str(tmp_path)).write(files(a="1"))
    os.mkfifo(tmp_path / "..data" / "pipe")
    (tmp_path / "..data" / "link").symlink_to("/etc/passwd")
    assert read_revision(str(tmp_path)).files == {"a": b"1"}


@pytest.mark.parametrize("layout", ["empty", "subPath", "data is a directory"])
def test_directory_without_data_link_is_not_projected(tmp_path: Path, layout: str) -> None:
    """A mount that never changes in place says so at once, and in words."""
    if layout == "subPath":
        (tmp_path / "a").write_text("1")
    elif layout == "data is a directory":
        (tmp_path / "..data").mkdir()
    with pytest.raises(NotProjected, match="mounted with subPath, which never changes"):
        read_revision(str(tmp_path))


def test_limit_counts_the_bytes_of_all_files(tmp_path: Path) -> None:
    """Files in subdirectories count too; exactly the limit is allowed."""
    AtomicWriter(str(tmp_path)).write(files(a="12", n__x="345", n__deep__y="6"))
    assert len(read_revision(str(tmp_path), max_size=6).files) == 3
    with pytest.raises(TooLarge):
        read_revision(str(tmp_path), max_size=5)


def test_missing_mount_is_an_os_error(tmp_path: Path) -> None:
    """It may be mounted later, so NotProjected would be wrong."""
    with pytest.raises(FileNotFoundError):
        read_revision(str(tmp_path / "absent"))


def test_link_to_nowhere_is_a_torn_read(tmp_path: Path) -> None:
    """A published directory that is gone in every attempt is told as transient, and named."""
    (tmp_path / "..data").symlink_to("..2026_11_21_00_07_04.1406795286")
    with pytest.raises(TornRead, match=r"points to ..2026_11_21\S+, which does not exist"):
        read_revision(str(tmp_path))


@contextmanager
def swapping(mount: Path, when: Callable[[int], bool]) -> Iterator[list[str]]:
    """Publish again before each line of the reader that `when` picks; list the contents published.

    The lines of the reader are counted from 1 as they are run, so the swap comes between any
    two of its operations that the test likes.
    """
    writer = AtomicWriter(str(mount))
    published_contents = ["0"]
    line = 0

    def trace(frame: FrameType, kind: str, argument: Any) -> Any:
        nonlocal line
        if frame.f_code.co_filename != watcher.__file__:
            return None
        if kind == "line":
            line += 1
            if when(line):
                published_contents.append(str(len(published_contents)))
                writer.write(everywhere(published_contents[-1]))
        return trace

    writer.write(everywhere(published_contents[-1]))
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield published_contents
    finally:
        sys.settrace(before)


def everywhere(content: str) -> Payload:
    return files(a=content, b=content, n__x=content)


@pytest.mark.parametrize("gap", [0, 1, 9, 20])
def test_swap_between_any_two_lines_of_the_reader_is_not_seen(tmp_path: Path, gap: int) -> None:
    """Wherever one or two swaps fall, what is returned was published as a whole."""
    swaps, line = 1, 0
    while swaps:
        line += 1
        lines = {line, line + gap}
        with swapping(tmp_path, lines.__contains__) as contents:
            revision = read_revision(str(tmp_path))
        swaps = len(contents) - 1
        assert revision.files in [
            {path: file.data for path, file in everywhere(content).items()} for content in contents
        ]
    assert line > 30, "the reader was not traced"


def test_swap_during_every_attempt_is_a_torn_read(tmp_path: Path) -> None:
    """After three attempts the reader gives up rather than follow a writer forever."""
    with (
        swapping(tmp_path, lambda line: line % 3 == 0),
        pytest.raises(TornRead, match="was updated during each of 3 attempts"),
    ):
        read_revision(str(tmp_path))


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    """No outcome of a read leaves a descriptor open."""
    AtomicWriter(str(tmp_path)).write(files(a="1", n__x="2"))
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "..data").symlink_to("nowhere")
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_revision(str(tmp_path))
    with pytest.raises(TornRead):
        read_revision(str(tmp_path / "torn"))
    with pytest.raises(NotProjected):
        read_revision(str(tmp_path / "n"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def swap_until_done(mount: Path, done: threading.Event) -> None:
    """Publish revisions that each hold one number in every file, with changing paths."""
    writer = AtomicWriter(str(mount))
    for number in range(SWAPS):
        file = PayloadFile(str(number).encode() * 100, 0o644)
        names = ["a", "n/x", "n/y", f"odd/{number}" if number % 2 else "even"]
        writer.write(dict.fromkeys(names, file))
    done.set()


def test_readers_never_see_a_mix(tmp_path: Path) -> None:
    """During 1,000 swaps every read, through `..data` resolved once, is of one revision."""
    AtomicWriter(str(tmp_path)).write({})
    done = threading.Event()
    thread = threading.Thread(target=swap_until_done, args=(tmp_path, done))
    thread.start()
    names = set()
    try:
        while not done.is_set():
            try:
                revision = read_revision(str(tmp_path))
            except TornRead:
                continue
            if revision.files:
                assert len(revision.files) == 4
                assert len(set(revision.files.values())) == 1
            names.add(revision.name)
    finally:
        thread.join()
    assert len(names) > 1, "the reader saw no swap at all"
    assert set(read_revision(str(tmp_path)).files.values()) == {str(SWAPS - 1).encode() * 100}


def test_readers_by_plain_paths_never_see_a_mix_either(tmp_path: Path) -> None:
    """An application that resolves `..data` once reads one revision or finds it gone."""
    AtomicWriter(str(tmp_path)).write({})
    done = threading.Event()
    thread = threading.Thread(target=swap_until_done, args=(tmp_path, done))
    thread.start()
    whole = 0
    try:
        while not done.is_set():
            directory = tmp_path / published(tmp_path)
            try:
                values = {(directory / name).read_bytes() for name in ("a", "n/x", "n/y")}
            except FileNotFoundError as error:
                assert error.errno == errno.ENOENT
                continue
            assert len(values) == 1
            whole += 1
    finally:
        thread.join()
    assert whole > 0
