"""Waiting for what nothing announces: files, processes, sockets, statistics."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

__all__ = ["poll_until", "wait_until"]


async def wait_until(condition: Callable[[], Any], *, within: float = 60.0) -> Any:
    """Wait until a condition holds, which may be a coroutine function; return its value.

    Raises:
        TimeoutError: it does not hold within so many seconds.
    """
    async with asyncio.timeout(within):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


def poll_until(condition: Callable[[], Any], what: str, *, within: float = 60.0) -> Any:
    """Wait until a condition holds, outside of an event loop; return its value.

    `what` is for the message of the failure.
    """
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(0.05)
    return found
