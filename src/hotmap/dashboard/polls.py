"""Fetches the status when a page asks for it, one time for all pages that ask.

Nothing is fetched while no page asks. What was fetched is kept, so that a page can still be shown
while the controller does not answer; then it is out of date, and says so.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from hotmap.core.errors import HotmapError
from hotmap.core.status.status_document import StatusDocument
from hotmap.kube.loop_clock import loop_time

__all__ = ["Fetch", "Known", "Polls"]

#: Seconds between two requests. A document that takes long to be made, as of thousands of
#: workloads, is requested less often: at most a third of the time is spent on it.
_PERIOD, _SHARE = 2.0, 2.0

#: Seconds for which a page waits for an answer; a controller needs one for 5,000 workloads.
_PATIENCE = 6.0

#: Queries whose documents are kept: the overview, and the workloads that are selected on pages.
_KEPT = 16


class Fetch(Protocol):
    """Fetches the status document for a query; raises a HotmapError with one sentence."""

    async def __call__(self, query: Mapping[str, str]) -> StatusDocument: ...


class Known(NamedTuple):
    """What is known of a query."""

    #: None: there was no answer yet.
    document: StatusDocument | None
    #: Seconds since the document was fetched.
    age: float
    #: Why the document is out of date; "" if it is not.
    problem: str


class Polls:
    """Fetches documents on demand and keeps them."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        #: By query; the last used is last.
        self._entries: OrderedDict[tuple[tuple[str, str], ...], _Entry] = OrderedDict()

    async def get(self, query: Mapping[str, str]) -> Known:
        """Return what is known of a query, after a request if it is time for one."""
        name = tuple(sorted(query.items()))
        entry = self._entries.setdefault(name, _Entry())
        self._entries.move_to_end(name)
        self._forget()
        if entry.task is None and loop_time() >= entry.next_at:
            entry.started = loop_time()
            entry.task = asyncio.create_task(self._update(entry, query))
        problem = ""
        if (task := entry.task) is not None:
            await asyncio.wait((task,), timeout=_PATIENCE)
            if not task.done():
                waited = loop_time() - entry.started
                problem = f"the controller has not answered for {waited:.0f} s"
            elif not task.cancelled():
                task.result()
        age = loop_time() - entry.fetched if entry.document else 0.0
        return Known(entry.document, age, problem or entry.problem)

    def _forget(self) -> None:
        for name, entry in list(self._entries.items())[:-_KEPT]:
            if entry.task is None:
                del self._entries[name]

    async def _update(self, entry: _Entry, query: Mapping[str, str]) -> None:
        try:
            entry.document = await self._fetch(query)
            entry.fetched, entry.problem = loop_time(), ""
        except HotmapError as error:
            entry.problem = str(error)
        finally:
            entry.took = loop_time() - entry.started
            entry.next_at = loop_time() + max(_PERIOD, _SHARE * entry.took)
            entry.task = None

    async def close(self) -> None:
        """End the requests in progress."""
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Entry:
    """The document of one query, and the request for the next; times of the clock."""

    def __init__(self) -> None:
        self.document: StatusDocument | None = None
        self.fetched = 0.0
        self.problem = ""
        self.task: asyncio.Task[None] | None = None
        self.started = 0.0
        #: Seconds that the last request took.
        self.took = 0.0
        self.next_at = 0.0
