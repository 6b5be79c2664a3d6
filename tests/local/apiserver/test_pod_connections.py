"""Logs, exec, attach and port-forward over HTTP, in front of a small fake of a kubelet."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.local.apiserver.api import PODS, pod
from tests.local.apiserver.fake_kubelet import FakeKubelet
from tests.support.polling import wait_until

from hotmap.core.errors import api_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.admission_match import Operation
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.server import APIServer

V4 = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)


@pytest.fixture
async def kubelet(server: APIServer, registry: Registry) -> FakeKubelet:
    kubelet = FakeKubelet()
    server.kubelet = kubelet
    await registry.create("pods", "default", pod("p", nodeName="n"), manager="t")
    two = [{"name": name, "image": "x"} for name in ("a", "b")]
    inits = [{"name": "i", "image": "x"}]
    many = pod("many", nodeName="n", initContainers=inits)
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


async def test_log_may_be_asked_for_since_before_all_times(api: Api, kubelet: FakeKubelet) -> None:
    """No date is as early; all lines are younger."""
    reply = await api.get(f"{PODS}/p/log", sinceSeconds=str(2**63 - 1))
    assert reply.status == 200
    assert kubelet.asked[0][-1].since == 0


async def test_log_without_node_is_unavailable(api: Api, registry: Registry) -> None:
    """503 in words."""
    await registry.create("pods", "default", pod("p", nodeName="n"), manager="t")
    reply = await api.get(f"{PODS}/p/log")
    assert (reply.status, reply.message) == (503, "no node runs in this control plane")


def connect(api: Api, protocol: str, subresource: str = "exec", **query: Any) -> Any:
    return api.session.ws_connect(
        f"{api.url}{PODS}/p/{subresource}",
        params=[(k, v) for k, values in query.items() for v in values],
        protocols=[protocol],
        headers={"Authorization": f"Bearer {api.token}"},
    )


async def receive(socket: aiohttp.ClientWebSocketResponse, count: int) -> list[bytes]:
    return [await socket.receive_bytes() for _ in range(count)]


async def test_exec_multiplexes_streams(api: Api, kubelet: FakeKubelet) -> None:
    """Channels carry input, output, the window size and, last, how the command ended."""
    query: dict[str, Any] = {"command": ["cat", "-n"], "stdin": ["true"], "stdout": ["true"]}
    async with connect(api, "v5.channel.k8s.io", **query) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        # An empty message says that the connection stands.
        assert await socket.receive_bytes() == bytes([STDOUT])
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
    """No client waits for it any more."""
    async with connect(api, "v4.channel.k8s.io", command=["cat"]) as socket:
        await receive(socket, 2)
    async with asyncio.timeout(60):
        await kubelet.sessions[0].closed.wait()


async def test_exec_reports_success(api: Api, kubelet: FakeKubelet) -> None:
    """Exit code 0 is a Status of success."""
    async with connect(api, "v4.channel.k8s.io", command=["true"]) as socket:
        await receive(socket, 2)
        kubelet.sessions[0].code = 0
        await kubelet.sessions[0].close_input()
        assert json.loads((await socket.receive_bytes())[1:])["status"] == "Success"


async def test_exec_needs_a_command_and_an_upgrade(api: Api, kubelet: FakeKubelet) -> None:
    """Both are said before anything is started."""
    plain = await api.get(f"{PODS}/p/exec", command="ls")
    assert (plain.status, plain.message) == (400, "Upgrade request required")
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await connect(api, "v5.channel.k8s.io")
    assert caught.value.status == 400
    assert kubelet.asked == []


async def test_exec_speaks_base64_and_plain_errors(api: Api, kubelet: FakeKubelet) -> None:
    """The first protocol has text messages with a digit for the channel, and no Status."""
    query: dict[str, Any] = {"command": ["cat"], "stdin": ["true"], "stdout": ["true"]}
    async with connect(api, "base64.channel.k8s.io", **query) as socket:
        assert [await socket.receive_str() for _ in range(2)] == ["1", "2Y2F0"]
        await socket.send_str("0aGVsbG8=")
        assert await socket.receive_str() == "1aGVsbG8="
        await kubelet.sessions[0].close_input()
        error = await socket.receive_str()
        assert base64.b64decode(error[1:]) == (
            b"command terminated with non-zero exit code: exit status 7"
        )


async def test_input_may_be_text(api: Api, kubelet: FakeKubelet) -> None:
    """The Python client sends str as text in binary protocols; base64 may be binary."""
    query: dict[str, Any] = {"command": ["cat"], "stdin": ["true"], "stdout": ["true"]}
    async with connect(api, V4, **query) as socket:
        await receive(socket, 2)
        await socket.send_str("\x00grüezi\n")
        assert await socket.receive_bytes() == b"\x01" + "grüezi\n".encode()
    async with connect(api, "base64.channel.k8s.io", **query) as socket:
        assert [await socket.receive_str() for _ in range(2)] == ["1", "2Y2F0"]
        await socket.send_str("0not base64")
        await socket.send_bytes(b"0aGVsbG8=")
        assert await socket.receive_str() == "1aGVsbG8="


async def test_messages_without_meaning_are_dropped(api: Api, kubelet: FakeKubelet) -> None:
    """Sizes that are none, unknown channels, text that begins with none."""
    async with connect(api, "v5.channel.k8s.io", command=["cat"], stdin=["true"]) as socket:
        await receive(socket, 2)
        for wrong in (
            b"\x04[]",
            b'\x04{"Width":-1,"Height":9}',
            b"\x04{",
            b"\x09x",
            b"\xff\x07",
            b"",
        ):
            await socket.send_bytes(wrong)
        await socket.send_str("text")
        await socket.send_bytes(b"\x00end")
        assert await socket.receive_bytes() == b"\x01end"
    assert kubelet.sessions[0].size is None


async def test_attach_joins_streams(api: Api, kubelet: FakeKubelet) -> None:
    """As exec does; the only container is meant where none is named."""
    query: dict[str, Any] = {"stdin": ["true"], "stdout": ["true"], "stderr": ["1"]}
    async with connect(api, "v5.channel.k8s.io", "attach", **query) as socket:
        assert (await receive(socket, 2))[1] == bytes([STDERR]) + b"attached"
    assert kubelet.asked == [("default", "p", "main", True, True, True, False)]


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    """A port that repeats what it reads in capitals, and ends when its client does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_port_forward_by_channels(api: Api, kubelet: FakeKubelet, echo_port: int) -> None:
    """Two channels per port, each begins with the port; what is refused is said."""
    kubelet.ports[80] = echo_port
    async with connect(api, V4, "portforward", ports=["80,81"]) as socket:
        assert await receive(socket, 4) == [
            b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x51\x00", b"\x03\x51\x00"
        ]  # fmt: skip
        refused = await socket.receive_bytes()
        assert refused[0] == 3
        assert b"error forwarding port 81 to pod p_default, uid " in refused
        # For a connection that has ended.
        await socket.send_bytes(b"\x02nobody" * 40)
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x00HELLO"


async def test_port_forward_by_channels_ends_with_client(
    api: Api, kubelet: FakeKubelet, echo_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that leaves while its connections are open is nothing to report."""
    kubelet.ports.update({80: echo_port, 81: echo_port})
    async with connect(api, V4, "portforward", ports=["80,81"]) as socket:
        await socket.send_bytes(b"\x02hello")
        assert (await receive(socket, 5))[-1] == b"\x02HELLO"
    await wait_until(lambda: not any("_forward_channel" in str(t) for t in asyncio.all_tasks()))
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


async def test_port_forward_needs_ports(api: Api, kubelet: FakeKubelet) -> None:
    """Channels are numbered by the ports of the query, so each has to be one."""
    for ports in ([], ["x"], ["0"], ["80,"], ["70000"]):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(api, V4, "portforward", ports=ports)
        assert caught.value.status == 400


class DenyingPolicies:
    """Denies each connection, and keeps what it was asked about."""

    def __init__(self) -> None:
        self.seen: list[Operation] = []

    def check(self, operation: Operation, warnings: list[str] | None) -> None:
        self.seen.append(operation)
        raise api_error(422, "not this way", reason="Invalid")


@pytest.mark.parametrize(
    ("subresource", "query", "options"),
    [
        (
            "exec",
            {"command": ["a", "b"], "stdin": ["true"], "container": ["main"]},
            {"command": ["a", "b"], "stdin": True, "container": "main"},
        ),
        ("attach", {"tty": ["1"], "stdout": ["false"]}, {"tty": True}),
        ("portforward", {"ports": ["80", "81"]}, {"ports": [80, 81]}),
    ],
)
async def test_policies_decide_about_connections(
    api: Api,
    registry: Registry,
    kubelet: FakeKubelet,
    subresource: str,
    query: dict[str, list[str]],
    options: dict[str, Any],
) -> None:
    """Before the connection is upgraded, and before the pod is looked up."""
    policies = DenyingPolicies()
    registry.admitted.policies = policies  # type: ignore[assignment]
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await connect(api, "v5.channel.k8s.io", subresource, **query)
    assert caught.value.status == 422
    (operation,) = policies.seen
    assert (operation.verb, operation.name) == ("CONNECT", "p")
    assert operation.obj is not None
    assert {k: v for k, v in operation.obj.items() if k not in ("kind", "apiVersion")} == options
    assert kubelet.asked == []


async def test_connection_has_no_dry_run(api: Api, kubelet: FakeKubelet) -> None:
    reply = await api.get(f"{PODS}/p/exec", command="ls", dryRun="All")
    assert (reply.status, reply.message) == (400, "dryRun is not supported")
