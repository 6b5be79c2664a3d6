"""Sends requests to one API server: connections, credentials, TLS, and error messages.

Only this module uses aiohttp: it returns bytes and raises the exceptions of `core.errors`. The only
retry is that of a request after its credentials were renewed.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn, Self

from yarl import URL

from hotmap.core.errors import (
    ApiError,
    ResponseTooLarge,
    SettingsError,
    Unauthorized,
    Unreachable,
    api_error,
)
from hotmap.kube.config import ClusterConfig
from hotmap.kube.http_library import aiohttp, system_trust
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.proxy import describe_proxy, is_socks
from hotmap.kube.server_clock import ServerClock
from hotmap.kube.socks import SocksConnector
from hotmap.kube.status import read_status, retry_after

__all__ = ["Request", "Transport", "WatchStream", "is_certificate_error"]

JSON: Final = "application/json"

#: Seconds after which the CA file is read again, as a token file is.
CA_PERIOD: Final = 60.0

#: Bytes that a TLS connection reads at once. asyncio allocates as many for each connection, and
#: again for each read: its own 256 KiB take 3 MB for the watches, and more than twice the processor
#: time where the C library returns such blocks to the system (`cli/controller`; measured).
_TLS_READ = 1 << 16

#: Bytes of an error response that are read; a Status is far smaller.
_ERROR_BODY = 1 << 16

_log = logging.getLogger(__name__)


class Request(NamedTuple):
    """One HTTP request; `path` is quoted, `params` are not."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


class WatchStream:
    """A watch response while it is open."""

    def __init__(self, server: str, response: aiohttp.ClientResponse) -> None:
        self._server = server
        self._response = response

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over bytes as they arrive, cut anywhere, until the server ends the stream.

        No time limit: the caller has the silence limit.

        Raises:
            Unreachable: the stream broke instead of ending.
        """
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                f"the watch on {self._server} was interrupted: {_describe(error)}"
            ) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


class Transport:
    """The connections to the API server of `config`, between `open` and `close`."""

    def __init__(self, config: ClusterConfig, *, user_agent: str, connect_timeout: float) -> None:
        self.config = config
        self._connect_timeout = connect_timeout
        self._headers = [("User-Agent", user_agent), *config.impersonate]
        self._session: aiohttp.ClientSession | None = None
        self._ssl: ssl.SSLContext | bool = True
        self._ca_read_at = 0.0
        #: (method, HTTP status as text) → responses; "unreachable" counts attempts without one.
        self.answers: Counter[tuple[str, str]] = Counter()
        #: When the server last responded, on the event loop's clock.
        self.last_answer: float | None = None
        self.clock = ServerClock(wall_clock=time.time)

    @property
    def server(self) -> str:
        """The server's URL."""
        return self.config.server

    async def open(self) -> None:
        """Get ready to connect.

        Raises:
            SettingsError: a certificate or key is not usable.
        """
        self._ssl = _ssl_context(self.config)
        SSLProtocol.max_size = _TLS_READ
        self._ca_read_at = loop_time()
        self._session = aiohttp.ClientSession(
            connector=self._connector(),
            # 256 KiB: fewer wake-ups on bursts, and still bounded.
            read_bufsize=1 << 18,
            # Kubeconfigs name the proxy, or were read with the environment's: a variable that is
            # meant for something else cannot redirect a pod.
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _connector(self) -> aiohttp.TCPConnector:
        # Each watch holds a connection; with the default limit of 100 they could starve calls.
        if not is_socks(self.config.proxy):
            return aiohttp.TCPConnector(ssl=self._ssl, limit=0)
        return SocksConnector(self.config.proxy, ssl=self._ssl, limit=0)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, request: Request, *, timeout: float, at_most: int | None = None) -> bytes:
        """Send a request and return the body of its response, within `timeout` seconds.

        `at_most` is the largest body in bytes, uncompressed; None takes any.

        Raises:
            ResponseTooLarge: the body is larger.
            ApiError, Unreachable, SettingsError: as `Client.request`.
        """
        response = await self._send(request, timeout)
        try:
            async with response:
                if at_most is None:
                    return await response.read()
                return await _read_at_most(response, at_most)
        except (aiohttp.ClientError, OSError) as error:
            self._unreachable(request, error)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[WatchStream]:
        """Send a request and yield its response as it arrives, while the context is open.

        Raises:
            ApiError, Unreachable, SettingsError: as `Client.request`.
        """
        response = await self._send(request, None)
        try:
            yield WatchStream(self.server, response)
        finally:
            response.close()

    async def _send(self, request: Request, timeout: float | None) -> aiohttp.ClientResponse:
        """Send once, or twice if the credentials were refused and there are newer ones."""
        limits = _limits(timeout, self._connect_timeout)
        credentials = self.config.credentials
        await credentials.prepare()
        self._use_client_certificate()
        authorization = credentials.authorization()
        try:
            return await self._send_once(request, limits, authorization)
        except Unauthorized:
            if not await credentials.renew(authorization):
                raise
        self._use_client_certificate()
        return await self._send_once(request, limits, credentials.authorization())

    async def _send_once(
        self, request: Request, limits: aiohttp.ClientTimeout, authorization: str
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with`")
        sent = loop_time()
        if sent - self._ca_read_at >= CA_PERIOD:
            self._refresh_ca()
        try:
            response = await self._session.request(
                request.method,
                URL(self.server + request.path + _query(request.params), encoded=True),
                data=request.body,
                headers=self._request_headers(request, authorization),
                timeout=limits,
                allow_redirects=False,
                proxy=None if is_socks(self.config.proxy) else self.config.proxy or None,
                server_hostname=self.config.tls.server_name or None,
                ssl=self._ssl,
            )
        except (aiohttp.ClientError, OSError) as error:
            self._unreachable(request, error)
        self.last_answer = loop_time()
        self.clock.learn(response.headers.get("Date", ""), waited=self.last_answer - sent)
        self.answers[request.method, str(response.status)] += 1
        if response.status >= 300:
            raise await self._failure(request, response)
        return response

    def _use_client_certificate(self) -> None:
        """Use the client certificate that the credentials have now, for new connections."""
        pair = self.config.credentials.client_certificate()
        tls = self.config.tls
        if pair is None or pair == (tls.certificate, tls.key):
            return
        certificate, key = pair
        config = self.config._replace(tls=tls._replace(certificate=certificate, key=key))
        self._ssl = _ssl_context(config)
        self.config = config

    def _refresh_ca(self) -> None:
        """Trust the current content of the CA file, for new connections."""
        self._ca_read_at = loop_time()
        try:
            config = self.config.refreshed()
            if config is not self.config:
                self._ssl = _ssl_context(config)
                self.config = config
                _log.info("the certificate authority of %s was read again", self.server)
        except SettingsError as error:
            _log.warning("%s; using the last one", error)

    def _request_headers(self, request: Request, authorization: str) -> list[tuple[str, str]]:
        own = request.headers or {}
        sent = list(self._headers)
        if authorization:
            sent.append(("Authorization", authorization))
        # Of two, API servers read the first one (kubernetes: apiserver/pkg/endpoints/handlers/
        # negotiation).
        if "Accept" not in own:
            sent.append(("Accept", JSON))
        if request.body is not None and "Content-Type" not in own:
            sent.append(("Content-Type", JSON))
        sent.extend(own.items())
        return sent

    # -- responses to errors -------------------------------------------------------------------

    async def _failure(self, request: Request, response: aiohttp.ClientResponse) -> ApiError:
        try:
            async with response:
                body = await response.content.read(_ERROR_BODY)
        except (aiohttp.ClientError, OSError):
            body = b""
        status = read_status(body)
        message = status.message or (
            f"{self.server} answered {response.status} {response.reason or ''}".rstrip()
            + f" to {request.method} {request.path}"
        )
        if response.status == 401:
            message = (
                f"{self.server} rejected the credentials (401 Unauthorized): they are wrong or"
                f" have expired; renew those of {self.config.origin}"
            )
        return api_error(
            response.status,
            message,
            reason=status.reason,
            details=status.details,
            retry_after=retry_after(status, header=response.headers.get("Retry-After", "")),
        )

    def _route(self) -> str:
        return f"the proxy {describe_proxy(self.config.proxy)}"

    def _unreachable(self, request: Request, error: Exception) -> NoReturn:
        self.answers[request.method, "unreachable"] += 1
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            self._refresh_ca()  # for the next attempt
            text = (
                f"cannot trust {self.server}: {_describe(error.certificate_error)}; check the"
                f" certificate authority and the server's name in {self.config.origin}"
            )
        elif isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
            text = f"cannot reach {self.server} through {self._route()}: {_describe(error)}"
        elif isinstance(error, aiohttp.ClientConnectorError | TimeoutError):
            through = f" through {self._route()}" if self.config.proxy else ""
            text = (
                f"cannot reach {self.server}{through}: {_describe(error)}; is the cluster up, and"
                f" is the address in {self.config.origin} right?"
            )
        else:
            text = (
                f"{self.server} closed the connection during {request.method} {request.path}: "
                f"{_describe(error)}"
            )
        raise Unreachable(text) from error


def _ssl_context(config: ClusterConfig) -> ssl.SSLContext | bool:
    """Make the TLS settings for the server, or else for the proxy to it."""
    settings = config.ssl_context()
    if settings is None and config.proxy.startswith("https://"):
        return system_trust()
    return True if settings is None else settings


# The same few again and again: kept, since a request takes 0.2 ms of processor time as it is.
@lru_cache(maxsize=64)
def _limits(total: float | None, connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=connect)


def _query(params: Mapping[str, str] | None) -> str:
    return _quoted_query(tuple(params.items())) if params else ""


@lru_cache(maxsize=64)
def _quoted_query(params: tuple[tuple[str, str], ...]) -> str:
    return str(URL.build(query=params))


async def _read_at_most(response: aiohttp.ClientResponse, at_most: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > at_most:
            response.close()
            raise ResponseTooLarge(
                f"the response to {response.method} {response.url.path} has more than"
                f" {at_most:,} bytes"
            )
        chunks.append(chunk)
    return b"".join(chunks)


def is_certificate_error(error: Exception) -> bool:
    """Return whether TLS kept a request from being sent."""
    return isinstance(error.__cause__, aiohttp.ClientSSLError)


def _describe(error: BaseException) -> str:
    """Describe a network error briefly."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or "its certificate cannot be verified"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"it answered {error.status} {error.message}".rstrip()
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"cannot resolve {error.host!r}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _describe(error.os_error)
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the response is incomplete"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {(error.reason or 'without a reason').replace('_', ' ').lower()}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()  # asyncio's own text repeats the address
    return str(error) or type(error).__name__
