"""Divides loops over many objects into slices, so that they do not block the event loop.

A task that does not await blocks the loop, however short each of its steps is: with a thousand
objects of a millisecond each, no Lease is renewed and no probe is answered for a second. So loops
over objects call `share_loop` between two objects; all of them together get one slice per turn.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["SHORT_SLICE", "SLICE", "share_loop"]

#: Seconds of one turn of the loop after which loops over objects wait for the next one.
SLICE: Final = 0.01

#: The same for work beside requests, each of which takes several turns to be answered.
SHORT_SLICE: Final = 0.001


class _Turn:
    """The present turn of one event loop."""

    __slots__ = ("ends", "is_over")

    def __init__(self) -> None:
        self.is_over = True
        self.ends = 0.0

    def begin(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.is_over = False
        self.ends = time.perf_counter() + seconds
        loop.call_soon(self._end)  # runs at the begin of the next turn

    def _end(self) -> None:
        self.is_over = True


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = WeakKeyDictionary()


async def share_loop(seconds: float = inf) -> None:
    """Return at once, or in a later turn of the event loop when this one has had its slice.

    `seconds` is the length of a slice that begins here; SLICE is the most.
    """
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = _Turn()
    while not turn.is_over:
        if time.perf_counter() < turn.ends:
            return
        await asyncio.sleep(0)
    turn.begin(loop, min(seconds, SLICE))
