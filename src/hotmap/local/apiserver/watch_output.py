"""How a watch reaches its client: as lines of one answer, or as messages of a WebSocket.

Pages in browsers watch by WebSockets (kubernetes: endpoints/handlers/watch.go).
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from hotmap.local.apiserver.negotiation import JSON
from hotmap.local.apiserver.responses import open_stream
from hotmap.local.apiserver.streaming.protocols import asked_protocols, wants_websocket
from hotmap.local.apiserver.streaming.upgrade import open_websocket
from hotmap.local.http_server import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["WatchOutput", "open_output"]


class WatchOutput(Protocol):
    """Takes lines of a watch in parts of any size."""

    response: web.StreamResponse

    async def write(self, part: bytes | memoryview) -> None: ...


class _Lines:
    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    async def write(self, part: bytes | memoryview) -> None:
        await self.response.write(part)


class _Messages:
    """Makes a message of each line."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.response: web.StreamResponse = socket
        self._socket = socket
        self._begun = bytearray()

    async def write(self, part: bytes | memoryview) -> None:
        self._begun += part
        *lines, rest = self._begun.split(b"\n")
        self._begun = rest
        for line in lines:
            await self._socket.send_str(f"{line.decode()}\n")


@asynccontextmanager
async def open_output(
    request: web.BaseRequest, on_leave: Callable[[], None]
) -> AsyncIterator[WatchOutput]:
    """Begin the answer to a watch; `on_leave` is called when the client closes its WebSocket.

    Raises:
        BadRequest: the request is no proper one for a WebSocket.
    """
    if not wants_websocket(request.headers):
        yield _Lines(await open_stream(request, JSON))
        return
    socket = await open_websocket(request, asked_protocols(request.headers))
    reading = asyncio.create_task(_read(socket, on_leave))
    try:
        yield _Messages(socket)
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
    await socket.close()


async def _read(socket: web.WebSocketResponse, on_leave: Callable[[], None]) -> None:
    """Throw away what a client sends, which should be nothing."""
    async for _ in socket:
        pass
    on_leave()
