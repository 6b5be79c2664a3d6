"""How fast does the local plane's API server answer, and what do many objects and watches cost?"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from benchmarks import machine
from benchmarks.clusters import TIMEOUT
from benchmarks.figures import Figure, Table, at_most
from benchmarks.processes import Plane, start_plane, stop
from benchmarks.scope import Scope, measured
from hotmap.core.errors import HotmapError
from hotmap.local.open_files import raise_open_files_limit

__all__ = ["run"]

_CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
#: Requests that wait for an answer at the same time, each on a connection of its own.
_CONNECTIONS = 16
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Measure one plane after the other, each of which writes its objects to disk."""
    raise_open_files_limit()
    with measured("Local plane: requests, watches, many objects") as result:
        with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
            result.figures = await _figures(scope, Path(directory), result.notes)
        result.notes += [
            "2,000 GETs a second are 0.5 ms each, 1,000 PATCHes 1 ms, 700 creates 1.43 ms.",
            f"Wall time of a request: {_CONNECTIONS} are under way, so the server never waits; "
            "n batches. Processor time: of the server alone, per request.",
            "Client and server are processes of their own; requests are TLS, objects ConfigMaps of "
            "200 bytes, and each write is on disk before its answer.",
        ]
    yield result.table()


async def _figures(scope: Scope, directory: Path, notes: list[str]) -> list[Figure]:
    plane = await start_plane(directory / "requests")
    try:
        figures = await asyncio.to_thread(_requests, scope, plane)
        applied = await asyncio.to_thread(_applies, scope, plane, directory)
        if applied is None:
            notes.append("There is no kubectl on this machine, so kubectl apply is left out.")
        else:
            figures.append(Figure("kubectl apply, a process each", applied, "ms", at_most(150)))
        figures.append(await asyncio.to_thread(_watches, scope, plane))
    finally:
        await stop(plane.process)
    return figures + await _many_objects(scope, directory / "many")


class _Server(NamedTuple):
    """What a connection to a plane needs."""

    host: str
    port: int
    token: str
    trust: ssl.SSLContext

    @classmethod
    def of(cls, plane: Plane) -> _Server:
        settings = yaml.safe_load(plane.kubeconfig.read_text())
        cluster, user = settings["clusters"][0]["cluster"], settings["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        parts = urlsplit(cluster["server"])
        trust = ssl.create_default_context(cadata=authority)
        return cls(parts.hostname or "", parts.port or 0, user["token"], trust)

    def request(self, method: str, path: str, body: object = None, **headers: str) -> bytes:
        """Write a request."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: plane", f"Authorization: Bearer {self.token}"]
        if content:
            headers = {"Content_Type": "application/json", **headers}
            lines.append(f"Content-Length: {len(content)}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join((*lines, "", "")).encode() + content


class _Connection:
    """One connection without a client library, so that the client does not set the pace."""

    def __init__(self, server: _Server) -> None:
        plain = socket.create_connection((server.host, server.port), timeout=TIMEOUT)
        self._socket = server.trust.wrap_socket(plain, server_hostname=server.host)
        self._buffer = b""

    def close(self) -> None:
        self._socket.close()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """Read an answer that says its length; return its body.

        Raises:
            HotmapError: the answer is a failure.
        """
        head, _, rest = self.read_until(b"\r\n\r\n").partition(b"\r\n")
        name = b"content-length:"
        length = next(
            int(line[len(name) :]) for line in rest.split(b"\r\n") if line.lower().startswith(name)
        )
        while len(self._buffer) < length:
            self._read()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        if not head.split()[1].startswith(b"2"):
            raise HotmapError(f"the local plane answered {head.decode()}: {body[:200].decode()}")
        return body

    def has_answer(self) -> bool:
        """Return whether anything has arrived."""
        readable, _, _ = select.select([self._socket], [], [], 0)
        return bool(readable or self._buffer or self._socket.pending())

    def read_until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._read()
        found, _, self._buffer = self._buffer.partition(end)
        return found + end

    def _read(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise HotmapError("the local plane closed a connection")
        self._buffer += data


def _connections(server: _Server, count: int, exits: ExitStack) -> list[_Connection]:
    made = [_Connection(server) for _ in range(count)]
    for connection in made:
        exits.callback(connection.close)
    return made


def _send_all(connections: list[_Connection], requests: Iterable[bytes]) -> Iterator[float]:
    """Send requests, as many at a time as there are connections; give milliseconds for each."""
    waiting = iter(requests)
    while batch := list(itertools.islice(waiting, len(connections))):
        began = time.perf_counter()
        for connection, request in zip(connections, batch, strict=False):
            connection.send(request)
        for connection in connections[: len(batch)]:
            connection.receive()
        yield (time.perf_counter() - began) * 1e3 / len(batch)


def _configmap(name: str) -> dict[str, Any]:
    data = {"nginx.conf": "x" * 180, "level": "info"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}


def _requests(scope: Scope, plane: Plane) -> list[Figure]:
    server, count = _Server.of(plane), scope.count(6_400, 64)
    merge = "application/merge-patch+json"
    kinds: tuple[tuple[str, float, Callable[[int], bytes]], ...] = (
        ("create", 1000 / 700, lambda n: server.request("POST", _CONFIGMAPS, _configmap(f"a-{n}"))),
        ("GET", 0.5, lambda n: server.request("GET", f"{_CONFIGMAPS}/a-{n}")),
        (
            "PATCH",
            1.0,
            lambda n: server.request(
                "PATCH", f"{_CONFIGMAPS}/a-{n}", {"data": {"level": f"b{n}"}}, Content_Type=merge
            ),
        ),
    )
    figures = []
    with ExitStack() as exits:
        connections = _connections(server, _CONNECTIONS, exits)
        for name, limit, request in kinds:
            prepared = [request(number) for number in range(count)]
            used = machine.cpu_seconds(plane.process.pid)
            times = list(_send_all(connections, prepared))
            used = machine.cpu_seconds(plane.process.pid) - used
            figures.append(Figure(f"{name}: wall time", times, "ms", at_most(limit, "p50")))
            spent = [used * 1e3 / count]
            figures.append(Figure("… processor time", spent, "ms", at_most(limit, "max")))
    return figures


def _applies(scope: Scope, plane: Plane, directory: Path) -> list[float] | None:
    """Apply a changed manifest again and again; None without kubectl."""
    kubectl = _find_kubectl()
    if kubectl is None:
        return None
    environment = {**os.environ, "HOME": str(directory), "KUBECONFIG": str(plane.kubeconfig)}
    times = []
    # The first one fills kubectl's cache of the discovery documents.
    for number in range(scope.count(20) + 1):
        manifest = {**_configmap("applied"), "data": {"level": str(number)}}
        path = directory / "applied.json"
        path.write_text(json.dumps(manifest))
        began = time.perf_counter()
        subprocess.run(
            (kubectl, "apply", "-f", str(path)), env=environment, capture_output=True, check=True
        )
        times.append((time.perf_counter() - began) * 1e3)
    return times[1:]


def _find_kubectl() -> str | None:
    found = sorted((Path.home() / ".cache/hotmap/testbed/bin").glob("kubernetes-*/kubectl"))
    return str(found[-1]) if found else shutil.which("kubectl")


def _watches(scope: Scope, plane: Plane) -> Figure:
    """Edit a ConfigMap that many watch; give the milliseconds until the last has the event."""
    server, count = _Server.of(plane), scope.count(1_000, 20)
    times = []
    with ExitStack() as exits:
        (writer,) = _connections(server, 1, exits)
        writer.send(server.request("POST", _CONFIGMAPS, _configmap("watched")))
        revision = json.loads(writer.receive())["metadata"]["resourceVersion"]
        query = f"watch=true&fieldSelector=metadata.name%3Dwatched&resourceVersion={revision}"
        watches = _connections(server, count, exits)
        for watch in watches:
            watch.send(server.request("GET", f"{_CONFIGMAPS}?{query}"))
            watch.read_until(b"\r\n\r\n")
        for number in range(scope.count(20)):
            mark = f'"level":"edit-{number}"'.encode()
            change = {"data": {"level": f"edit-{number}"}}
            kind = "application/merge-patch+json"
            began = time.perf_counter()
            writer.send(
                server.request("PATCH", f"{_CONFIGMAPS}/watched", change, Content_Type=kind)
            )
            for watch in watches:
                watch.read_until(mark)
            times.append((time.perf_counter() - began) * 1e3)
            writer.receive()
    return Figure(f"an edit → the last of {count:,} watches", times, "ms", at_most(100))


async def _many_objects(scope: Scope, directory: Path) -> list[Figure]:
    count, listed = scope.count(20_000, 200), scope.count(10_000, 100)
    plane = await start_plane(directory)
    try:
        delays = await asyncio.to_thread(_fill_and_list, scope, plane, count, listed)
        resident = machine.resident_mb(plane.process.pid)
    finally:
        await stop(plane.process)
    again = []
    for _ in range(scope.count(5)):
        plane = await start_plane(directory)
        again.append(plane.ready_after * 1e3)
        await stop(plane.process)
    return [
        Figure(f"a GET beside a Table of {listed:,} objects", delays, "ms", at_most(20, "max")),
        Figure(f"resident with {count:,} objects", [resident], "MB", at_most(300, "max")),
        Figure("process start with them → ready", again, "ms", at_most(2_000)),
    ]


def _fill_and_list(scope: Scope, plane: Plane, count: int, listed: int) -> list[float]:
    """Create objects, and list a part of them as Tables; give the delays of GETs meanwhile."""
    server = _Server.of(plane)
    with ExitStack() as exits:
        connections = _connections(server, _CONNECTIONS, exits)
        bodies = (_configmap(f"a-{number}") for number in range(count))
        requests = (server.request("POST", _CONFIGMAPS, body) for body in bodies)
        for _ in _send_all(connections, requests):
            pass
        lister, getter = connections[:2]
        get = server.request("GET", f"{_CONFIGMAPS}/a-0")
        table = server.request("GET", f"{_CONFIGMAPS}?limit={listed}", Accept=_TABLE)
        delays: list[float] = []
        for _ in range(scope.count(5)):
            lister.send(table)
            delays += _delays_until_answered(lister, getter, get)
    return delays


def _delays_until_answered(
    lister: _Connection, getter: _Connection, request: bytes
) -> Iterator[float]:
    """Send requests one after the other until a longer one is answered."""
    while True:
        began = time.perf_counter()
        getter.send(request)
        getter.receive()
        yield (time.perf_counter() - began) * 1e3
        if lister.has_answer():
            lister.receive()
            return
