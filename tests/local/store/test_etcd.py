"""A store in a real etcd: the same promises, beside other writers and across its restarts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.requires import requires

from hotmap.core.errors import AlreadyExists, ApiError, NotFound, SettingsError
from hotmap.local.apiserver.registry import Registry
from hotmap.local.etcd import EtcdStore
from hotmap.local.store import StaleRead

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAMS = Path.home() / ".cache/hotmap/testbed/bin"


class Plain:
    """Values as they are."""

    def encode(self, key: str, value: bytes) -> bytes:
        return b"k8s" + value

    def decode(self, key: str, value: bytes) -> bytes | None:
        return value[3:] if value.startswith(b"k8s") else None


class Etcd:
    """An etcd process, on ports that stay the same when it is started again."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program, self._directory = program, directory
        self._ports = free_ports()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports)
        self._process = subprocess.Popen(
            [
                self._program,
                *("--data-dir", self._directory / "etcd", "--log-level", "error"),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self._ports[0])),
            ):
                return
            time.sleep(0.05)
        raise AssertionError("etcd did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def free_ports() -> list[int]:
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
        return [server.getsockname()[1] for server in (a, b)]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    programs = sorted(_PROGRAMS.glob("etcd-*/etcd"))
    requires("etcd", available=bool(programs), reason="the test bed has not built it")
    server = Etcd(programs[-1], tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def open_etcd(etcd: Etcd) -> EtcdStore:
    store = EtcdStore(etcd.url, Plain())
    until = time.monotonic() + 60
    while True:
        try:
            store.open()
        except SettingsError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return store


async def test_store_writes_reads_and_watches(etcd: Etcd) -> None:
    with contextlib.closing(open_etcd(etcd)) as store:
        first = store.create("/registry/a/x", b"1")
        watch = store.watch("/registry/a/", since=first)
        second = store.update("/registry/a/x", b"2", expected=first)
        assert second == first + 1 == store.revision
        assert store.get_raw("/registry/a/x") == b"k8s2"
        with pytest.raises(AlreadyExists):
            store.create("/registry/a/x", b"3")
        store.delete("/registry/a/x")
        with pytest.raises(NotFound):
            store.update("/registry/a/x", b"3", expected=second)
        # The watch of etcd tells of the same writes; they come once.
        await asyncio.sleep(0.3)
        assert [(event.type, event.value) for event in watch.take()] == [
            ("PUT", b"2"),
            ("DELETE", None),
        ]
        assert store.get_raw("/registry/a/x") is None


async def test_two_servers_see_each_other(etcd: Etcd) -> None:
    with contextlib.closing(open_etcd(etcd)) as store, contextlib.closing(open_etcd(etcd)) as other:
        first = store.create("/registry/a/x", b"1")
        watch = other.watch("/registry/a/")
        assert await asyncio.wait_for(watch.wait(), 60)
        other.catch_up()
        second = other.update("/registry/a/x", b"2", expected=first)
        store.catch_up()
        entry = store.get("/registry/a/x")
        assert entry is not None
        assert (entry.value, entry.mod_revision, entry.create_revision) == (b"2", second, first)


async def test_write_of_other_server_makes_read_stale(etcd: Etcd) -> None:
    with contextlib.closing(open_etcd(etcd)) as store, contextlib.closing(open_etcd(etcd)) as other:
        first = store.create("/registry/a/x", b"1")
        other.catch_up()
        store.update("/registry/a/x", b"2", expected=first)
        # Nothing was awaited, so the other one cannot know of it.
        with pytest.raises(StaleRead):
            other.update("/registry/a/x", b"3", expected=first)
        entry = other.get("/registry/a/x")
        assert entry is not None
        assert entry.value == b"2"


async def test_registry_decides_again_after_stale_read(etcd: Etcd) -> None:
    with contextlib.closing(open_etcd(etcd)) as store, contextlib.closing(open_etcd(etcd)) as other:
        first, second = Registry(store), Registry(other)
        await first.create("namespaces", None, {"metadata": {"name": "default"}}, manager="t")
        await first.create("configmaps", "default", {"metadata": {"name": "a"}}, manager="t")
        other.catch_up()
        for number, registry in enumerate((first, second, first, second)):
            patch = {"data": {str(number): ""}}
            await registry.patch("configmaps", "default", "a", patch, kind="merge", manager="t")
        store.catch_up()
        found = await first.get("configmaps", "default", "a")
        assert sorted(found["data"]) == ["0", "1", "2", "3"]
        with pytest.raises(AlreadyExists):
            await second.create("configmaps", "default", {"metadata": {"name": "a"}}, manager="t")


async def test_foreign_keys_and_unreadable_values_are_left_alone(etcd: Etcd) -> None:
    with contextlib.closing(open_etcd(etcd)) as store:
        gateway = store._gateway
        transaction = {
            "success": [
                {"request_put": {"key": "L290aGVyL3g=", "value": "MQ=="}},  # /other/x
                {"request_put": {"key": "L3JlZ2lzdHJ5L2EveQ==", "value": "MQ=="}},  # …/a/y: 1
                {"request_put": {"key": "L3JlZ2lzdHJ5L2Eveg==", "value": "azhzMQ=="}},  # …/a/z
            ]
        }
        gateway.call("kv/txn", transaction)
        store.catch_up()
        assert [entry.key for entry in store.range("/registry/").entries] == ["/registry/a/z"]
        assert store.create("/registry/a/x", b"1") == store.revision


async def test_store_survives_restart_of_etcd(etcd: Etcd, caplog: pytest.LogCaptureFixture) -> None:
    """Each request says what is wrong, and the log says it once for each interruption."""
    with contextlib.closing(open_etcd(etcd)) as store, contextlib.closing(open_etcd(etcd)) as other:
        store.create("/registry/a/x", b"1")
        etcd.stop()
        for _ in range(3):
            with pytest.raises(ApiError, match=r"does not answer: .*refused") as refused:
                store.create("/registry/a/y", b"1")
            assert refused.value.code == 500
            await asyncio.sleep(0.3)
        etcd.start()
        until = time.monotonic() + 60
        while True:
            try:
                store.create("/registry/a/y", b"1")
                break
            except ApiError:
                assert time.monotonic() < until
                await asyncio.sleep(0.1)
        assert sum("was interrupted" in text for text in caplog.messages) == 2
        watch = other.watch("/registry/a/y")
        assert await asyncio.wait_for(watch.wait(), 60)


async def test_no_etcd_is_one_sentence() -> None:
    url = f"http://127.0.0.1:{free_ports()[0]}"
    with pytest.raises(SettingsError, match=f"etcd at {url} does not answer"):
        EtcdStore(url, Plain()).open()
    with pytest.raises(SettingsError, match="expected http://HOST:PORT"):
        EtcdStore("127.0.0.1:2379", Plain())
