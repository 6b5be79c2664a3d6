"""The lag of the event loop is measured often while there is work, and seldom in between."""

from __future__ import annotations

import asyncio
import time

from hotmap.controller.report.loop_lag import measure_loop_lag


async def measured(*, share: float, seconds: float) -> list[float]:
    """Measure for some seconds in a process that uses a share of a core."""
    lags: list[float] = []
    began = asyncio.get_running_loop().time()

    def processor_time() -> float:
        return (asyncio.get_running_loop().time() - began) * share

    task = asyncio.create_task(measure_loop_lag(lags.append, processor_time=processor_time))
    await asyncio.sleep(seconds)
    task.cancel()
    return lags


async def test_busy_process_is_measured_four_times_a_second() -> None:
    """Most steps that block others are shorter than a second."""
    assert len(await measured(share=0.05, seconds=10.1)) == 40


async def test_idle_process_is_measured_once_a_second() -> None:
    """Each measurement wakes it up."""
    assert len(await measured(share=0.001, seconds=10.1)) == 11


async def test_lag_is_how_late_a_timer_was() -> None:
    """What blocks the loop makes its timers late."""
    lags: list[float] = []
    task = asyncio.create_task(measure_loop_lag(lags.append))
    await asyncio.sleep(0.24)
    time.sleep(0.2)  # noqa: ASYNC251 - that is what is measured
    await asyncio.sleep(0.02)
    task.cancel()
    assert max(lags) >= 0.15
