"""The HTTP client beside servers that close, stall, and answer other things than HTTP."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.certificates import Authority
from tests.support.fault_server import FaultServer, Truth

from hotmap.controller.report.http_post import post
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.http.client import HttpClient
from hotmap.kube.http.connection import MOST_HEADERS, MOST_UNREAD, Connection, Response
from hotmap.kube.http.errors import ConnectError, HttpError
from hotmap.kube.http.fetch import fetch, system_trust
from hotmap.kube.http.route import Route

#: Time-outs are beside real connections.
pytestmark = pytest.mark.real_time

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Scripted:
    """A server that answers each request with the next of some bytes; None closes instead."""

    def __init__(self, answers: Sequence[bytes | None], *, closes: bool = False) -> None:
        self._answers = list(answers)
        self._closes = closes
        self.requests: list[bytes] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
                body = await reader.readexactly(int(length)) if length else b""
                self.requests.append(head + body)
                answer = self._answers.pop(0)
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
                if answer is None or self._closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def close_connections(self) -> None:
        """Close what is open, as a server does with idle connections."""
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0.05)


@asynccontextmanager
async def scripted(
    *answers: bytes | None, closes: bool = False
) -> AsyncIterator[tuple[Scripted, HttpClient]]:
    script = Scripted(answers, closes=closes)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = HttpClient(Route(script.url), connect_timeout=5)
    try:
        yield script, client
    finally:
        await client.aclose()
        server.close()
        await server.wait_closed()


async def body_of(response: Response) -> bytes:
    chunks = []
    while chunk := await response.read_any():
        chunks.append(chunk)
    return b"".join(chunks)


async def get(client: HttpClient, method: str = "GET") -> bytes:
    return await body_of(await client.request(method, "/x"))


async def test_connection_is_used_again() -> None:
    async with scripted(OK, OK, OK) as (server, client):
        assert [await get(client) for _ in range(3)] == [b"ok"] * 3
        assert server.connections == 1


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with scripted(OK, OK) as (server, client):
        await asyncio.gather(get(client), get(client))
        assert server.connections == 2


async def test_connection_that_was_closed_while_idle_is_replaced() -> None:
    async with scripted(OK, OK) as (server, client):
        await get(client)
        await server.close_connections()
        assert await get(client, "PATCH") == b"ok", "nothing was sent on the closed one"
        assert server.connections == 2


@pytest.mark.parametrize(
    ("method", "repeated"), [("GET", True), ("PUT", False), ("DELETE", False), ("PATCH", False)]
)
async def test_request_on_a_closing_connection_is_repeated_if_that_is_safe(
    method: str, repeated: bool
) -> None:
    """The server closes it at the moment at which the request arrives."""
    async with scripted(OK, None, OK) as (server, client):
        await get(client)
        if repeated:
            assert await get(client, method) == b"ok"
        else:
            with pytest.raises(HttpError, match=r"^it closed the connection$"):
                await get(client, method)
        assert len(server.requests) == (3 if repeated else 2)


async def test_connection_of_another_route_ends_with_its_request() -> None:
    """What was rotated, such as a client certificate, is not used any more."""
    rest, connections = asyncio.Event(), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK[:-1])
                await rest.wait()
                writer.write(OK[-1:])
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = HttpClient(Route(url), connect_timeout=5)
    try:
        response = await client.request("GET", "/x")
        client.use(Route(url))
        rest.set()
        assert await body_of(response) == b"ok"
        await get(client)
        await get(client)
        assert connections == 2
    finally:
        await client.aclose()
        server.close()
        await server.wait_closed()


async def test_cancelled_request_leaves_the_next_one_alone() -> None:
    """Its response was complete, so that the connection is another request's by now."""
    async with scripted(OK, OK) as (server, client):
        first = asyncio.create_task(client.request("GET", "/x"))
        while not client._idle:  # noqa: ASYNC110 - each turn of the loop counts
            await asyncio.sleep(0)
        # The response has arrived, and the task that waits for it has not run since.
        second = client.request("PATCH", "/x").__await__()
        waits_for = second.send(None)
        first.cancel()

        @types.coroutine
        def rest() -> Generator[Any, None, Response]:
            yield waits_for
            return (yield from second)

        with pytest.raises(asyncio.CancelledError):
            await first
        assert await body_of(await rest()) == b"ok"
        assert server.connections == 1


async def test_request_that_is_not_sent_completely_ends_its_connection() -> None:
    """A server that answers early, such as 413, may not read the rest."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await ended.wait()
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
        closed.release()

    ended, closed = asyncio.Event(), asyncio.Semaphore(0)
    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1 << 10)
    port = server.sockets[0].getsockname()[1]
    client = HttpClient(Route(f"http://127.0.0.1:{port}"), connect_timeout=5)
    try:
        for _ in range(2):
            response = await client.request("POST", "/x", body=bytes(20 << 20))
            assert response.status == 413
    finally:
        await client.aclose()
        ended.set()
        for _ in range(2):
            await closed.acquire()
        server.close()


async def test_head_has_no_body() -> None:
    async with scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", OK) as (_, client):
        assert await get(client, "HEAD") == b""
        assert await get(client) == b"ok"


GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"


@pytest.mark.parametrize("encoding", [b"gzip", b"GZIP", b"gzip "])
async def test_compressed_body_of_several_members_is_read(encoding: bytes) -> None:
    body = gzip.compress(b"abc") + gzip.compress(b"def")
    answer = GZIP.replace(b"gzip", encoding) % (len(body), body)
    async with scripted(answer) as (_, client):
        assert await get(client) == b"abcdef"


@pytest.mark.parametrize("head", [b"204 No Content\r\n", b"200 OK\r\nContent-Length: 0\r\n"])
async def test_compressed_body_may_be_empty(head: bytes) -> None:
    answer = b"HTTP/1.1 %bContent-Encoding: gzip\r\n\r\n" % head
    async with scripted(answer) as (_, client):
        assert await get(client) == b""


async def test_compressed_body_is_decompressed_as_it_is_read() -> None:
    """A few hundred kilobytes must not become as many megabytes at once."""
    body = gzip.compress(bytes(200 << 20))
    async with scripted(GZIP % (len(body), body)) as (_, client):
        response = await client.request("GET", "/x")
        size = 0
        while chunk := await response.read_any():
            assert len(chunk) <= 2 * MOST_UNREAD
            size += len(chunk)
        assert size == 200 << 20


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"HTTP/1.1 200 ", id="reason"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="header"),
        pytest.param(CHUNKED + b"2\r\nok\r\n0\r\nX: ", id="trailer"),
        pytest.param(CHUNKED + b"2;x=", id="chunk extension"),
    ],
)
async def test_line_without_an_end_is_refused(begin: bytes) -> None:
    async with scripted(begin + b"y" * (8 * MOST_HEADERS)) as (_, client):
        with pytest.raises(HttpError, match="not HTTP"):
            await get(client)


async def test_page_that_is_too_large_is_an_error() -> None:
    async with scripted(OK) as (server, _):
        with pytest.raises(HttpError, match=r"more than 1 bytes"):
            await fetch(f"{server.url}/x", {}, connect_timeout=5, at_most=1)


async def test_request_on_a_closed_connection_is_not_waited_for() -> None:
    """What is written to it is dropped, so no response would come."""
    async with scripted(OK) as (server, client):
        await get(client)
        (connection,) = client._idle
        await server.close_connections()
        with pytest.raises(HttpError, match=r"^it closed the connection$"):
            await connection.send(b"GET / HTTP/1.1\r\n\r\n")


async def test_request_on_a_new_connection_is_not_repeated() -> None:
    async with scripted(None, OK) as (server, client):
        with pytest.raises(HttpError, match=r"^it closed the connection$"):
            await get(client)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
        (CHUNKED + b"1\r\na\r\n0\r\nX: y\r\n\r\n", b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", b"x"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
            % (len(gzip.compress(b"text", mtime=0)), gzip.compress(b"text", mtime=0)),
            b"text",
        ),
    ],
    ids=["chunks", "trailer", "100", "103", "204", "no reason", "gzip"],
)
async def test_body_is_read_to_its_end(answer: bytes, body: bytes) -> None:
    """The next response on the connection is another one."""
    async with scripted(answer, OK) as (server, client):
        assert await get(client) == body
        assert await get(client) == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_body_without_a_length_ends_with_the_connection(version: bytes) -> None:
    async with scripted(b"HTTP/%b 200 OK\r\n\r\nall of it" % version, closes=True) as (_, client):
        assert await get(client) == b"all of it"


@pytest.mark.parametrize(
    "answer",
    [
        HALF,
        CHUNKED + b"4\r\nha",
        CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
        + b"9\r\n"
        + gzip.compress(b"text", mtime=0)[:9]
        + b"\r\n0\r\n\r\n",
    ],
    ids=["length", "chunk", "gzip"],
)
async def test_body_that_ends_early_is_an_error(answer: bytes) -> None:
    async with scripted(answer, closes=True) as (_, client):
        response = await client.request("GET", "/x")
        with pytest.raises(HttpError, match=r"^the response is incomplete$"):
            await body_of(response)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * MOST_HEADERS + b"\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["SSH", "status", "upgrade", "encoding", "no gzip", "headers"],
)
async def test_answer_that_is_not_http_is_an_error(answer: bytes) -> None:
    async with scripted(answer, OK) as (server, client):
        with pytest.raises(HttpError, match=r"^its response is not HTTP$"):
            await get(client)
        assert await get(client) == b"ok"
        assert server.connections == 2


async def test_unsolicited_bytes_end_the_connection() -> None:
    """They would be taken for the next response."""
    async with scripted(OK + OK, OK) as (server, client):
        await get(client)
        await asyncio.sleep(0.05)
        await get(client)
        assert server.connections == 2


async def test_cancelled_request_closes_its_connection() -> None:
    async with scripted(b"", OK) as (server, client):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await get(client)
        assert await get(client) == b"ok"
        assert server.connections == 2


async def test_closed_response_closes_its_connection() -> None:
    async with scripted(HALF, OK) as (
        server,
        client,
    ):
        (await client.request("GET", "/x")).close()
        assert await get(client) == b"ok"
        assert server.connections == 2


async def test_server_waits_while_a_body_is_not_read() -> None:
    """What waits in memory is bounded, however much the server has."""
    size = 64 << 20
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
    async with scripted(answer) as (_, client):
        response = await client.request("GET", "/x")
        await asyncio.sleep(0.2)
        assert MOST_UNREAD < response._unread_bytes < 4 * MOST_UNREAD
        assert len(await body_of(response)) == size


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotmap.kube.http.client.IDLE", 0.1)
    async with scripted(OK, OK) as (server, client):
        await asyncio.gather(get(client), get(client))
        assert len(client._open) == 2
        await asyncio.sleep(0.3)
        assert len(client._open) == 0
        assert server.connections == 2


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nX: y", "a\0"])
async def test_line_break_in_a_header_is_refused(value: str) -> None:
    """Such as in the name of a user to impersonate."""
    async with scripted() as (server, client):
        with pytest.raises(ValueError, match="line break"):
            await client.request("GET", "/x", headers=[("Impersonate-User", value)])
        with pytest.raises(ValueError, match="line break"):
            await client.request("GET", f"/{value}")
        assert server.connections == 0


async def test_server_that_does_not_listen_is_an_error() -> None:
    client = HttpClient(Route("http://localhost:1"), connect_timeout=5)
    with pytest.raises(ConnectError, match=r"^connection refused$"):
        await client.request("GET", "/")
    await client.aclose()


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_any_bytes_give_a_response_or_an_error(pieces: list[bytes], starts_well: bool) -> None:
    """Never another exception, and never a request that waits for a closed connection."""

    async def play() -> None:
        connection = Connection(lambda connection: None)
        connection.connection_made(_Discarded())
        sending = asyncio.create_task(_read(connection))
        await asyncio.sleep(0)
        for piece in [b"HTTP/1.1 200 OK\r\n" if starts_well else b"", *pieces]:
            connection.data_received(piece)
        connection.connection_lost(None)
        async with asyncio.timeout(5):
            await asyncio.gather(sending, return_exceptions=True)
        error = sending.exception()
        assert error is None or isinstance(error, HttpError)

    asyncio.run(play())


async def _read(connection: Connection) -> bytes:
    return await body_of(await connection.send(b"GET / HTTP/1.1\r\n\r\n"))


class _Discarded(asyncio.Transport):
    """Takes everything, and sends nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@pytest.mark.parametrize("module", ["hotmap.cli.status_client", "hotmap.controller.run"])
def test_controller_and_status_do_without_aiohttp(module: str) -> None:
    """It takes 9 MB, and is a dependency of the local plane alone."""
    probe = f"import sys, {module}; print('aiohttp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True)
    assert found.stdout == b"False\n"


# -- any URL -----------------------------------------------------------------------------------


@pytest.fixture
def trusted(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority of the test is one of the system."""
    file = tmp_path / "system.crt"
    file.write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    system_trust.cache_clear()


@pytest.mark.usefixtures("trusted")
async def test_servers_of_the_systems_authorities_are_trusted(server_tls: ssl.SSLContext) -> None:
    """API servers without an authority in the kubeconfig, pages, and receivers of webhooks."""
    async with FaultServer(Truth(), tls=server_tls) as server:
        config = ClusterConfig(server.url, "the test", BearerToken())
        async with Client(config) as client:
            await client.request("GET", "/version")
        await fetch(f"{server.url}/page", {"a": "b c"}, connect_timeout=5, at_most=1000)
        await post(f"{server.url}/hook", b"{}", "application/json")
    assert [request.path for request in server.requests] == ["/version", "/page", "/hook"]
    system_trust.cache_clear()


async def test_user_and_password_of_a_url_are_sent() -> None:
    """As receivers of webhooks expect it; they are not part of the request's path or host."""
    async with scripted(OK) as (server, _):
        refusal = await post(
            server.url.replace("//", "//us%40er:planted@") + "/hook?a=b c", b"{}", "text/plain"
        )
        assert refusal is None
        (request,) = server.requests
        assert b"\r\nAuthorization: Basic dXNAZXI6cGxhbnRlZA==\r\n" in request
        assert request.startswith(b"POST /hook?a=b%20c HTTP/1.1\r\n")
        assert b"planted" not in request
