"""The agent's web server with clients that are idle, slow or many."""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.agent.agents import TIMEOUT, Agent, Volume, agent, eventually, free_port, webhook


@contextmanager
def serving(folder: Path, host: str = "127.0.0.1") -> Iterator[tuple[Agent, int]]:
    """Run an agent with a TCP port."""
    volume, port = Volume(folder / "volume", text="one"), free_port()
    flags = ("--dir", volume, "--touch", folder / "touched", "--listen", f"{host}:{port}")
    with agent(folder, *flags) as running:
        running.reaches("told")
        yield running, port


def healthz(port: int) -> int:
    """Return the status code of /healthz, as a kubelet would get it."""
    with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as response:
        return int(response.status)


@pytest.mark.parametrize("host", ["", "[::]"])
def test_every_address_is_one_of_ipv4_too(tmp_path: Path, host: str) -> None:
    """`[::]` is every address for a program in Go, so probes by IPv4 have to be answered."""
    with serving(tmp_path, host) as (_, port):
        assert healthz(port) == 200


def test_healthz_answers_despite_idle_connections(tmp_path: Path) -> None:
    """Two hundred clients that send nothing do not block others."""
    with serving(tmp_path) as (_, port), ExitStack() as stack:
        for number in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            if number % 20 == 0:
                assert healthz(port) == 200
        assert healthz(port) == 200


def test_healthz_answers_despite_slow_clients(tmp_path: Path) -> None:
    """Clients that send a byte now and then, and such that never read, do not block others."""
    with serving(tmp_path) as (running, port), ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(40)
        ]
        for round_ in range(5):
            for client in clients:
                try:
                    client.send(b"GET /metrics HTTP/1.1\r\n"[round_ : round_ + 1])
                except OSError:
                    continue
            assert healthz(port) == 200
            assert running.get("/healthz")[0] == 200


def test_idle_connections_are_closed(tmp_path: Path) -> None:
    """A client that sends nothing, or half of a request, does not keep its connection."""
    with serving(tmp_path) as (_, port), contextlib.ExitStack() as stack:
        connections = []
        for request in (b"", b"GET /healthz HTTP/1.1\r\n"):
            connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
            connections.append(stack.enter_context(connection))
            connection.sendall(request)
        assert [connection.recv(1) for connection in connections] == [b"", b""]


def test_server_does_not_spin_without_descriptors(tmp_path: Path) -> None:
    """A client that cannot be accepted waits, and the agent sleeps meanwhile."""
    with serving(tmp_path) as (running, port):
        used = max(int(path.name) for path in Path(f"/proc/{running.pid}/fd").iterdir()) + 1
        before = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (used, before[1]))
        with socket.create_connection(("127.0.0.1", port)):
            assert sum(is_asleep(running.pid) for _ in range(50)) > 25
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, before)
        assert healthz(port) == 200


def is_asleep(pid: int) -> bool:
    """Return whether a process waits for something, a moment from now; a busy one never does."""
    time.sleep(0.01)
    return ") S " in Path(f"/proc/{pid}/stat").read_text()


def test_second_agent_with_the_same_socket_does_not_start(tmp_path: Path) -> None:
    """It would take it over, and `hotmap agent status` would show another agent's state."""
    with serving(tmp_path) as (first, _):
        pid = first.pid
        flags = ("--dir", tmp_path / "volume", "--touch", tmp_path / "other")
        with agent(tmp_path, *flags) as second:
            assert second.process.wait(TIMEOUT) == 2
            assert second.log.splitlines()[-1] == (
                f"hotmap agent: --socket {tmp_path}/agent.sock is in use by another process: "
                "each agent needs a socket of its own"
            )
        assert first.process.pid == pid
        assert first.status()["state"] == "told"
        assert not (tmp_path / "other").exists()


def test_socket_of_a_stopped_agent_is_in_use(tmp_path: Path) -> None:
    """It goes on as soon as it is continued; no request waits for it."""
    with serving(tmp_path) as (first, _):
        first.process.send_signal(signal.SIGSTOP)
        try:
            flags = ("--dir", tmp_path / "volume", "--touch", tmp_path / "other")
            with agent(tmp_path, *flags) as second:
                assert second.process.wait(TIMEOUT) == 2
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert first.status()["state"] == "told"


def test_socket_that_a_child_of_a_killed_agent_still_has_is_replaced(tmp_path: Path) -> None:
    """A forked child has all that the agent had open, until it executes its program."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "agent.sock"))
        left.listen(8)
        closing = threading.Timer(0.3, left.close)
        closing.start()
        (tmp_path / "volume").mkdir()
        flags = ("--dir", tmp_path / "volume", "--touch", tmp_path / "other")
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
        closing.join()


def test_socket_of_a_killed_agent_is_replaced(tmp_path: Path) -> None:
    """The file remains after SIGKILL, and does not keep the next one from starting."""
    with serving(tmp_path) as (first, _):
        first.process.kill()
        first.process.wait(TIMEOUT)
    assert (tmp_path / "agent.sock").is_socket()
    flags = ("--dir", tmp_path / "volume", "--touch", tmp_path / "other")
    with agent(tmp_path, *flags) as second:
        second.reaches("told")


@pytest.mark.parametrize("why", ["it settles", "it is too large"])
def test_content_that_was_not_read_yet_is_not_loaded(tmp_path: Path, why: str) -> None:
    """By no rule, whatever the one before was; an alert sees since when."""
    volume, limit = Volume(tmp_path / "volume", text="one"), "4Ki"
    flags = ("--dir", volume, "--max-directory-size", limit, "--settle-max", "10m")
    with webhook() as endpoint:
        settle = ("--settle", "10m") if why == "it settles" else ()
        with agent(tmp_path, *flags, *settle, "--url", endpoint.url) as running:
            running.reaches("loaded")
            volume.write(text="x" * (5000 if why == "it is too large" else 1))
            running.reaches("waiting" if why == "it is too large" else "pending")
            assert running.rule()["state"] == "pending"
            eventually(lambda: running.rule()["pending_seconds"] > 0)
            metrics = running.get("/metrics")[1]
            assert 'hotmap_agent_loaded{rule="default"} 0' in metrics
            assert 'hotmap_agent_pending_seconds{rule="default"} 0\n' not in metrics
