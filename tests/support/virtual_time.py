"""An event loop whose time jumps over every pause in which nothing can happen.

A controller that settles for 30 seconds is tested in milliseconds, and on a busy machine none of
its time-outs runs out early: time stands still (but for what the processor needs) while there is
anything to do. Sockets are real; both of their ends must be on this loop.

Time jumps only when the kernel has nothing for the loop and no thread works for it. What another
process does cannot be known, so that no process can be started from here.

A folder's conftest imports `pytest_asyncio_loop_factories`, which gives this loop to all of the
folder's tests but those that are marked `real_time`.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["VirtualTimeLoop", "pytest_asyncio_loop_factories"]

_monotonic, _wall, _clock_gettime = time.monotonic, time.time, time.clock_gettime

#: Seconds that are waited before a jump, at least. What was sent on one socket of this machine is
#: there on the other at once, save that the kernel may be late with it under load.
_GRACE = 0.001

#: Jumps up to this length are made without it: they let nothing but polls and pauses end.
_SHORT = 0.02

#: The same as a share of the jump: a time-out of 30 s is given 30 ms to be none.
_SHARE = 0.001

#: Seconds between two looks at what threads do.
_TICK = 0.005


class _Selector(selectors.EpollSelector):
    """A selector that does not wait for what only time brings."""

    def __init__(self) -> None:
        super().__init__()
        #: Seconds by which time has jumped so far.
        self.jumped = 0.0
        #: Calls that threads have not returned from.
        self.working = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            return super().select(_TICK if self.working else None)
        if self.working:
            return super().select(min(timeout, _TICK))
        began = _monotonic()
        if timeout > _SHORT:
            ready = super().select(min(timeout, max(_GRACE, timeout * _SHARE)))
        if not ready:
            self.jumped += max(0.0, timeout - (_monotonic() - began))
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop; while it runs, `time.time` and the clock since boot jump with it."""

    def __init__(self) -> None:
        self._selector_that_jumps = _Selector()
        super().__init__(self._selector_that_jumps)

    def time(self) -> float:
        return _monotonic() + self._selector_that_jumps.jumped

    def run_forever(self) -> None:
        with self._clocks_that_jump():
            super().run_forever()

    @contextmanager
    def _clocks_that_jump(self) -> Iterator[None]:
        time.time = lambda: _wall() + self._selector_that_jumps.jumped
        time.clock_gettime = self._clock_gettime
        try:
            yield
        finally:
            time.time, time.clock_gettime = _wall, _clock_gettime

    def _clock_gettime(self, clock: int) -> float:
        return _clock_gettime(clock) + self._selector_that_jumps.jumped

    def run_in_executor(  # type: ignore[override]  # what asyncio declares is no method's type
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        selector = self._selector_that_jumps
        future = super().run_in_executor(executor, func, *args)
        selector.working += 1

        def returned(_: asyncio.Future[Any]) -> None:
            selector.working -= 1

        future.add_done_callback(returned)
        return future

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("a process does not live in virtual time: mark the test real_time")

    subprocess_shell = subprocess_exec


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loop of a test; a hook of pytest-asyncio."""
    if item.get_closest_marker("real_time"):
        return {"real_time": asyncio.new_event_loop}
    return {"virtual_time": VirtualTimeLoop}
