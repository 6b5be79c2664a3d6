"""A process that talks to an API server leaves no copy of its memory behind."""

from __future__ import annotations

import subprocess
import sys

_SHOW = """
import ctypes, resource
from hotmap.kube.process import disable_core_dumps
disable_core_dumps()
print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


def test_core_dumps_are_disabled() -> None:
    """By limit, and for handlers that do not obey it (PR_GET_DUMPABLE is 3)."""
    shown = subprocess.run(
        [sys.executable, "-c", _SHOW], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.split("\n")[0] == "(0, 0) 0"
