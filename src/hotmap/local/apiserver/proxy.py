"""The subresource `proxy`: passes requests on to what serves HTTP in pods.

Bodies go through in both directions as they come; nothing is kept but what one side has not taken.
kubernetes: pkg/registry/core/{pod,service,node}/rest and apimachinery/pkg/util/proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from typing import TYPE_CHECKING

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from hotmap.core.errors import BadRequest, NotFound, api_error
from hotmap.local.apiserver.proxy_location import (
    Location,
    ProxiedName,
    ProxiedPath,
    endpoint_of,
    is_number,
    option_object,
    pod_port,
    proxied_path,
    request_headers,
    response_headers,
    rewrite_url,
    service_port,
    unreachable,
)
from hotmap.local.apiserver.status import not_found
from hotmap.local.apiserver.streaming.upgrade import open_raw
from hotmap.local.http_library import aiohttp
from hotmap.local.http_server import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.apiserver.streaming.upgrade import RawConnection
    from hotmap.local.kubelet_api import KubeletAPI

__all__ = ["BackendProxy"]

# Seconds to connect (net.Dialer of apimachinery/pkg/util/net: SetOldTransportDefaults).
_CONNECT_TIMEOUT = 30.0
# Seconds in which the rest of an answer that refuses an upgrade is awaited, and bytes of it.
_REFUSAL_TIMEOUT = 10.0
_REFUSAL_LIMIT = 1 << 20
# Bytes of the head of an answer to an upgrade.
_HEAD_LIMIT = 1 << 16
_CHUNK = 1 << 16


class BackendProxy:
    """Passes requests on; `close` it at the end."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections to backends."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def serve(
        self,
        kubelet: KubeletAPI | None,
        path: ResourcePath,
        request: web.BaseRequest,
        user: UserInfo,
        headers: Mapping[str, str],
    ) -> web.StreamResponse:
        """Answer with what the backend of a path answers; `headers` are those of every answer.

        Raises:
            ApiError: admission refuses it, nothing by the name exists, or it cannot be reached.
            ConnectionError: the client or the backend has gone half-way.
        """
        if request.query.get("dryRun"):
            raise BadRequest("dryRun is not supported")
        split = proxied_path(request.path, path.subpath)
        options = option_object(f"{path.kind.kind}ProxyOptions", split.path)
        await self._registry.admitted.admit_connection(path, dict(options), user)
        location = await self._locate(kubelet, path)
        tokens = ",".join(request.headers.getall("Connection", [])).lower()
        if "upgrade" in tokens:
            return await _upgrade(request, location, split, headers)
        if not split.path and request.method in ("GET", "HEAD"):
            query = request.rel_url.raw_query_string
            target = f"{URL(request.path).raw_path}/{'?' if query else ''}{query}"
            return web.Response(status=301, headers={"Location": target})
        return await self._forward(request, location, split, headers)

    async def _locate(self, kubelet: KubeletAPI | None, path: ResourcePath) -> Location:
        singular = path.kind.kind.lower()
        asked, namespace = ProxiedName.parse(path.name, singular), path.namespace or ""
        scheme = asked.scheme or "http"

        def address_of(pod: str) -> str:
            return "" if kubelet is None else kubelet.address(namespace, pod)

        if singular == "node":
            await self._registry.get("nodes", None, asked.name)
            raise unreachable(
                f"the kubelet of node {asked.name} serves no HTTP; the local API server calls it "
                "directly"
            )
        if singular == "pod":
            pod = await self._registry.get("pods", namespace, asked.name)
            # Not status.podIP, which whoever may write the status of a pod can set to anything.
            address = address_of(asked.name)
            if not address:
                raise BadRequest("address not allowed")
            return Location(scheme, address, pod_port(pod, asked.port))
        port = asked.port
        if is_number(port):
            service = await self._registry.get("services", namespace, asked.name)
            port = service_port(service, port)
        try:
            endpoints = await self._registry.get("endpoints", namespace, asked.name)
        except NotFound:
            # Upstream names the resource of the request, whichever is missing.
            raise not_found(path.kind, asked.name) from None
        return Location(scheme, *endpoint_of(endpoints, path.name, port, address_of))

    async def _forward(
        self,
        request: web.BaseRequest,
        location: Location,
        split: ProxiedPath,
        headers: Mapping[str, str],
    ) -> web.StreamResponse:
        passed = request_headers(
            request.headers, client=request.remote or "", forwarded_uri=split.forwarded
        )
        has_body = request.body_exists or "Content-Length" in request.headers
        url = URL.build(
            scheme=location.scheme,
            authority=location.authority,
            path=split.escaped or "/",
            query_string=request.rel_url.raw_query_string,
            encoded=True,
        )
        asking = self._client().request(
            request.method,
            url,
            headers=passed,
            data=_body(request) if has_body else None,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        response: web.StreamResponse | None = None
        try:
            async with asking as answered:
                response = web.StreamResponse(
                    status=answered.status,
                    reason=answered.reason,
                    headers=_answer_headers(answered.headers, request, location, split, headers),
                )
                await response.prepare(request)
                async for chunk in answered.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            if response is None:
                raise unreachable(_in_words(error, location)) from None
            # The client sees that the answer is cut, since its end does not come.
            raise ConnectionResetError(str(error)) from None
        return response

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            # A connection of its own for each request: addresses of pods are used again.
            connector = aiohttp.TCPConnector(limit=0, force_close=True, ssl=False)
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
                max_line_size=_HEAD_LIMIT,
                max_field_size=_HEAD_LIMIT,
            )
        return self._session


async def _body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Pass on the body of a request as it comes, once the backend is connected."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    async for chunk in request.content.iter_any():
        yield chunk


def _answer_headers(
    answered: CIMultiDictProxy[str],
    request: web.BaseRequest,
    location: Location,
    split: ProxiedPath,
    headers: Mapping[str, str],
) -> CIMultiDict[str]:
    passed = CIMultiDict(headers)
    passed.extend(response_headers(answered))
    if "Location" in passed:
        passed["Location"] = rewrite_url(
            passed["Location"],
            prefix=split.prefix,
            backend=location.authority,
            requested=request.headers.get("Host", ""),
        )
    return passed


def _in_words(error: Exception, location: Location) -> str:
    """Describe an error in the words of Go's net package."""
    address = location.address
    if isinstance(error, aiohttp.ClientSSLError):
        return "tls: first record does not look like a TLS handshake"
    if isinstance(error, TimeoutError):
        return f"dial tcp {address}: i/o timeout"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, OSError) and error.errno:
        why = os.strerror(error.errno).lower()
        is_dialled = isinstance(error, (aiohttp.ClientConnectorError, ConnectionRefusedError))
        operation = f"dial tcp {address}: connect" if is_dialled else f"read tcp {address}: read"
        return f"{operation}: {why}"
    if isinstance(error, ConnectionError):
        return f"read tcp {address}: read: connection reset by peer"
    if isinstance(error, (aiohttp.ClientResponseError, ValueError)):
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    return str(error) or type(error).__name__


# -- upgraded connections --------------------------------------------------------------------------


async def _upgrade(
    request: web.BaseRequest, location: Location, split: ProxiedPath, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Ask the backend to switch the protocol, and join the two connections if it does.

    Raises:
        ApiError: 500 in upstream's words; it cannot be reached, or answers with neither a switch
            nor an error.
    """
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(
                location.host,
                location.port or location.default_port,
                ssl=_any_certificate() if location.scheme == "https" else None,
                limit=_HEAD_LIMIT,
            )
    except (OSError, TimeoutError) as error:
        raise api_error(500, _in_words(error, location)) from None
    try:
        return await _switch(request, split, headers, reader, writer)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, OSError) as error:
        if request.writer.output_size > 0:
            raise ConnectionResetError(str(error)) from None
        why = "EOF" if isinstance(error, asyncio.IncompleteReadError) else str(error)
        raise api_error(500, why) from None
    finally:
        writer.transport.abort()


def _any_certificate() -> ssl.SSLContext:
    """Trust backends with any certificate, as upstream does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _switch(
    request: web.BaseRequest,
    split: ProxiedPath,
    headers: Mapping[str, str],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> web.StreamResponse:
    query = request.rel_url.raw_query_string
    target = str(URL.build(path=split.escaped or "/", query_string=query, encoded=True))
    passed = request_headers(request.headers, client=request.remote or "", upgrade=True)
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in passed.items())]
    writer.write("\r\n".join((*lines, "", "")).encode(errors="surrogateescape"))
    await writer.drain()
    status, answered = _parse_head(await reader.readuntil(b"\r\n\r\n"))
    if status == 101:
        connection = await open_raw(request, answered)
        await _join(connection, reader, writer)
        return connection.response
    if status < 400:
        raise ValueError(f"invalid upgrade response: status code {status}")
    body = await _rest(reader, answered)
    given = CIMultiDict(headers)
    given.extend(response_headers(answered))
    given.popall("Content-Length", None)
    response = web.Response(status=status, headers=given, body=body)
    response.force_close()
    return response


def _parse_head(head: bytes) -> tuple[int, CIMultiDictProxy[str]]:
    """Read the head of an answer.

    Raises:
        ValueError: it is none.
    """
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    protocol, _, rest = first.partition(" ")
    status = rest[:3]
    if not protocol.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise ValueError(f'malformed HTTP response "{first[:100]}"')
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers.add(name.strip(), value.strip())
    return int(status), CIMultiDictProxy(headers)


async def _rest(reader: asyncio.StreamReader, headers: CIMultiDictProxy[str]) -> bytes:
    """Read the body of a refusal, as much of it as comes soon."""
    length = headers.get("Content-Length", "")
    missing = min(int(length), _REFUSAL_LIMIT) if length.isdigit() else _REFUSAL_LIMIT
    body = bytearray()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(_REFUSAL_TIMEOUT):
            while len(body) < missing:
                data = await reader.read(missing - len(body))
                if not data:
                    break
                body += data
    return bytes(body)


async def _join(
    connection: RawConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass on both directions until one of them has ended."""

    async def to_backend() -> None:
        while data := await connection.read():
            writer.write(data)
            await writer.drain()

    async def to_client() -> None:
        while data := await reader.read(_CHUNK):
            await connection.write(data)

    both = [asyncio.create_task(to_backend()), asyncio.create_task(to_client())]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        for result in await asyncio.gather(*both, return_exceptions=True):
            # Whichever side has closed its connection, no client is left to report to.
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result
