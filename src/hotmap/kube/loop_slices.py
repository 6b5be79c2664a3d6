"""Divides work on many objects into slices, so that it does not block the event loop.

A task that does not await blocks the loop, however short each of its steps is: with a thousand
objects of a millisecond each, no Lease is renewed and no probe is answered for a second. So loops
over objects call `share_loop` between two objects; all of them together get one slice per turn.
Decisions have slices of their own, which are shorter: in each turn a connection gives at most one
piece of what it has received, so longer ones delay the watch events that they depend on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from math import inf
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["SHORT_SLICE", "SLICE", "LoopSlices", "object_slices", "share_loop"]

#: Seconds of one turn of the loop after which loops over objects wait for the next one.
SLICE: Final = 0.01

#: The same for work beside requests, each of which takes several turns to be answered.
SHORT_SLICE: Final = 0.001


class _Turn:
    """The turns of one event loop that belong to a slice, and the tasks that wait for the next.

    Invariant: while a task waits, a slice has not ended, or some that were admitted have yet to
    run and will begin one.
    """

    __slots__ = ("_entered", "_left", "ends", "is_over", "waiting")

    def __init__(self) -> None:
        self.is_over = True
        self.ends = 0.0
        self.waiting: deque[asyncio.Future[None]] = deque()
        #: How many were in this slice, and how many turns have none after it.
        self._entered = 0
        self._left = 0

    def enter(self, loop: asyncio.AbstractEventLoop, seconds: float, turns: int) -> bool:
        """Return whether a slice has time left; one begins if the turn of the last is over."""
        if self.is_over:
            self.is_over = False
            self.ends = time.perf_counter() + seconds
            self._entered, self._left = 1, turns
            loop.call_soon(self._end, loop)  # runs at the begin of the next turn
            return True
        if time.perf_counter() < self.ends:
            self._entered += 1
            return True
        return False

    def admit(self, count: int) -> None:
        """Wake some that wait, first come, first served."""
        while self.waiting and count:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left -= 1
        if self._left > 0:
            loop.call_soon(self._end, loop)
            return
        self.is_over = True
        self.admit(self._entered + 1)  # a slice takes about as many as the one before


class LoopSlices:
    """Slices that one kind of work shares, of at most `seconds` in each turn of an event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = WeakKeyDictionary()

    async def share(self, seconds: float = inf, *, turns: int = 1) -> None:
        """Return at once, or in a later turn of the event loop when this one has had its slice.

        `seconds` is the length of a slice that begins here, if it is shorter, and `turns` how many
        turns have this slice only.
        """
        loop = asyncio.get_running_loop()
        turn = self._turns.get(loop)
        if turn is None:
            turn = self._turns[loop] = _Turn()
        seconds = min(seconds, self._seconds)
        if not turn.waiting and turn.enter(loop, seconds, turns):
            return
        waiter = loop.create_future()
        turn.waiting.append(waiter)
        while True:
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    turn.admit(1)  # in its place
                raise
            if turn.enter(loop, seconds, turns):
                return
            waiter = loop.create_future()
            turn.waiting.appendleft(waiter)


#: The slices of loops over objects.
object_slices = LoopSlices(SLICE)

share_loop = object_slices.share
