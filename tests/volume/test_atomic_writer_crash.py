"""A writer that dies between any two steps leaves old or new content, and the next write repairs.

The writer runs in a real child process that kills itself with SIGKILL before its n-th line of
code, for n = 1, 1 + step, ... until it gets through. The slow tests take each line, so that it dies
between every two operations there are; the quick ones take each eleventh.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.volumes import assert_tidy, files, names_in, visible

from hotmap.core.errors import NotProjected
from hotmap.core.payload import Payload
from hotmap.volume import atomic_writer
from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.watcher import read_revision

OLD = files(a="old", b="old", n__x="old", n__y="old")
NEW = files(a="new", c="new", n__x="new", m__deep__z="new")

lines_apart = pytest.mark.parametrize(
    "step",
    [
        pytest.param(11, id="each eleventh line"),
        pytest.param(1, id="each line", marks=pytest.mark.slow),
    ],
)


def write_and_die(mount: Path, payload: Payload, *, line: int) -> bool:
    """Write in a child that is killed before its n-th line; tell whether it got through."""
    child = os.fork()
    if child == 0:
        _die_before(line)
        AtomicWriter(str(mount)).write(payload)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.waitstatus_to_exitcode(status) == 0
    return True


def _die_before(line: int) -> None:
    lines_left = line

    def trace(frame: FrameType, kind: str, argument: Any) -> Any:
        nonlocal lines_left
        if frame.f_code.co_filename != atomic_writer.__file__:
            return None
        if kind == "line":
            lines_left -= 1
            if lines_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def data(payload: Payload) -> dict[str, bytes]:
    return {path: file.data for path, file in payload.items()}


def shown(mount: Path) -> dict[str, bytes] | None:
    """Read what is published; None before the first publication."""
    try:
        return read_revision(str(mount)).files
    except NotProjected:
        return None


@lines_apart
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, NEW, id="first write"),
        pytest.param(OLD, NEW, id="update"),
        pytest.param(OLD, {}, id="emptied"),
        pytest.param({}, NEW, id="filled"),
        pytest.param(OLD, OLD, id="unchanged"),
    ],
)
def test_crash_leaves_old_or_new_content_and_the_next_write_repairs(
    tmp_path: Path, before: Payload | None, after: Payload, step: int
) -> None:
    """At each line: what is published is complete, and any next write leaves a tidy volume."""
    allowed = [None if before is None else data(before), data(after)]
    next_writes = [after, before or {}, files(a="next", d="next")]
    seen = []
    line, finished = 1 - step, False
    while not finished:
        line += step
        mount = tmp_path / str(line)
        mount.mkdir()
        if before is not None:
            AtomicWriter(str(mount)).write(before)
        finished = write_and_die(mount, after, line=line)
        content = shown(mount)
        assert content in allowed
        seen.append(content)
        for path, found in visible(mount).items():
            assert found in [(each or {}).get(path) for each in allowed]
        for number, payload in enumerate(next_writes):
            copy = tmp_path / f"{line} repaired {number}"
            shutil.copytree(mount, copy, symlinks=True)
            AtomicWriter(str(copy)).write(payload)
            assert_tidy(copy, payload)
    assert seen[0] == allowed[0]
    assert seen[-1] == allowed[1]
    assert seen == sorted(seen, key=allowed.index), "published at one moment, and stays so"


@lines_apart
def test_two_crashes_in_a_row_are_repaired_too(tmp_path: Path, step: int) -> None:
    """The repair itself may die at any line; the write after it still leaves a tidy volume."""
    line, finished = 1 - step, False
    while not finished:
        line += step
        mount = tmp_path / str(line)
        mount.mkdir()
        AtomicWriter(str(mount)).write(OLD)
        leave_remains(mount)
        finished = write_and_die(mount, NEW, line=line)
        assert shown(mount) in (data(OLD), data(NEW))
        AtomicWriter(str(mount)).write(NEW)
        assert_tidy(mount, NEW)


def leave_remains(mount: Path) -> None:
    """Put there what crashes at several moments leave."""
    unpublished = mount / "..2026_11_21_00_07_04.1406795286"
    (unpublished / "n").mkdir(parents=True)
    (unpublished / "n" / "x").write_text("never published")
    (mount / "..data_tmp").symlink_to(unpublished.name)
    (mount / "gone").symlink_to("..data/gone")


def test_remains_go_even_when_nothing_changed(tmp_path: Path) -> None:
    """A write of equal content also removes what an earlier crash left, without a new revision."""
    AtomicWriter(str(tmp_path)).write(OLD)
    leave_remains(tmp_path)
    assert AtomicWriter(str(tmp_path)).write(OLD) is False
    assert_tidy(tmp_path, OLD)


def test_left_over_next_link_does_not_block_the_volume(tmp_path: Path) -> None:
    """A `..data_tmp` of a crashed writer is replaced, where upstream fails with EEXIST forever."""
    AtomicWriter(str(tmp_path)).write(OLD)
    (tmp_path / "..data_tmp").symlink_to("..2026_11_21_00_07_04.1406795286")
    assert AtomicWriter(str(tmp_path)).write(NEW) is True
    assert_tidy(tmp_path, NEW)


def test_remains_of_others_are_not_ours_to_remove(tmp_path: Path) -> None:
    """Only names that the writer itself makes count as remains."""
    AtomicWriter(str(tmp_path)).write(OLD)
    foreign = {
        "..backup", "..2026", "..2026_11_21", "..2026_11_21_00_07_04.x", "2026_11_21_00_07_04.1",
        "..2026_11_21_00_07_0४.1", "..aaaa_aa_aa_aa_aa_aa.1",
    }  # fmt: skip
    for name in foreign:
        (tmp_path / name).mkdir()
    AtomicWriter(str(tmp_path)).write(NEW)
    assert names_in(tmp_path) >= foreign
