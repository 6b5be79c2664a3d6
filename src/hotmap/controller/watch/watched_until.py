"""Until when every change of the sources was observed, for the records at the end of a term."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from hotmap.controller.watch.consistent_reads import ConsistentReader
from hotmap.controller.watch.index import Index
from hotmap.core.errors import HotmapError
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.loop_clock import loop_time

__all__ = ["WatchedUntil"]

#: How many sources are read consistently, and for how many seconds at most.
_MOST_READ, _TIMEOUT = 500, 2.0


class WatchedUntil:
    """Determines until when sources were observed; `clock` is the API server's."""

    def __init__(
        self, index: Index, reader: ConsistentReader, *, clock: Callable[[], float]
    ) -> None:
        self._index = index
        self._reader = reader
        self._clock = clock

    def by_watches(self) -> float:
        """Return until when every change of a source was observed: POSIX seconds."""
        until = [store.progress.until() for store in self._index.sources.values()]
        ages = [loop_time() - at for at in until if at is not None]
        return self._clock() - max(ages, default=0.0)

    async def by_reading(self, sources: Collection[ObjectKey]) -> float:
        """Return until when every change of some sources was observed, after a consistent read.

        A watch shows its progress once a minute; what happens between that and the next start may
        have been an edit and its revert.
        """
        began = self._clock()
        if len(sources) > _MOST_READ:
            return self.by_watches()
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._reader.read_objects(sources)
        except (HotmapError, TimeoutError):
            return self.by_watches()
        return began
