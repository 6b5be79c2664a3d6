"""A small API server on a raw socket that misbehaves as it is told, then behaves.

It serves one collection, ConfigMaps in all namespaces, from a `Truth` that tests change. Each
request takes the next behaviour of its script ("list", "check" for a list of one object, "stream"
for a watch that asks for the initial objects, "watch", "other" for anything else) and, once the
script is used up, is served correctly. Raw asyncio streams, since no HTTP library sends resets,
half lines and silence.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

#: Sent instead of an answer's length: the body ends with the connection or its last chunk.
STREAM_HEADERS = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}

#: Seconds between bookmarks of a watch on which nothing happens.
BOOKMARK_PERIOD = 0.1


class Request(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes
    #: loop time at which it had arrived
    at: float

    @property
    def script(self) -> str:
        """The name of the script that answers it."""
        if self.method != "GET" or not self.path.endswith("/configmaps"):
            return "other"
        if self.params.get("watch") != "true":
            return "check" if self.params.get("limit") == "1" else "list"
        return "stream" if self.params.get("sendInitialEvents") == "true" else "watch"


class Truth:
    """The objects that exist, with the history that a watch needs."""

    def __init__(self) -> None:
        self.revision = 100
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        #: Set, and then replaced, at each change.
        self.wake = asyncio.Event()

    def put(self, name: str, data: str = "", *, namespace: str = "default") -> None:
        """Create or change a ConfigMap that has one data key."""
        event = "MODIFIED" if (namespace, name) in self.objects else "ADDED"
        self._commit(event, namespace, name, {"value": data})

    def delete(self, name: str, *, namespace: str = "default") -> None:
        data = self.objects[namespace, name]["data"]
        self._commit("DELETED", namespace, name, data)

    def _commit(self, event: str, namespace: str, name: str, data: dict[str, str]) -> None:
        self.revision += 1
        made = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "resourceVersion": str(self.revision),
            },
            "data": data,
        }
        if event == "DELETED":
            del self.objects[namespace, name]
        else:
            self.objects[namespace, name] = made
        self.history.append((self.revision, event, made))
        self.wake.set()
        self.wake = asyncio.Event()

    def content(self) -> dict[tuple[str, str], str]:
        """What a store that is equal to this holds: (namespace, name) → value."""
        return {key: made["data"]["value"] for key, made in sorted(self.objects.items())}


class Exchange:
    """One request and the means to answer it, properly or not."""

    def __init__(self, server: FaultServer, request: Request, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.request = request
        self._writer = writer

    async def answer(
        self, status: int, body: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole answer; a body that is not bytes goes as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }
        await self.send(_head(status, sent) + data)

    async def begin_stream(self) -> None:
        await self.send(_head(200, STREAM_HEADERS))

    async def chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def line(self, event: str, made: dict[str, Any]) -> None:
        await self.chunk(json.dumps({"type": event, "object": made}).encode() + b"\n")

    async def bookmark(self) -> None:
        """Send a bookmark that skips nothing: of now, or of the position while more is to come."""
        truth = self.server.truth
        position = int(self.request.params.get("resourceVersion", truth.revision))
        if not any(revision > position for revision, _, _ in truth.history):
            position = truth.revision
        await self.line("BOOKMARK", bookmark(position))

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """Close the connection without ending the answer."""
        self._writer.close()

    def reset(self) -> None:
        """Make the peer see a reset (RST) instead of an end (FIN)."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


class FaultServer:
    """The server; `script` what it shall do wrong, `requests` what it was asked."""

    def __init__(
        self, truth: Truth, *, tls: ssl.SSLContext | None = None, can_stream: bool = True
    ) -> None:
        self.truth = truth
        self.requests: list[Request] = []
        self.url = ""
        self.can_stream = can_stream
        #: The token that is accepted; None accepts anybody.
        self.token: str | None = None
        self._tls = tls
        self._scripts: dict[str, list[Behaviour]] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._open: set[Exchange] = set()
        #: Set whenever a request has arrived.
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def script(self, name: str, *behaviours: Behaviour) -> None:
        """Let the next requests of a script be answered so, one behaviour each."""
        self._scripts.setdefault(name, []).extend(behaviours)

    def cut(self) -> None:
        """Reset every connection that is open now."""
        for exchange in list(self._open):
            exchange.reset()

    def count(self, script: str) -> int:
        """Count the requests that asked for a script so far."""
        return sum(1 for request in self.requests if request.script == script)

    async def wait_for_requests(self, script: str, times: int) -> None:
        """Wait until a script was asked for so many times."""
        while self.count(script) < times:
            await self._arrived.wait()

    @property
    def connections(self) -> int:
        """Count the connections that are open now."""
        return len(self._connections)

    async def disconnected(self) -> None:
        """Wait until every client has gone."""
        await asyncio.gather(*self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self._arrived.set()
                self._arrived = asyncio.Event()
                await self._answer(Exchange(self, request, writer))
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError, ssl.SSLError):
                await writer.wait_closed()

    async def _answer(self, exchange: Exchange) -> None:
        self._open.add(exchange)
        try:
            await self._behaviour(exchange.request)(exchange)
        finally:
            self._open.discard(exchange)

    def _behaviour(self, request: Request) -> Behaviour:
        script = self._scripts.get(request.script)
        if script:
            return script.pop(0)
        if self.token is not None and request.headers.get("authorization") != (
            f"Bearer {self.token}"
        ):
            return unauthorized
        return serve


# -- correct behaviour -------------------------------------------------------------------------


async def serve(exchange: Exchange) -> None:
    """Answer a list or a watch as Kubernetes does."""
    request, truth = exchange.request, exchange.server.truth
    match request.script:
        case "list" | "check":
            await serve_page(exchange)
        case "stream" if not exchange.server.can_stream:
            await invalid(exchange)
        case "stream":
            await exchange.begin_stream()
            revision = truth.revision
            for made in list(truth.objects.values()):
                await exchange.line("ADDED", made)
            await exchange.line("BOOKMARK", bookmark(revision, initial_events_end=True))
            await _follow(exchange, revision)
        case "watch":
            await exchange.begin_stream()
            await _follow(exchange, int(request.params["resourceVersion"]))
        case _:
            await exchange.answer(201, {"kind": "Event", "metadata": {"name": "x"}})


async def serve_page(exchange: Exchange) -> None:
    """Answer one page of a list; the continue token is the number of objects before it."""
    truth, params = exchange.server.truth, exchange.request.params
    start = int(params.get("continue", "0"))
    objects = [made for _, made in sorted(truth.objects.items())]
    end = start + int(params.get("limit", "0")) if "limit" in params else len(objects)
    token = str(end) if end < len(objects) else ""
    metadata = {"resourceVersion": str(truth.revision), "continue": token}
    await exchange.answer(
        200, {"kind": "ConfigMapList", "metadata": metadata, "items": objects[start:end]}
    )


async def _follow(exchange: Exchange, position: int) -> None:
    """Send what changed after a position, live, and bookmarks while nothing does."""
    truth = exchange.server.truth
    try:
        async with asyncio.timeout(float(exchange.request.params["timeoutSeconds"])):
            while True:
                wake = truth.wake
                for revision, event, made in list(truth.history):
                    if revision > position:
                        position = revision
                        await exchange.line(event, made)
                try:
                    await asyncio.wait_for(wake.wait(), BOOKMARK_PERIOD)
                except TimeoutError:
                    await exchange.line("BOOKMARK", bookmark(position))
    except TimeoutError:
        await exchange.end_stream()


# -- faults ------------------------------------------------------------------------------------


async def silence(exchange: Exchange) -> None:
    """Accept the request and never say a word."""
    await asyncio.Event().wait()


async def silent_stream(exchange: Exchange) -> None:
    """Answer 200 and then never send a line."""
    await exchange.begin_stream()
    await asyncio.Event().wait()


async def silent_after_bookmark(exchange: Exchange) -> None:
    """Send one bookmark and fall silent: the wire was cut without a word."""
    await exchange.begin_stream()
    await exchange.bookmark()
    await asyncio.Event().wait()


async def reset_unanswered(exchange: Exchange) -> None:
    """Reset the connection before a response."""
    exchange.reset()


async def reset_mid_line(exchange: Exchange) -> None:
    """Send half a line of an object that does not exist, then reset the connection."""
    await exchange.begin_stream()
    await exchange.chunk(half_line())
    await asyncio.sleep(0.02)  # the bytes must be read before the reset discards them
    exchange.reset()


async def half_line_then_end(exchange: Exchange) -> None:
    """Send half a line, then end the stream properly."""
    await exchange.begin_stream()
    await exchange.chunk(half_line())
    await exchange.end_stream()


async def half_line_then_close(exchange: Exchange) -> None:
    """Send half a line, then close the connection in the middle of the answer."""
    await exchange.begin_stream()
    await exchange.chunk(half_line())
    exchange.close()


async def ends_at_once(exchange: Exchange) -> None:
    """Begin a stream and end it properly without a line."""
    await exchange.begin_stream()
    await exchange.end_stream()


async def unmarked_bookmark(exchange: Exchange) -> None:
    """Stream objects, then a bookmark without the marker, as a server that ignores the question."""
    await exchange.begin_stream()
    for made in list(exchange.server.truth.objects.values()):
        await exchange.line("ADDED", made)
    await exchange.bookmark()
    await asyncio.Event().wait()


async def expired_event(exchange: Exchange) -> None:
    """Answer 200 and one ERROR line that says 410, as Kubernetes does for an old position."""
    await exchange.begin_stream()
    await exchange.line("ERROR", status(410, "Expired", "too old resource version: 1 (7679)"))
    await exchange.end_stream()


async def expired_status(exchange: Exchange) -> None:
    """Answer with the HTTP status 410."""
    await exchange.answer(410, status(410, "Expired", "The provided continue parameter is too old"))


async def invalid(exchange: Exchange) -> None:
    """Refuse a stream of initial objects as servers before 1.27 do."""
    text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    await exchange.answer(422, status(422, "Invalid", text))


async def unauthorized(exchange: Exchange) -> None:
    await exchange.answer(401, status(401, "Unauthorized", "Unauthorized"))


async def forbidden(exchange: Exchange) -> None:
    text = 'configmaps is forbidden: User "x" cannot list resource "configmaps"'
    await exchange.answer(403, status(403, "Forbidden", text))


async def broken(exchange: Exchange) -> None:
    await exchange.answer(500, status(500, "InternalError", "etcdserver: leader changed"))


async def broken_event(exchange: Exchange) -> None:
    """Answer 200 and one ERROR line that says 500."""
    await exchange.begin_stream()
    await exchange.line("ERROR", status(500, "InternalError", "etcdserver: no leader"))
    await exchange.end_stream()


async def too_large_event(exchange: Exchange) -> None:
    """Say in an ERROR line that the position is in the future."""
    text = "Timeout: Too large resource version: 99999999, current: 251"
    made = status(504, "Timeout", text)
    made["details"] = {"causes": [{"reason": "ResourceVersionTooLarge", "message": text}]}
    await exchange.begin_stream()
    await exchange.line("ERROR", made)
    await exchange.end_stream()


def throttled(seconds: int) -> Behaviour:
    """Answer 429 with a Retry-After."""

    async def behave(exchange: Exchange) -> None:
        made = status(429, "TooManyRequests", "too many requests, please try again later")
        await exchange.answer(429, made, {"Retry-After": str(seconds)})

    return behave


def bookmarks_only(seconds_between: float, times: int) -> Behaviour:
    """Send bookmarks and nothing else, then end properly."""

    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for _ in range(times):
            await exchange.bookmark()
            await asyncio.sleep(seconds_between)
        await exchange.end_stream()

    return behave


async def no_last_bookmarks(exchange: Exchange) -> None:
    """Send one bookmark and then nothing until the watch ends in time, as 1.36.3 may."""
    await exchange.begin_stream()
    await asyncio.sleep(0.2)
    await exchange.bookmark()
    await asyncio.sleep(float(exchange.request.params["timeoutSeconds"]) - 0.2)
    await exchange.end_stream()


def slow_bytes(gap: float) -> Behaviour:
    """Send what is new a few bytes at a time, then end properly."""

    async def behave(exchange: Exchange) -> None:
        position = int(exchange.request.params["resourceVersion"])
        lines = b"".join(
            json.dumps({"type": event, "object": made}).encode() + b"\n"
            for revision, event, made in exchange.server.truth.history
            if revision > position
        )
        await exchange.begin_stream()
        for start in range(0, len(lines), 16):
            await exchange.chunk(lines[start : start + 16])
            await asyncio.sleep(gap)
        await exchange.end_stream()

    return behave


def half_line() -> bytes:
    metadata = {"name": "ghost", "namespace": "default", "resourceVersion": "100000"}
    line = json.dumps({"type": "ADDED", "object": {"metadata": metadata, "data": {}}}).encode()
    return line[: len(line) - 5]


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    """Make a failure Status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def bookmark(revision: int, *, initial_events_end: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}


def _head(code: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} Fault", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in rest)
    headers: dict[str, str] = {}
    for name, _, value in pairs:  # of two, API servers read the first one
        headers.setdefault(name.lower(), value.strip())
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    at = asyncio.get_running_loop().time()
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body, at)
