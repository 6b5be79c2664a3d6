"""Virtual time does not run ahead of what is under way between two sockets of its loop."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.support import virtual_time


async def _connect() -> tuple[socket.socket, socket.socket]:
    """Make both ends of a connection, registered with the loop as transports are."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        client = socket.socket()
        client.setblocking(False)
        await loop.sock_connect(client, server.getsockname())
        served, _ = await loop.sock_accept(server)
    for end in (client, served):
        loop.add_reader(end, lambda: None)
    return client, served


def _under_way() -> frozenset[tuple[object, ...]]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_time.VirtualTimeLoop)
    return loop._selector_that_jumps._connections.under_way(frozenset())


def _close(*ends: socket.socket) -> None:
    for end in ends:
        asyncio.get_running_loop().remove_reader(end)
        end.close()


async def test_delivered_bytes_are_not_under_way() -> None:
    """Neither read nor acknowledged by the receiver, but there."""
    client, served = await _connect()
    for sender, receiver in ((client, served), (served, client)):
        for _ in range(3):
            sender.send(b"x" * 100)
        receiver.setblocking(True)
        assert len(receiver.recv(300, socket.MSG_PEEK | socket.MSG_WAITALL)) == 300
        assert _under_way() == frozenset()
    _close(client, served)


async def test_time_jumps_again_when_a_receiver_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What does not get there without it is waited for once, for a while."""
    monkeypatch.setattr(virtual_time, "_UNDER_WAY", 0.02)
    loop = asyncio.get_running_loop()
    client, served = await _connect()
    loop.remove_reader(client)
    loop.remove_reader(served)
    with pytest.raises(BlockingIOError):
        while True:
            client.send(b"x" * 65536)
    # Registered for what does not happen: they are known, and nothing of them is ready.
    selector = loop._selector_that_jumps  # type: ignore[attr-defined]
    for end in (client, served):
        selector._connections.add(end.fileno())
    assert _under_way()
    began = loop.time()
    await asyncio.sleep(30)
    assert loop.time() - began >= 30
    assert _under_way() == frozenset()
    for end in (client, served):
        selector._connections.remove(end.fileno())
        end.close()
