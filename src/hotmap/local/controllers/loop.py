"""The loop of every controller: take a key, sync that object, retry on failure.

A key identifies an object, not a change, so that a sync is correct after any history
(controller-runtime: pkg/reconcile). The controller implements the sync; the work queue decides
when a key is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from hotmap.core.errors import AlreadyExists, Conflict, HotmapError
from hotmap.kube.workqueue import WorkQueue

__all__ = ["KeyedLoop"]

_log = logging.getLogger(__name__)

# Syncs that may wait for something at the same time; one key is never in two of them
# (kubernetes: --concurrent-deployment-syncs and its siblings are 5).
_WORKERS = 5


#: Plural, namespace, name, or what part of that the controller needs.
K = TypeVar("K", bound=tuple[str, ...])


class KeyedLoop(Generic[K]):
    """Call `sync` for each key that was added, and again until it succeeds.

    A conflict is retried at once, any other failure with backoff. No failure ends the loop.
    """

    def __init__(self, name: str, sync: Callable[[K], Awaitable[None]]) -> None:
        self._name = name
        self._sync = sync
        self._queue: WorkQueue[K] = WorkQueue()

    def add(self, key: K) -> None:
        self._queue.add(key)

    def add_after(self, key: K, seconds: float) -> None:
        self._queue.add_after(key, seconds)

    async def run(self) -> None:
        """Work until cancelled; a cancelled sync leaves the object as its last write left it."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WORKERS):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._attempt(key)
            finally:
                self._queue.done(key)
            # The Registry may answer without ever waiting: let the caches catch up.
            await asyncio.sleep(0)

    async def _attempt(self, key: K) -> None:
        try:
            await self._sync(key)
        except Conflict as error:
            if isinstance(error, AlreadyExists):
                self._retry(key, error)
            else:
                self._queue.add(key)
        except HotmapError as error:
            self._retry(key, error)
        except Exception:
            # Ours, because one object whose sync fails must not stop the others; upstream
            # recovers from panics in the same way (apimachinery: util/runtime, HandleCrash).
            _log.exception("%s %s: internal error; retrying", self._name, "/".join(key))
            self._queue.retry(key)
        else:
            self._queue.forget(key)

    def _retry(self, key: K, error: HotmapError) -> None:
        pause = self._queue.retry(key)
        _log.info("%s %s: %s; retrying in %.1fs", self._name, "/".join(key), error, pause)
