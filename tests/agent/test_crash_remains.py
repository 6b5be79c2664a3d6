"""What an agent leaves that is killed at any moment is removed at its next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually
from tests.support.requires import requires

ROOT = os.geteuid() == 0

#: Closes the copy to everybody, as checkers that extract archives do, and waits.
CLOSING = """
mkdir -p "$1/below/deep"; echo secret > "$1/below/deep/file"
chmod 000 "$1/below/deep"; chmod 500 "$1/below"; chmod 000 "$1"
touch "$2/closed"
while [ -e "$2/hold" ]; do sleep 0.02; done
"""


def as_nobody(folder: Path) -> tuple[str, ...]:
    """Run as a user without capabilities, who owns `folder`."""
    requires("root", available=ROOT, reason="root may read everything, so another user is needed")
    subprocess.run(["chown", "-R", "65534:65534", folder], check=True)
    for parent in folder.parents:
        if parent.stat().st_uid == 0 and parent.is_relative_to("/tmp/pytest-of-root"):
            parent.chmod(0o755)
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.mark.parametrize("ending", ["crash", "end", "next check"])
def test_unwritable_copy_is_removed(tmp_path: Path, ending: str) -> None:
    """A checker that takes away permissions does not prevent the removal of copies of Secrets."""
    volume, script = Volume(tmp_path / "volume", text="one"), tmp_path / "script"
    work, place = tmp_path / "work", tmp_path / "agent"
    script.write_text(CLOSING)
    for folder in (work, place):
        folder.mkdir()
    hold = place / "hold"
    hold.touch()
    flags = ("--dir", volume, "--check", f"sh {script} {{dir}} {place}", "--work-dir", work)
    before = as_nobody(tmp_path)
    with agent(place, *flags, before=before) as running:
        eventually((place / "closed").exists)
        assert len(list(work.iterdir())) == 1
        if ending == "crash":
            running.process.send_signal(signal.SIGKILL)
            running.process.wait()
            assert len(list(work.iterdir())) == 1
        else:
            hold.unlink()
            running.reaches("told")
            if ending == "next check":
                volume.write(text="two")
                eventually(lambda: running.status()["check"]["counts"]["passed"] == 2)
                running.reaches("told")
    if ending == "crash":
        left = {each.name for each in work.iterdir()}
        with agent(place, *flags, before=before):
            eventually(lambda: not left & {each.name for each in work.iterdir()})
            hold.unlink()
    eventually(lambda: list(work.iterdir()) == [])


def test_copies_of_running_agents_are_kept(tmp_path: Path) -> None:
    """Two agents share a work directory; neither removes what the other works on."""
    volume, work = Volume(tmp_path / "volume", text="one"), tmp_path / "work"
    work.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    (work / "hotmap-agent-link").symlink_to(target)
    (work / "hotmap-agent-file").touch()
    hold = tmp_path / "hold"
    hold.touch()
    check = f"sh -c 'while [ -e {hold} ]; do sleep 0.02; done; grep -q one {{dir}}/text'"
    flags = ("--dir", volume, "--check", check, "--work-dir", work)
    with agent(tmp_path / "first", *flags) as first:
        eventually(lambda: len(list(work.iterdir())) == 3)
        with agent(tmp_path / "second", *flags) as second:
            eventually(lambda: len(list(work.iterdir())) == 4)
            hold.unlink()
            first.reaches("told")
            second.reaches("told")
    assert sorted(each.name for each in work.iterdir()) == [
        "hotmap-agent-file",
        "hotmap-agent-link",
    ]
    assert (target / "kept").exists()


def test_link_in_the_stage_is_not_followed(tmp_path: Path) -> None:
    """Whatever the application puts there, nothing elsewhere is emptied or written."""
    first, second = Volume(tmp_path / "a", text="one"), Volume(tmp_path / "b", text="one")
    stage, target = tmp_path / "stage", tmp_path / "target"
    for folder in (stage, stage / "a", target, target / "below"):
        folder.mkdir()
    (target / "text").write_text("precious")
    (target / "below" / "deep").write_text("precious")
    (stage / "a" / "..2026_01_01_00_00_00.1").symlink_to(target)
    (stage / "a" / "..data").symlink_to("..2026_01_01_00_00_00.1")
    (stage / "b").symlink_to(target)
    flags = ("--dir", first, "--dir", second, "--stage", stage)
    with agent(tmp_path / "agent", *flags) as running:
        running.reaches("told")
        assert (stage / "a" / "text").read_text() == "one"
        assert (stage / "b" / "text").read_text() == "one"
        # The application replaces files of the published revision by links.
        published = (stage / "a" / "..data").resolve()
        (published / "text").unlink()
        (published / "text").symlink_to(target / "text")
        first.write(text="precious")
        eventually(lambda: (stage / "a" / "..data").resolve() != published)
        assert not (stage / "a" / "..data" / "text").is_symlink()
    assert sorted(str(each.relative_to(target)) for each in target.rglob("*")) == [
        "below",
        "below/deep",
        "text",
    ]
    assert (target / "text").read_text() == "precious"


def test_unpublished_revision_is_removed_at_the_start(tmp_path: Path) -> None:
    """An agent that was killed while it wrote leaves a half-written copy of a Secret."""
    volume, stage = Volume(tmp_path / "volume", text="good"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", "grep -q good {dir}/text")
    with agent(tmp_path / "agent", *flags) as running:
        running.reaches("told")
    left = stage / "..2026_01_01_00_00_00.1"
    left.mkdir()
    (left / "text").write_text("half")
    volume.write(text="evil")
    with agent(tmp_path / "agent", *flags) as running:
        running.reaches("refused")
        assert not left.exists()
        assert (stage / "text").read_text() == "good"


def test_removal_follows_no_link_that_appears_meanwhile(tmp_path: Path) -> None:
    """Directories are held while they are emptied."""
    code = """
import os, sys
from hotmap.volume import atomic_writer
root, target = sys.argv[1:]
def fwalk(top, **options):
    for each in os.fwalk.original(top, **options):
        if each[0].endswith("below"):
            os.rename(each[0], root + "/moved"); os.symlink(target, each[0])
        yield each
fwalk.original, os.fwalk = os.fwalk, fwalk
os.fwalk.original = fwalk.original
try: atomic_writer.remove_contents(root)
except OSError: pass
"""
    root, target = tmp_path / "root", tmp_path / "target"
    for folder in (root, root / "below", target):
        folder.mkdir()
    (root / "below" / "file").touch()
    (target / "file").touch()
    subprocess.run([sys.executable, "-c", code, root, target], check=True)
    assert (target / "file").exists()
    assert not list(root.glob("*/file"))
