"""Commands in running containers: streams, exit codes, input, terminals; attach, ports."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from tests.local.kubelet.conftest import LIMIT, LocalNode
from tests.support.requires import requires

from hotmap.core.errors import ApiError, BadRequest
from hotmap.local.kubelet_api import LogOptions, StreamOptions

if TYPE_CHECKING:
    from hotmap.local.kubelet_api import RemoteSession


async def start(
    node: LocalNode, script: str, *, stdin: bool = False, tty: bool = False
) -> RemoteSession:
    options = StreamOptions(stdin, tty=tty)
    return await node.pod_requests.exec("default", "web", "c", ["sh", "-c", script], options)


@pytest.fixture
async def web(node: LocalNode) -> LocalNode:
    env = [{"name": "COLOUR", "value": "blue"}]
    await node.run_pod("web", "exec sleep 600", env=env, workingDir="/srv")
    await node.phase("web", "Running")
    return node


async def test_exec_streams_and_exit_code(web: LocalNode) -> None:
    """stdout and stderr come apart, and the exit code is the command's."""
    command = await start(web, "echo out; echo err >&2; exit 7")
    chunks = {}
    while (chunk := await command.read()) is not None:
        chunks[chunk[0]] = chunk[1]
    assert chunks == {"stdout": b"out\n", "stderr": b"err\n"}
    assert await command.wait() == 7
    assert await command.read() is None


async def test_exec_passes_input(web: LocalNode) -> None:
    """What is written arrives, larger than a pipe holds, and its end ends the command."""
    command = await start(web, "wc -c", stdin=True)
    await command.write(b"x" * 1_000_000)
    await command.close_input()
    assert await command.read() == ("stdout", b"1000000\n")
    assert await command.wait() == 0


async def test_exec_runs_inside_container(web: LocalNode) -> None:
    """It has the container's environment, working directory and processes."""
    command = await start(web, "echo $COLOUR $HOSTNAME; pwd; cat /proc/1/comm")
    output = b""
    while (chunk := await command.read()) is not None:
        output += chunk[1]
    assert output == b"blue web\n/srv\nsleep\n"


async def test_exec_with_terminal_has_the_size_of_the_client(web: LocalNode) -> None:
    """With a terminal the command has one of its own, in the size that was told."""
    command = await start(web, "read x; stty size; echo $x $TERM", stdin=True, tty=True)
    await command.resize(100, 40)
    await command.write(b"typed\n")
    output = b""
    while (chunk := await command.read()) is not None:
        output += chunk[1]
    assert output.splitlines() == [b"typed", b"40 100", b"typed xterm"]
    assert await command.wait() == 0


async def test_exec_terminal_sends_interrupts_to_the_foreground(web: LocalNode) -> None:
    """Control-C reaches the command in the foreground."""
    command = await start(web, "echo up; exec sleep 600", stdin=True, tty=True)
    assert await command.read() == ("stdout", b"up\r\n")
    await command.write(b"\x03")
    assert await command.wait() == 130


async def test_exec_close_kills_command(web: LocalNode) -> None:
    """Closing kills it."""
    command = await start(web, "exec sleep 600")
    await command.close()
    assert await command.wait() == 137


async def test_exec_ends_with_container(web: LocalNode) -> None:
    """When the pod goes, so do the commands in it."""
    command = await start(web, "exec sleep 600")
    await web.registry.delete("pods", "default", "web", grace_period=0)
    async with asyncio.timeout(60):
        assert await command.wait() == 137


async def test_exec_failure_names_its_cause(web: LocalNode) -> None:
    """A missing program is a result, as it is of a kubelet; what is no container is refused."""
    failed = await web.pod_requests.exec("default", "web", "c", ["nope"], StreamOptions())
    assert await failed.read() is None
    with pytest.raises(
        ApiError, match=r'exec: "nope": executable file not found in [$]PATH'
    ) as why:
        await failed.wait()
    assert (why.value.code, why.value.reason) == (500, "InternalError")
    with pytest.raises(BadRequest, match="container x is not valid for pod web"):
        await web.pod_requests.exec("default", "web", "x", ["true"], StreamOptions())


async def test_exec_output_waits_for_slow_reader(web: LocalNode) -> None:
    """Nothing is lost, and what is unread does not fill the memory."""
    command = await start(web, "seq 1000000; echo done >&2")
    await asyncio.sleep(0.3)
    output, size = b"", 0
    while (chunk := await command.read()) is not None:
        size += len(chunk[1])
        output = (output + chunk[1])[-100:]
        if size < 200_000:
            await asyncio.sleep(0.01)
    assert size == len("done\n") + sum(len(f"{i}\n") for i in range(1, 1_000_001))
    assert b"1000000\n" in output
    assert await command.wait() == 0


async def attach(node: LocalNode, pod: str, *, stdin: bool = False) -> RemoteSession:
    return await node.pod_requests.attach("default", pod, "c", StreamOptions(stdin))


async def read_lines(session: RemoteSession, count: int) -> list[bytes]:
    output = b""
    while output.count(b"\n") < count and (chunk := await session.read()) is not None:
        output += chunk[1]
    return output.splitlines()


async def test_attached_clients_share_output(node: LocalNode) -> None:
    """Both get what the container writes; one gives input, and leaving ends nothing."""
    script = "while read x; do echo got $x; done"
    await node.run_pod("cat", script, stdin=True)
    await node.phase("cat", "Running")
    first, second = await attach(node, "cat", stdin=True), await attach(node, "cat")
    await first.write(b"one\n")
    assert await read_lines(first, 1) == await read_lines(second, 1) == [b"got one"]
    await second.write(b"not mine\n")
    await first.close()
    assert await first.read() is None
    third = await attach(node, "cat", stdin=True)
    await third.write(b"two\n")
    assert await read_lines(second, 1) == [b"got two"]
    await node.registry.delete("pods", "default", "cat", grace_period=0)
    assert await second.read() is None
    assert await second.wait() == 0


async def test_first_client_ends_input_of_stdin_once(node: LocalNode) -> None:
    """With `stdinOnce` the input ends with the client that gave it."""
    await node.run_pod(
        "cat", "cat; echo end", stdin=True, stdinOnce=True, pod={"restartPolicy": "Never"}
    )
    await node.phase("cat", "Running")
    session = await attach(node, "cat", stdin=True)
    await session.write(b"x" * 200_000)
    await session.close_input()
    await node.phase("cat", "Succeeded")
    assert await node.logs("cat") == "x" * 200_000 + "end\n"


async def test_attach_with_terminal_sets_its_size(node: LocalNode) -> None:
    """A container with `tty` has a terminal, whose size the client sets."""
    script = "read x; stty size; echo $TERM; exec sleep 600"
    await node.run_pod("term", script, stdin=True, tty=True)
    await node.phase("term", "Running")
    session = await attach(node, "term", stdin=True)
    await session.resize(100, 40)
    await session.write(b"typed\n")
    assert await read_lines(session, 3) == [b"typed", b"40 100", b"xterm"]


async def test_attach_needs_running_container(node: LocalNode) -> None:
    """What has ended cannot be attached to."""
    await node.run_pod("done", "true", pod={"restartPolicy": "Never"})
    await node.phase("done", "Succeeded")
    with pytest.raises(ApiError, match=r'container not found [(]"c"[)]'):
        await attach(node, "done")


async def test_port_of_a_pod_is_reached_at_its_own_address(node: LocalNode) -> None:
    """At the pod's own address; a port without a listener is refused."""
    script = (
        'exec python3 -uc \'import os, socket; s = socket.create_server((os.environ["IP"], 18081));'
        'print("up"); s.accept()[0].send(b"hello")\''
    )
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    await node.run_pod("server", script, env=[{"name": "IP", "valueFrom": address}])
    await node.phase("server", "Running")
    log = await node.pod_requests.logs("default", "server", "c", LogOptions(follow=True))
    assert await anext(log) == b"up\n"
    reader, writer = await node.pod_requests.connect("default", "server", 18081)
    assert await reader.read() == b"hello"
    writer.close()
    with pytest.raises(ApiError, match="connection refused"):
        await node.pod_requests.connect("default", "server", 1)


async def test_user_and_groups_of_container_and_its_commands(node: LocalNode) -> None:
    """A user without a group has the root group; fsGroup and more groups are supplementary."""
    requires("root", available=os.geteuid() == 0, reason="only root can change users")
    script = "id -u; id -g; id -G; echo $HOME"
    context = {"runAsUser": 4001, "fsGroup": 4002, "supplementalGroups": [4003]}
    await node.run_pod(
        "user", f"{script}; exec sleep 600", pod={"securityContext": context}, workingDir="/"
    )
    await node.phase("user", "Running")
    wanted = "4001\n0\n0 4002 4003\n/\n"
    assert await node.execute("user", script) == wanted
    async with asyncio.timeout(LIMIT):
        while await node.logs("user") != wanted:  # noqa: ASYNC110 - it may still be writing
            await asyncio.sleep(0.01)
