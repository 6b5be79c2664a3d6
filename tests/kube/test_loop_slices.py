"""Loops over objects leave the event loop to others."""

from __future__ import annotations

import asyncio
import time

import pytest

from hotmap.kube.loop_slices import SHORT_SLICE, SLICE, share_loop

pytestmark = pytest.mark.real_time


async def busy(steps: int, seconds: float, done: list[int]) -> None:
    """Do work that waits for nothing."""
    for _ in range(steps):
        await share_loop()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        done.append(1)


async def test_many_workers_share_one_slice_of_each_turn() -> None:
    """Twenty loops of 5 ms steps: in each turn no more than fits, and everybody gets on."""
    done: list[int] = []
    turns: list[int] = []
    workers = [asyncio.ensure_future(busy(5, SLICE / 2, done)) for _ in range(20)]
    while not all(worker.done() for worker in workers):
        before = len(done)
        await asyncio.sleep(0)
        turns.append(len(done) - before)
    assert len(done) == 100
    assert max(turns) <= 5


async def test_short_work_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few quick steps fit into one turn."""
    now = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: now)  # so that none is slow by chance
    done: list[int] = []
    worker = asyncio.ensure_future(busy(20, 0.0, done))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(done) == 20
    await worker


async def test_work_beside_requests_takes_shorter_slices() -> None:
    """A request that takes several turns is not late by as many whole slices."""
    turns: list[float] = []

    async def work() -> None:
        for _ in range(200):
            await share_loop(SHORT_SLICE)
            until = time.perf_counter() + SHORT_SLICE / 4
            while time.perf_counter() < until:
                pass

    worker = asyncio.ensure_future(work())
    while not worker.done():
        await asyncio.sleep(0)
        turns.append(1)
    # Four steps fill a slice; with the longer one it would be twenty.
    assert len(turns) >= 25
