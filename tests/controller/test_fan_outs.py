"""Changes of sources with many followers leave time for those of other namespaces."""

from __future__ import annotations

import asyncio

import pytest

from hotmap.controller.watch.fan_outs import MANY, FanOuts
from hotmap.core.model.objects import ObjectKey

APP, OTHER = (ObjectKey("ConfigMap", "evil", name) for name in ("app", "other"))
SHOP = ObjectKey("ConfigMap", "shop", "app")


class Bench:
    """Sources of namespace evil have many followers; each takes a millisecond."""

    def __init__(self, followers: int = MANY) -> None:
        self.followers = followers
        self.fails_for: ObjectKey | None = None
        self._now = 0.0
        self.enqueued: list[tuple[ObjectKey, bool]] = []
        self.fan_outs = FanOuts(self._enqueue, clock=lambda: self._now)

    def _enqueue(self, source: ObjectKey, offered: bool) -> int:
        followers = self.followers if source.namespace == "evil" else 1
        self._now += 0.001 * followers
        if source == self.fails_for:
            raise ZeroDivisionError
        self.enqueued.append((source, offered))
        return followers


async def test_changes_after_one_with_many_followers_wait_and_become_one() -> None:
    """So that the namespace takes a fifth of the time; the last change is not lost."""
    bench = Bench()
    for offered in (False, True, False):
        bench.fan_outs.add(APP, offered=offered)
    bench.fan_outs.add(OTHER, offered=False)
    assert bench.enqueued == [(APP, False)]
    assert list(bench.fan_outs.waiting_namespaces) == ["evil"]
    await asyncio.sleep(0.39)
    assert len(bench.enqueued) == 1
    await asyncio.sleep(0.02)
    assert bench.enqueued == [(APP, False), (APP, True)]
    assert list(bench.fan_outs.waiting_namespaces) == ["evil"]
    await asyncio.sleep(0.4)
    assert bench.enqueued[2:] == [(OTHER, False)]
    assert not bench.fan_outs.waiting_namespaces


async def test_sources_that_wait_take_turns_of_the_event_loop() -> None:
    """All of a namespace at once would take seconds of it, and the Lease might be lost."""
    bench = Bench()
    waiting = [ObjectKey("Secret", "evil", str(number)) for number in range(5)]
    for source in (APP, *waiting):
        bench.fan_outs.add(source, offered=False)
    for count in range(1, 7):
        assert len(bench.enqueued) == count
        await asyncio.sleep(0.401)
    assert [source for source, _ in bench.enqueued] == [APP, *waiting]
    assert not bench.fan_outs.waiting_namespaces


async def test_sources_with_few_followers_wait_together() -> None:
    bench = Bench()
    bench.fan_outs.add(APP, offered=False)
    bench.followers = 30
    for number in range(5):
        bench.fan_outs.add(ObjectKey("Secret", "evil", str(number)), offered=False)
    await asyncio.sleep(0.41)
    assert len(bench.enqueued) == 5
    await asyncio.sleep(0.5)
    assert len(bench.enqueued) == 6


@pytest.mark.internal_errors
async def test_internal_error_concerns_one_source(caplog: pytest.LogCaptureFixture) -> None:
    """The others that wait in its namespace are enqueued, and no status waits forever."""
    bench = Bench()
    for source in (APP, OTHER, APP):
        bench.fan_outs.add(source, offered=False)
    bench.fails_for = OTHER
    await asyncio.sleep(0.9)
    assert bench.enqueued == [(APP, False), (APP, False)]
    assert not bench.fan_outs.waiting_namespaces
    assert "internal error" in caplog.text


async def test_change_after_the_pause_does_not_wait() -> None:
    bench = Bench()
    bench.fan_outs.add(APP, offered=False)
    await asyncio.sleep(0.41)
    bench.fan_outs.add(APP, offered=False)
    assert len(bench.enqueued) == 2


async def test_pause_is_bounded() -> None:
    """Where the whole machine stops for a minute, the next change is not 4 minutes late."""
    bench = Bench(60_000)
    bench.fan_outs.add(APP, offered=False)
    bench.fan_outs.add(APP, offered=False)
    await asyncio.sleep(5.01)
    assert len(bench.enqueued) == 2


async def test_other_namespaces_do_not_wait() -> None:
    bench = Bench()
    for source in (APP, APP, SHOP, SHOP):
        bench.fan_outs.add(source, offered=True)
    assert bench.enqueued == [(APP, True), (SHOP, True), (SHOP, True)]


async def test_changes_with_few_followers_do_not_wait() -> None:
    bench = Bench(MANY - 1)
    for _ in range(10):
        bench.fan_outs.add(APP, offered=True)
    assert len(bench.enqueued) == 10


async def test_what_waits_at_the_end_of_a_term_is_forgotten() -> None:
    """The next term begins with all consumers, and their sources as they are then."""
    bench = Bench()
    bench.fan_outs.add(APP, offered=True)
    bench.fan_outs.add(APP, offered=True)
    bench.fan_outs.clear()
    assert not bench.fan_outs.waiting_namespaces
    await asyncio.sleep(1)
    assert len(bench.enqueued) == 1
    bench.fan_outs.add(APP, offered=True)
    assert len(bench.enqueued) == 2
