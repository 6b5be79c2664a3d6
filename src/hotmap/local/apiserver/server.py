"""The API server's transport: HTTPS, bearer tokens, streams.

aiohttp's low-level server without its router: the paths of Kubernetes are regular. Everything
that can be decided without a connection lives in `routes`, `handlers` and `watch_stream`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import ApiError, Expired, SettingsError, api_error
from hotmap.kube.http.tls_reads import limit_tls_reads
from hotmap.local.access import ANONYMOUS
from hotmap.local.apiserver import connect
from hotmap.local.apiserver.authentication import (
    Access,
    Authenticator,
    bearer_token,
    impersonate,
)
from hotmap.local.apiserver.authorization import (
    AllowAll,
    check_allowed,
    path_attributes,
    resource_attributes,
)
from hotmap.local.apiserver.documents import Documents
from hotmap.local.apiserver.handlers import answer
from hotmap.local.apiserver.health import HealthChecks
from hotmap.local.apiserver.metrics import Requested, RequestMetrics
from hotmap.local.apiserver.negotiation import negotiate_form
from hotmap.local.apiserver.options import check_timeout, watch_options
from hotmap.local.apiserver.proxy import BackendProxy
from hotmap.local.apiserver.requests import Request
from hotmap.local.apiserver.responses import (
    add_warnings,
    common_headers,
    complete_response,
    error_response,
    indent_json,
    open_stream,
    send_in_pieces,
    wants_indentation,
)
from hotmap.local.apiserver.routes import PROXIED_METHODS, not_allowed, parse_path, verb_of
from hotmap.local.apiserver.status import failure_status
from hotmap.local.apiserver.watch_output import open_output
from hotmap.local.apiserver.watch_stream import (
    Dispatcher,
    WatchStream,
    as_metadata,
    as_tables,
    line,
    plain,
)
from hotmap.local.http_library import aiohttp
from hotmap.local.http_server import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.apiserver.watch_stream import Render
    from hotmap.local.apiserver.watches import RegistryWatch
    from hotmap.local.kubelet_api import KubeletAPI
    from hotmap.local.tokens import Tokens

_log = logging.getLogger(__name__)
# What is wrong with a connection, by aiohttp.
_connection_logger = logging.getLogger(f"{__name__}.connections")


def _shorten(record: logging.LogRecord) -> bool:
    """Log no stack trace if a client has sent invalid HTTP, which was answered with 400."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, aiohttp.http_exceptions.HttpProcessingError):
        record.exc_info = None
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return _log.isEnabledFor(logging.DEBUG)
    return True


_connection_logger.addFilter(_shorten)

# apiserver: MaxRequestBodyBytes
BODY_LIMIT = 3 << 20
# Bytes of a request line or a header; net/http: DefaultMaxHeaderBytes.
_HEADER_LIMIT = 1 << 20
# --min-request-timeout: a watch without a time-out lasts between this and twice this.
WATCH_TIMEOUT = 1800.0
BOOKMARK_INTERVAL = 60.0
# Seconds until a connection without a complete request is closed (apiserver: IdleTimeout).
_IDLE_TIMEOUT = 90.0
# Seconds that a client gets to send a body (--request-timeout).
_BODY_TIMEOUT = 60.0
# Seconds in which the rest of a refused body is thrown away, so that its client can read why
# (net/http: rstAvoidanceDelay).
_LINGERING = 0.5
# Seconds that requests get to end when the server stops; watches are ended before.
_STOP_GRACE = 0.2
# Connections that wait to be accepted.
_BACKLOG = 128
# Bytes that wait for a client; its watch gets events by a task of its own when there are more.
_SLOW = 1 << 14
#: Bytes that are kept for a watch whose client does not take them, before its events wait.
_HIGH_WATER = 1 << 16
# Subresources whose requests upgrade their connection.
_CONNECTIONS = ("exec", "attach", "portforward")
# Answered without a token, as upstream's system:public-info-viewer.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")


class APIServer:
    """Serve a registry over HTTPS."""

    def __init__(
        self,
        registry: Registry,
        *,
        tls: ssl.SSLContext | None,
        tokens: Tokens,
        kubelet: KubeletAPI | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        access: Access | None = None,
        flags: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; `access` is by default everything to everybody who has one of `tokens`.

        `flags` are the server's settings under the names of kube-apiserver's flags.
        """
        self._registry = registry
        self._tls = tls
        self._access = access or Access(Authenticator(tokens, registry.reader), AllowAll())
        self.kubelet = kubelet
        self._bookmark_interval = bookmark_interval
        # Open watches, so that a stop can end them in an orderly way.
        self._watches: set[RegistryWatch] = set()
        self._dispatcher = Dispatcher()
        self._proxy = BackendProxy(registry)
        self._runner: web.ServerRunner | None = None
        self._listening: list[socket.socket] = []
        self._stops = False
        health = HealthChecks(
            store=registry.store.failure,
            shutdown=lambda: "process is shutting down" if self._stops else "",
        )
        self._requests = RequestMetrics()
        self._documents = Documents(
            registry, health, self._requests, signer=self._access.signer, flags=flags or {}
        )

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and return the port: the given one, or any free one for 0.

        Raises:
            SettingsError: the port is taken, or may not be used.
        """
        limit_tls_reads()
        # The handler of a disconnected client is cancelled, and its watch with it.
        server = web.Server(
            self._serve,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_IDLE_TIMEOUT,
            logger=_connection_logger,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
            # Upstream reads bodies as they are sent, so nothing can grow here; a proxied one has
            # to arrive as it was sent, too.
            auto_decompress=False,
            lingering_time=_LINGERING,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_STOP_GRACE)
        await runner.setup()
        try:
            await self._listen(runner, host, port)
        except SettingsError:
            await runner.cleanup()
            raise
        self._runner = runner
        return int(runner.addresses[0][1])

    async def listen_too(self, host: str, port: int) -> None:
        """Listen at another address as well, after the start.

        Raises:
            SettingsError: the port is taken there, or may not be used.
        """
        assert self._runner is not None
        await self._listen(self._runner, host, port)

    async def _listen(self, runner: web.ServerRunner, host: str, port: int) -> None:
        try:
            listening = socket.create_server((host, port), backlog=_BACKLOG)
        except OSError as error:
            raise SettingsError(_cannot_listen(host, port, error)) from None
        await web.SockSite(runner, listening, ssl_context=self._tls, backlog=_BACKLOG).start()
        self._listening.append(listening)

    async def stop(self) -> None:
        """Stop listening, end the open watches cleanly, and close every connection."""
        if self._runner is None:
            return
        self._stops = True
        for watch in tuple(self._watches):
            watch.close()
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening)
        self._listening.clear()
        # What was being accepted is, or it would never be closed (asyncio before 3.12).
        await asyncio.sleep(0)
        await self._runner.cleanup()
        await self._proxy.close()
        self._runner = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        asked: list[Requested] = []
        status: int = HTTPStatus.OK
        try:
            with self._requests.running(request.method):
                response = await self._answer(request, asked)
            status = response.status
        finally:
            for requested in asked:
                self._requests.finished(requested, status)
        if not response.prepared:
            for name, value in common_headers().items():
                response.headers.setdefault(name, value)
            if isinstance(response, web.Response):
                send_in_pieces(response)
        return response

    async def _answer(self, request: web.BaseRequest, asked: list[Requested]) -> web.StreamResponse:
        warnings: list[str] = []
        try:
            user = self._authenticate(request)
            response = await self._respond(request, user, warnings, asked)
        except ConnectionError:
            # The client is gone. aiohttp ends the connection on this, without a traceback.
            raise asyncio.CancelledError from None
        except Exception as error:
            response = error_response(request, error)
        if not response.prepared:
            add_warnings(response, warnings)
        if isinstance(response, web.Response) and wants_indentation(request):
            indent_json(response)
        return response

    def _authenticate(self, request: web.BaseRequest) -> UserInfo:
        """Determine the user of a request, including impersonation.

        Raises:
            Unauthorized: it has no valid token, or a certificate of another authority.
            Forbidden: its sender may not impersonate that user.
        """
        transport = request.transport
        tls = None if transport is None else transport.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        if request.path in _PUBLIC and not bearer_token(request.headers) and certificate is None:
            return ANONYMOUS
        user = self._access.authenticator.authenticate(request.headers, certificate)
        return impersonate(user, request.headers, self._access.authorizer)

    def _authorize(self, request: web.BaseRequest, user: UserInfo, path: ResourcePath) -> None:
        """Refuse what a user may not do; a write that may create needs the right to that, too."""
        verb = _authorized_verb(request, path)
        attributes = resource_attributes(user, verb, path, request.query)
        check_allowed(self._access.authorizer, attributes)
        creates = (
            path.kind.strategy.create_on_update
            if verb == "update"
            else verb == "patch" and "apply-patch" in request.headers.get("Content-Type", "")
        )
        if creates and not path.subresource and not self._registry.reader.exists(path):
            check_allowed(self._access.authorizer, attributes._replace(verb="create"))

    async def _respond(
        self,
        request: web.BaseRequest,
        user: UserInfo,
        warnings: list[str],
        asked: list[Requested],
    ) -> web.StreamResponse:
        """Answer a request; what it asks for is added to *asked*."""
        path = parse_path(self._registry.scheme, request.path)
        if path is None or path.subresource != "proxy":
            check_timeout(request.query)
        if path is None:
            return self._document(request, user, asked)
        requested = Requested.of(request.method, path, request.query)
        asked.append(requested)
        self._authorize(request, user, path)
        if path.subresource == "log" and request.method == "GET":
            return await self._log(request, path)
        if path.subresource in _CONNECTIONS:
            return await connect.serve_connection(self._registry, self.kubelet, path, request, user)
        if path.subresource == "proxy":
            return await self._proxied(request, path, user)
        verb = verb_of(request.method, path, request.query)
        if path.kind.strategy.deprecation:
            warnings.append(path.kind.strategy.deprecation)
        if verb in ("get", "list", "watch") and not request.query.get("resourceVersion"):
            self._registry.store.catch_up()
        if verb == "watch":
            return await self._watch(request, path, requested)
        return complete_response(
            await answer(
                self._registry,
                verb,
                path,
                Request(
                    request.query,
                    request.headers.get("Accept", ""),
                    request.headers.get("Content-Type", ""),
                    request.headers.get("User-Agent", ""),
                    await _body(request),
                    user,
                    self._access,
                    warnings,
                ),
            ),
            request.headers.get("Accept", ""),
        )

    def _document(
        self, request: web.BaseRequest, user: UserInfo, asked: list[Requested]
    ) -> web.StreamResponse:
        """Answer a request for something else than a resource, such as discovery."""
        if request.path not in _PUBLIC:
            attributes = path_attributes(user, request.method, request.path)
            check_allowed(self._access.authorizer, attributes)
        response = self._documents.answer(request)
        if response.status != HTTPStatus.NOT_FOUND:
            asked.append(Requested.of_document(request.method, request.path))
        return response

    async def _watch(
        self, request: web.BaseRequest, path: ResourcePath, requested: Requested
    ) -> web.StreamResponse:
        options = watch_options(request.query)
        if path.name:
            # By the old path; a watch of an object's own path is one by its name.
            selector = ",".join(
                filter(None, (f"metadata.name={path.name}", options.field_selector))
            )
            options = options._replace(field_selector=selector)
        form = negotiate_form(request.headers.get("Accept", ""))
        # An invalid request gets an error response; an expired revision is an event of the stream.
        try:
            watch = self._registry.reader.watch(path, options)
        except Expired as error:
            async with open_output(request, lambda: None) as output:
                await output.write(line("ERROR", msgspec.json.encode(failure_status(error))))
            return output.response
        render: Render = plain
        if form in ("metadata", "metadata list"):
            render = as_metadata(path.kind)
        if form == "table":
            include = request.query.get("includeObject", "Metadata")
            render = as_tables(path.kind, self._registry.now, include)
        self._watches.add(watch)
        try:
            async with open_output(request, watch.close) as output:
                if request.transport is not None:
                    # That of TLS is 512 KiB otherwise.
                    request.transport.set_write_buffer_limits(_HIGH_WATER)
                stream = WatchStream(
                    watch,
                    output.write,
                    has_room=lambda: _has_room(request),
                    render=render,
                    dispatcher=self._dispatcher,
                )
                with self._requests.watching(requested):
                    await stream.run(
                        timeout=options.timeout or random.uniform(WATCH_TIMEOUT, 2 * WATCH_TIMEOUT),
                        bookmark_interval=self._bookmark_interval if options.bookmarks else None,
                    )
        finally:
            self._watches.discard(watch)
            watch.close()
        return output.response

    async def _proxied(
        self, request: web.BaseRequest, path: ResourcePath, user: UserInfo
    ) -> web.StreamResponse:
        if request.method not in PROXIED_METHODS:
            raise not_allowed()
        return await self._proxy.serve(self.kubelet, path, request, user, common_headers())

    async def _log(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        chunks = await connect.open_log(self._registry, self.kubelet, path, request.query)
        if chunks is None:
            return web.Response(status=204)
        response = await open_stream(request, "text/plain")
        async for chunk in chunks:
            await response.write(chunk)
        return response


def _has_room(request: web.BaseRequest) -> bool:
    """Return whether a client has taken nearly all that was sent."""
    transport = request.transport
    return transport is not None and transport.get_write_buffer_size() <= _SLOW


def _authorized_verb(request: web.BaseRequest, path: ResourcePath) -> str:
    """Return the verb by which a request is authorized; a connection to a pod creates."""
    if path.subresource in _CONNECTIONS:
        return "create"
    if path.subresource == "proxy" and request.method in PROXIED_METHODS:
        return PROXIED_METHODS[request.method]
    try:
        return verb_of(request.method, path, request.query)
    except ApiError:
        return path_attributes(ANONYMOUS, request.method, "").verb


async def _body(request: web.BaseRequest) -> bytes:
    """Read the body of a request.

    Raises:
        ApiError: 413, it is too large; 504, it did not arrive in time.
    """
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            await _ask_for_body(request)
            return await _read_limited(request)
    except TimeoutError:
        text = "Timeout: request did not complete within the allotted timeout"
        raise api_error(504, text, reason="Timeout") from None


async def _ask_for_body(request: web.BaseRequest) -> None:
    """Ask a client that waits for that to send the body, such as curl with a large one."""
    expected = request.headers.get("Expect", "").lower()
    if expected == "100-continue" and request.version >= aiohttp.HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The answer has not begun.
        request.writer.output_size = 0


async def _read_limited(request: web.BaseRequest) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise api_error(
                413,
                f"Request entity too large: limit is {BODY_LIMIT}",
                reason="RequestEntityTooLarge",
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    from hotmap.kube.http.server import describe_listen_error  # imports another HTTP parser

    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use by another process; "
            "choose another port, or 0 for any free one"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} may not be used without privileges; choose one above 1023"
    return f"cannot listen on {host}:{port}: {describe_listen_error(error)}"
