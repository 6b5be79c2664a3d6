"""A server that stops leaves no connection open, not even one that it was accepting."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

import pytest

from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.server import APIServer
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens


@pytest.mark.real_time
@pytest.mark.parametrize("steps", range(5))
async def test_stop_closes_connections_being_accepted(steps: int) -> None:
    """An unclosed one would be told of when it is collected."""
    store = MVCCStore()
    server = APIServer(Registry(store), tls=None, tokens=Tokens())
    port = await server.start()
    clients = [socket.socket() for _ in range(3)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
    for _ in range(steps):
        await asyncio.sleep(0)
    await server.stop()
    gc.collect()
    for client in clients:
        client.setblocking(True)
        client.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        client.close()
    store.close()
