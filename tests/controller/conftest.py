"""One API server a test, without TLS, which a third of the time would go to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.controller.world import World
from tests.support.control_plane import control_plane
from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)

from hotmap.kube.client import Client


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as plane, Client(plane.config()) as client:
        yield World(plane, client)
