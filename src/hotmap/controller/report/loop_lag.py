"""Measures the lag of the event loop, which shows how long it was blocked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn

from hotmap.kube.loop_clock import loop_time

__all__ = ["measure_loop_lag"]

#: Seconds between two measurements, and at most while the process has nothing to do: four a second
#: were most of what an idle controller did.
_EVERY, _QUIET_EVERY = 0.25, 1.0

#: The share of a core of a process that has nothing to do but to measure and to renew its Lease.
_QUIET = 0.01


async def measure_loop_lag(
    observe: Callable[[float], None], *, processor_time: Callable[[], float] = time.process_time
) -> NoReturn:
    """Report to `observe` by how many seconds each timer was late, until cancelled.

    `processor_time` returns the seconds that this process has used.
    """
    pause, before = _EVERY, processor_time()
    while True:
        due = loop_time() + pause
        await asyncio.sleep(pause)
        observe(max(0.0, loop_time() - due))
        used = processor_time()
        pause = min(pause * 2, _QUIET_EVERY) if used - before < _QUIET * pause else _EVERY
        before = used
