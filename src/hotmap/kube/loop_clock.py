"""The running event loop's clock, by which its timers go off as well.

Durations are measured on it and not on `time.monotonic`, which a loop need not follow: tests run
on loops whose time jumps over pauses.
"""

from __future__ import annotations

import asyncio

__all__ = ["loop_time"]


def loop_time() -> float:
    """Return seconds that never run backwards; only their differences mean anything.

    Raises:
        RuntimeError: no event loop is running in this thread.
    """
    return asyncio.get_running_loop().time()
