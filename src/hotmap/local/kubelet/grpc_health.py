"""The health check of gRPC (grpc.health.v1.Health), asked over plain HTTP/2.

kubernetes: pkg/probe/grpc. A probe makes one request on a connection of its own, so this is as much
of HTTP/2 (RFC 9113) as that takes. Headers of answers are not decoded: the state of a service is in
the message, and where there is none the check has failed.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hotmap.core.errors import HotmapError

__all__ = ["HealthCheckFailed", "check_health"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 1, 1, 4, 8
_STREAM = 1
#: The largest frame that a server may send to a client that asks for no larger ones.
_MAX_FRAME = 1 << 14
#: Bytes of answers after which a server is not a health service.
_MAX_ANSWER = 1 << 16
_STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


class HealthCheckFailed(HotmapError):
    """Raised when a service does not serve, or cannot be asked; shown as a probe's failure."""


class _Frame(NamedTuple):
    type: int
    flags: int
    stream: int
    payload: bytes


async def check_health(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, authority: str, service: str
) -> None:
    """Ask on a new connection whether a service serves.

    Raises:
        HealthCheckFailed: it does not, or the answer is none of a health service.
    """
    writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
    writer.write(_frame(_HEADERS, _END_HEADERS, _STREAM, _headers(authority)))
    writer.write(_frame(_DATA, _END_STREAM, _STREAM, _request(service)))
    try:
        state = _state_of(await _read_answer(reader, writer))
    except (asyncio.IncompleteReadError, ValueError):
        raise HealthCheckFailed("error: health rpc probe failed: malformed response") from None
    if state != "SERVING":
        raise HealthCheckFailed(f'service unhealthy (responded with "{state}")')


async def _read_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the data of the stream, and answer what the server asks of the connection."""
    data = b""
    while True:
        frame = await _read_frame(reader)
        if frame.type == _SETTINGS and not frame.flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif frame.type == _PING and not frame.flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, frame.payload))
        elif frame.type == _GOAWAY:
            raise HealthCheckFailed("error: health rpc probe failed: connection closed")
        if frame.stream != _STREAM:
            continue
        if frame.type == _RST_STREAM:
            raise HealthCheckFailed("error: health rpc probe failed: stream closed")
        if frame.type == _DATA:
            data += _without_padding(frame)
        if len(data) > _MAX_ANSWER:
            raise ValueError
        if frame.type in (_DATA, _HEADERS) and frame.flags & _END_STREAM:
            return data


async def _read_frame(reader: asyncio.StreamReader) -> _Frame:
    head = await reader.readexactly(9)
    size = int.from_bytes(head[:3])
    if size > _MAX_FRAME:
        raise ValueError
    stream = int.from_bytes(head[5:]) & 0x7FFFFFFF
    return _Frame(head[3], head[4], stream, await reader.readexactly(size))


def _frame(type: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((type, flags)) + stream.to_bytes(4) + payload


def _without_padding(frame: _Frame) -> bytes:
    if not frame.flags & _PADDED:
        return frame.payload
    return frame.payload[1 : len(frame.payload) - frame.payload[0]]


def _headers(authority: str) -> bytes:
    """Write the headers of a request (RFC 7541): by the static table, else as they are."""
    return b"".join(
        (
            b"\x83",  # :method: POST
            b"\x86",  # :scheme: http
            b"\x04" + _text("/grpc.health.v1.Health/Check"),  # :path
            b"\x01" + _text(authority),  # :authority
            b"\x0f\x10" + _text("application/grpc"),  # content-type
            b"\x0f\x2b" + _text("kube-probe/1.36"),  # user-agent
            b"\x00" + _text("te") + _text("trailers"),
        )
    )


def _text(text: str) -> bytes:
    """Write a text without compression; longer ones than 126 bytes take more than one byte."""
    data = text.encode()
    size, rest = min(len(data), 127), len(data) - 127
    head = [size]
    if size == 127:
        while rest >= 128:
            head.append(rest % 128 + 128)
            rest //= 128
        head.append(rest)
    return bytes(head) + data


def _request(service: str) -> bytes:
    """Write a HealthCheckRequest: a string, field 1."""
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    return b"\x00" + len(message).to_bytes(4) + message


def _varint(number: int) -> bytes:
    written = []
    while number >= 128:
        written.append(number % 128 + 128)
        number //= 128
    return bytes((*written, number))


def _state_of(data: bytes) -> str:
    """Read a HealthCheckResponse: a number, field 1, which is left out where it is zero."""
    if not data:
        raise HealthCheckFailed(
            "error: health rpc probe failed: no status; the server does not implement the grpc "
            "health protocol (grpc.health.v1.Health), or does not know the service"
        )
    if len(data) < 5 or data[0] != 0 or int.from_bytes(data[1:5]) != len(data) - 5:
        raise ValueError
    message = data[5:]
    if not message:
        return _STATES[0]
    if len(message) != 2 or message[0] != 8:
        raise ValueError
    return _STATES.get(message[1], str(message[1]))
