"""gRPC probes: the request of a probe, and what the answers of a server mean."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.local.kubelet.conftest import eventually

from hotmap.local.kubelet.probes import Target, ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.local.kubelet.conftest import LocalNode

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
NO_STATUS = (
    "error: health rpc probe failed: no status; the server does not implement the grpc health "
    "protocol (grpc.health.v1.Health), or does not know the service"
)
MALFORMED = "error: health rpc probe failed: malformed response"


def frame(type: int, payload: bytes = b"", *, flags: int = 0, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3) + bytes((type, flags)) + stream.to_bytes(4) + payload


def answer(message: bytes, *, padding: int | None = None) -> list[bytes]:
    """Write the answer of a server, with frames that a client has to pass over."""
    body = b"\x00" + len(message).to_bytes(4) + message
    if padding is not None:
        body = bytes((padding,)) + body + bytes(padding)
    return [
        frame(SETTINGS, b"\x00\x03\x00\x00\x00\x64", stream=0),
        frame(SETTINGS, flags=1, stream=0),
        frame(WINDOW_UPDATE, b"\x00\x00\x00\x20", stream=0),
        frame(HEADERS, b"\x88", flags=4),
        frame(PING, b"12345678", stream=0),
        frame(DATA, body, flags=8 if padding is not None else 0),
        frame(HEADERS, b"\x88", flags=5),
    ]


@contextlib.asynccontextmanager
async def server(frames: Sequence[bytes], received: bytearray) -> AsyncIterator[int]:
    handling: set[asyncio.Task[object] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.add(asyncio.current_task())
        # A client that has its answer does not read on.
        with contextlib.suppress(OSError):
            received.extend(await reader.readuntil(b"/Check"))
            for each in frames:
                writer.write(each)
                await asyncio.sleep(0)
            received.extend(await reader.read())
        writer.close()

    listening = await asyncio.start_server(handle, "0.0.0.0", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await asyncio.gather(*filter(None, handling))


def target() -> Target:
    return Target({"name": "c"}, "127.0.0.1", _execute)


async def _execute(command: Sequence[str]) -> tuple[int, bytes]:
    raise AssertionError(f"no command was to be run: {command}")


@pytest.mark.parametrize(
    ("frames", "failure"),
    [
        (answer(b"\x08\x01"), None),
        (answer(b"\x08\x01", padding=7), None),
        (answer(b"\x08\x02"), 'service unhealthy (responded with "NOT_SERVING")'),
        (answer(b""), 'service unhealthy (responded with "UNKNOWN")'),
        (answer(b"\x08\x09"), 'service unhealthy (responded with "9")'),
        (answer(b"\x12\x01a"), MALFORMED),
        ([frame(HEADERS, b"\x88", flags=5)], NO_STATUS),
        ([frame(RST_STREAM, b"\x00\x00\x00\x02")], f"{NO_STATUS[:32]}stream closed"),
        ([frame(GOAWAY, bytes(8), stream=0)], f"{NO_STATUS[:32]}connection closed"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], MALFORMED),
        ([frame(DATA, bytes(1 << 14))] * 5, MALFORMED),
    ],
)
async def test_answer_of_a_health_service_is_a_state_or_a_failure(
    frames: list[bytes], failure: str | None
) -> None:
    """The state is in the message; everything else is a failure."""
    received = bytearray()
    async with server(frames, received) as port:
        assert await ask({"grpc": {"port": port}}, target(), timeout=5) == failure


@pytest.mark.parametrize("name", ["", "shop", "s" * 300])
async def test_request_names_the_service(name: str) -> None:
    """In one message, after the preface that a server of HTTP/2 expects."""
    received = bytearray()
    async with server(answer(b"\x08\x01"), received) as port:
        assert await ask({"grpc": {"port": port, "service": name}}, target(), timeout=5) is None
        await eventually(lambda: b"12345678" in received)
    assert received.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert name.encode() in received
    assert frame(PING, b"12345678", flags=1, stream=0) in received


async def test_server_that_is_silent_or_absent_fails_the_probe() -> None:
    """Within the probe's time-out."""
    async with server([], bytearray()) as port:
        assert await ask({"grpc": {"port": port}}, target(), timeout=0.1) == (
            "timeout: health rpc did not complete within 0.1s"
        )
    text = await ask({"grpc": {"port": port}}, target(), timeout=5)
    assert text is not None
    assert text.endswith(f"dial tcp 127.0.0.1:{port}: connect: connection refused")


async def test_pod_is_ready_once_its_grpc_service_serves(node: LocalNode) -> None:
    """At the address of the pod."""
    async with server(answer(b"\x08\x01"), bytearray()) as port:
        probe = {"grpc": {"port": port, "service": ""}, "periodSeconds": 1}
        await node.run_pod("web", "exec sleep 600", readinessProbe=probe)
        await node.until(
            "web",
            lambda pod: (pod.get("status", {}).get("containerStatuses") or [{}])[0].get("ready"),
        )
