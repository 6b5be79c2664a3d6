"""The agent reads Secrets: no core file has its memory, and its application keeps its own dumps."""

from __future__ import annotations

import subprocess
import sys

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
