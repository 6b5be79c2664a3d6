"""port-forward: streams of a client joined with TCP connections to a pod.

Over SPDY each connection has two streams, data and error, with the same request id; kubectl since
1.31 puts SPDY into a WebSocket. Other clients use a WebSocket with two channels per port, which
names its ports in the query (cri-streaming/pkg/streaming/portforward).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.errors import ApiError, BadRequest
from hotmap.local.apiserver.streaming import channels, spdy
from hotmap.local.apiserver.streaming.protocols import wants_websocket
from hotmap.local.apiserver.streaming.spdy_streams import SpdyConnection
from hotmap.local.apiserver.streaming.upgrade import (
    WebSocketTunnel,
    open_spdy,
    open_websocket,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hotmap.local.apiserver.streaming.byte_stream import ByteStream
    from hotmap.local.apiserver.streaming.channels import Channels
    from hotmap.local.apiserver.streaming.spdy_streams import SpdyStream
    from hotmap.local.http_server import web

    Connect = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

SPDY_PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = f"SPDY/3.1+{SPDY_PROTOCOL}"
#: Bytes read at a time.
_CHUNK = 1 << 16
#: Messages for a port that wait to be passed on; the whole connection waits after that.
_QUEUE_LIMIT = 16


class Target(NamedTuple):
    """The pod that is forwarded to; `connect` opens a connection to one of its ports.

    It raises ApiError where the port refuses.
    """

    pod: str
    uid: str
    connect: Connect

    def explain(self, port: int, error: Exception) -> bytes:
        """Report that a port could not be reached, as a kubelet does."""
        why = error.message if isinstance(error, ApiError) else error
        return f"error forwarding port {port} to pod {self.pod}, uid {self.uid}: {why}".encode()


async def serve(
    request: web.BaseRequest, target: Target, ports: Sequence[str]
) -> web.StreamResponse:
    """Upgrade a connection, and forward until the client goes.

    Raises:
        ApiError: the request cannot be upgraded, or its `ports` are none.
    """
    if not wants_websocket(request.headers):
        _, connection = await open_spdy(request, (SPDY_PROTOCOL,))
        await _forward_streams(connection, target)
        return connection.response
    if TUNNEL_PROTOCOL in request.headers.get("Sec-WebSocket-Protocol", ""):
        socket = await open_websocket(request, (TUNNEL_PROTOCOL,))
        await _forward_streams(WebSocketTunnel(socket), target)
        await socket.close()
        return socket
    numbers = parse_ports(ports)
    socket = await open_websocket(request, channels.PORT_FORWARD)
    await _forward_channels(channels.Channels(socket), target, numbers)
    await socket.close()
    return socket


def parse_ports(texts: Sequence[str]) -> list[int]:
    """Read the query's `ports`, each a number or several with commas between.

    Raises:
        BadRequest: there is none, or one of them is not a port.
    """
    if not texts:
        raise BadRequest('query parameter "ports" is required')
    return [parse_port(number) for text in texts for number in text.split(",")]


def parse_port(text: str) -> int:
    """Read a port.

    Raises:
        BadRequest: it is none.
    """
    if not text.isascii() or not text.isdecimal() or len(text) > 5 or int(text) >= 1 << 16:
        raise BadRequest(f'unable to parse "{text}" as a port')
    if int(text) == 0:
        raise BadRequest(f'port "{text}" must be > 0')
    return int(text)


async def _forward_streams(connection: ByteStream, target: Target) -> None:
    """Forward each pair of streams of a SPDY connection until the client goes."""
    spdy_connection = SpdyConnection(connection)
    reading = asyncio.create_task(spdy_connection.run())
    forwarding: set[asyncio.Task[None]] = set()
    halves: dict[str, SpdyStream] = {}
    try:
        while (stream := await spdy_connection.accept()) is not None:
            pair = await _pair(halves, stream)
            if pair is not None:
                task = asyncio.create_task(_forward_pair(*pair, target))
                forwarding.add(task)
                task.add_done_callback(forwarding.discard)
    except ConnectionError:
        return
    finally:
        for task in (reading, *forwarding):
            task.cancel()
        await asyncio.gather(reading, *forwarding, return_exceptions=True)


async def _pair(
    halves: dict[str, SpdyStream], stream: SpdyStream
) -> tuple[SpdyStream, SpdyStream] | None:
    """Return the data and the error stream of a request once both are there."""
    kind = stream.headers.get("streamtype", "")
    try:
        parse_port(stream.headers.get("port", ""))
    except BadRequest:
        kind = ""
    if kind not in ("data", "error"):
        await stream.reset(spdy.REFUSED_STREAM)
        return None
    # Clients that number no requests open the error stream first, and the data stream next.
    number = stream.number if kind == "error" else stream.number - 2
    request = stream.headers.get("requestid") or str(number)
    other = halves.pop(request, None)
    if other is None:
        halves[request] = stream
        return None
    if other.headers["streamtype"] == kind:
        halves[request] = other
        await stream.reset(spdy.REFUSED_STREAM)
        return None
    return (stream, other) if kind == "data" else (other, stream)


async def _forward_pair(data: SpdyStream, error: SpdyStream, target: Target) -> None:
    port = parse_port(data.headers["port"])
    try:
        try:
            await _forward(data, await target.connect(port))
        except (ApiError, OSError) as failure:
            await error.write(target.explain(port, failure))
            await error.close()
            await data.reset()
        else:
            await data.close()
            await error.close()
        data.retire()
        error.retire()
    except ConnectionError:
        # The client has gone.
        return


async def _forward(
    stream: ByteStream, connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Pass data in both directions until the pod has sent its last.

    The end of the client's half is passed on, as programs may answer only after it.
    """
    reader, writer = connection
    sending = asyncio.create_task(_send(stream, writer))
    try:
        while data := await reader.read(_CHUNK):
            await stream.write(data)
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await sending
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _send(stream: ByteStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _forward_channels(messages: Channels, target: Target, ports: Sequence[int]) -> None:
    """Forward one connection for each port, by a channel for data and one for errors."""
    streams = [_ChannelStream(messages, 2 * i) for i in range(len(ports))]
    for i, port in enumerate(ports):
        for channel in (2 * i, 2 * i + 1):
            await messages.send(channel, struct.pack("<H", port))
    forwarding = [
        asyncio.create_task(_forward_channel(stream, target, port))
        for stream, port in zip(streams, ports, strict=True)
    ]
    ending = asyncio.create_task(asyncio.wait(forwarding))
    reading = asyncio.create_task(_distribute(messages, streams))
    try:
        await asyncio.wait((ending, reading), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ending, reading, *forwarding):
            task.cancel()
        await asyncio.gather(ending, reading, *forwarding, return_exceptions=True)


async def _forward_channel(stream: _ChannelStream, target: Target, port: int) -> None:
    try:
        await _forward(stream, await target.connect(port))
    except (ApiError, OSError) as failure:
        with contextlib.suppress(ConnectionError):
            await stream.send_error(target.explain(port, failure))
    finally:
        stream.retire()


async def _distribute(messages: Channels, streams: Sequence[_ChannelStream]) -> None:
    async for channel, data in messages.receive():
        if channel % 2 == 0 and channel // 2 < len(streams) and data:
            await streams[channel // 2].put(data)


class _ChannelStream:
    """The data channel of a port; implements `ByteStream`."""

    def __init__(self, messages: Channels, channel: int) -> None:
        self._messages = messages
        self._channel = channel
        self._parts: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE_LIMIT)
        self._retired = False

    async def put(self, data: bytes) -> None:
        """Take what has arrived; waits while the pod is slow."""
        if not self._retired:
            await self._parts.put(data)

    def retire(self) -> None:
        """Drop whatever the client still sends on it."""
        self._retired = True
        while not self._parts.empty():
            self._parts.get_nowait()

    async def read(self) -> bytes:
        return await self._parts.get()

    async def write(self, data: bytes) -> None:
        await self._messages.send(self._channel, data)

    async def send_error(self, text: bytes) -> None:
        await self._messages.send(self._channel + 1, text)

    async def close(self) -> None:
        """There is no way to say it but the end of the connection."""
