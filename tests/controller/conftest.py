"""One API server a test, one authority a session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.controller.world import World
from tests.support.control_plane import control_plane
from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)

from hotmap.kube.client import Client
from hotmap.local.pki import ServerPKI, create_pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> ServerPKI:
    return create_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def world(pki: ServerPKI) -> AsyncIterator[World]:
    async with control_plane(pki) as plane, Client(plane.config()) as client:
        yield World(plane, client)
