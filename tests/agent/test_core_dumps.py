"""The agent reads Secrets: no core file has its memory, and its application keeps its own dumps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hotmap.agent.drop_in.run import run
from hotmap.agent.main import main as agent_main

_SHOW = """
import ctypes, os, subprocess, sys
from hotmap.agent.process.spawn import disable_core_dumps
DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
disable_core_dumps()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
subprocess.run([sys.executable, "-c", DUMPABLE], check=True)
"""


def test_agent_disables_its_own_core_dumps() -> None:
    """PR_GET_DUMPABLE is 3: 0 for the agent, 1 for a program that it starts."""
    shown = subprocess.run(
        [sys.executable, "-c", _SHOW], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.split() == ["0", "1"]


class _CoreDumpsOff(Exception):
    pass


@pytest.mark.parametrize(
    ("main", "words"),
    [
        pytest.param(agent_main, ["--dir", "{}", "--url", "http://127.0.0.1:1"], id="agent"),
        pytest.param(
            lambda words: run("configmap-reload", words),
            ["--volume-dir={}", "--webhook-url=http://127.0.0.1:1/"],
            id="a drop-in",
        ),
    ],
)
def test_agent_programs_disable_core_dumps_before_they_read_anything(
    main: Callable[[list[str]], int],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the name is that the agent runs under."""

    def refuse() -> None:
        raise _CoreDumpsOff

    monkeypatch.setattr("hotmap.agent.process.spawn.disable_core_dumps", refuse)
    monkeypatch.setattr("hotmap.agent.process.spawn.open_standard_streams", lambda: None)
    monkeypatch.setattr("hotmap.agent.agent.Agent.run", lambda agent: 0)
    with pytest.raises(_CoreDumpsOff):
        main([word.format(tmp_path) for word in words])
