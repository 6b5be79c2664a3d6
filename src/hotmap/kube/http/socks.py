"""Connections through a SOCKS5 proxy (RFC 1928, RFC 1929); the proxy resolves names."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from urllib.parse import SplitResult, unquote, urlsplit

__all__ = ["open_socks"]

_PORT = 1080

#: Replies of a proxy to a request (RFC 1928, section 6).
_REFUSALS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


async def open_socks(proxy: str, host: str, port: int) -> socket.socket:
    """Connect to a server through a proxy; the proxy's URL has user and password if it needs them.

    Raises:
        OSError: the proxy cannot be reached, or refuses.
    """
    url, loop = urlsplit(proxy), asyncio.get_running_loop()
    connection = await _connect(loop, url.hostname or "", url.port or _PORT)
    try:
        await _Handshake(loop, connection).request(host, port, url)
    except BaseException:
        connection.close()
        raise
    return connection


async def _connect(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Connect to the first address of a proxy that answers."""
    failure: OSError | None = None
    for family, kind, number, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, number)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure or OSError(f"cannot resolve {host!r}")


class _Handshake:
    """The handshake with a proxy, before the connection is the server's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        self._loop = loop
        self._connection = connection

    async def request(self, host: str, port: int, proxy: SplitResult) -> None:
        """Ask for a connection to a server.

        Raises:
            ConnectionError: the proxy refuses it, or is not a SOCKS5 proxy.
        """
        methods = b"\x00\x02" if proxy.username else b"\x00"
        await self._send(bytes((5, len(methods))) + methods)
        version, method = await self._receive(2)
        if version != 5:
            raise ConnectionError("the proxy does not speak SOCKS5")
        if method == 2 and proxy.username:
            await self._log_in(unquote(proxy.username), unquote(proxy.password or ""))
        elif method != 0:
            raise ConnectionError(
                "the proxy requires an authentication method that is not supported"
            )
        await self._send(b"\x05\x01\x00" + _encode(host) + port.to_bytes(2))
        _, reply, _, kind = await self._receive(4)
        if reply:
            raise ConnectionError(f"the proxy refuses: {_REFUSALS.get(reply, f'reply {reply}')}")
        sizes = {1: 4, 4: 16}
        size = sizes[kind] if kind in sizes else (await self._receive(1))[0]
        await self._receive(size + 2)  # the address that it connected from

    async def _log_in(self, user: str, password: str) -> None:
        fields = [text.encode()[:255] for text in (user, password)]
        await self._send(b"\x01" + b"".join(bytes((len(field),)) + field for field in fields))
        _, status = await self._receive(2)
        if status:
            raise ConnectionError("the proxy rejected the user name or password")

    async def _send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._connection, data)

    async def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = await self._loop.sock_recv(self._connection, size - len(data))
            if not more:
                raise ConnectionError("the proxy closed the connection")
            data += more
        return data


def _encode(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes((3, len(name))) + name
    return bytes((1 if address.version == 4 else 4,)) + address.packed
