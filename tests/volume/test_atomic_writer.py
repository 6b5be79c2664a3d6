"""A payload is written into a volume as the kubelet writes it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.volumes import assert_tidy, files, names_in, published, visible

from hotmap.core.errors import InvalidPayload
from hotmap.core.payload import Payload, PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter


def inodes(mount: Path, *names: str) -> dict[str, int]:
    return {name: (mount / name).lstat().st_ino for name in names}


def test_first_write_makes_files_links_and_one_revision(tmp_path: Path) -> None:
    """A fresh volume has one revision directory, `..data` to it and one link per first element."""
    payload = files(a="1", nested__x="2", nested__deep__y="3")
    assert AtomicWriter(str(tmp_path)).write(payload) is True
    assert_tidy(tmp_path, payload)
    revision = published(tmp_path)
    assert re.fullmatch(r"\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d{1,10}", revision)
    assert stat.S_IMODE((tmp_path / revision).stat().st_mode) == 0o755


def test_empty_payload_is_published(tmp_path: Path) -> None:
    """An optional source that does not exist makes a volume with `..data` and nothing else."""
    assert AtomicWriter(str(tmp_path)).write({}) is True
    assert_tidy(tmp_path, {})
    assert AtomicWriter(str(tmp_path)).write({}) is False


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(files(a="1"), files(a="2"), id="value"),
        pytest.param(files(a="1"), files(a="12"), id="longer value"),
        pytest.param(files(a="1"), files(a="1", b="1"), id="new data key"),
        pytest.param(files(a="1", b="1"), files(a="1"), id="dropped data key"),
        pytest.param(files(a="1"), {}, id="emptied"),
        pytest.param(files(n__x="1", n__y="1"), files(n__x="1"), id="dropped nested path"),
        pytest.param(files(n__x="1"), files(m="1"), id="dropped directory"),
        pytest.param(files(n="1"), files(n__x="1"), id="file becomes directory"),
        pytest.param(files(n__x="1"), files(n="1"), id="directory becomes file"),
    ],
)
def test_changed_payload_is_a_new_revision(tmp_path: Path, before: Payload, after: Payload) -> None:
    """Any change of paths or bytes is published, and nothing of the revision before is left."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(before)
    old = published(tmp_path)
    assert writer.write(after) is True
    assert published(tmp_path) != old
    assert_tidy(tmp_path, after)


def test_unchanged_payload_is_not_rewritten(tmp_path: Path) -> None:
    """Equal bytes leave the revision, its inodes and times of writes as they are."""

    def inodes() -> dict[Path, tuple[int, ...]]:
        found = {path: os.lstat(path) for path in tmp_path.rglob("*")}
        return {
            path: (each.st_ino, each.st_mode, each.st_size, each.st_mtime_ns, each.st_ctime_ns)
            for path, each in found.items()
        }

    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1", n__x="2"))
    before = inodes()
    assert writer.write(files(a="1", n__x="2")) is False
    assert inodes() == before


def test_changed_mode_alone_is_not_written(tmp_path: Path) -> None:
    """Only bytes are compared: a new defaultMode waits for the next change of content."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(0o644, a="1"))
    assert writer.write(files(0o400, a="1")) is False
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    assert writer.write(files(0o400, a="2")) is True
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o400


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    """Files and the revision directory have the modes asked for; directories below obey umask."""
    payload = {
        "a": PayloadFile(b"", 0o666),
        "n/x": PayloadFile(b"", 0),
        "s": PayloadFile(b"", 0o4755),
    }
    before = os.umask(umask)
    try:
        AtomicWriter(str(tmp_path)).write(payload)
    finally:
        os.umask(before)
    modes = {
        name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "n/x", "n", "s")
    }
    assert modes == {"a": 0o666, "n/x": 0, "n": 0o777 & ~umask, "s": 0o755}
    assert stat.S_IMODE((tmp_path / "..data").stat().st_mode) == 0o755


def test_permissions_are_set_before_publication(tmp_path: Path) -> None:
    """`set_permissions` sees the complete new directory while the old one is still published."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1"))
    seen = []

    def set_permissions(directory: str) -> None:
        seen.append((Path(directory, "a").read_text(), (tmp_path / "a").read_text()))

    writer.write(files(a="2"), set_permissions=set_permissions)
    writer.write(files(a="2"), set_permissions=set_permissions)
    assert seen == [("2", "1")]


def test_failure_before_publication_leaves_the_old_revision_alone(tmp_path: Path) -> None:
    """A write that fails changes nothing that can be seen and leaves nothing behind."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1"))

    def refuse(directory: str) -> None:
        raise PermissionError(1, "Operation not permitted", directory)

    with pytest.raises(PermissionError):
        writer.write(files(a="2"), set_permissions=refuse)
    assert_tidy(tmp_path, files(a="1"))


def test_invalid_path_touches_nothing(tmp_path: Path) -> None:
    """A payload with a path that may not be projected is refused before the first step on disk."""
    with pytest.raises(InvalidPayload, match=r"must not start with '\.\.': \.\.data"):
        AtomicWriter(str(tmp_path)).write(files(a="1") | {"..data": PayloadFile(b"", 0o644)})
    assert names_in(tmp_path) == set()


def test_missing_directory_is_an_error(tmp_path: Path) -> None:
    """The volume directory is the caller's to make; its absence is an OSError that names it."""
    with pytest.raises(FileNotFoundError, match="absent"):
        AtomicWriter(str(tmp_path / "absent")).write(files(a="1"))


def test_user_visible_links_keep_their_inodes(tmp_path: Path) -> None:
    """Links are made once; an update changes where they lead, not what they are (W10)."""
    writer = AtomicWriter(str(tmp_path))
    writer.write({"mount.info": PayloadFile(b"1", 0o644), "aa": PayloadFile(b"1", 0o644)})
    before = inodes(tmp_path, "mount.info", "aa")
    writer.write({"mount.info": PayloadFile(b"2", 0o644), "aa": PayloadFile(b"1", 0o644)})
    assert inodes(tmp_path, "mount.info", "aa") == before
    assert (tmp_path / "mount.info").read_text() == "2"


def test_open_file_keeps_the_revision_it_was_opened_in(tmp_path: Path) -> None:
    """A reader that holds a file open reads the old bytes to their end, from an unlinked inode."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="old"))
    with (tmp_path / "a").open() as file:
        writer.write(files(a="new"))
        assert file.read() == "old"
        assert os.fstat(file.fileno()).st_nlink == 0


@pytest.mark.parametrize("damage", ["link", "nested link", "file", "revision", "data link"])
def test_damage_is_repaired_with_an_unchanged_payload(tmp_path: Path, damage: str) -> None:
    """Whatever of a volume was removed by hand is back after the next write."""
    payload = files(a="1", n__x="2")
    writer = AtomicWriter(str(tmp_path))
    writer.write(payload)
    revision = tmp_path / published(tmp_path)
    if damage == "revision":
        revision.rename(tmp_path / "elsewhere")
    else:
        paths = {
            "link": tmp_path / "a",
            "nested link": tmp_path / "n",
            "file": revision / "n" / "x",
            "data link": tmp_path / "..data",
        }
        paths[damage].unlink()
    republished = writer.write(payload)
    assert republished is (damage not in ("link", "nested link"))
    assert visible(tmp_path).items() >= {"a": b"1", "n/x": b"2"}.items()
    if damage != "revision":
        assert_tidy(tmp_path, payload)


def test_foreign_files_beside_the_projected_ones_stay(tmp_path: Path) -> None:
    """Files beside the projected ones are ignored (W13)."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1", b="1"))
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("mine")
    (tmp_path / "alias").symlink_to("..data/a")
    (tmp_path / "..notes").write_text("mine")
    writer.write(files(a="2"))
    names = names_in(tmp_path) - {published(tmp_path)}
    assert names == {"..data", "..notes", "a", "alias", "folder", "mine"}
    assert (tmp_path / "mine").read_text() == (tmp_path / "folder" / "x").read_text() == "mine"
    assert (tmp_path / "alias").read_text() == "2"


def test_foreign_file_in_the_place_of_a_link_stays(tmp_path: Path) -> None:
    """A user-visible name that exists already is not overwritten (W13)."""
    (tmp_path / "a").write_text("mine")
    writer = AtomicWriter(str(tmp_path))
    assert writer.write(files(a="1")) is True
    assert writer.write(files(a="1")) is False
    assert (tmp_path / "a").read_text() == "mine"
    assert (tmp_path / "..data" / "a").read_text() == "1"


@pytest.mark.parametrize("kind", ["file", "empty directory", "nothing"])
def test_foreign_file_with_a_dropped_name_is_removed(tmp_path: Path, kind: str) -> None:
    """When a data key is dropped, whatever has its name is removed with it (W13)."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1", b="1"))
    (tmp_path / "b").unlink()
    if kind == "file":
        (tmp_path / "b").write_text("mine")
    elif kind == "empty directory":
        (tmp_path / "b").mkdir()
    writer.write(files(a="1"))
    assert_tidy(tmp_path, files(a="1"))


def test_foreign_directory_with_a_dropped_name_is_reported_after_publication(
    tmp_path: Path,
) -> None:
    """A directory with files in it is never removed: the write says so, and is done otherwise."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1", b="1"))
    (tmp_path / "b").unlink()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        writer.write(files(a="2"))
    assert visible(tmp_path) == {"a": b"2", "b/x": b"mine"}
    revisions = [name for name in names_in(tmp_path) if name.startswith("..2")]
    assert revisions == [published(tmp_path)]
    assert writer.write(files(a="2")) is False


def test_foreign_file_inside_the_revision_makes_a_new_one(tmp_path: Path) -> None:
    """A file that was put into the published directory is a difference, and is gone after."""
    writer = AtomicWriter(str(tmp_path))
    writer.write(files(a="1"))
    (tmp_path / "..data" / "mine").write_text("mine")
    assert writer.write(files(a="1")) is True
    assert_tidy(tmp_path, files(a="1"))


@pytest.mark.parametrize("target", ["../outside", "{outside}", "..rev1", "nowhere", "."])
def test_foreign_data_link_is_replaced_and_its_target_kept(tmp_path: Path, target: str) -> None:
    """Only revision directories in the volume are compared or removed, wherever `..data` leads."""
    outside = tmp_path / "outside"
    mount = tmp_path / "mount"
    for folder in (outside, mount, mount / "..rev1"):
        folder.mkdir()
        (folder / "precious").write_text("mine")
    (mount / "..data").symlink_to(target.format(outside=outside))
    assert AtomicWriter(str(mount)).write(files(a="1")) is True
    assert (mount / "a").read_text() == "1"
    for folder in (outside, mount, mount / "..rev1"):
        assert (folder / "precious").read_text() == "mine"


PAYLOADS = st.dictionaries(
    st.sampled_from(["a", "b", "n/x", "n/y", "n/z/w", "m/x"]),
    st.builds(PayloadFile, st.sampled_from([b"", b"1", b"2"]), st.sampled_from([0o644, 0o400])),
)


@given(st.lists(PAYLOADS, max_size=6))
def test_directory_equals_the_last_payload(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[Payload]
) -> None:
    """After any sequence of writes the volume holds the last payload and nothing else."""
    mount = tmp_path_factory.mktemp("mount")
    writer = AtomicWriter(str(mount))
    shown: dict[str, bytes] | None = None
    for payload in payloads:
        wanted = {path: file.data for path, file in payload.items()}
        assert writer.write(payload) is (wanted != shown)
        assert_tidy(mount, payload)
        shown = wanted


def test_revision_that_is_a_link_is_not_published(tmp_path: Path) -> None:
    """The same bytes elsewhere are not ours: whoever may change them would change the volume."""
    mount, outside = tmp_path / "volume", tmp_path / "outside"
    mount.mkdir()
    outside.mkdir()
    (outside / "a").write_text("one")
    (mount / "..2026_11_21_00_07_04.1").symlink_to(outside)
    (mount / "..data").symlink_to("..2026_11_21_00_07_04.1")
    writer = AtomicWriter(str(mount))
    assert writer.write({"a": PayloadFile(b"one", 0o644)})
    assert (mount / "..data").resolve().parent == mount
    assert [each.name for each in outside.iterdir()] == ["a"]
    assert not writer.write({"a": PayloadFile(b"one", 0o644)})
