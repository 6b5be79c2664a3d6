"""Slots are shared between groups: who waits longest is not who has asked most."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from hotmap.kube.fair_slots import FairSlots, most_of_one_group


@pytest.mark.parametrize(("total", "most"), [(1, 1), (2, 1), (8, 7), (16, 14), (32, 28), (64, 56)])
def test_one_group_leaves_an_eighth_to_the_others(total: int, most: int) -> None:
    assert most_of_one_group(total) == most


async def test_thousands_of_one_group_delay_no_other() -> None:
    """A slot is free for another group, and its next ones get every second that is released."""
    slots, order = FairSlots(4), []
    release = asyncio.Event()

    async def use(group: str) -> None:
        async with slots.use(group):
            order.append(group)
            await release.wait()

    many = [asyncio.create_task(use("many")) for _ in range(1000)]
    await asyncio.sleep(0)
    few = [asyncio.create_task(use("few")) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["many"] * 3 + ["few"]
    release.set()
    await asyncio.gather(*many, *few)
    assert [place for place, group in enumerate(order) if group == "few"][-1] < 10
    assert Counter(order) == {"many": 1000, "few": 3}


async def test_tasks_of_several_groups_that_never_end_delay_no_other() -> None:
    """As where an admission webhook of some namespaces does not answer."""
    slots = FairSlots(32)
    stuck = asyncio.Event()

    async def hang(group: int) -> None:
        async with slots.use(group):
            await stuck.wait()

    hanging = [asyncio.create_task(hang(number % 4)) for number in range(160)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5), slots.use("quiet"):
        pass
    stuck.set()
    await asyncio.gather(*hanging)


@pytest.mark.parametrize("group", ["a", "", None])
async def test_tasks_of_one_group_run_in_their_order(group: str | None) -> None:
    slots, order = FairSlots(1), []

    async def use(number: int) -> None:
        async with slots.use(group):
            order.append(number)
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await asyncio.gather(*(use(number) for number in range(20)))
    assert order == list(range(20))


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_is_lost_when_tasks_are_cancelled(seed: int) -> None:
    """Never more than allowed at once, and all slots are free at the end."""
    random, slots = Random(seed), FairSlots(3)
    running: Counter[str] = Counter()
    most = 0

    async def use(group: str) -> None:
        nonlocal most
        async with slots.use(group):
            running[group] += 1
            most = max(most, running.total())
            assert running[group] <= 2
            try:
                for _ in range(random.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                running[group] -= 1

    tasks = [asyncio.create_task(use(random.choice("abc"))) for _ in range(60)]
    for _ in range(80):
        await asyncio.sleep(0)
        random.choice(tasks).cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert most == 3
    async with asyncio.timeout(5), slots.use("a"), slots.use("a"), slots.use("b"):
        await asyncio.sleep(0)
