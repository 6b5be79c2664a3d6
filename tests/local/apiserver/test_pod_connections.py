"""Logs and exec over HTTP, in front of a kubelet that is a few lines of test."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

import aiohttp
import pytest
from tests.local.apiserver.api import PODS, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.server import APIServer
    from hotmap.local.kubelet_api import ExecOptions, LogOptions

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)


class EchoSession:
    """Says its command on stderr, repeats its input on stdout, ends with the input."""

    def __init__(self, command: Sequence[str]) -> None:
        self.output: asyncio.Queue[tuple[Literal["stdout", "stderr"], bytes] | None]
        self.output = asyncio.Queue()
        self.output.put_nowait(("stderr", " ".join(command).encode()))
        self.size: tuple[int, int] | None = None
        self.closed = asyncio.Event()
        self.code = 7

    async def read(self) -> tuple[Literal["stdout", "stderr"], bytes] | None:
        return await self.output.get()

    async def write(self, data: bytes) -> None:
        self.output.put_nowait(("stdout", data))

    async def close_input(self) -> None:
        self.output.put_nowait(None)

    async def resize(self, width: int, height: int) -> None:
        self.size = (width, height)

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        self.output.put_nowait(None)
        self.closed.set()


class FakeKubelet:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.sessions: list[EchoSession] = []

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        self.asked.append((namespace, pod, container, options))

        async def lines() -> AsyncIterator[bytes]:
            yield b"one\n"
            yield b"two\n"

        return lines()

    async def exec(
        self, namespace: str, pod: str, container: str, options: ExecOptions
    ) -> EchoSession:
        self.asked.append((namespace, pod, container, *options))
        self.sessions.append(EchoSession(options.command))
        return self.sessions[-1]


@pytest.fixture
async def kubelet(server: APIServer, registry: Registry) -> FakeKubelet:
    kubelet = FakeKubelet()
    server.kubelet = kubelet
    await registry.create("pods", "default", pod("p"), manager="t")
    two = [{"name": name, "image": "x"} for name in ("a", "b")]
    inits = [{"name": "i", "image": "x"}]
    many = pod("many", initContainers=inits)
    many["spec"]["containers"] = two
    await registry.create("pods", "default", many, manager="t")
    return kubelet


async def test_log_request_is_forwarded_to_kubelet(api: Api, kubelet: FakeKubelet) -> None:
    """The only container is meant where none is named; options arrive as asked."""
    reply = await api.get(
        f"{PODS}/p/log", follow="true", previous="false", tailLines="5", timestamps="true"
    )
    assert (reply.status, reply.body) == (200, "one\ntwo\n")
    namespace, name, container, options = kubelet.asked[0]
    assert (namespace, name, container) == ("default", "p", "main")
    assert (options.follow, options.previous, options.timestamps) == (True, False, True)
    assert (options.tail_lines, options.limit_bytes, options.since) == (5, None, None)


async def test_container_name_is_required_among_several(api: Api, kubelet: FakeKubelet) -> None:
    """The answer says which there are; init containers have logs too."""
    reply = await api.get(f"{PODS}/many/log")
    assert (reply.status, reply.message) == (
        400,
        "a container name must be specified for pod many, choose one of: [a b] "
        "or one of the init containers: [i]",
    )
    assert (await api.get(f"{PODS}/many/log", container="i")).status == 200
    wrong = await api.get(f"{PODS}/p/log", container="x")
    assert wrong.message == "container x is not valid for pod p"
    assert (await api.get(f"{PODS}/nope/log")).status == 404
    assert len(kubelet.asked) == 1


async def test_log_without_node_is_unavailable(api: Api, registry: Registry) -> None:
    """503 in words."""
    await registry.create("pods", "default", pod("p"), manager="t")
    reply = await api.get(f"{PODS}/p/log")
    assert (reply.status, reply.message) == (503, "no node runs in this control plane")


def connect(api: Api, protocol: str, **query: Any) -> Any:
    return api.session.ws_connect(
        f"{api.url}{PODS}/p/exec",
        params=[(k, v) for k, values in query.items() for v in values],
        protocols=[protocol],
        headers={"Authorization": f"Bearer {api.token}"},
    )


async def test_exec_multiplexes_streams(api: Api, kubelet: FakeKubelet) -> None:
    """Channels carry input, output, the window size and, last, how the command ended."""
    query = {"command": ["cat", "-n"], "stdin": ["true"], "stdout": ["true"]}
    async with connect(api, "v5.channel.k8s.io", **query) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        assert await socket.receive_bytes() == bytes([STDERR]) + b"cat -n"
        await socket.send_bytes(bytes([RESIZE]) + b'{"Width":80,"Height":25}')
        await socket.send_bytes(bytes([STDIN]) + b"hello")
        assert await socket.receive_bytes() == bytes([STDOUT]) + b"hello"
        await socket.send_bytes(bytes([255, STDIN]))
        last = await socket.receive_bytes()
        assert last[0] == ERROR
        status = json.loads(last[1:])
        assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert kubelet.asked == [("default", "p", "main", ["cat", "-n"], True, False)]
    assert kubelet.sessions[0].size == (80, 25)


async def test_exec_ends_with_client(api: Api, kubelet: FakeKubelet) -> None:
    """Nobody waits for it any more."""
    async with connect(api, "v4.channel.k8s.io", command=["cat"]) as socket:
        await socket.receive_bytes()
    async with asyncio.timeout(60):
        await kubelet.sessions[0].closed.wait()


async def test_exec_reports_success(api: Api, kubelet: FakeKubelet) -> None:
    """Exit code 0 is a Status of success."""
    async with connect(api, "v4.channel.k8s.io", command=["true"]) as socket:
        await socket.receive_bytes()
        kubelet.sessions[0].code = 0
        await kubelet.sessions[0].close_input()
        assert json.loads((await socket.receive_bytes())[1:])["status"] == "Success"


async def test_exec_needs_a_command_and_a_websocket(api: Api, kubelet: FakeKubelet) -> None:
    """Both are said before anything is started."""
    plain = await api.get(f"{PODS}/p/exec", command="ls")
    assert (plain.status, plain.message) == (400, "exec needs a WebSocket upgrade")
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await connect(api, "v5.channel.k8s.io")
    assert caught.value.status == 400
    assert kubelet.asked == []
