"""Ends a process of pytest whose test outlasts its time-out, and shows what its threads did.

pytest-timeout raises an exception where the test is. A task of asyncio may take that for its own
and end, and whatever waits for the task waits on; or the test ends, and its clean-up hangs.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ended_if_stuck"]


@contextmanager
def ended_if_stuck(test: str, seconds: float) -> Iterator[None]:
    """End this process if the block takes longer; pytest-xdist then reports that test as failed."""
    timer = threading.Timer(seconds, _end, [test, seconds])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(test: str, seconds: float) -> None:
    # What is written to sys.stderr is captured, and would be lost.
    stderr = sys.__stderr__
    assert stderr is not None
    stderr.write(f"\n{test} did not end in {seconds:g} s; the threads of its process:\n")
    stderr.flush()
    faulthandler.dump_traceback(stderr, all_threads=True)
    os._exit(1)
