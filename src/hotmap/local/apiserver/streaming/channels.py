"""The channels of a WebSocket: the first byte or digit of a message names its channel.

Binary protocols carry bytes; the older base64 ones text (streaming/pkg/httpstream/wsstream).
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from hotmap.local.http_library import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotmap.local.http_server import web

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
#: Every protocol of exec and attach, the best first; "channel.k8s.io" has errors as plain text.
REMOTE_COMMAND = (V5, V4, "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io")
#: Every protocol of port-forward by channels.
PORT_FORWARD = (V4, "v4.base64.channel.k8s.io")
#: The channel of `v5` whose messages close the channel that they name.
CLOSE = 255


class Channels:
    """Reads and writes the messages of a WebSocket by channel."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.protocol = socket.ws_protocol or ""
        self._socket = socket
        self._base64 = "base64" in self.protocol

    @property
    def version(self) -> int:
        """The version of the protocol; 1 for those without a number."""
        return int(self.protocol[1]) if self.protocol[:1] == "v" else 1

    async def send(self, channel: int, data: bytes) -> None:
        """Send one message.

        Raises:
            ConnectionError: the client has gone.
        """
        if self._base64:
            await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Return the messages of the client until it disconnects; other frames are dropped."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY and message.data and not self._base64:
                yield message.data[0], message.data[1:]
            elif (
                message.type is aiohttp.WSMsgType.TEXT
                and message.data[:1].isdecimal()
                and self._base64
            ):
                try:
                    yield int(message.data[0]), base64.b64decode(message.data[1:])
                except (binascii.Error, ValueError):
                    return
