"""10,000 connections that do nothing: held by clients of their own, whose limits are their own."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.local.cluster.clients import KubeconfigClient
from tests.support.requires import requires

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

CONNECTIONS = 10_000
CLIENTS = 4

# Runs a program once it is told to.
_WAITING = """
import sys
program = sys.argv.pop(1)
sys.stdin.readline()
exec(program)
"""

# On a busy machine the last connection comes more than a minute after the first, and a server ends
# those that do not begin TLS in that time.
_PLANE = """
import asyncio, asyncio.constants, pathlib, sys
asyncio.constants.SSL_HANDSHAKE_TIMEOUT = 3600.0
from hotmap.local.cluster import LocalCluster

async def main():
    async with LocalCluster(pathlib.Path(sys.argv[1]), start_node=False) as cluster:
        print(cluster.server, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""

# Connects, says so, and holds the connections until its input ends.
_CLIENT = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print(len(held), flush=True)
sys.stdin.read()
"""


def _start(open_files: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program that may have so many open files, and more on demand."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITING, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (open_files, hard))
    process.stdin.write("\n")
    process.stdin.flush()
    return process


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_requests_are_served_beside_ten_thousand_idle_connections(tmp_path: Path) -> None:
    """They cost a descriptor each; the server survives their sudden end as well."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = hard == resource.RLIM_INFINITY or hard > CONNECTIONS + 500
    requires("open files", available=enough, reason=f"a process may have {hard}")
    # What most systems give a process.
    plane = _start(1_024, _PLANE, str(tmp_path / "plane"))
    clients: list[subprocess.Popen[str]] = []
    try:
        port = str(urlsplit(_read_line(plane)).port)
        kubectl = KubeconfigClient(tmp_path / "plane" / "kubeconfig")
        share = CONNECTIONS // CLIENTS
        for _ in range(CLIENTS):
            clients.append(_start(share + 100, _CLIENT, port, str(share)))
            assert _read_line(clients[-1]) == str(share)
            assert (await kubectl.get("/api/v1/namespaces/default"))["kind"] == "Namespace"
        assert len(list(Path(f"/proc/{plane.pid}/fd").iterdir())) > CONNECTIONS
        for client in clients:
            client.send_signal(signal.SIGKILL)
        assert (await kubectl.get("/api/v1/namespaces/default"))["kind"] == "Namespace"
        assert plane.poll() is None
    finally:
        for process in (*clients, plane):
            process.kill()
            process.communicate()
