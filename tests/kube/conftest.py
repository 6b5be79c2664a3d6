"""A certificate authority, and a server that answers calls as it is told."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.fault_server import FaultServer, Truth
from tests.support.virtual_time import (
    pytest_asyncio_loop_factories as pytest_asyncio_loop_factories,
)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("test authority")


@pytest.fixture
def server_tls(authority: Authority, tmp_path: Path) -> ssl.SSLContext:
    """TLS settings of a server that is called api.example and 127.0.0.1."""
    return authority.server_context(tmp_path, "api.example", "127.0.0.1")


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer(Truth()) as server:
        yield server
