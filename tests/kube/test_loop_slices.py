"""Loops over objects leave the event loop to others."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from random import Random

import pytest

from hotmap.kube.loop_slices import SHORT_SLICE, SLICE, LoopSlices, share_loop

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


async def test_others_have_the_turns_between_slices() -> None:
    """A slice for several turns: what else the loop does gets on in between."""
    slices, order = LoopSlices(0.0), []

    async def decide() -> None:
        for _ in range(3):
            await slices.share(turns=4)
            order.append("decision")

    async def others() -> None:
        for _ in range(16):
            order.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(decide(), others())
    decisions = [place for place, what in enumerate(order) if what == "decision"]
    assert all(later - earlier >= 4 for earlier, later in pairwise(decisions))


async def test_waiting_costs_no_turns_of_their_own() -> None:
    """Of a hundred that wait, a few are woken in each turn, and the first come first."""
    slices, entered, turns = LoopSlices(0.0), [], 0

    async def work(number: int) -> None:
        await slices.share()
        entered.append(number)

    workers = [asyncio.ensure_future(work(number)) for number in range(100)]
    while not all(worker.done() for worker in workers):
        await asyncio.sleep(0)
        turns += 1
    assert sorted(entered) == list(range(100))
    assert all(abs(number - place) <= 2 for place, number in enumerate(entered))
    assert turns <= 400


async def test_cancelled_work_does_not_stop_others() -> None:
    """Neither while it waits, nor once it was woken."""
    slices, entered = LoopSlices(0.0), []

    async def work(number: int) -> None:
        await slices.share()
        entered.append(number)

    workers = [asyncio.ensure_future(work(number)) for number in range(60)]
    random = Random(7)
    for _ in range(40):
        await asyncio.sleep(0)
        workers[random.randrange(60)].cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*workers, return_exceptions=True)
    assert len(entered) == sum(not worker.cancelled() for worker in workers)
    async with asyncio.timeout(5):
        await slices.share()
