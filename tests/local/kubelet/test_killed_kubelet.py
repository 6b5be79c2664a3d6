"""A kubelet that is killed takes everything with it: processes, mounts; directories at the next
start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.local.kubelet.conftest import eventually
from tests.support.requires import requires

from hotmap.local.kubelet.kubelet import clean_up

ROOT = Path(__file__).parents[3]


def processes_with(marker: str) -> list[int]:
    """The processes of this machine whose arguments hold a word, but for the one that asks."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in arguments:
                found.append(int(entry.name))
    return found


def start_node(directory: Path, marker: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.local.kubelet.leaving_node", str(directory), marker],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_killed_kubelet_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Neither processes that ignore signals, in sessions of their own, nor a single mount."""
    marker, directory = f"hotmap-{uuid.uuid4().hex}", tmp_path / "node"
    process = start_node(directory, marker)
    with process:
        assert process.stdout is not None
        started = process.stdout.readline() == b"running\n"
        requires("namespaces", available=started, reason="no pod could be started here")
        # The parent, the zygote and its outer half, the container's two shells.
        try:
            # A process shows its arguments a moment after it was started.
            await eventually(lambda: len(processes_with(marker)) >= 3)
            process.send_signal(number)
            process.wait()
            await eventually(lambda: processes_with(marker) == [])
            await eventually(lambda: processes_with(str(directory)) == [])
        finally:
            process.kill()
    assert str(directory) not in Path("/proc/self/mounts").read_text()
    clean_up(directory)
    assert [path.name for path in directory.iterdir()] == ["logs"]


def test_zygote_of_a_killed_kubelet_ends_in_silence(tmp_path: Path) -> None:
    """The kubelet may be killed while its first process starts, whose errors users would see."""
    ours, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with control:
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "hotmap.local.kubelet.zygote",
                str(control.fileno()),
                str(tmp_path),
            ],
            pass_fds=[control.fileno()],
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.stderr == b""
