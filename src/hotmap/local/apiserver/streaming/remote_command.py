"""exec and attach: a session of the kubelet joined with the streams of a client.

The last thing that a client gets is a Status, with the exit code where that is not 0; protocols
before the fourth get its message as text (cri-streaming/pkg/streaming/remotecommand).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

import msgspec

from hotmap.core.errors import ApiError
from hotmap.local.apiserver.status import failure_status
from hotmap.local.apiserver.streaming import channels
from hotmap.local.apiserver.streaming.protocols import wants_websocket
from hotmap.local.apiserver.streaming.spdy_streams import SpdyConnection
from hotmap.local.apiserver.streaming.upgrade import open_spdy, open_websocket
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.apiserver.streaming.channels import Channels
    from hotmap.local.apiserver.streaming.spdy_streams import SpdyStream
    from hotmap.local.http_server import web
    from hotmap.local.kubelet_api import RemoteSession, StreamOptions

_log = logging.getLogger(__name__)

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
#: Seconds that a SPDY client has to open its streams (DefaultStreamCreationTimeout).
STREAM_CREATION_LIMIT = 30.0
#: Largest JSON text of a terminal size, in bytes.
_SIZE_LIMIT = 256
SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")


class _Client(Protocol):
    """A client's ends of the streams of a session."""

    async def pass_input(self, session: RemoteSession) -> None:
        """Pass on what the client sends, until it goes."""
        ...

    async def send(self, stream: str, data: bytes) -> None:
        """Send output; `stream` is "stdout", "stderr" or "error"."""
        ...

    @property
    def version(self) -> int:
        """The version of the protocol that it speaks."""
        ...


async def serve(
    request: web.BaseRequest, options: StreamOptions, session: RemoteSession
) -> web.StreamResponse:
    """Upgrade a connection, and join it with a session until either ends; closes the session.

    Raises:
        ApiError: the request cannot be upgraded.
    """
    try:
        if wants_websocket(request.headers):
            return await _serve_websocket(request, options, session)
        protocol, connection = await open_spdy(request, SPDY_PROTOCOLS)
        version = int(protocol[1]) if protocol[:1] == "v" else 1
        await _serve_spdy(SpdyConnection(connection), version, options, session)
        return connection.response
    finally:
        await session.close()


async def _serve_websocket(
    request: web.BaseRequest, options: StreamOptions, session: RemoteSession
) -> web.StreamResponse:
    socket = await open_websocket(request, channels.REMOTE_COMMAND)
    client = _WebSocketClient(channels.Channels(socket))
    with contextlib.suppress(ConnectionError):
        # Tells the client that the connection stands.
        first = "stdout" if options.stdout else "stderr" if options.stderr else "error"
        await client.send(first, b"")
    await _join(client, session)
    await socket.close()
    return socket


async def _serve_spdy(
    connection: SpdyConnection, version: int, options: StreamOptions, session: RemoteSession
) -> None:
    reading = asyncio.create_task(connection.run())
    try:
        async with asyncio.timeout(STREAM_CREATION_LIMIT):
            streams = await _accept_streams(connection, version, options)
        if streams is not None:
            await _join(_SpdyClient(connection, streams, version), session)
            for stream in streams.values():
                await stream.close()
        await connection.close()
    except (ConnectionError, TimeoutError):
        _log.debug("a client of exec or attach went before its streams stood")
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def _accept_streams(
    connection: SpdyConnection, version: int, options: StreamOptions
) -> dict[str, SpdyStream] | None:
    """Wait for the streams that the options promise; None if the client goes before."""
    wanted = {"error"}
    for name in ("stdin", "stdout", "stderr"):
        if getattr(options, name):
            wanted.add(name)
    if options.tty:
        wanted.discard("stderr")
        if version >= 3:
            wanted.add("resize")
    streams: dict[str, SpdyStream] = {}
    while not wanted <= streams.keys():
        stream = await connection.accept()
        if stream is None:
            return None
        streams[stream.headers.get("streamtype", "")] = stream
    return streams


async def _join(client: _Client, session: RemoteSession) -> None:
    """Pass input and output until the session ends or the client goes."""
    reader = asyncio.create_task(_pass_input(client, session))
    try:
        while (output := await session.read()) is not None:
            await client.send(*output)
        await _send_status(client, exit_status(await session.wait()))
    except ApiError as error:
        await _send_status(client, failure_status(error))
    except ConnectionError:
        _log.debug("a client of exec or attach went before the end")
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader


async def _pass_input(client: _Client, session: RemoteSession) -> None:
    await client.pass_input(session)
    # The client has gone, so what it started is ended.
    await session.close()


async def _send_status(client: _Client, status: JsonObject) -> None:
    if client.version >= 4:
        data = msgspec.json.encode(status)
    elif status["status"] == "Success":
        return
    else:
        data = str(status["message"]).encode()
    with contextlib.suppress(ConnectionError):
        await client.send("error", data)


class _WebSocketClient:
    """A client on the other end of a WebSocket."""

    def __init__(self, messages: Channels) -> None:
        self._messages = messages
        self.version = messages.version

    async def send(self, stream: str, data: bytes) -> None:
        channel = {"stdout": _STDOUT, "stderr": _STDERR, "error": _ERROR}[stream]
        await self._messages.send(channel, data)

    async def pass_input(self, session: RemoteSession) -> None:
        async for channel, data in self._messages.receive():
            if channel == _STDIN and data:
                await session.write(data)
            elif channel == _RESIZE:
                await _resize(session, data)
            elif channel == channels.CLOSE and self.version >= 5 and data[:1] == bytes([_STDIN]):
                await session.close_input()


class _SpdyClient:
    """A client with a SPDY stream for each of the session's."""

    def __init__(
        self, connection: SpdyConnection, streams: dict[str, SpdyStream], version: int
    ) -> None:
        self._connection = connection
        self._streams = streams
        self.version = version

    async def send(self, stream: str, data: bytes) -> None:
        target = self._streams.get(stream)
        if target is not None:
            await target.write(data)

    async def pass_input(self, session: RemoteSession) -> None:
        async with asyncio.TaskGroup() as streams:
            streams.create_task(self._pass_stdin(session))
            streams.create_task(self._pass_sizes(session))
            # Both may end early: the client is there as long as its connection.
            streams.create_task(self._connection.ended.wait())

    async def _pass_stdin(self, session: RemoteSession) -> None:
        stream = self._streams.get("stdin")
        if stream is None:
            return
        while data := await stream.read():
            await session.write(data)
        await session.close_input()

    async def _pass_sizes(self, session: RemoteSession) -> None:
        stream = self._streams.get("resize")
        if stream is None:
            return
        text = b""
        while data := await stream.read():
            *sizes, text = (text + data).replace(b"}", b"}\n").split(b"\n")
            for size in sizes:
                await _resize(session, size)
            text = text[-_SIZE_LIMIT:]


class _Size(msgspec.Struct):
    Width: int
    Height: int


async def _resize(session: RemoteSession, data: bytes) -> None:
    """Set the size of the terminal; invalid messages are ignored."""
    if not data.strip():
        return
    try:
        size = msgspec.json.decode(data, type=_Size)
    except msgspec.DecodeError:
        return
    if 0 <= size.Width < 1 << 16 and 0 <= size.Height < 1 << 16:
        await session.resize(size.Width, size.Height)


def exit_status(code: int) -> JsonObject:
    """Return how a command ended (cri-streaming/pkg/streaming/remotecommand/exec.go)."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
