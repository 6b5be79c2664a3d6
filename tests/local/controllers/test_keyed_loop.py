"""The loop of a controller: each key until it succeeds, and one failure stops no other key."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hotmap.core.errors import AlreadyExists, Conflict, HotmapError, Unavailable
from hotmap.local.controllers.loop import KeyedLoop


class _Syncs:
    """A sync that fails as often as told, and notes each call."""

    def __init__(self, *failures: Exception) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.failures = list(failures)
        self.succeeded = asyncio.Event()

    async def __call__(self, key: tuple[str, ...]) -> None:
        self.calls.append(key)
        if self.failures:
            raise self.failures.pop(0)
        self.succeeded.set()


async def _run(sync: _Syncs) -> None:
    loop = KeyedLoop("test", sync)
    loop.add(("default", "web"))
    task = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(60):
            await sync.succeeded.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_conflict_is_retried_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Many conflicts in a row cost no backoff and are worth no word."""
    caplog.set_level(logging.INFO)
    sync = _Syncs(*(Conflict("changed") for _ in range(50)))
    await _run(sync)
    assert sync.calls == [("default", "web")] * 51
    assert not caplog.records


@pytest.mark.parametrize(
    "failure", [Unavailable("down"), AlreadyExists("taken"), HotmapError("other")]
)
async def test_failure_is_retried_with_backoff(
    failure: HotmapError, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure is logged in one line with the key, and the key comes again."""
    caplog.set_level(logging.INFO)
    sync = _Syncs(failure)
    await _run(sync)
    assert len(sync.calls) == 2
    assert len(caplog.records) == 1
    assert f"test default/web: {failure}; retrying in" in caplog.text


@pytest.mark.internal_errors
async def test_unexpected_exception_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is logged with its traceback, and the key comes again."""
    sync = _Syncs(ZeroDivisionError())
    await _run(sync)
    assert len(sync.calls) == 2
    assert caplog.records[0].exc_info is not None
