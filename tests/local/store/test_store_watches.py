"""A watch has no gap and no duplicate; a reader that is too slow is cut off, not buffered for."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from hotmap.core.errors import Expired
from hotmap.local.store import MVCCStore


async def test_waiting_watch_is_woken_by_write() -> None:
    """A write ends the wait of each watch of its key, and of no other."""
    store = MVCCStore()
    near, far = store.watch("/a/"), store.watch("/b/")
    waiting = asyncio.create_task(near.wait())
    idle = asyncio.create_task(far.wait())
    await asyncio.sleep(0)
    store.create("/a/x", b"1")
    assert await waiting
    assert not idle.done()
    store.close()
    assert await idle is False


async def test_slow_watch_ends_after_its_buffer() -> None:
    """Falling behind by more than the buffer ends the watch; resuming loses nothing."""
    store = MVCCStore(watch_buffer=3)
    watch = store.watch("/")
    for number in range(10):
        store.create(f"/{number}", b"")
    assert [event.key async for event in watch] == ["/0", "/1", "/2"]
    again = store.watch("/", since=watch.progress)
    assert [event.key for event in again.take()] == [f"/{number}" for number in range(3, 10)]


async def test_history_does_not_fill_watch_buffer() -> None:
    """A watch from far back is given all of it, however small the buffer for new writes is."""
    store = MVCCStore(watch_buffer=2)
    for number in range(10):
        store.create(f"/{number}", b"")
    watch = store.watch("/", since=1)
    store.create("/late", b"")
    assert len(watch.take()) == 11


async def test_watch_from_future_revision_waits() -> None:
    """Revisions up to the one given are never told, even if they are written later."""
    store = MVCCStore()
    watch = store.watch("/", since=store.revision + 2)
    for number in range(3):
        store.create(f"/{number}", b"")
    assert [event.key for event in watch.take()] == ["/2"]


async def test_cancelled_wait_loses_no_event() -> None:
    """The next wait finds what came in between."""
    store = MVCCStore()
    watch = store.watch("/")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watch.wait(), 0.01)
    store.create("/a", b"")
    assert await watch.wait()
    assert len(watch.take()) == 1


def test_history_is_bounded_by_bytes() -> None:
    """Large values push old events out long before their count would."""
    store = MVCCStore(history_bytes=1000)
    for number in range(10):
        store.create(f"/{number}", b"x" * 300)
    with pytest.raises(Expired):
        store.watch("/", since=1)
    assert len(store.watch("/", since=store.compacted).take()) == 3


def test_history_is_bounded_by_the_values_that_writes_replace() -> None:
    """A deletion and a small update keep the large value that was there before."""
    store = MVCCStore(history_bytes=1000)
    made = [store.create(f"/{number}", b"x" * 300) for number in range(10)]
    for number in range(5):
        store.delete(f"/{number}", expected=made[number])
    assert len(store.watch("/", since=store.compacted).take()) == 3
    for number in range(5, 10):
        store.update(f"/{number}", b"", expected=made[number])
    assert len(store.watch("/", since=store.compacted).take()) == 3


def test_compacted_versions_are_freed() -> None:
    """Deleted keys and old versions leave memory with their history, which begins again."""
    store, size = MVCCStore(history_bytes=10 << 20), 100_000
    tracemalloc.start()
    try:
        for number in range(50):
            revision = store.create(f"/{number}{'k' * size}", b"x" * size)
            store.delete(store.entries()[0].key, expected=revision)
        assert tracemalloc.get_traced_memory()[0] > 50 * size
        store.compact(store.revision)
        assert tracemalloc.get_traced_memory()[0] < size
    finally:
        tracemalloc.stop()
    assert store.range("/").entries == []
    compacted = store.revision
    for number in range(100):
        store.create(f"/{number}", b"x" * size)
    assert len(store.watch("/", since=compacted).take()) == 100
