"""Commands in running containers: streams apart, exit codes, input, environment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.local.kubelet.conftest import LocalNode

from hotmap.core.errors import BadRequest
from hotmap.local.kubelet_api import ExecOptions

if TYPE_CHECKING:
    from hotmap.local.kubelet.exec import Command


async def start(node: LocalNode, script: str, *, stdin: bool = False, tty: bool = False) -> Command:
    assert node.kubelet is not None
    options = ExecOptions(["sh", "-c", script], stdin, tty)
    return await node.kubelet.exec("default", "web", "c", options)


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


async def test_exec_with_terminal(web: LocalNode) -> None:
    """With a terminal the command has one of its own, in the size that was told."""
    command = await start(web, "read x; stty size; echo $x $TERM", stdin=True, tty=True)
    await command.resize(100, 40)
    await command.write(b"typed\n")
    output = b""
    while (chunk := await command.read()) is not None:
        output += chunk[1]
    assert output.splitlines() == [b"typed", b"40 100", b"typed xterm"]
    assert await command.wait() == 0


async def test_exec_terminal_interrupt(web: LocalNode) -> None:
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
    """A program that is missing, a container that is none."""
    assert web.kubelet is not None
    for container, program, message in (
        ("c", "nope", 'exec: "nope": executable file not found in $PATH'),
        ("x", "true", "container x is not valid for pod web"),
    ):
        with pytest.raises(BadRequest) as raised:
            await web.kubelet.exec("default", "web", container, ExecOptions([program]))
        assert message in str(raised.value)
