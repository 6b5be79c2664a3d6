"""Sends requests to one server, over as many connections as there are requests at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from hotmap.kube.http.connection import Connection, Response
from hotmap.kube.http.errors import HttpError
from hotmap.kube.http.route import Route, basic_authorization, connect
from hotmap.kube.loop_clock import loop_time

__all__ = ["HttpClient"]

#: Seconds after which a connection that is not used is closed.
IDLE: Final = 15.0

#: Methods that are sent again when a connection turns out to be closed. A write may have been
#: carried out, and a second one of it fails: the caller has to know.
_SAFE = frozenset(("GET", "HEAD"))

#: Seconds that connections get to close.
_CLOSING = 1.0

#: What no header and no target may contain.
_LINE_END = re.compile(r"[\r\n\0]")


class HttpClient:
    """A client of the server of `route`; close it in the end.

    Time limits are the caller's, except that of a new connection, `connect_timeout` in seconds.
    """

    def __init__(self, route: Route, *, connect_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        #: Connections between two requests, each with the time since when; the last used is last.
        self._idle: dict[Connection, float] = {}
        #: All connections, with the way on which each was made.
        self._open: dict[Connection, Route] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._use(route)

    def use(self, route: Route) -> None:
        """Make new connections by another route; existing ones are closed after their request.

        Raises:
            ValueError: the server's URL cannot be used.
        """
        for connection in list(self._idle):
            self._drop(connection)
        self._use(route)

    def _use(self, route: Route) -> None:
        self._route = route
        server = urlsplit(route.server)
        host = server.netloc.rpartition("@")[2]
        if not host.isascii():
            try:
                host = host.encode("idna").decode()
            except UnicodeError as error:
                raise ValueError(f"{host!r} is not the name of a host") from error
        self._prefix = server.path.rstrip("/")
        #: Of a proxy that forwards requests, which gets whole URLs.
        self._base = f"{server.scheme}://{host}" if route.forwards else ""
        self._common = f"Host: {host}\r\nAccept-Encoding: gzip\r\n"
        if route.forwards and (login := basic_authorization(urlsplit(route.proxy))):
            self._common += f"Proxy-Authorization: {login}\r\n"

    async def request(
        self,
        method: str,
        target: str,
        *,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
    ) -> Response:
        """Send a request, and return its response once the head is there; then read it or close it.

        `target` is a quoted path with its query, below that of the server's URL. Redirects are not
        followed. A connection that was closed while it was idle is replaced, but only for a request
        that changes nothing.

        Raises:
            ConnectError: the server, or the proxy to it, cannot be connected to.
            HttpError: there is no usable response.
            ValueError: a header or the target has a line break.
        """
        data = self._encode(method, target, headers, body)
        while True:
            connection, is_new = await self._connection()
            try:
                return await connection.send(data, head_only=method == "HEAD")
            except HttpError:
                if is_new or method not in _SAFE or connection.has_response:
                    raise

    async def aclose(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in self._open:
            connection.abort()
        if lost := [connection.lost for connection in self._open]:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await asyncio.wait(lost)
        self._open.clear()

    def _encode(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None
    ) -> bytes:
        sent = [f"{method} {self._base}{self._prefix}{target} HTTP/1.1"]
        sent += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            sent.append(f"Content-Length: {len(body)}")
        if any(map(_LINE_END.search, sent)):
            raise ValueError("a header or the path of a request has a line break")
        head = "\r\n".join(sent) + "\r\n" + self._common + "\r\n"
        return head.encode() + (body or b"")

    async def _connection(self) -> tuple[Connection, bool]:
        """Return a connection for one request, and whether it is new."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_usable:
                return connection, False
        if self._is_closed:
            raise RuntimeError("the client is closed")
        route = self._route
        connection = await connect(route, timeout=self._connect_timeout, on_idle=self._on_idle)
        self._open[connection] = route
        connection.lost.add_done_callback(lambda _: self._forget(connection))
        return connection, True

    def _on_idle(self, connection: Connection) -> None:
        if self._is_closed or self._open.get(connection) is not self._route:
            connection.abort()
            return
        self._idle[connection] = loop_time()
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(IDLE, self._close_idle)

    def _close_idle(self) -> None:
        """Close what has not been used for a while."""
        self._sweep, now = None, loop_time()
        for connection, since in list(self._idle.items()):
            if now - since >= IDLE:
                self._drop(connection)
        if self._idle:
            rest = IDLE - (now - next(iter(self._idle.values())))
            self._sweep = asyncio.get_running_loop().call_later(rest, self._close_idle)

    def _drop(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        self._open.pop(connection, None)
