"""Keeps the pauses of Python's garbage collector short in a process with many objects.

A full collection visits every container in memory: 0.8 s with the caches of 2,000 pods, in which
no request is answered. What has survived one is set aside (`gc.freeze`), so that the next visits
only what is new; now and then everything is visited once more, for cycles among what is old.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CollectorPauses", "limit_collector_pauses"]

# Seconds after which a full collection visits all objects again.
_ALL_AFTER = 600.0
_OLDEST = 2


class CollectorPauses:
    """A callback for `gc.callbacks`; `clock` returns monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._visited_all_at = clock()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif self._clock() - self._visited_all_at >= _ALL_AFTER:
            self._visited_all_at = self._clock()
            gc.unfreeze()


def limit_collector_pauses() -> None:
    """Do so for the rest of this process."""
    gc.callbacks.append(CollectorPauses())
