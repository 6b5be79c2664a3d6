"""How a server is connected to: directly, or through an HTTP or SOCKS5 proxy."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

from hotmap.core.text import printable
from hotmap.kube.http.connection import CLOSED, Connection
from hotmap.kube.http.errors import (
    CertificateError,
    ConnectError,
    ProxyError,
    TLSError,
    describe_tls_failure,
)
from hotmap.kube.http.socks import open_socks
from hotmap.kube.proxy import is_socks

__all__ = ["LONGEST_REASON", "Route", "basic_authorization", "connect"]

_PORTS = {"http": 80, "https": 443}

#: Seconds before the next address of a name is tried beside one that does not answer (RFC 8305).
_NEXT_ADDRESS = 0.25

#: Bytes of a proxy's response to CONNECT.
_LONGEST_ANSWER = 1 << 16

#: Characters of a reason phrase that are shown.
LONGEST_REASON = 80

_ERRNO = re.compile(r"\[Errno (\d+)\]")


class Route(NamedTuple):
    """The way to one server."""

    #: http or https URL of the server
    server: str
    #: TLS settings for the server, and for a proxy that is reached by https
    tls: ssl.SSLContext | None = None
    #: the name expected in the server's certificate, "" for that of the URL
    server_name: str = ""
    #: URL of a proxy, "" for none; may hold a password
    proxy: str = ""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        return _address(urlsplit(self.server))

    @property
    def expected_name(self) -> str:
        """The name in the server's certificate; names there have no dot at the end (RFC 6066)."""
        return (self.server_name or self.address[0]).removesuffix(".")

    @property
    def is_secure(self) -> bool:
        """Whether TLS protects what is sent to the server."""
        return urlsplit(self.server).scheme == "https"

    @property
    def forwards(self) -> bool:
        """Whether requests are sent to an HTTP proxy instead of through it."""
        return bool(self.proxy) and not is_socks(self.proxy) and not self.is_secure


async def connect(
    route: Route, *, timeout: float, on_idle: Callable[[Connection], None]
) -> Connection:
    """Connect to a server within `timeout` seconds.

    Raises:
        ConnectError: that is not possible; its type and text say why.
    """
    connection = Connection(on_idle)
    try:
        async with asyncio.timeout(timeout):
            if not route.proxy:
                await _connect_directly(route, connection)
            elif is_socks(route.proxy):
                await _connect_by_socks(route, connection)
            else:
                await _connect_by_http_proxy(route, connection)
    except ConnectError:
        raise
    except TimeoutError as error:
        raise ConnectError("timed out") from error
    except OSError as error:
        host = urlsplit(route.proxy).hostname if route.proxy else route.address[0]
        raise _connect_error(error, host or "") from error
    return connection


async def _connect_directly(route: Route, connection: Connection) -> None:
    host, port = route.address
    secure = route.tls if route.is_secure else None
    await asyncio.get_running_loop().create_connection(
        lambda: connection,
        host,
        port,
        ssl=secure,
        server_hostname=route.expected_name if secure else None,
        happy_eyeballs_delay=_pause_between_addresses(host),
    )


async def _connect_by_socks(route: Route, connection: Connection) -> None:
    host, port = route.address
    secure = route.tls if route.is_secure else None
    opened = await open_socks(route.proxy, host, port)
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            sock=opened,
            ssl=secure,
            server_hostname=route.expected_name if secure else None,
        )
    except BaseException:
        opened.close()
        raise


async def _connect_by_http_proxy(route: Route, connection: Connection) -> None:
    """Connect through a proxy: by CONNECT to an https server, else to the proxy alone."""
    loop, proxy = asyncio.get_running_loop(), urlsplit(route.proxy)
    host, port = _address(proxy)
    secure = route.tls if proxy.scheme == "https" else None
    protocol = connection if route.forwards else _Tunnel()
    try:
        transport, _ = await loop.create_connection(
            lambda: protocol,
            host,
            port,
            ssl=secure,
            happy_eyeballs_delay=_pause_between_addresses(host),
        )
    except OSError as error:
        raise ProxyError(str(_connect_error(error, host))) from error
    if not isinstance(protocol, _Tunnel):
        return
    try:
        await protocol.request(_authority(*route.address), basic_authorization(proxy))
        assert route.tls is not None, "only https servers are reached by CONNECT"
        inner = await loop.start_tls(
            transport,
            connection,
            route.tls,
            server_hostname=route.expected_name,
        )
    except BaseException:
        transport.abort()
        raise
    assert inner is not None, "only a closed transport has none"
    connection.connection_made(inner)


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a connection to a server (RFC 9110, 9.3.6)."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def request(self, authority: str, authorization: str) -> None:
        """Send CONNECT, and wait until the proxy has accepted it.

        Raises:
            ProxyError: it refuses, or its response cannot be read.
        """
        assert self._transport is not None, "it is connected"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if authorization:
            lines.append(f"Proxy-Authorization: {authorization}")
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        version, _, rest = (await self._head).split(b"\r\n", 1)[0].partition(b" ")
        status, _, reason = rest.decode("latin-1").partition(" ")
        if not version.startswith(b"HTTP/1.") or not (status.isdecimal() and len(status) == 3):
            raise ProxyError("its response is not HTTP")
        if not 200 <= int(status) < 300:
            raise ProxyError(f"it answered {status} {printable(reason, LONGEST_REASON)}".rstrip())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if self._head.done():
            return
        if end:
            self._head.set_result(head)
        elif len(self._received) > _LONGEST_ANSWER:
            self._head.set_exception(ProxyError("its response is not HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._head.done():
            self._head.set_exception(ProxyError(CLOSED))
            self._head.exception()  # as no task may wait for it


def basic_authorization(url: SplitResult) -> str:
    """Return the header by which the user of a URL logs in (RFC 7617); "" if it has none."""
    if url.username is None:
        return ""
    login = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return f"Basic {b64encode(login.encode()).decode()}"


def _address(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or _PORTS.get(url.scheme, 443)


def _pause_between_addresses(host: str) -> float | None:
    """Return the pause before the next address of a name; None for an address, which is alone."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _NEXT_ADDRESS
    return None


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connect_error(error: OSError, host: str) -> ConnectError:
    """Describe why there is no connection, without the address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = error.verify_message or "its certificate cannot be verified"
        return CertificateError(problem.rstrip("."))
    if isinstance(error, ssl.SSLError):
        return TLSError(describe_tls_failure(error))
    if isinstance(error, socket.gaierror):
        return ConnectError(f"cannot resolve {host!r}")
    # If a name has several addresses, asyncio joins their errors into one text.
    found = _ERRNO.search(str(error))
    number = error.errno or (int(found[1]) if found else 0)
    return ConnectError(os.strerror(number).lower() if number else str(error) or CLOSED)
