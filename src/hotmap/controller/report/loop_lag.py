"""Measures the lag of the event loop, which shows how long it was blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from hotmap.kube.loop_clock import loop_time

__all__ = ["measure_loop_lag"]

#: Seconds between two measurements.
_EVERY = 0.25


async def measure_loop_lag(observe: Callable[[float], None]) -> NoReturn:
    """Report to `observe` by how many seconds each timer was late, until cancelled."""
    while True:
        due = loop_time() + _EVERY
        await asyncio.sleep(_EVERY)
        observe(max(0.0, loop_time() - due))
