"""The clock of the running event loop and its timers.

Durations are measured on it and not on `time.monotonic`, which a loop need not follow: tests run
on loops with virtual time.
"""

from __future__ import annotations

import asyncio

__all__ = ["loop_time"]


def loop_time() -> float:
    """Return monotonic seconds; only differences are meaningful.

    Raises:
        RuntimeError: no event loop is running in this thread.
    """
    return asyncio.get_running_loop().time()
