"""The backoff policy, growing, jittered, bounded; and when a reflector applies it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.errors import Expired, HotmapError, Throttled, Unavailable, Unreachable
from hotmap.kube.reflector_timing import Timing, pause_after
from hotmap.kube.retry import Backoff, Outage


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_every_pause_is_within_bounds(draws: list[float]) -> None:
    """Between `first` and `last`, and at most three times the pause before."""
    wishes = iter(draws)
    backoff = Backoff(0.8, 30, uniform=lambda low, high: low + (high - low) * next(wishes))
    previous = 0.8
    for _ in draws:
        pause = backoff.next()
        assert 0.8 <= pause <= min(30, max(0.8, previous * 3) + 1e-9)
        previous = pause


def test_reset_starts_from_the_first_pause() -> None:
    """What has worked is trusted again."""
    backoff = Backoff(1, 100, uniform=lambda low, high: high)
    assert [backoff.next() for _ in range(6)] == [3, 9, 27, 81, 100, 100]
    backoff.reset()
    assert backoff.next() == 3


def pause(backoff: Backoff, lasted: float, error: HotmapError | None, listed: float = 0) -> float:
    return pause_after(
        lasted,
        error,
        listed=listed,
        backoff=backoff,
        timing=Timing(),
        uniform=lambda low, high: low,
    )


def pauses(lasted: float, error: HotmapError | None, *, times: int = 8) -> list[float]:
    """Let attempts of equal length end alike; pauses grow as fast as they may."""
    backoff = Backoff(0.8, 30, uniform=lambda low, high: high)
    return [pause(backoff, lasted, error) for _ in range(times)]


@pytest.mark.parametrize("error", [None, Expired("too old")])
def test_short_watches_are_resumed_with_backoff(error: HotmapError | None) -> None:
    """A proper end is not an excuse, and neither is 410: both can come in a loop."""
    assert pauses(0.0, error)[:5] == pytest.approx([2.4, 7.2, 21.6, 30, 30])


def test_watch_that_a_proxy_ends_every_minute_is_resumed_at_once() -> None:
    """One attempt a minute costs little, and an edit must not wait for a pause."""
    assert set(pauses(60.0, None)) == {0.0}


def test_healthy_attempt_resets_the_backoff() -> None:
    """After two minutes without trouble, the next trouble is the first."""
    backoff = Backoff(0.8, 30, uniform=lambda low, high: high)
    error = Unreachable("reset")

    assert [pause(backoff, 0, error) for _ in range(4)] == pytest.approx([2.4, 7.2, 21.6, 30])
    assert pause(backoff, 119, error) == 0.8
    assert pause(backoff, 0, error) == 30
    assert pause(backoff, 120, error) == 0.8
    assert pause(backoff, 0, error) == pytest.approx(7.2)


def test_410_after_an_outage_lists_after_the_first_pause() -> None:
    """The server works again; the pauses were for when it did not. But lists come no faster."""
    backoff = Backoff(0.8, 30, uniform=lambda low, high: high)
    outage = [pause(backoff, 0, Unreachable("reset"), listed=40) for _ in range(4)]
    assert outage == pytest.approx([2.4, 7.2, 21.6, 30])
    assert pause(backoff, 0, Expired("too old"), listed=40) == pytest.approx(2.4)
    assert pause(backoff, 0, Expired("too old"), listed=3) == pytest.approx(7.2)


def test_failure_is_always_followed_by_a_pause() -> None:
    """Even if the attempt had lasted long: a thousand other clients saw the same reset."""
    assert set(pauses(600.0, Unavailable("500"))) == {0.8}


def test_retry_after_is_honoured() -> None:
    """Its Retry-After is the least pause, up to five minutes."""
    assert set(pauses(0.0, Throttled("slow down", retry_after=45))) == {45}
    assert set(pauses(0.0, Throttled("slow down", retry_after=86400))) == {300}


async def seconds_of_pause(outage: Outage, *, seconds: float, least: float) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await outage.pause(seconds, least=least)
    return loop.time() - started


@pytest.mark.parametrize(
    ("ends_after", "expected"),
    [
        pytest.param(0.5, 1, id="not below the least pause"),
        pytest.param(4, 4, id="with the answer"),
        pytest.param(40, 30, id="no longer than asked for"),
    ],
)
async def test_pause_ends_with_the_outage(ends_after: float, expected: float) -> None:
    """The first answer of a server ends the pauses of all who wait for it."""
    outage = Outage()
    outage.begin()
    asyncio.get_running_loop().call_later(ends_after, outage.end)
    assert await seconds_of_pause(outage, seconds=30, least=1) == pytest.approx(expected, abs=0.1)


async def test_pause_without_an_outage_is_not_shortened() -> None:
    """A stream that breaks again and again beside requests that work is not an outage."""
    outage = Outage()
    outage.begin()
    outage.end()
    asyncio.get_running_loop().call_later(2, outage.end)
    assert await seconds_of_pause(outage, seconds=30, least=1) == pytest.approx(30, abs=0.1)
