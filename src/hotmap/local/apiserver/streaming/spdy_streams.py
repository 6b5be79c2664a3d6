"""The streams of a SPDY connection; the client opens them, as kubectl does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from hotmap.local.apiserver.streaming import spdy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.apiserver.streaming.byte_stream import ByteStream

#: Open streams of a connection; more are refused.
_STREAM_LIMIT = 512
#: Parts of a stream that wait for their reader; the whole connection waits after that.
_QUEUE_LIMIT = 16


class SpdyStream:
    """One stream that the client has opened; implements `ByteStream`."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._connection = connection
        self._parts: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE_LIMIT)
        self._ended = False
        self._closed = False

    async def read(self) -> bytes:
        """Wait for data; b"" at the end, and after it."""
        if self._ended and self._parts.empty():
            return b""
        return await self._parts.get()

    async def write(self, data: bytes) -> None:
        """Send data, unless the stream is closed; wait while the client is slow."""
        if data and not self._closed:
            await self._connection.send(self._connection.frames.data(self.number, data))

    async def close(self) -> None:
        """End our half of the stream."""
        if not self._closed:
            self._closed = True
            await self._connection.send(
                self._connection.frames.data(self.number, b"", finished=True)
            )

    async def reset(self, status: int = spdy.CANCEL) -> None:
        """Give the stream up; what the client still sends is dropped."""
        self._closed = True
        self.abort()
        self._connection.forget(self)
        await self._connection.send(self._connection.frames.reset(self.number, status))

    def retire(self) -> None:
        """Drop whatever the client still sends on it."""
        self.abort()
        self._connection.forget(self)

    def abort(self) -> None:
        """Drop what was not read, and wake up the reader with the end."""
        self._ended = True
        while not self._parts.empty():
            self._parts.get_nowait()
        self._parts.put_nowait(b"")

    async def put(self, data: bytes, *, finished: bool) -> None:
        """Take what has arrived; waits while the reader is slow."""
        if data and not self._ended:
            await self._parts.put(data)
        if finished:
            await self.end()

    async def end(self) -> None:
        """Record that nothing more arrives."""
        if not self._ended:
            await self._parts.put(b"")
            self._ended = True


class SpdyConnection:
    """Serves the streams of one client; `run` reads until the client goes."""

    def __init__(self, connection: ByteStream) -> None:
        self.frames = spdy.FrameWriter()
        self._connection = connection
        self._reader = spdy.FrameReader()
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        #: Set when the client has gone.
        self.ended = asyncio.Event()

    async def accept(self) -> SpdyStream | None:
        """Wait for the next stream that the client opens; None when the connection has ended."""
        stream = await self._opened.get()
        if stream is None:
            self._opened.put_nowait(None)
        return stream

    async def run(self) -> None:
        """Read frames until the client goes, or sends something else."""
        try:
            while data := await self._connection.read():
                for event in self._reader.feed(data):
                    await self._handle(event)
        except (ConnectionError, spdy.ProtocolError):
            pass
        finally:
            self.ended.set()
            self._opened.put_nowait(None)
            for stream in tuple(self._streams.values()):
                stream.abort()

    async def close(self) -> None:
        """Announce the end."""
        with contextlib.suppress(ConnectionError):
            await self.send(self.frames.go_away(0))

    async def send(self, data: bytes) -> None:
        await self._connection.write(data)

    def forget(self, stream: SpdyStream) -> None:
        """Drop whatever still arrives for a stream."""
        self._streams.pop(stream.number, None)

    async def _handle(self, event: spdy.Event) -> None:
        match event:
            case spdy.OpenStream(number, headers, finished):
                await self._open(number, headers, finished=finished)
            case spdy.Data(number, data, finished):
                stream = self._streams.get(number)
                if stream is not None:
                    await stream.put(data, finished=finished)
            case spdy.Reset(number):
                stream = self._streams.pop(number, None)
                if stream is not None:
                    await stream.end()
            case spdy.Ping(number):
                await self.send(self.frames.ping(number))

    async def _open(self, number: int, headers: Mapping[str, str], *, finished: bool) -> None:
        if number in self._streams or not number % 2:
            raise spdy.ProtocolError("stream number")
        if len(self._streams) >= _STREAM_LIMIT:
            await self.send(self.frames.reset(number, spdy.REFUSED_STREAM))
            return
        stream = self._streams[number] = SpdyStream(self, number, headers)
        await self.send(self.frames.reply(number))
        if finished:
            await stream.end()
        self._opened.put_nowait(stream)
