"""The agent's log without a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.agent.agents import TIMEOUT, Agent, Volume, eventually


def test_full_standard_error_delays_nothing(tmp_path: Path) -> None:
    """Changes are delivered and TERM is obeyed; lines are dropped, counted and reported."""
    volume, path = Volume(tmp_path / "volume", text="one"), tmp_path / "agent.sock"
    reader, writer = os.pipe()
    fill(writer)
    flags = ("--dir", volume, "--touch", tmp_path / "touched", "--settle", "5ms")
    command = (sys.executable, "-m", "hotmap", "agent", *flags, "--socket", path)
    words = [str(word) for word in (*command, "--listen", "none")]
    with subprocess.Popen(words, stderr=writer) as process:
        try:
            running = Agent(process, path, tmp_path / "no-log")
            deliver_without_reader(running, volume)
            drain(reader)
            volume.write(text="three")
            eventually(lambda: running.rule()["loads"] == 3)
            assert "lines were dropped: standard error was not read" in drain(reader)
            assert os.get_blocking(writer), "others have the same open file"
            fill(writer)
            process.terminate()
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
    os.close(reader)
    os.close(writer)


def deliver_without_reader(running: Agent, volume: Volume) -> None:
    """Expect content and a change to be loaded, and dropped lines to be counted."""
    eventually(lambda: running.status().get("state") == "told")
    dropped = running.status()["log_lines_dropped"]
    assert dropped > 0
    assert f"hotmap_agent_log_lines_dropped_total {dropped}" in running.get("/metrics")[1]
    volume.write(text="two")
    eventually(lambda: running.rule()["loads"] == 2)


def fill(writer: int) -> None:
    """Write into a pipe until it is full."""
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"x" * size)
        except BlockingIOError:
            continue
    os.set_blocking(writer, True)


def drain(reader: int) -> str:
    """Read what is in a pipe."""
    os.set_blocking(reader, False)
    data = b""
    try:
        while piece := os.read(reader, 65536):
            data += piece
    except BlockingIOError:
        return data.decode()
    return data.decode()
