"""Stores until when every change was observed, for the controller after this one.

The time bounds the changes that were made while no controller watched. So it is not stored before
every consumer has been decided on once. A controller that does not watch the namespaces of all
records keeps the last time for an hour, which still holds for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import NoReturn

from hotmap.controller.storage.records import Records
from hotmap.controller.watch.first_decisions import FirstDecisions
from hotmap.controller.watch.watched_until import WatchedUntil
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS

__all__ = ["StoredProgress"]

#: Seconds between two writes.
_PERIOD = 60.0

#: Minutes after which it is stored although some consumer could not be decided on.
_UNDECIDED_MINUTES = 10

#: Seconds for which the time is kept that holds for namespaces that are not watched any more. As
#: long as changes are (storage/recent_changes): a gap that grows forever would have pods of the
#: watched namespaces replaced for each write in it.
_KEPT_FOR_OTHERS = 3600.0


class StoredProgress:
    """The stored progress of the watches in one term of leadership."""

    def __init__(
        self,
        records: Records,
        watched: WatchedUntil,
        first_decisions: FirstDecisions,
        *,
        serves: Callable[[str], bool],
    ) -> None:
        """`serves` returns whether a namespace is watched."""
        self._records = records
        self._watched = watched
        self._first_decisions = first_decisions
        self._serves = serves
        #: Whether the last time still holds for others; None: not determined yet.
        self._keeps_time: bool | None = None

    async def run(self) -> NoReturn:
        """Store the progress once a minute."""
        for minute in count(1):
            await asyncio.sleep(_PERIOD)
            if minute >= _UNDECIDED_MINUTES:
                self._first_decisions.end()  # a lasting failure must not hold it back
            self.write(self._watched.by_watches())
        raise AssertionError

    def note_decided(self, consumer: ObjectKey) -> bool:
        """Note that a consumer was decided on; returns whether that was with outdated sources."""
        were_made = self._first_decisions.are_made
        is_outdated = self._first_decisions.note_made(consumer)
        is_last = self._first_decisions.are_made and not were_made
        is_first = self._records.watched_until is None and were_made
        if is_last or is_first:
            self.write(self._watched.by_watches())
        return is_outdated

    def by_watches(self) -> float:
        """Return until when every change of a source was observed: POSIX seconds."""
        return self._watched.by_watches()

    async def by_reading(self) -> float:
        """Return until when every change of the recorded sources was observed, after reading them.

        POSIX seconds.
        """
        return await self._watched.by_reading(
            {
                ObjectKey(source.kind, record.namespace, source.name)
                for record in self._records.values()
                for source in record.sources
                if source.kind != PROVIDER_CLASS
            }
        )

    def write(self, watched_until: float) -> None:
        """Store the progress with the records."""
        if self._keeps_time is None:  # records are made of served namespaces only
            namespaces = {record.namespace for record in self._records.values()}
            self._keeps_time = not all(map(self._serves, namespaces))
        kept = self._records.watched_until
        if kept is None or watched_until - kept >= _KEPT_FOR_OTHERS:
            self._keeps_time = False
        is_new = self._first_decisions.are_made and not self._keeps_time
        until = watched_until if is_new else None
        self._records.set_watched_until(until)
