"""Clients that send slowly, or nothing: others are served, and their connections are closed."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from tests.local.apiserver.api import TOKEN

from hotmap.local.apiserver import server as api_server
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.server import APIServer
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens

pytestmark = pytest.mark.real_time

_PATH = "/api/v1/namespaces/default/configmaps"
_AUTHORIZATION = f"Authorization: Bearer {TOKEN}\r\nHost: x\r\n"


class _Served:
    """An API server without TLS, and connections to it."""

    def __init__(self) -> None:
        self._registry = Registry(MVCCStore())
        tokens = Tokens()
        tokens.add(TOKEN, "system:masters")
        self._server = APIServer(self._registry, tls=None, tokens=tokens)
        self.port = 0

    async def __aenter__(self) -> _Served:
        await create_system_namespaces(self._registry)
        self.port = await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def get(self) -> int:
        """Make a request of its own; return the status."""
        reader, writer = await self.connect()
        writer.write(f"GET {_PATH} HTTP/1.1\r\n{_AUTHORIZATION}Connection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return int(answer.split()[1])


async def _dribble(writer: asyncio.StreamWriter, content: str) -> None:
    with contextlib.suppress(ConnectionError):
        for character in content:
            writer.write(character.encode())
            await writer.drain()
            await asyncio.sleep(0.02)


async def test_headers_sent_slowly_end_with_closed_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A byte at a time, for longer than a connection may be without a request."""
    monkeypatch.setattr(api_server, "_IDLE_TIMEOUT", 0.3)
    async with _Served() as served:
        reader, writer = await served.connect()
        sending = asyncio.create_task(
            _dribble(writer, f"GET {_PATH} HTTP/1.1\r\n" + "X-Slow: yes\r\n" * 1000)
        )
        assert await served.get() == 200
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        sending.cancel()
        writer.close()
        assert await served.get() == 200


async def test_connection_without_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that sends nothing at all."""
    monkeypatch.setattr(api_server, "_IDLE_TIMEOUT", 0.3)
    async with _Served() as served:
        reader, writer = await served.connect()
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_body_sent_slowly_is_answered_with_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes' Status; the object is not created, and others are served meanwhile."""
    monkeypatch.setattr(api_server, "_BODY_TIMEOUT", 0.5)
    async with _Served() as served:
        reader, writer = await served.connect()
        head = f"POST {_PATH} HTTP/1.1\r\n{_AUTHORIZATION}"
        head += "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
        writer.write(head.encode())
        sending = asyncio.create_task(_dribble(writer, " " * 1000))
        assert await served.get() == 200
        async with asyncio.timeout(60):
            answered = await reader.readuntil(b"\r\n\r\n")
            _, _, after = answered.partition(b"Content-Length: ")
            status = json.loads(await reader.readexactly(int(after.split()[0])))
        assert answered.split()[1] == b"504"
        assert status["reason"] == "Timeout"
        assert status["message"] == "Timeout: request did not complete within the allotted timeout"
        sending.cancel()
        writer.close()
