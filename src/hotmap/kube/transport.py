"""Sends requests to one API server: credentials, TLS settings, time limits, and error messages.

`kube.http` has the connections. This module returns bytes and raises the exceptions of
`core.errors`. Sent twice are a request after its credentials were renewed, and a read whose
connection was closed while it was idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple, NoReturn, Self
from urllib.parse import urlencode, urlsplit

from hotmap.core.errors import (
    ApiError,
    ResponseTooLarge,
    SettingsError,
    Unauthorized,
    Unreachable,
    api_error,
)
from hotmap.core.text import printable
from hotmap.kube.config import ClusterConfig
from hotmap.kube.http.client import HttpClient
from hotmap.kube.http.connection import CLOSED, Response
from hotmap.kube.http.errors import (
    CertificateError,
    ConnectError,
    HttpError,
    ProxyError,
    TLSError,
)
from hotmap.kube.http.fetch import system_trust
from hotmap.kube.http.route import LONGEST_REASON, Route
from hotmap.kube.http.tls_reads import limit_tls_reads
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.proxy import describe_proxy
from hotmap.kube.retry import Outage
from hotmap.kube.server_clock import ServerClock, steady_clock
from hotmap.kube.status import read_status, retry_after

__all__ = ["Request", "Transport", "WatchStream", "is_certificate_error"]

JSON: Final = "application/json"

#: Seconds after which files of certificates are read again, as a token file is.
CERTIFICATE_PERIOD: Final = 60.0

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

    def __init__(self, server: str, response: Response) -> None:
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
            chunk = await self._response.read_any()
        except HttpError as error:
            raise Unreachable(f"the watch on {self._server} was interrupted: {error}") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


class Transport:
    """The connections to the API server of `config`, between `open` and `close`."""

    def __init__(self, config: ClusterConfig, *, user_agent: str, connect_timeout: float) -> None:
        self.config = config
        self._connect_timeout = connect_timeout
        self._headers = [("User-Agent", user_agent), *config.impersonate]
        self._http: HttpClient | None = None
        self._certificates_read_at = 0.0
        self._log_throttle = LogThrottle()
        #: Whether there have been credentials.
        self._has_logged_in = False
        #: (method, HTTP status as text) → responses; "unreachable" counts attempts without one.
        self.answers: Counter[tuple[str, str]] = Counter()
        #: The server's clock, as its responses show it.
        self.clock = ServerClock(steady_clock())
        #: Whether the server cannot be reached now.
        self.outage = Outage()

    @property
    def server(self) -> str:
        """The server's URL."""
        return self.config.server

    async def open(self) -> None:
        """Get ready to connect.

        Raises:
            SettingsError: the address of the server, a certificate or a key is not usable.
        """
        limit_tls_reads()
        self._certificates_read_at = loop_time()
        try:
            self._http = HttpClient(_route(self.config), connect_timeout=self._connect_timeout)
        except ValueError as error:
            raise SettingsError(f"the server in {self.config.origin}: {error}") from error

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def read(self, request: Request, *, timeout: float, at_most: int | None = None) -> bytes:
        """Send a request and return the body of its response, within `timeout` seconds.

        `at_most` is the largest body in bytes, uncompressed; None takes any.

        Raises:
            ResponseTooLarge: the body is larger.
            ApiError, Unreachable, SettingsError: as `Client.request`.
        """
        response, deadline = await self._send(request, timeout)
        try:
            async with asyncio.timeout_at(deadline):
                return await _read_body(request, response, inf if at_most is None else at_most)
        except (HttpError, TimeoutError) as error:
            self._unreachable(request, error)
        finally:
            response.close()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[WatchStream]:
        """Send a request and yield its response as it arrives, while the context is open.

        Raises:
            ApiError, Unreachable, SettingsError: as `Client.request`.
        """
        response, _ = await self._send(request, None)
        try:
            yield WatchStream(self.server, response)
        finally:
            response.close()

    async def _send(self, request: Request, timeout: float | None) -> tuple[Response, float | None]:
        """Send once, or twice if the credentials were refused and there are newer ones.

        Returns the response, and until when it has to be complete.
        """
        credentials = self.config.credentials
        with self._logging_in():
            await credentials.prepare()
            self._use_client_certificate()
            authorization = credentials.authorization()
        try:
            return await self._send_once(request, timeout, authorization)
        except Unauthorized:
            with self._logging_in():
                if not await credentials.renew(authorization):
                    raise
                self._use_client_certificate()
        return await self._send_once(request, timeout, credentials.authorization())

    @contextmanager
    def _logging_in(self) -> Iterator[None]:
        """Report credentials that cannot be renewed as an outage, since a retry may help.

        Raises:
            SettingsError: there have never been any.
            Unreachable: there have been.
        """
        try:
            yield
        except SettingsError as error:
            if not self._has_logged_in:
                raise
            self.outage.begin()
            raise Unreachable(str(error)) from error
        self._has_logged_in = True

    async def _send_once(
        self, request: Request, timeout: float | None, authorization: str
    ) -> tuple[Response, float | None]:
        if self._http is None:
            raise RuntimeError("the client is used outside of its `async with`")
        sent = loop_time()
        if sent - self._certificates_read_at >= CERTIFICATE_PERIOD:
            self._refresh_certificates()
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._http.request(
                    request.method,
                    request.path + _query(request.params),
                    headers=self._request_headers(request, authorization),
                    body=request.body,
                )
        except (HttpError, TimeoutError) as error:
            self.outage.begin()
            self._unreachable(request, error)
        except ValueError as error:
            raise SettingsError(f"{self.config.origin}: {error}") from error
        self.clock.learn(response.headers.get("date", ""), waited=loop_time() - sent)
        self.answers[request.method, str(response.status)] += 1
        if response.status < 500:  # of a load balancer without a server
            self.outage.end()
        if response.status >= 300:
            raise await self._failure(request, response, deadline)
        return response, deadline

    def _use_client_certificate(self) -> None:
        """Use the client certificate that the credentials have now, for new connections."""
        pair = self.config.credentials.client_certificate()
        tls = self.config.tls
        if pair is None or pair == (tls.certificate, tls.key):
            return
        certificate, key = pair
        config = self.config._replace(tls=tls._replace(certificate=certificate, key=key))
        self._use(config)

    def _use(self, config: ClusterConfig) -> None:
        route = _route(config)
        self.config = config
        if self._http is not None:
            self._http.use(route)

    def _refresh_certificates(self) -> None:
        """Use the current content of the files of certificates, for new connections.

        Each kind by itself: a key that cannot be read any more is no reason to trust the former CA.
        """
        self._certificates_read_at = loop_time()
        self._refresh("certificate authority", ClusterConfig.with_current_ca)
        self._refresh("client certificate", ClusterConfig.with_current_certificate)

    def _refresh(self, what: str, read: Callable[[ClusterConfig], ClusterConfig]) -> None:
        try:
            config = read(self.config)
            if config is not self.config:
                self._use(config)
                _log.info("reloaded the %s for %s", what, self.server)
        except SettingsError as error:
            if self._log_throttle.should_log(what, str(error), now=loop_time()):
                _log.warning("%s; using the last one", error)
        else:
            self._log_throttle.end(what)

    def _request_headers(self, request: Request, authorization: str) -> list[tuple[str, str]]:
        own = request.headers or {}
        sent = list(self._headers)
        if authorization:
            sent.append(("Authorization", authorization))
        # API servers read the first one only (kubernetes: apiserver/pkg/endpoints/handlers/
        # negotiation).
        if "Accept" not in own:
            sent.append(("Accept", JSON))
        if request.body is not None and "Content-Type" not in own:
            sent.append(("Content-Type", JSON))
        sent.extend(own.items())
        return sent

    # -- responses to errors -------------------------------------------------------------------

    async def _failure(
        self, request: Request, response: Response, deadline: float | None
    ) -> ApiError:
        try:
            async with asyncio.timeout_at(deadline):
                body = await _read_body(request, response, _ERROR_BODY)
        except (ResponseTooLarge, HttpError, TimeoutError):
            body = b""
        finally:
            response.close()
        status = read_status(body)
        message = status.message or (
            f"{self.server} answered {response.status} {_reason(response)}".rstrip()
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
            retry_after=retry_after(status, header=response.headers.get("retry-after", "")),
        )

    def _unreachable(self, request: Request, error: HttpError | TimeoutError) -> NoReturn:
        self.answers[request.method, "unreachable"] += 1
        problem = str(error) or "timed out"
        proxy = f"the proxy {describe_proxy(self.config.proxy)}" if self.config.proxy else ""
        if isinstance(error, CertificateError):
            self._refresh_certificates()  # for the next attempt
            text = (
                f"cannot trust {self.server}: {problem}; check the certificate authority and the"
                f" server's name in {self.config.origin}"
            )
        elif isinstance(error, ProxyError):
            text = f"cannot reach {self.server} through {proxy}: {problem}"
        elif isinstance(error, ConnectError | TimeoutError):
            through = f" through {proxy}" if proxy else ""
            text = (
                f"cannot reach {self.server}{through}: {problem}; is the cluster up, and is the"
                f" address in {self.config.origin} right?"
            )
        else:
            text = f"{self.server} closed the connection during {request.method} {request.path}"
            if problem != CLOSED:
                text += f": {problem}"
        raise Unreachable(text) from error


def _route(config: ClusterConfig) -> Route:
    """Return how a server is connected to.

    Raises:
        SettingsError: a certificate or key is not usable.
    """
    settings = config.ssl_context()
    if settings is None and urlsplit(config.proxy).scheme == "https":
        settings = system_trust()
    return Route(config.server, settings, config.tls.server_name, config.proxy)


def _reason(response: Response) -> str:
    return printable(response.reason, LONGEST_REASON)


def _query(params: Mapping[str, str] | None) -> str:
    return _quoted_query(tuple(params.items())) if params else ""


@lru_cache(maxsize=64)
def _quoted_query(params: tuple[tuple[str, str], ...]) -> str:
    return "?" + urlencode(params)


async def _read_body(request: Request, response: Response, at_most: float) -> bytes:
    chunks, size = [], 0
    while chunk := await response.read_any():
        size += len(chunk)
        if size > at_most:
            raise ResponseTooLarge(
                f"the response to {request.method} {request.path} has more than {at_most:,} bytes"
            )
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def is_certificate_error(error: Exception) -> bool:
    """Return whether TLS kept a request from being sent."""
    return isinstance(error.__cause__, TLSError)
