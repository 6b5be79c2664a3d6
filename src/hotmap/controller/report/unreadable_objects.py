"""Reports objects that cannot be read, on the object itself.

Their content is unknown, so hotmap neither acts on them nor concludes anything from them. The
Event informs their owners. Only the leader reports.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from hotmap.controller.report.object_events import write_event
from hotmap.controller.report.reasons import Reason
from hotmap.controller.watch.index import Index
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.recorder import Recorder
from hotmap.kube.store import Store, UnreadableObject

__all__ = ["UnreadableObjects"]

#: Seconds between two checks; the log names each object at once.
_EVERY = 5.0


class UnreadableObjects:
    """Writes a Warning Event for each object that cannot be read, once per problem."""

    def __init__(self, index: Index, recorder: Recorder) -> None:
        self._index = index
        self._recorder = recorder
        self._reported: dict[ObjectKey, UnreadableObject] = {}

    async def run(self) -> NoReturn:
        """Report until cancelled."""
        while True:
            self.report()
            await asyncio.sleep(_EVERY)

    def report(self) -> None:
        """Report the objects that have become unreadable since the last call."""
        classes = self._index.provider_classes
        stores: tuple[Store[Any], ...] = (
            *self._index.sources.values(),
            *self._index.consumers.values(),
            classes.classes,
            classes.statuses,
        )
        found = {key: problem for store in stores for key, problem in store.unreadable.items()}
        for key, item in found.items():
            if self._reported.get(key) != item:
                message = f"{key} cannot be read, so its changes are not followed: {item.problem}"
                write_event(
                    self._recorder,
                    key,
                    Reason.OBJECT_UNREADABLE,
                    message,
                    uid=item.uid,
                    type_="Warning",
                )
        self._reported = found
