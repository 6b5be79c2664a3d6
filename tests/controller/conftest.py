"""One API server a test, without TLS, which a third of the time would go to."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.controller.world import World
from tests.support.control_plane import control_plane
from tests.support.provider_classes import Driver, playing_driver
from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)

from hotmap.controller.reconcile import nudges
from hotmap.controller.storage import record_shards
from hotmap.kube.client import Client

#: Secrets with records that a controller reads at its start. All 32 are half of its requests, and
#: the few consumers of a test fill one.
SHARDS = 2


@pytest.fixture(autouse=True)
def few_shards(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and write few shards, but in tests marked `all_shards`."""
    if not request.node.get_closest_marker("all_shards"):
        monkeypatch.setattr(record_shards, "SHARDS", SHARDS)


@pytest.fixture(autouse=True)
def decisions_are_captured(caplog: pytest.LogCaptureFixture) -> None:
    """Show with a failure what was decided, and which requests were tried again."""
    caplog.set_level(logging.INFO, logger="hotmap")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as plane, Client(plane.config()) as client:
        yield World(plane, client)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the second nudge soon, where it is not the two seconds that a test is about."""
    monkeypatch.setattr(nudges, "SECOND_NUDGE", 0.3)


@pytest.fixture
async def driver(world: World) -> AsyncIterator[Driver]:
    async with playing_driver(world.registry) as driver:
        yield driver
