"""The volume package stays small enough to run beside an application."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hotmap

#: What each of them would cost the agent is in docs and module comments; most is memory.
TOO_LARGE = {
    "asyncio", "contextlib", "dataclasses", "hashlib", "inspect", "logging", "pathlib", "random",
    "re", "shutil", "subprocess", "tempfile", "threading", "typing",
}  # fmt: skip

USE_IT = """
import sys
sys.path.insert(0, sys.argv[1])
from hotmap.core.payload import configmap_payload
from hotmap.volume.atomic_writer import AtomicWriter
from hotmap.volume.watcher import VolumeWatcher, read_revision
with VolumeWatcher([sys.argv[2]]) as watcher:
    AtomicWriter(sys.argv[2]).write(configmap_payload("app", {"a": "1"}, {}))
    assert watcher.wait(20) == [sys.argv[2]]
    assert read_revision(sys.argv[2]).files == {"a": b"1"}
    assert watcher.statistics().mode == "inotify"
print(*sys.modules)
"""


def test_whole_room_in_use_loads_no_large_module(tmp_path: Path) -> None:
    """Writing, watching and reading a volume load only small parts of the standard library."""
    source = Path(hotmap.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", USE_IT, str(source), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "hotmap.volume.watcher" in loaded
    assert loaded & TOO_LARGE == set()
