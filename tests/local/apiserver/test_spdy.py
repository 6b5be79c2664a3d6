"""SPDY/3.1 frames and streams, against a client of a few lines."""

from __future__ import annotations

import asyncio
import hashlib
import struct
import zlib

import pytest

from hotmap.local.apiserver.streaming import spdy
from hotmap.local.apiserver.streaming.spdy_streams import SpdyConnection

HEADERS = {"Streamtype": "data", "port": "80"}


class ClientFrames:
    """Makes the frames of a client."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=spdy.DICTIONARY)

    def open(self, stream: int, headers: dict[str, str], *, flags: int = 0) -> bytes:
        block = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            block += struct.pack(">I", len(text)) + text.encode()
        return self.control(1, struct.pack(">IIH", stream, 0, 0) + self.compress(block), flags)

    def compress(self, block: bytes) -> bytes:
        return self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    @staticmethod
    def control(kind: int, body: bytes, flags: int = 0) -> bytes:
        return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body

    @staticmethod
    def data(stream: int, data: bytes, *, flags: int = 0) -> bytes:
        return struct.pack(">II", stream, flags << 24 | len(data)) + data


class Wire:
    """A connection whose client is a test."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = b""

    async def read(self) -> bytes:
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        self.sent += data

    async def close(self) -> None:
        self.sent += b"closed"


def test_dictionary_is_that_of_the_protocol() -> None:
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2
    assert hashlib.sha256(spdy.DICTIONARY).hexdigest().startswith("51d27341373f923f")


def test_frames_are_read_in_parts_of_any_size() -> None:
    """Headers of several streams share one compression; data is passed on as it comes."""
    client = ClientFrames()
    wire = (
        client.open(1, HEADERS)
        + client.control(4, b"\0\0\0\0")
        + client.data(1, b"hello")
        + client.open(3, HEADERS, flags=1)
        + client.data(1, b"", flags=1)
        + client.control(6, struct.pack(">I", 7))
        + client.control(3, struct.pack(">II", 3, 5))
        + client.control(7, struct.pack(">II", 3, 0))
    )
    headers = {"streamtype": "data", "port": "80"}
    whole = [
        spdy.OpenStream(1, headers, finished=False),
        spdy.Data(1, b"hello", finished=False),
        spdy.OpenStream(3, headers, finished=True),
        spdy.Data(1, b"", finished=True),
        spdy.Ping(7),
        spdy.Reset(3),
        spdy.GoAway(3),
    ]
    assert list(spdy.FrameReader().feed(wire)) == whole
    reader = spdy.FrameReader()
    events = [event for i in range(len(wire)) for event in reader.feed(wire[i : i + 1])]
    assert b"".join(e.data for e in events if isinstance(e, spdy.Data)) == b"hello"
    assert [e for e in events if not isinstance(e, spdy.Data)] == [
        e for e in whole if not isinstance(e, spdy.Data)
    ]


def _bomb(client: ClientFrames) -> bytes:
    body = struct.pack(">IIH", 1, 0, 0) + client.compress(b"\0" * 10_000_000)
    return client.control(1, body)


@pytest.mark.parametrize(
    "wire",
    [
        b"GET / HTTP/1.1\r\n\r\n".replace(b"G", b"\xff"),
        ClientFrames.control(1, b"short"),
        ClientFrames.control(1, b"\0" * 10 + b"not compressed"),
        ClientFrames.control(3, b""),
        ClientFrames().control(1, b"\0" * 10 + ClientFrames().compress(b"\0\0\0\2\0\0\0\1a")),
        ClientFrames().control(
            1, b"\0" * 10 + ClientFrames().compress(b"\0\0\0\1\xff\xff\xff\xff")
        ),
        struct.pack(">HHI", 0x8003, 1, 1 << 20),
        _bomb(ClientFrames()),
    ],
)
def test_malformed_frames_are_refused(wire: bytes) -> None:
    with pytest.raises(spdy.ProtocolError):
        list(spdy.FrameReader().feed(wire))


def test_large_data_is_sent_in_several_frames() -> None:
    wire = spdy.FrameWriter().data(5, b"x" * 100_000, finished=True)
    events = list(spdy.FrameReader().feed(wire))
    assert sum(len(e.data) for e in events if isinstance(e, spdy.Data)) == 100_000
    assert [e.finished for e in events if isinstance(e, spdy.Data)][-1]


async def test_streams_carry_data_both_ways() -> None:
    """A stream is accepted, read to its end and written; a ping comes back."""
    wire, client = Wire(), ClientFrames()
    connection = SpdyConnection(wire)
    running = asyncio.create_task(connection.run())
    wire.incoming.put_nowait(
        client.open(1, HEADERS) + client.data(1, b"in", flags=1) + client.control(6, b"\0\0\0\1")
    )
    stream = await connection.accept()
    assert stream is not None
    assert [await stream.read() for _ in range(3)] == [b"in", b"", b""]
    await stream.write(b"out")
    await stream.close()
    await stream.write(b"too late")
    assert wire.sent.endswith(ClientFrames.data(1, b"out") + ClientFrames.data(1, b"", flags=1))
    assert ClientFrames.control(6, b"\0\0\0\1") in wire.sent
    wire.incoming.put_nowait(b"")
    assert await connection.accept() is None
    assert await connection.accept() is None
    await running


async def test_end_of_connection_wakes_readers() -> None:
    """Garbage ends a connection as its client does; who waits for a stream is told."""
    wire, client = Wire(), ClientFrames()
    connection = SpdyConnection(wire)
    running = asyncio.create_task(connection.run())
    wire.incoming.put_nowait(client.open(1, HEADERS))
    stream = await connection.accept()
    assert stream is not None
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    wire.incoming.put_nowait(b"\xff" * 20)
    assert await reading == b""
    assert connection.ended.is_set()
    await running


async def test_streams_are_bounded() -> None:
    """Beyond several hundred open ones a stream is refused, and the others go on."""
    wire, client = Wire(), ClientFrames()
    connection = SpdyConnection(wire)
    running = asyncio.create_task(connection.run())
    wire.incoming.put_nowait(b"".join(client.open(2 * i + 1, HEADERS) for i in range(513)))
    wire.incoming.put_nowait(b"")
    await running
    assert wire.sent.endswith(ClientFrames.control(3, struct.pack(">II", 1025, 3)))
