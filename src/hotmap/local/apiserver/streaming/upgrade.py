"""From an HTTP request to a connection that carries several streams.

Two ways, chosen by the request's headers: a WebSocket, or the connection itself with SPDY/3.1 on
it (k8s.io/streaming/pkg/httpstream/spdy/upgrade.go).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.http_library import aiohttp
from hotmap.local.http_server import web

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROTOCOL = "X-Stream-Protocol-Version"
#: Largest message of a WebSocket, in bytes.
_MESSAGE_LIMIT = 32 << 20


async def open_websocket(
    request: web.BaseRequest, protocols: Sequence[str]
) -> web.WebSocketResponse:
    """Answer with a WebSocket, speaking the first of `protocols` that the client has, or none.

    Raises:
        BadRequest: the request is no proper one for a WebSocket.
    """
    socket = web.WebSocketResponse(protocols=protocols, max_msg_size=_MESSAGE_LIMIT)
    try:
        can_prepare = socket.can_prepare(request).ok
    except ValueError:
        # aiohttp expects a key in ASCII.
        can_prepare = False
    if not can_prepare:
        raise BadRequest("Upgrade request required")
    await socket.prepare(request)
    return socket


async def open_spdy(
    request: web.BaseRequest, protocols: Sequence[str]
) -> tuple[str, RawConnection]:
    """Answer with SPDY/3.1; return the first of `protocols` that the client has, and the socket.

    A client that names no protocol gets "".

    Raises:
        BadRequest: the request asks for no upgrade.
        ApiError: 403, the client names protocols, and none of `protocols` (httpstream.Handshake).
    """
    if request.headers.get("Upgrade", "").lower() != "spdy/3.1":
        raise BadRequest("Upgrade request required")
    asked = [
        name.strip()
        for line in request.headers.getall(_PROTOCOL, [])
        for name in line.split(",")
        if name.strip()
    ]
    chosen = next((name for name in protocols if name in asked), "")
    if asked and not chosen:
        raise api_error(
            403,
            f"unable to upgrade: unable to negotiate protocol: client supports {asked}, "
            f"server accepts {list(protocols)}",
            reason="Forbidden",
        )
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    if chosen:
        headers[_PROTOCOL] = chosen
    return chosen, await open_raw(request, headers)


async def open_raw(request: web.BaseRequest, headers: Mapping[str, str]) -> RawConnection:
    """Answer that the protocol is switched, with these headers; return the connection."""
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    connection = RawConnection(request, response)
    await response.prepare(request)
    return connection


class RawConnection:
    """The connection of a request, read and written past HTTP; implements `ByteStream`."""

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        self.response = response
        self._reader = asyncio.StreamReader()
        if request.transport is not None:
            # Reading pauses while much is unread.
            self._reader.set_transport(request.transport)
        receiver: Any = _Receiver(self._reader)
        request.protocol.set_parser(receiver)

    async def read(self) -> bytes:
        return await self._reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        await self.response.write(data)

    async def close(self) -> None:
        """Leave it to the server, which closes the connection after the request."""


class _Receiver:
    """Takes what arrives after the upgrade; aiohttp calls it as it calls its WebSocket parser."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def set_exception(self, exception: BaseException, *_cause: object) -> None:
        self._reader.feed_eof()


class WebSocketTunnel:
    """The binary messages of a WebSocket as one stream of bytes; implements `ByteStream`.

    kubernetes: client-go/tools/portforward/tunneling_connection.go
    """

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY and message.data:
                return bytes(message.data)
            if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        await self._socket.close()
