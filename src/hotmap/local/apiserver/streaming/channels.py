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
        """Return the messages of the client until it disconnects.

        Text and binary messages mean the same, since the Python client sends input as text
        (wsstream reads both into bytes). Messages that name no channel are dropped.
        """
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                data = message.data.encode()
            elif message.type is aiohttp.WSMsgType.BINARY:
                data = bytes(message.data)
            else:
                continue
            if decoded := _decode_base64(data) if self._base64 else data:
                yield decoded[0], decoded[1:]


def _decode_base64(data: bytes) -> bytes:
    """Decode a message of a digit and base64 into one of a byte and bytes; b"" for others."""
    if not data[:1].isdigit():
        return b""
    try:
        return bytes([int(data[:1])]) + base64.b64decode(data[1:])
    except binascii.Error:
        return b""
