"""A reflector of ConfigMaps on a fault server, with durations of milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.fault_server import FaultServer, Truth
from tests.support.reflection import Reflect, Reflection
from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)

from hotmap.core.model.objects import ConfigMap
from hotmap.kube.client import Client, Limits
from hotmap.kube.config import TLS, BearerToken, ClusterConfig, Credentials
from hotmap.kube.reflector import Reflector
from hotmap.kube.reflector_timing import Timing
from hotmap.kube.resources import CONFIGMAPS, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter

FAST = Timing(
    silence=0.6,
    initial_silence=0.6,
    watch_shortest=20,
    watch_longest=20,
    pause_first=0.02,
    pause_last=0.2,
    healthy_after=10,
    max_retry_after=2,
)

NO_TLS = TLS()


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
) -> Reflect:
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
        **narrow: Any,
    ) -> AsyncIterator[Reflection]:
        server = on or request.getfixturevalue("server")
        config = ClusterConfig(server.url, "the test", credentials or BearerToken(), tls)
        store: Store[str] = Store()
        async with Client(config, limits=Limits(connect=1, attempt=0.5)) as client:
            reflector = Reflector(
                client,
                Selection(CONFIGMAPS, **narrow),
                type=ConfigMap,
                writer=StoreWriter(store, lambda item: (item.data or {}).get("value", "")),
                timing=timing,
            )
            task = asyncio.create_task(reflector.run())
            try:
                yield Reflection(server.truth, client, store, reflector)
            finally:
                task.cancel()
                await asyncio.wait([task])

    return run
