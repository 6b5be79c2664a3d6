"""SPDY/3.1 frames, without a connection (The SPDY Protocol, draft mbelshe-httpbis-spdy-00).

Only what `k8s.io/streaming` uses: streams opened by the client, data, pings, resets. There is no
flow control by windows, since moby/spdystream has none.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VERSION = 3
_SYN_REPLY, _RST_STREAM = 2, 3
_PING, _GOAWAY = 6, 7
_FIN = 1
_ID_MASK = 0x7FFFFFFF
#: Largest accepted control frame, and the largest header block after decompression, in bytes.
_CONTROL_LIMIT = 64 << 10
#: Largest payload of a frame that is sent, in bytes; the format allows 16 MiB.
_DATA_LIMIT = 32 << 10
#: Status codes of RST_STREAM.
REFUSED_STREAM, CANCEL = 3, 5

_DICTIONARY_WORDS = """\
options head post put delete trace accept accept-charset accept-encoding accept-language \
accept-ranges age allow authorization cache-control connection content-base content-encoding \
content-language content-length content-location content-md5 content-range content-type date etag \
expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since \
last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer \
retry-after server te trailer transfer-encoding upgrade user-agent vary via warning \
www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin\
"""
_DICTIONARY_TAIL = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    b"401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    b"503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    b"Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    b"application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    b"sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
#: What both ends start compression of headers with (draft, section 2.6.10.1).
DICTIONARY = (
    b"".join(
        struct.pack(">I", len(word)) + word.replace("_", " ").encode()
        for word in _DICTIONARY_WORDS.split(" ")
    )
    + _DICTIONARY_TAIL
)


class ProtocolError(Exception):
    """Raised for bytes that are not SPDY/3.1; the connection cannot go on."""


class OpenStream(NamedTuple):
    """The client opens a stream; `finished` if it will send no data. Names are in lower case."""

    stream: int
    headers: Mapping[str, str]
    finished: bool


class Data(NamedTuple):
    """A part of what a stream carries; `finished` if it is the last."""

    stream: int
    data: bytes
    finished: bool


class Reset(NamedTuple):
    """The client gives a stream up."""

    stream: int


class Ping(NamedTuple):
    """The client wants the same number back."""

    number: int


class GoAway(NamedTuple):
    """The client opens no more streams; `last` is the newest of ours that it has seen."""

    last: int


Event = OpenStream | Data | Reset | Ping | GoAway


class FrameReader:
    """Turns the bytes of a client into events; one per connection, as headers share a state."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        # The data frame whose payload is arriving: stream, bytes missing, whether it is the last.
        self._payload: tuple[int, int, bool] | None = None

    def feed(self, data: bytes) -> Iterator[Event]:
        """Add bytes, and return the events that they complete.

        Raises:
            ProtocolError: they are not frames, or larger than accepted.
        """
        self._buffer += data
        while (event := self._next()) is not None:
            if event:
                yield event

    def _next(self) -> Event | tuple[()] | None:
        """Return the next event, () for a frame without meaning here, None if bytes are missing."""
        if self._payload is not None:
            return self._take_payload(*self._payload)
        if len(self._buffer) < 8:
            return None
        head, rest = struct.unpack_from(">II", self._buffer)
        flags, length = rest >> 24, rest & 0xFFFFFF
        if not head >> 31:
            del self._buffer[:8]
            if length == 0:
                return Data(head, b"", finished=bool(flags & _FIN))
            self._payload = (head, length, bool(flags & _FIN))
            return ()
        if (head >> 16) & 0x7FFF != _VERSION:
            raise ProtocolError("not a SPDY/3 frame")
        if length > _CONTROL_LIMIT:
            raise ProtocolError("control frame too large")
        if len(self._buffer) < 8 + length:
            return None
        body = bytes(self._buffer[8 : 8 + length])
        del self._buffer[: 8 + length]
        return self._control(head & 0xFFFF, flags, body)

    def _take_payload(self, stream: int, missing: int, finished: bool) -> Data | None:
        if not self._buffer:
            return None
        data = bytes(self._buffer[:missing])
        del self._buffer[:missing]
        missing -= len(data)
        self._payload = (stream, missing, finished) if missing else None
        return Data(stream, data, finished and not missing)

    def _control(self, kind: int, flags: int, body: bytes) -> Event | tuple[()]:
        try:
            match kind:
                case 1:  # SYN_STREAM
                    stream = struct.unpack_from(">I", body)[0] & _ID_MASK
                    return OpenStream(stream, self._headers(body[10:]), bool(flags & _FIN))
                case 3:  # RST_STREAM
                    return Reset(struct.unpack_from(">I", body)[0] & _ID_MASK)
                case 6:  # PING
                    return Ping(struct.unpack_from(">I", body)[0])
                case 7:  # GOAWAY
                    return GoAway(struct.unpack_from(">I", body)[0] & _ID_MASK)
                case 2 | 8:  # SYN_REPLY, HEADERS
                    # The state of the compression has to follow every block of headers.
                    self._headers(body[4:])
        except (struct.error, zlib.error, UnicodeDecodeError):
            raise ProtocolError("malformed control frame") from None
        return ()

    def _headers(self, block: bytes) -> dict[str, str]:
        data = self._inflate.decompress(block, _CONTROL_LIMIT)
        if self._inflate.unconsumed_tail:
            raise ProtocolError("headers too large")
        (count,) = struct.unpack_from(">I", data)
        place, headers = 4, {}
        for _ in range(count):
            name, place = _text(data, place)
            value, place = _text(data, place)
            headers[name.lower()] = value.partition("\0")[0]
        return headers


def _text(data: bytes, place: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", data, place)
    end = place + 4 + length
    if end > len(data):
        raise ProtocolError("malformed headers")
    return data[place + 4 : end].decode(), end


class FrameWriter:
    """Makes the frames of the server; one per connection, as headers share a state."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accept a stream, without headers."""
        block = self._deflate.compress(struct.pack(">I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + block)

    def data(self, stream: int, data: bytes, *, finished: bool = False) -> bytes:
        """Make the frames for data of any length; `finished` ends our half of the stream."""
        view, frames = memoryview(data), []
        for start in range(0, max(len(data), 1), _DATA_LIMIT):
            part = view[start : start + _DATA_LIMIT]
            last = finished and start + _DATA_LIMIT >= len(data)
            frames.append(struct.pack(">II", stream, (_FIN if last else 0) << 24 | len(part)))
            frames.append(bytes(part))
        return b"".join(frames)

    def reset(self, stream: int, status: int) -> bytes:
        """Refuse a stream, or give it up."""
        return _control_frame(_RST_STREAM, struct.pack(">II", stream, status))

    def ping(self, number: int) -> bytes:
        """Answer a ping."""
        return _control_frame(_PING, struct.pack(">I", number))

    def go_away(self, last_stream: int) -> bytes:
        """Announce the end of the connection."""
        return _control_frame(_GOAWAY, struct.pack(">II", last_stream, 0))


def _control_frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", 0x8000 | _VERSION, kind, len(body)) + body
