"""When the content of a directory was written, and whether it is the first that was there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.support.requires import requires

from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.content_age import _birth, content_age


def write(path: Path, **files: str) -> None:
    """Write a volume as the kubelet does."""
    path.mkdir(exist_ok=True)
    payload = {name: PayloadFile(text.encode(), 0o644) for name, text in files.items()}
    AtomicWriter(str(path)).write(payload)


def set_time(path: Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds), follow_symlinks=False)


def test_volume_that_was_never_updated_has_its_first_content(tmp_path: Path) -> None:
    """Its links were made after the first revision."""
    write(tmp_path / "volume", text="one", other="x")
    age = content_age(str(tmp_path / "volume"))
    assert age is not None
    assert age.is_first
    assert age.written == os.lstat(tmp_path / "volume" / "..data").st_mtime


def test_updated_volume_does_not_have_its_first_content(tmp_path: Path) -> None:
    """The links of its files stay, also where another file is added."""
    volume = tmp_path / "volume"
    write(volume, text="one")
    set_time(volume / "text", 1000)
    write(volume, text="two", added="x")
    age = content_age(str(volume))
    assert age is not None
    assert not age.is_first
    assert age.written > 1000


def test_volume_of_which_all_files_were_renamed_does_not_have_its_first_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its links are new, but the directory is older."""
    monkeypatch.setattr("hotmap.volume.content_age._FIRST_WRITE", 0.02)
    volume = tmp_path / "volume"
    write(volume, text="one")
    is_kept = _birth(str(volume)) > 0
    requires("birth times", available=is_kept, reason="this file system does not keep them")
    time.sleep(0.05)
    write(volume, other="one")
    age = content_age(str(volume))
    assert age is not None
    assert not age.is_first


def test_change_of_the_group_is_not_an_update(tmp_path: Path) -> None:
    """The kubelet sets it each time that it sets a volume up; only the time of writing counts."""
    volume = tmp_path / "volume"
    write(volume, text="one")
    for name, seconds in (("..data", 1000), ("text", 1001)):
        set_time(volume / name, seconds)
        os.chown(volume / name, -1, os.getegid(), follow_symlinks=False)
    age = content_age(str(volume))
    assert age is not None
    assert (age.written, age.is_first) == (1000, True)


def test_emptied_volume_does_not_have_its_first_content(tmp_path: Path) -> None:
    """There are no links to compare with."""
    write(tmp_path / "volume", text="one")
    write(tmp_path / "volume")
    age = content_age(str(tmp_path / "volume"))
    assert age is not None
    assert not age.is_first


def test_plain_directory_is_as_old_as_its_last_change(tmp_path: Path) -> None:
    """Whatever the modification times are: tools that copy files set them back."""
    before = tmp_path.stat().st_mtime
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_text("one")
    set_time(tmp_path / "below" / "file", 1000)
    age = content_age(str(tmp_path))
    assert age is not None
    assert age.written >= before
    assert not age.is_first
    assert content_age(str(tmp_path / "missing")) is None


def test_single_file_and_linked_directory_have_an_age(tmp_path: Path) -> None:
    """A file that is mounted with subPath, and a directory that is named by a link."""
    (tmp_path / "place").mkdir()
    (tmp_path / "link").symlink_to("place")
    (tmp_path / "place" / "file").write_text("one")
    written = (tmp_path / "place" / "file").stat().st_mtime
    for path in (tmp_path / "place" / "file", tmp_path / "link"):
        age = content_age(str(path))
        assert age is not None
        assert age.written >= written
        assert not age.is_first
