"""A registry and an API server on a real socket with real certificates."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.local.apiserver.api import TOKEN, Api
from tests.support.clocks import Clock

from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.server import APIServer
from hotmap.local.pki import ServerPKI, create_pki
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000.0)


@pytest.fixture
async def registry(clock: Clock) -> Registry:
    registry = Registry(MVCCStore(), clock=clock)
    await create_system_namespaces(registry)
    return registry


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> ServerPKI:
    return create_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def server(registry: Registry, pki: ServerPKI) -> AsyncIterator[APIServer]:
    tokens = Tokens()
    tokens.add(TOKEN, "system:masters")
    server = APIServer(registry, tls=pki.server_context(), tokens=tokens, bookmark_interval=0.05)
    yield server
    await server.stop()


@pytest.fixture
async def api(server: APIServer, pki: ServerPKI) -> AsyncIterator[Api]:
    port = await server.start()
    trust = ssl.create_default_context(cafile=str(pki.ca_certificate))
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**22) as session:
        yield Api(session, f"https://127.0.0.1:{port}")
