"""The small HTTP server beside clients that are slow, wrong, or many."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.kube.http.server import (
    MOST_BYTES,
    MOST_HEADERS,
    MOST_PARAMETERS,
    MOST_URL_BYTES,
    Answer,
    HttpServer,
    Question,
)

#: Time-outs are beside real connections.
pytestmark = pytest.mark.real_time


class Served:
    """A server with some paths, and what it was asked."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.was_asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.port = 0
        self.text = b"text"

    async def answer(self, question: Question) -> Answer:
        self.questions.append(question)
        self.was_asked.set()
        await self.go_on.wait()
        return Answer(200, self.text)

    async def fail(self, question: Question) -> Answer:
        raise RuntimeError("planted")


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served()
    server = HttpServer({"/page": served.answer, "/broken": served.fail})
    served.port = await server.listen("127.0.0.1", 0)
    try:
        yield served
    finally:
        await server.close()


async def exchange(port: int, request: bytes) -> bytes:
    """Send bytes, and return all that comes until the server closes, or 0.3 s are over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    received = b""
    try:
        async with asyncio.timeout(0.3):
            while data := await reader.read(1 << 16):
                received += data
    except (TimeoutError, ConnectionError):
        pass
    writer.close()
    return received


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_request_is_handed_over_and_answered() -> None:
    async with serving() as served:
        request = b"GET /page?a=1&a=2&b=x%20y&c HTTP/1.1\r\nHost: h\r\nX-Token: t\r\n\r\n"
        answer = await exchange(served.port, request)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n")
    assert answer.endswith(b"\r\n\r\ntext")
    (question,) = served.questions
    assert question.query == {"a": "1", "b": "x y", "c": ""}
    assert question.headers == {"host": "h", "x-token": "t"}


@pytest.mark.parametrize("host", ["", "::"])
async def test_every_address_is_one_of_ipv4_too(host: str) -> None:
    """`[::]` is every address for a program in Go, so probes by IPv4 have to be answered."""
    served = Served()
    server = HttpServer({"/page": served.answer})
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    await server.listen(host, port)
    try:
        assert status(await exchange(port, b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")) == 200
    finally:
        await server.close()


async def test_head_has_no_body() -> None:
    async with serving() as served:
        answer = await exchange(served.port, b"HEAD /page HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"Content-Length: 4\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"GET /other HTTP/1.1", 404),
        (b"GET /page/ HTTP/1.1", 404),
        (b"POST /page HTTP/1.1", 405),
        (b"DELETE /page HTTP/1.1", 405),
        (b"GET /broken HTTP/1.1", 500),
        (b"GARBAGE", 400),
        (b"GET /page HTTP/9.9", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /page HTTP/1.1\r\nX: " + b"x" * MOST_BYTES, 413),
        (b"GET /" + b"x" * MOST_URL_BYTES + b" HTTP/1.1", 414),
        (b"GET /page?" + b"a&" * MOST_PARAMETERS + b"a HTTP/1.1", 400),
    ],
)
async def test_wrong_requests_are_refused(
    request_line: bytes, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with serving() as served:
        answer = await exchange(served.port, request_line + b"\r\nHost: h\r\n\r\n")
        assert status(answer) == expected
        assert b"planted" not in answer
        assert await exchange(served.port, b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n")


async def test_requests_of_one_connection_are_answered_in_order() -> None:
    async with serving() as served:
        one = b"GET /page?n=1 HTTP/1.1\r\nHost: h\r\n\r\n"
        two = b"GET /other HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        answer = await exchange(served.port, one + two)
    assert [status(part) for part in answer.split(b"HTTP/1.1")[1:]] == [200, 404]
    assert b"Connection: close\r\n" in answer


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_connection_is_kept_as_the_client_wants(version: bytes) -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /page HTTP/%b\r\nHost: h\r\n\r\n" % version)
        await reader.readuntil(b"\r\n\r\ntext")
        writer.write(b"GET /page HTTP/%b\r\nHost: h\r\n\r\n" % version)
        try:
            again = await asyncio.wait_for(reader.read(100), 1)
        except ConnectionError:
            again = b""
        writer.close()
    assert bool(again) is (version == b"1.1")


async def test_many_waiting_requests_end_their_connection() -> None:
    """Others are still answered."""
    async with serving() as served:
        served.go_on.clear()
        await exchange(served.port, b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n" * 1000)
        served.go_on.set()
        await asyncio.sleep(0.05)
        assert len(served.questions) < 20
        assert await exchange(served.port, b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n")


async def test_request_with_many_headers_is_refused() -> None:
    """As a dictionary they take many times their bytes."""
    headers = b"".join(b"x%d:\r\n" % number for number in range(MOST_HEADERS + 1))
    async with serving() as served:
        answer = await exchange(served.port, b"GET /page HTTP/1.1\r\n" + headers + b"\r\n")
        assert status(answer) == 431


async def test_offer_of_another_protocol_is_ignored() -> None:
    """`curl --http2` offers it with its first request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
    async with serving() as served:
        answer = await exchange(served.port, b"GET /page HTTP/1.1\r\nHost: h\r\n" + offer + b"\r\n")
    assert status(answer) == 200
    assert b"Connection: close" in answer


async def test_wrong_request_after_a_right_one_leaves_its_answer() -> None:
    async with serving() as served:
        answer = await exchange(
            served.port, b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n\x00wrong\r\n\r\n"
        )
    assert status(answer) == 200
    assert b"400 Bad Request" in answer


async def test_idle_connection_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens many must not keep probes from being answered."""
    monkeypatch.setattr("hotmap.kube.http.server.MOST_CONNECTIONS", 3)
    async with serving() as served:
        opened = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(5)]
        await asyncio.sleep(0.1)
        answer = await exchange(served.port, b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status(answer) == 200
        ended = 0
        for reader, writer in opened:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(0.05):
                    ended += not await reader.read(1)
            writer.close()
        assert ended >= 2


async def test_connection_that_takes_no_answers_makes_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who opens many, asks on each, and reads nothing must not keep probes from being answered."""
    monkeypatch.setattr("hotmap.kube.http.server.MOST_CONNECTIONS", 3)
    request = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"
    async with serving() as served:
        served.text = b"x" * (16 << 20)  # more than sockets buffer
        stalled = []
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(request)
            stalled.append(writer)
            await served.was_asked.wait()
            served.was_asked.clear()
        served.text = b"text"
        assert status(await exchange(served.port, request)) == 200
        for writer in stalled:
            writer.close()


async def test_answers_that_clients_do_not_take_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many clients that ask for a large answer and read nothing must not fill the memory."""
    size = 16 << 20  # more than sockets buffer
    monkeypatch.setattr("hotmap.kube.http.server.MOST_UNREAD", 2 * size)
    request = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"
    async with serving() as served:
        served.text = b"x" * size
        stalled = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(request)
            stalled.append((reader, writer))
            await served.was_asked.wait()
            served.was_asked.clear()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await stalled[0][0].readexactly(size)
        async with asyncio.timeout(60):
            await stalled[3][0].readexactly(size)
        for _, writer in stalled:
            writer.close()


async def test_largest_answer_is_sent_whatever_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 16 << 20
    monkeypatch.setattr("hotmap.kube.http.server.MOST_UNREAD", 1)
    async with serving() as served:
        served.text = b"x" * size
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n")
        async with asyncio.timeout(60):
            await reader.readexactly(size)
        writer.close()


async def test_request_that_takes_long_makes_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks many things that take long must not keep probes from being answered."""
    monkeypatch.setattr("hotmap.kube.http.server.MOST_CONNECTIONS", 3)
    request = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"
    async with serving() as served:
        served.go_on.clear()
        waiting = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(request)
            waiting.append((reader, writer))
            await served.was_asked.wait()
            served.was_asked.clear()
        probe = b"GET /other HTTP/1.1\r\nHost: h\r\n\r\n"
        assert status(await exchange(served.port, probe)) == 404
        with suppress(ConnectionError):
            assert await waiting[0][0].read() == b""
        served.go_on.set()
        assert status(await waiting[2][0].read(1 << 16)) == 200
        for _, writer in waiting:
            writer.close()


async def test_new_connection_is_not_closed_before_it_can_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who opens many, and asks on each, must not keep probes from being answered."""
    monkeypatch.setattr("hotmap.kube.http.server.MOST_CONNECTIONS", 4)
    request = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"
    async with serving() as served:
        served.go_on.clear()

        async def ask() -> asyncio.StreamWriter:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(request)
            await served.was_asked.wait()
            served.was_asked.clear()
            return writer

        asked = [await ask() for _ in range(4)]
        reader, probe = await asyncio.open_connection("127.0.0.1", served.port)
        asked.append(await ask())
        probe.write(b"GET /other HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        served.go_on.set()
        for writer in (probe, *asked):
            writer.close()


async def test_slow_client_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotmap.kube.http.server.CLIENT_TIMEOUT", 0.1)
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /page HTTP/1.1\r\nHost:")
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 2) == b""
        writer.close()


async def test_client_that_reads_nothing_gets_one_answer_at_a_time() -> None:
    """Its requests wait, so that answers which nobody takes do not fill the memory."""
    size, count = 16 << 20, 3  # more than sockets buffer
    async with serving() as served:
        served.text = b"x" * size
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n" * count)
        await served.was_asked.wait()
        await asyncio.sleep(0.2)
        assert len(served.questions) == 1
        async with asyncio.timeout(60):
            await reader.readexactly(size * count)
        assert len(served.questions) == count
        writer.close()


async def test_handler_may_take_longer_than_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotmap.kube.http.server.CLIENT_TIMEOUT", 0.05)
    async with serving() as served:
        served.go_on.clear()
        asyncio.get_running_loop().call_later(0.2, served.go_on.set)
        request = b"GET /page HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        assert status(await exchange(served.port, request)) == 200


async def test_closing_gives_requests_a_moment() -> None:
    served = Served()
    server = HttpServer({"/page": served.answer})
    port = await server.listen("127.0.0.1", 0)
    served.go_on.clear()
    asking = asyncio.create_task(exchange(port, b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"))
    await served.was_asked.wait()
    asyncio.get_running_loop().call_later(0.05, served.go_on.set)
    await server.close()
    assert status(await asking) == 200


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_leave_the_server_running(pieces: list[bytes]) -> None:
    async def play() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            for piece in [b"GET /page HTTP/1.1\r\n", *pieces]:
                writer.write(piece)
            writer.write_eof()
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 5)
            writer.close()
            assert await exchange(served.port, b"GET /page HTTP/1.0\r\n\r\n")

    asyncio.run(play())
