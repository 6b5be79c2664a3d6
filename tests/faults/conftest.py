"""A reflector of ConfigMaps on a fault server, with durations of milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from tests.support.fault_server import FaultServer, Truth
from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)

from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import TLS, BearerToken, ClusterConfig, Credentials
from hotmap.kube.reflector import Reflector, ReflectorStatistics, Timing
from hotmap.kube.resources import CONFIGMAPS
from hotmap.kube.store import Store

FAST = Timing(
    silence=0.6,
    initial_silence=0.6,
    watch_shortest=20,
    watch_longest=20,
    pause_first=0.02,
    pause_last=0.2,
    healthy_after=10,
    patience=2,
)

NO_TLS = TLS()

#: Seconds within which every fault must be healed with these durations.
HEALED = 8.0


class Reflection:
    """A running reflector and what it knows."""

    def __init__(self, truth: Truth, store: Store[str], reflector: Reflector[ConfigMap, str]):
        self.truth = truth
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

    async def shows(self, wanted: Callable[[ReflectorStatistics], bool]) -> None:
        """Wait until the statistics are as wanted."""
        async with asyncio.timeout(HEALED):
            while not wanted(self.statistics()):  # noqa: ASYNC110  statistics are polled
                await asyncio.sleep(0.01)

    def statistics(self) -> ReflectorStatistics:
        return self._reflector.statistics()


@pytest.fixture
def truth() -> Truth:
    truth = Truth()
    truth.put("a", "1")
    truth.put("b", "1")
    return truth


@pytest.fixture
async def server(truth: Truth) -> AsyncIterator[FaultServer]:
    async with FaultServer(truth) as server:
        yield server


@pytest.fixture
def reflect(
    request: pytest.FixtureRequest,
) -> Callable[..., AbstractAsyncContextManager[Reflection]]:
    """Return the way to run a reflector against a fault server for the time of a `with`.

    Without `on` it is the plain one that is the fixture `server`.
    """

    @asynccontextmanager
    async def run(
        *,
        on: FaultServer | None = None,
        tls: TLS = NO_TLS,
        credentials: Credentials | None = None,
        timing: Timing = FAST,
        **narrow: str,
    ) -> AsyncIterator[Reflection]:
        server = on or request.getfixturevalue("server")
        config = ClusterConfig(server.url, "the test", credentials or BearerToken(), tls)
        store: Store[str] = Store()
        async with Client(config, limits=Limits(connect=1, attempt=0.5)) as client:
            reflector = Reflector(
                client,
                CONFIGMAPS,
                type=ConfigMap,
                transform=lambda configmap: (configmap.data or {}).get("value", ""),
                store=store,
                timing=timing,
                **narrow,
            )
            task = asyncio.create_task(reflector.run())
            try:
                yield Reflection(server.truth, store, reflector)
            finally:
                task.cancel()
                await asyncio.wait([task])

    return run
