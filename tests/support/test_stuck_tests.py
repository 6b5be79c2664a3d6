"""A test that no time-out ends is ended with its process, which says where it was."""

from __future__ import annotations

import subprocess
import sys

STUCK = """
import threading
from tests.support.stuck_tests import ended_if_stuck

def wait():
    threading.Event().wait()

with ended_if_stuck("test_a", 0.5):
    wait()
"""


def test_stuck_process_ends_and_says_where_it_was() -> None:
    ended = subprocess.run(
        (sys.executable, "-c", STUCK), capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "test_a did not end in 0.5 s" in ended.stderr
    assert "in wait" in ended.stderr


def test_process_goes_on_after_what_ends() -> None:
    code = "\n".join((
        "import time",
        "from tests.support.stuck_tests import ended_if_stuck",
        "with ended_if_stuck('test_a', 0.1): pass",
        "time.sleep(0.3)",
    ))  # fmt: skip
    subprocess.run((sys.executable, "-c", code), check=True, timeout=60)
