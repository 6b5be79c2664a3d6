"""A running reflector of ConfigMaps, and what it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.support.fault_server import Truth

from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.reflector import Reflector
from hotmap.kube.reflector_statistics import ReflectorStatistics
from hotmap.kube.store import Store

__all__ = ["HEALED", "Reflect", "Reflection"]

#: Seconds within which every fault must be healed with these durations.
HEALED = 30.0


class Reflection:
    """A running reflector and what it knows."""

    def __init__(
        self,
        truth: Truth,
        client: Client,
        store: Store[str],
        reflector: Reflector[ConfigMap, str],
    ) -> None:
        self.truth = truth
        self.client = client
        self.store = store
        self._reflector = reflector
        #: What listeners were told was deleted, in order.
        self.deleted: list[str] = []
        self._changed = asyncio.Event()
        store.subscribe(self._note)

    def _note(self, key: ObjectKey, old: str | None, new: str | None) -> None:
        if new is None:
            self.deleted.append(key.name)
        self._changed.set()

    def content(self) -> dict[tuple[str, str], str]:
        return {
            (key.namespace, key.name): value
            for key in sorted(self.store.keys())
            if (value := self.store.get(key)) is not None
        }

    async def converged(self) -> None:
        """Wait until the store is complete and equal to what the server has."""
        async with asyncio.timeout(HEALED):
            await self.store.synced.wait()
            while self.content() != self.truth.content():
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_statistics(self, wanted: Callable[[ReflectorStatistics], bool]) -> None:
        """Wait until the statistics are as wanted."""
        async with asyncio.timeout(HEALED):
            while not wanted(self.statistics()):  # noqa: ASYNC110  statistics are polled
                await asyncio.sleep(0.01)

    def statistics(self) -> ReflectorStatistics:
        return self._reflector.statistics()


#: Runs a reflector for the time of a `with`; see the fixture `reflect`.
Reflect = Callable[..., AbstractAsyncContextManager[Reflection]]
