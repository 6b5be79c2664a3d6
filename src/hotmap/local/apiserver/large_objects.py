"""Work on large objects, beside the event loop.

An object of a hundred thousand fields takes seconds of computing before it is written. A thread
does that while the loop answers other requests; it is a single one, so that the loop never shares
the interpreter with more than one such computation.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["beside_loop"]

#: Bytes of JSON from which on an object is large: this many take some milliseconds at worst.
_LARGE = 1 << 14

_T = TypeVar("_T")

_thread = ThreadPoolExecutor(1, thread_name_prefix="large-objects")


async def beside_loop(size: int, work: Callable[[], _T]) -> _T:
    """Do work on an object of `size` bytes: in a thread if it is large, otherwise at once.

    Nothing comes in between if it is not large, so the caller may rely on what it has read before.
    """
    if size < _LARGE:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
