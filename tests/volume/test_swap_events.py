"""One update of a volume as a directory watch sees it (walkthrough W10)."""

from __future__ import annotations

from pathlib import Path

from tests.support.inotify import watching
from tests.support.volumes import files, published

from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter


def test_update_shows_its_steps_in_order(tmp_path: Path) -> None:
    """The new directory, `..data_tmp`, the rename, new keys, dropped keys, the old directory."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(kept="1", dropped="1", nested__x="1"))
    old = published(tmp_path)
    with watching(tmp_path) as events:
        writer.write(files(kept="2", added="1", nested__y="1"))
        seen = events.read()
    new = published(tmp_path)
    assert seen == [
        ("CREATE|ISDIR", new),
        ("ATTRIB|ISDIR", new),
        ("CREATE", "..data_tmp"),
        ("MOVED_FROM", "..data_tmp"),
        ("MOVED_TO", "..data"),
        ("CREATE", "added"),
        ("DELETE", "dropped"),
        ("DELETE|ISDIR", old),
    ]


def test_changed_value_alone_touches_no_user_visible_name(tmp_path: Path) -> None:
    """W10's edit: the links stay, `..data` moves to the new directory, the old one goes."""
    writer = AtomicWriter(str(tmp_path))
    before = {"mount.info": PayloadFile(b"1", 0o644), "aa": PayloadFile(b"1", 0o644)}
    writer.write(before)
    old = published(tmp_path)
    with watching(tmp_path) as events:
        writer.write(before | {"aa": PayloadFile(b"2", 0o644)})
        seen = events.read()
    new = published(tmp_path)
    assert [name for _, name in seen] == [new, new, "..data_tmp", "..data_tmp", "..data", old]


def test_equal_payload_causes_no_event_at_all(tmp_path: Path) -> None:
    """A sync without a change cannot be seen: nothing is made, renamed or removed."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1"))
    with watching(tmp_path) as events:
        writer.write(files(a="1"))
        assert events.read() == []


def test_watch_on_a_file_dies_with_its_revision(tmp_path: Path) -> None:
    """A file must not be watched itself: the watch ends with the first swap."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1"))
    with watching(tmp_path / "a") as events:
        writer.write(files(a="2"))
        first = [kind for kind, _ in events.read()]
        writer.write(files(a="3"))
        assert events.read() == []
    assert first == ["ATTRIB", "DELETE_SELF", "IGNORED"]
