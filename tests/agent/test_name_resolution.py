"""Endpoints by name: unknown names, silent name servers, names with several addresses.

Each agent has files of its own in the places of /etc/hosts, resolv.conf and nsswitch.conf.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, free_port, webhook

_UNSHARED = ("unshare", "--user", "--map-root-user", "--mount")

#: Puts the files of a directory into the places of those of the machine.
_MOUNT = 'for f in hosts nsswitch.conf resolv.conf; do mount --bind "$0/$f" /etc/$f || exit; done'

_NAME = "app.test"


class Resolver:
    """The files by which a process resolves names."""

    def __init__(self, folder: Path, sources: str, server: str = "127.0.0.1") -> None:
        """`sources`: files, dns or both; `server`: address of the name server."""
        self._folder = folder / "etc"
        self._folder.mkdir()
        (self._folder / "nsswitch.conf").write_text(f"hosts: {sources}\n")
        (self._folder / "resolv.conf").write_text(
            f"nameserver {server}\noptions timeout:1 attempts:1\n"
        )
        self.set_addresses()

    def set_addresses(self, *addresses: str) -> None:
        """Let the name have these, in the same file: it is what is mounted."""
        text = "".join(f"{address} {_NAME}\n" for address in addresses)
        (self._folder / "hosts").write_text(text)

    @property
    def before(self) -> tuple[str, ...]:
        """What a command needs before it, to use these files."""
        return (*_UNSHARED, "sh", "-c", f'{_MOUNT}; exec "$@"', str(self._folder))


@pytest.fixture(autouse=True)
def mounts() -> None:
    """Skip where a process may not have mounts of its own."""
    done = subprocess.run([*_UNSHARED, "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no user namespaces here")


def test_unknown_name_is_resolved_later(tmp_path: Path) -> None:
    """It is reported, and the endpoint is called soon after the name exists."""
    volume, resolver = Volume(tmp_path / "volume", text="one"), Resolver(tmp_path, "files")
    with webhook() as endpoint:
        url = f"http://{_NAME}:{endpoint.port}/reload?token=hunter2"
        with agent(tmp_path, "--dir", volume, "--url", url, before=resolver.before) as running:
            running.reaches("failing")
            shown = f"http://{_NAME}:{endpoint.port}/reload?***"
            assert running.message == (
                f"default: cannot resolve the host of {shown}: name or service not known"
            )
            volume.write(text="two")
            eventually(lambda: running.rule()["failures"] > 2)
            resolver.set_addresses("127.0.0.1")
            running.reaches("loaded")
            assert [call[1] for call in endpoint.calls] == ["/reload?token=hunter2"]
            assert "hunter2" not in running.log


def test_dead_address_leaves_time_for_the_others(tmp_path: Path) -> None:
    """The first address of the name never answers; the second has its share of the time."""
    volume, resolver = Volume(tmp_path / "volume", text="one"), Resolver(tmp_path, "files")
    resolver.set_addresses("127.0.0.1", "127.0.0.2")  # in which order they are tried as well
    port = free_port()
    with silent_port(port), webhook(port, host="127.0.0.2") as endpoint:
        flags = ("--dir", volume, "--url", f"http://{_NAME}:{port}/", "--action-timeout", "4s")
        with agent(tmp_path, *flags, before=resolver.before) as running:
            running.reaches("loaded")
            assert running.rule()["failures"] == 0
            assert len(endpoint.calls) == 1


def test_refusing_address_is_followed_by_the_others(tmp_path: Path) -> None:
    """Nothing listens on the first; and once nothing does on any of them, the last one tells."""
    volume, resolver = Volume(tmp_path / "volume", text="one"), Resolver(tmp_path, "files")
    resolver.set_addresses("127.0.0.1", "127.0.0.2")
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(webhook(free_port(), host="127.0.0.2"))
        flags = ("--dir", volume, "--url", f"http://{_NAME}:{endpoint.port}/")
        running = stack.enter_context(agent(tmp_path, *flags, before=resolver.before))
        running.reaches("loaded")
        endpoint.close()
        volume.write(text="two")
        running.reaches("failing")
        assert running.message == (
            f"default: cannot reach http://{_NAME}:{endpoint.port}/: connection refused"
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may listen on port 53")
def test_silent_name_server_delays_no_other_endpoint(tmp_path: Path) -> None:
    """Changes go on to an endpoint by address, and by name once the name server answers."""
    volume = Volume(tmp_path / "volume", text="one")
    with name_server() as (address, answering), webhook() as by_name, webhook() as by_address:
        resolver = Resolver(tmp_path, "dns", address)
        flags = (
            *("--dir", volume, "--url", f"http://{_NAME}:{by_name.port}/"),
            *("--url", by_address.url, "--action-timeout", "2s"),
        )
        with agent(tmp_path, *flags, before=resolver.before) as running:
            eventually(lambda: len(by_address.calls) == 1)
            volume.write(text="two")
            eventually(lambda: len(by_address.calls) == 2)
            running.reaches("failing")
            assert by_name.calls == []
            answering.set()
            running.reaches("loaded")
            assert len(by_name.calls) == 1


@contextlib.contextmanager
def silent_port(port: int) -> Iterator[None]:
    """Let connections to a port hang, as to a node that is gone: its queue is full."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield


@contextlib.contextmanager
def name_server() -> Iterator[tuple[str, threading.Event]]:
    """Run a name server that answers 127.0.0.1, once it is told to answer at all."""
    address = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.53"
    answering = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))

        def serve() -> None:
            while True:
                query, client = server.recvfrom(512)
                if not query:
                    return
                if answering.is_set():
                    server.sendto(_answer(query), client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield address, answering
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", (address, 53))
            thread.join()


def _answer(query: bytes) -> bytes:
    """Answer a query (RFC 1035 §4): an address for type A, nothing for others."""
    end = query.index(b"\0", 12) + 5
    is_address = query[end - 4 : end - 2] == b"\0\1"
    head = query[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_address else b"\0\0") + bytes(4)
    record = b"\xc0\x0c\0\1\0\1" + bytes(4) + b"\0\4\x7f\0\0\1"
    return head + query[12:end] + (record if is_address else b"")
