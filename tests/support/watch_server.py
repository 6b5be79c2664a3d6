"""An API server for one client that wants to see very many objects: `python -m …watch_server`.

It speaks the real protocol over TLS: lists in pages, streams of initial objects (WatchList) with
their marked bookmark, watches from a resourceVersion, 410 for one that is forgotten, merge
patches with preconditions, and plain storage for what the client writes of its own. The objects
are a `Fleet`: made while they are sent, so that the server is small, and not what is measured.

There is no authentication. Some paths are of its own:

    POST /pump?rate=5000&seconds=30    begin to change objects; answers at once; with data=0 no data
    GET  /sent                         when each watch event was due, by plural (monotonic clock)
    POST /edit?path=…&number=7         change the data of one source; its collection's path
    POST /reject?path=…                refuse every patch of one object, as a policy does
    POST /accept                       refuse nothing any more
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.support.fleet import FIRST_REVISION, Collection, Fleet, Sizes, State

from hotmap.kube.resources import Resource
from hotmap.local.pki import create_pki

__all__ = ["ServerProcess", "WatchServer", "watch_server", "write_kubeconfig"]

#: Watch events per collection that a watch can resume from.
_REMEMBERED = 2_000

#: Bytes per write of initial objects.
_PIECE = 1 << 16

#: Seconds of a watch on which nothing happens until it gets a bookmark (apiserver: a minute).
_BOOKMARK_PERIOD = 60.0

#: Seconds between two looks at what is due.
_TICK = 0.005

#: Seconds after which a workload's own controller has seen a new template.
_OBSERVED_AFTER = 0.02

#: Of all changes: a workload's status, a source's labels, and the rest a source's data. That is
#: what a big cluster's watches carry: statuses by far, then renewed annotations.
_STATUSES, _LABELS = 0.90, 0.08

_STATUS_TEXTS = {
    200: "OK",
    201: "Created",
    400: "Bad Request",
    404: "Not Found",
    409: "Conflict",
    410: "Gone",
    422: "Unprocessable Entity",
}


class _Request(NamedTuple):
    method: str
    path: str
    params: dict[str, str]
    body: bytes


class _Watch:
    """One open watch: lines that wait to be sent."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.woken = asyncio.Event()
        self.ended = False

    def put(self, line: bytes) -> None:
        self.lines.append(line)
        self.woken.set()


class WatchServer:
    """The server; `streams` False makes it one that knows lists alone."""

    def __init__(
        self, fleet: Fleet, *, streams: bool = True, on_watch: Callable[[], None] = lambda: None
    ) -> None:
        """`on_watch` is called for each watch that is opened."""
        self._fleet = fleet
        self._on_watch = on_watch
        self._streams = streams
        self._revision = FIRST_REVISION
        #: The path of the object that may not be patched.
        self._rejected = ""
        #: What clients made, by path.
        self._made: dict[str, dict[str, Any]] = {}
        self._watches: dict[str, set[_Watch]] = {}
        self._history: dict[str, deque[tuple[int, bytes]]] = {}
        #: By plural: when each watch event was due.
        self._sent: dict[str, array[float]] = {}
        #: Connections, and what was begun by `/pump` under that name.
        self.tasks: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                await self._answer(request, writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def forget(self, resource: Resource) -> None:
        """Change more objects of a collection than are remembered, unseen, and end its watches."""
        path = resource.path(None)
        collection = self._fleet.collections[path]
        watches = self._watches.pop(path, set())
        for number in range(_REMEMBERED + 1):
            self._change(collection, number % collection.count)
        for watch in watches:
            watch.ended = True
            watch.woken.set()

    async def aclose(self) -> None:
        """End every connection and all that is going on."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # -- requests ------------------------------------------------------------------------------

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        method, path, params = request.method, request.path, request.params
        if path == "/pump":
            rate, seconds = float(params["rate"]), float(params["seconds"])
            data = params.get("data") != "0"
            self._begin(self._pump(rate, seconds, data=data), "pump")
            await _send(writer, 200, {})
        elif path == "/sent":
            await _send(writer, 200, {name: list(times) for name, times in self._sent.items()})
        elif path == "/edit":
            collection, number = self._fleet.collections[params["path"]], int(params["number"])
            state = collection.state(number)
            self._change(collection, number, state._replace(edits=state.edits + 1))
            await _send(writer, 200, {})
        elif path in ("/reject", "/accept"):
            self._rejected = params.get("path", "")
            await _send(writer, 200, {})
        elif path == "/version":
            await _send(writer, 200, {"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
        elif method == "GET" and _is_collection(path):
            if "watch" in params:
                self._on_watch()
                await self._watch(path, params, writer)
            else:
                await self._list(path, params, writer)
        elif method == "PATCH" and path == self._rejected:
            text = "ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: no"
            await _send(writer, 422, _status(422, "Invalid", text))
        elif method == "PATCH" and (found := self._find(path)):
            await self._patch(*found, json.loads(request.body), writer)
        else:
            await self._store(request, writer)

    async def _list(self, path: str, params: dict[str, str], writer: asyncio.StreamWriter) -> None:
        start = int(params.get("continue") or 0)
        collection = self._fleet.collections.get(path)
        count = collection.count if collection else 0
        end = min(count, start + int(params.get("limit") or count))
        objects = [collection.object(number) for number in range(start, end)] if collection else []
        if end >= count:
            objects += [_encoded(body) for body in self._made_in(path)]
        after = str(end) if end < count else ""
        metadata = _encoded({"resourceVersion": str(self._revision), "continue": after})
        body = b'{"kind":"List","metadata":%b,"items":[%b]}' % (metadata, b",".join(objects))
        await _send(writer, 200, body)

    async def _watch(self, path: str, params: dict[str, str], writer: asyncio.StreamWriter) -> None:
        initial = "sendInitialEvents" in params
        if initial and not self._streams:
            await _send(writer, 400, _status(400, "BadRequest", "sendInitialEvents is forbidden"))
            return
        writer.write(_head(200, "Transfer-Encoding: chunked"))
        watch = _Watch()
        watches = self._watches.setdefault(path, set())
        position = self._revision if initial else int(params["resourceVersion"])
        if self._has_forgotten(path, position):
            gone = _status(410, "Expired", f"too old resource version: {position}")
            writer.write(_chunk(_line(b"ERROR", _encoded(gone))) + b"0\r\n\r\n")
            return
        watches.add(watch)
        try:
            if initial:
                await self._send_initial(path, position, writer)
            else:
                watch.lines += [line for at, line in self._history.get(path, ()) if at > position]
            await _send_lines(watch, writer, lambda: self._revision)
        finally:
            watches.discard(watch)

    async def _send_initial(self, path: str, position: int, writer: asyncio.StreamWriter) -> None:
        pieces: list[bytes] = []
        waiting = 0
        for body in self._all(path):
            pieces.append(_line(b"ADDED", body))
            waiting += len(body)
            if waiting > _PIECE:
                writer.write(_chunk(b"".join(pieces)))
                pieces, waiting = [], 0
                await writer.drain()
        metadata = {
            "resourceVersion": str(position),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        pieces.append(_line(b"BOOKMARK", _encoded({"metadata": metadata})))
        writer.write(_chunk(b"".join(pieces)))
        await writer.drain()

    def _all(self, path: str) -> Iterator[bytes]:
        yield from self._fleet.collections.get(path) or ()
        yield from (_encoded(body) for body in self._made_in(path))

    def _made_in(self, path: str) -> list[dict[str, Any]]:
        return [body for name, body in self._made.items() if _collection_of(name) == path]

    def _has_forgotten(self, path: str, position: int) -> bool:
        history = self._history.get(path)
        return bool(history and len(history) == _REMEMBERED and history[0][0] > position + 1)

    # -- writes --------------------------------------------------------------------------------

    def _find(self, path: str) -> tuple[Collection, int] | None:
        """Find a workload by the path of its own."""
        collection = self._fleet.collections.get(_collection_of(path))
        number = path.rpartition("-")[2]
        return (collection, int(number)) if collection and number.isdigit() else None

    async def _patch(
        self, collection: Collection, number: int, patch: Any, writer: asyncio.StreamWriter
    ) -> None:
        asked = patch["metadata"].get("resourceVersion")
        if asked is not None and int(asked) != collection.version(number):
            text = "the object has been modified; please apply your changes to the latest version"
            await _send(writer, 409, _status(409, "Conflict", text))
            return
        before = collection.state(number)
        revision = patch["spec"]["template"]["metadata"]["annotations"]["hotmap.dev/revision"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = State(before.edits + 1, revision, before.observed, now)
        body = self._change(collection, number, state)
        self._begin(self._observe(collection, number), "observe")
        await _send(writer, 200, body)

    async def _observe(self, collection: Collection, number: int) -> None:
        """Do what a workload's own controller does after its template has changed."""
        await asyncio.sleep(_OBSERVED_AFTER)
        state = collection.state(number)
        self._change(collection, number, state._replace(observed=state.edits))

    async def _store(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        """Keep what a client makes of its own: records, Leases, Events."""
        path = request.path
        if request.method == "GET":
            if path in self._made:
                await _send(writer, 200, self._made[path])
            else:
                await _send(writer, 404, _status(404, "NotFound", f"{path} not found"))
            return
        body = json.loads(request.body)
        if request.method == "POST":
            path = f"{path}/{body['metadata'].get('name') or self._revision}"
        self._revision += 1
        namespace = path.split("/namespaces/")[1].split("/")[0]
        # A patch need not speak of it: the count of an Event that is repeated does not.
        metadata = body.setdefault("metadata", {})
        metadata |= {
            "namespace": namespace,
            "uid": metadata.get("uid") or f"00000000-{self._revision}",
            "resourceVersion": str(self._revision),
        }
        event = b"MODIFIED" if path in self._made else b"ADDED"
        collection = _collection_of(path)
        if not collection.endswith("/events"):
            self._made[path] = body
        self._tell(collection, self._revision, _line(event, _encoded(body)))
        await _send(writer, 201 if request.method == "POST" else 200, body)

    def _change(self, collection: Collection, number: int, state: State | None = None) -> bytes:
        """Write one object and tell its watches."""
        self._revision += 1
        body = collection.write(number, self._revision, state)
        self._tell(collection.resource.path(None), self._revision, _line(b"MODIFIED", body))
        return body

    def _tell(self, path: str, revision: int, line: bytes) -> None:
        self._history.setdefault(path, deque(maxlen=_REMEMBERED)).append((revision, line))
        times = self._sent.setdefault(path.rpartition("/")[2], array("d"))
        times.append(time.monotonic())
        for watch in self._watches.get(path, ()):
            watch.put(line)

    # -- load ----------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _pump(self, rate: float, seconds: float, *, data: bool) -> None:
        """Change `rate` objects a second, evenly, whatever the clients make of it.

        Without `data`, sources get another label where they would get other data.
        """
        dice = random.Random(2)
        began = time.monotonic()
        done = 0
        while done < rate * seconds:
            due = min(rate * seconds, (time.monotonic() - began) * rate)
            while done < due:
                self._change_something(dice, data=data)
                done += 1
            await asyncio.sleep(_TICK)

    def _change_something(self, dice: random.Random, *, data: bool) -> None:
        config_maps, secrets, *workloads = list(self._fleet.collections.values())[:5]
        share = dice.random()
        if share < _STATUSES:
            weights = [workload.count for workload in workloads]
            collection = dice.choices(workloads, weights)[0]
            self._change(collection, dice.randrange(collection.count))
            return
        collection, first = dice.choice(((config_maps, self._fleet.sizes.shared), (secrets, 0)))
        number = dice.randrange(first, collection.count)
        state = collection.state(number)
        if data and share >= _STATUSES + _LABELS:
            state = state._replace(edits=state.edits + 1)
        self._change(collection, number, state)


# -- bytes -------------------------------------------------------------------------------------


async def _send_lines(
    watch: _Watch, writer: asyncio.StreamWriter, position: Callable[[], int]
) -> None:
    """Send lines as they come, each as a chunk of its own, until the client is gone."""
    while not writer.is_closing():
        try:
            async with asyncio.timeout(_BOOKMARK_PERIOD):
                await watch.woken.wait()
        except TimeoutError:
            watch.put(
                _line(b"BOOKMARK", _encoded({"metadata": {"resourceVersion": str(position())}}))
            )
        if watch.ended:
            writer.write(b"0\r\n\r\n")
            return
        watch.woken.clear()
        lines, watch.lines = watch.lines, []
        writer.write(b"".join(_chunk(line) for line in lines))
        await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> _Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    return _Request(method, url.path, dict(parse_qsl(url.query)), body)


async def _send(writer: asyncio.StreamWriter, code: int, body: Any) -> None:
    data = body if isinstance(body, bytes) else _encoded(body)
    writer.write(_head(code, f"Content-Length: {len(data)}") + data)
    await writer.drain()


def _head(code: int, length: str) -> bytes:
    text = f"HTTP/1.1 {code} {_STATUS_TEXTS[code]}\r\nContent-Type: application/json\r\n{length}"
    return f"{text}\r\n\r\n".encode()


def _line(event: bytes, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event, body)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _encoded(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _is_collection(path: str) -> bool:
    """Return the path of a collection, of all namespaces or of one, from that of an object."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    return len(parts) == 1 or (len(parts) == 3 and parts[0] == "namespaces")


def _collection_of(path: str) -> str:
    """Make the path that lists an object's whole collection, in all namespaces."""
    root, _, rest = path.partition("/namespaces/")
    return f"{root}/{rest.split('/')[1]}" if rest else root


# -- as a process ------------------------------------------------------------------------------


class ServerProcess(NamedTuple):
    """A running server."""

    pid: int
    kubeconfig: Path
    url: str
    #: Its authority's certificate.
    ca: Path


@asynccontextmanager
async def watch_server(directory: Path, *flags: str) -> AsyncIterator[ServerProcess]:
    """Run a server as a process of its own for the length of a block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.watch_server", "--directory", str(directory)),
        *flags,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        if not url:
            raise RuntimeError("the watch server ended instead; its error stands above")
        yield ServerProcess(process.pid, directory / "kubeconfig", url, directory / "pki/ca.crt")
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _serve(directory: Path, sizes: Sizes, *, streams: bool) -> None:
    pki = create_pki(directory / "pki")
    server = WatchServer(Fleet(sizes), streams=streams)
    listening = await asyncio.start_server(
        server.accept, "127.0.0.1", 0, ssl=pki.server_context(), limit=1 << 20
    )
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    write_kubeconfig(directory / "kubeconfig", url, pki.ca_certificate)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print(url, flush=True)  # noqa: T201
    await ended.wait()
    listening.close()
    await server.aclose()


def write_kubeconfig(path: Path, url: str, ca: Path) -> None:
    named = {"name": "watch-server"}
    cluster = {"server": url, "certificate-authority": str(ca)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "watch-server",
        "clusters": [{**named, "cluster": cluster}],
        "users": [{**named, "user": {"token": "any"}}],
        "contexts": [{**named, "context": {"cluster": "watch-server", "user": "watch-server"}}],
    }
    path.write_text(json.dumps(content))


def main() -> None:
    """Serve what the command line asks for until SIGTERM."""
    parser = argparse.ArgumentParser(description="Serve very many objects.")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--lists-only", action="store_true", help="know no WatchList")
    for name, default in Sizes()._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    arguments = vars(parser.parse_args())
    sizes = Sizes(**{name: arguments[name] for name in Sizes._fields})
    streams = not arguments["lists_only"]
    asyncio.run(_serve(arguments["directory"], sizes, streams=streams))


if __name__ == "__main__":
    main()
