"""An overloaded machine: many updates, and what the application loaded of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, webhook

#: Bytes of a file: many pages and many writes, so that half of it would be noticed.
SIZE = 64 << 10

BURN = "while True: pass"

WRITE = """
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
"""


@contextmanager
def load(folder: Path) -> Iterator[None]:
    """Keep all cores and a disk busy."""
    count = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-S", "-c", BURN]) for _ in range(count)]
    busy.append(subprocess.Popen([sys.executable, "-S", "-c", WRITE, str(folder / "noise")]))
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def revision(number: int) -> dict[str, bytes]:
    """Make two files that belong together, each full of its number."""
    text = f"{number:08d}".encode() * (SIZE // 8)
    return {"a": text, "b": text}


def seen(mount: Path) -> int:
    """Read a revision as a careful application does; fails when it is torn."""
    while True:
        try:
            place = (mount / "..data").resolve(strict=True)
            a, b = (place / "a").read_bytes(), (place / "b").read_bytes()
        except FileNotFoundError:
            continue  # the next swap came while the path was walked
        assert a == b, "two revisions were mixed"
        assert len(a) == SIZE
        assert a == a[:8] * (SIZE // 8), "a file is torn"
        return int(a[:8])


@pytest.mark.parametrize("swaps", [150, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("staged", [False, True], ids=["mounted", "staged"])
def test_updates_under_load_are_delivered(
    tmp_path: Path, record_property: Callable[[str, object], None], staged: bool, swaps: int
) -> None:
    """As many loads or fewer, in order, the last one last; none lost, none torn, none twice."""
    volume = Volume(tmp_path / "volume")
    volume.publish(revision(0))
    stage = tmp_path / "stage"
    flags = ["--dir", str(volume), "--settle", "0", *(["--stage", str(stage)] if staged else [])]
    loaded: list[int] = []
    torn: list[str] = []
    one_at_a_time = threading.Lock()

    def load_it() -> None:
        with one_at_a_time:  # a call that was given up may still be served beside the next one
            try:
                loaded.append(seen(stage if staged else volume.path))
            except AssertionError as error:
                torn.append(str(error))

    with (
        webhook(called=load_it) as endpoint,
        load(tmp_path),
        agent(tmp_path, *flags, "--url", endpoint.url) as running,
    ):
        running.reaches("loaded")
        for number in range(1, swaps + 1):
            volume.publish(revision(number))
        eventually(lambda: loaded[-1] == swaps, "the last load")
        running.reaches("loaded")
        rule = running.rule()
        updates = running.status()["detector"]["updates"]
    assert torn == []
    assert loaded == sorted(loaded)
    # A call that was given up for newer content may have been made, and is not a load.
    assert rule["loads"] <= len(loaded) <= rule["loads"] + rule["superseded"]
    assert len(loaded) <= swaps + 1
    assert rule["failures"] == 0
    record_property("loads", f"{rule['loads']} for {swaps} swaps, of which {updates} were seen")
