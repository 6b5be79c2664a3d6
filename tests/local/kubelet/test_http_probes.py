"""HTTP probes: what they send, which answers are good, and how a failure is described."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hotmap.local.kubelet.probes import Target, ask

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    """Serve connections until they have ended, and yield the port."""
    ended: list[asyncio.Event] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = asyncio.Event()
        ended.append(end)
        try:
            await handler(reader, writer)
        finally:
            writer.close()
            end.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for end in ended:
            await end.wait()


@asynccontextmanager
async def serving(answers: dict[str, bytes], seen: list[bytes] | None = None) -> AsyncIterator[int]:
    """Give each path its answer, and yield the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(answers[head.split()[1].decode()])
        await writer.drain()

    async with listening(answer) as port:
        yield port


async def no_command(command: object) -> tuple[int, bytes]:
    raise AssertionError(f"no command was to be run: {command}")


async def probed(port: int, path: str, *, timeout: float = 5, **action: Any) -> str | None:
    container = {"name": "c", "ports": [{"name": "web", "containerPort": port}]}
    target = Target(container, "127.0.0.1", no_command)
    return await ask({"httpGet": {"path": path, "port": "web", **action}}, target, timeout=timeout)


def status(line: str, location: str = "") -> bytes:
    header = f"location: {location}\r\n" if location else ""
    return f"HTTP/1.1 {line}\r\n{header}Content-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("200 OK", None),
        ("204 No Content", None),
        ("304 Not Modified", None),
        ("302 Found", None),
        ("404 Not Found", "HTTP probe failed with statuscode: 404"),
        ("503 Service Unavailable", "HTTP probe failed with statuscode: 503"),
    ],
)
async def test_statuses_below_400_are_good(line: str, expected: str | None) -> None:
    async with serving({"/": status(line)}) as port:
        assert await probed(port, "/") == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "EOF"),
        (b"SSH-2.0\r\n", 'malformed HTTP response "SSH-2.0"'),
        (status("none X"), 'malformed HTTP status code "none"'),
    ],
)
async def test_answer_that_is_not_http_is_described(answer: bytes, expected: str) -> None:
    async with serving({"/x?y=1": answer}) as port:
        said = await probed(port, "/x?y=1")
    assert said is not None
    assert said.startswith(f'Get "http://127.0.0.1:{port}/x?y=1": ')
    assert said.endswith(expected)


async def test_closed_port_is_named_with_the_url() -> None:
    async with serving({}) as port:
        pass
    assert await probed(port, "ready") == (
        f'Get "http://127.0.0.1:{port}/ready": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    )


async def test_slow_answer_is_named_with_the_url() -> None:
    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(wait) as port:
        assert await probed(port, "/", timeout=0.1) == (
            f'Get "http://127.0.0.1:{port}/": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)"
        )


async def test_server_without_tls_is_named() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(status("400 Bad Request"))

    async with listening(refuse) as port:
        assert await probed(port, "/", scheme="HTTPS") == (
            f'Get "https://127.0.0.1:{port}/": http: server gave HTTP response to HTTPS client'
        )


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/good", None),
        ("bad", "HTTP probe failed with statuscode: 500"),
        ("http://other.example.com/bad", None),
    ],
)
async def test_redirects_to_the_same_host_are_followed(location: str, expected: str | None) -> None:
    answers = {"/": status("302 Found", location), "/good": status("200 OK")}
    async with serving({**answers, "/bad": status("500 No")}) as port:
        assert await probed(port, "/") == expected


async def test_endless_redirects_fail() -> None:
    async with serving({"/": status("307 Temporary Redirect", "/")}) as port:
        failure = await probed(port, "/")
    assert failure is not None
    assert failure.endswith(": stopped after 10 redirects")


async def test_headers_replace_those_of_probes() -> None:
    headers = [
        {"name": "host", "value": "web.example.com"},
        {"name": "accept", "value": ""},
        {"name": "X-A", "value": "1"},
        {"name": "X-A", "value": "2"},
    ]
    seen: list[bytes] = []
    async with serving({"/": status("200 OK")}, seen) as port:
        assert await probed(port, "/", httpHeaders=headers) is None
    lines = seen[0].lower().split(b"\r\n")
    assert b"host: web.example.com" in lines
    assert sum(line.startswith(b"host:") for line in lines) == 1
    assert not any(line.startswith(b"accept:") for line in lines)
    assert [line for line in lines if line.startswith(b"x-a")] == [b"x-a: 1", b"x-a: 2"]
    assert b"user-agent: kube-probe/1.36" in lines


async def test_any_answer_is_good_for_a_hook() -> None:
    seen: list[bytes] = []
    target = Target({"name": "c"}, "127.0.0.1", no_command)
    async with serving({"/": status("500 No")}, seen) as port:
        hook = {"httpGet": {"path": "/", "port": port}}
        assert await ask(hook, target, timeout=5, purpose="lifecycle") is None
    assert b"User-Agent: kube-lifecycle/1.36" in seen[0]
    failure = await ask(hook, target, timeout=5, purpose="lifecycle")
    assert failure is not None
    assert failure.endswith("connect: connection refused")
