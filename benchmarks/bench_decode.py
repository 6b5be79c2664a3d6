"""How long does the first list of 20,000 Deployments take, and what stays of it in memory?

The way is the controller's own: an HTTP server, a client, a reflector, the transform, the
index. It runs in a fresh process, `python -m benchmarks.bench_decode URL COUNT`, which prints
one JSON document; the server runs in the process that started it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from aiohttp import web
from tests.support.served import deployment_as_json

from benchmarks.figures import Figure, Table, at_most, quantile
from benchmarks.machine import resident_mb
from benchmarks.scope import Scope, measured
from hotmap.controller.memory import set_up_memory
from hotmap.controller.watch.index import Index
from hotmap.core.errors import HotmapError
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ObjectMeta, Workload, WorkloadSpec, WorkloadStatus
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import DEPLOYMENTS, Selection
from hotmap.kube.store_writer import StoreWriter

__all__ = ["run"]

_RESOURCE_VERSION = "2000000"

#: Bytes per write of the server.
_PIECE = 1 << 16


async def run(scope: Scope) -> AsyncIterator[Table]:
    """List the same Deployments several times, each time in a new process."""
    count, runs = scope.count(20_000, quick=50), scope.count(5)
    objects = list(deployment_as_json(count))
    size = sum(map(len, objects)) / count
    with measured(f"Decode and index {count:,} Deployments") as result:
        streamed = [await _run_once(objects, streams=True) for _ in range(runs)]
        listed = [await _run_once(objects, streams=False) for _ in range(runs)]
        kept = [item.growth_mb * 1e6 / count for item in streamed]
        alone = [_decode_alone(objects) for _ in range(runs)]
        ratio = quantile(_cpu_times(streamed), 0.5) / quantile(alone, 0.5)
        result.figures = [
            Figure("WatchList: start → synced", _times(streamed), "s", at_most(1, "max")),
            Figure(
                "WatchList: processor time of it", _cpu_times(streamed), "s", at_most(0.8, "max")
            ),
            Figure("msgspec alone, for comparison: processor time", alone, "s"),
            Figure("WatchList: processor time, in that of msgspec", [ratio], ""),
            Figure("WatchList: resident growth", _growth(streamed), "MB", at_most(150, "max")),
            Figure("WatchList: growth per consumer", kept, "bytes"),
            Figure("pages of 500: start → synced", _times(listed), "s", at_most(1, "max")),
            Figure("pages of 500: processor time of it", _cpu_times(listed), "s"),
            Figure("pages of 500: resident growth", _growth(listed), "MB", at_most(150, "max")),
        ]
        result.notes = [
            f"{size:,.0f} bytes each with six references, over HTTP without TLS.",
            "Server and client share the machine; each run is a process of its own.",
        ]
    yield result.table()


class _Decoded(msgspec.Struct, rename="camel", gc=False):
    """All of a Deployment that hotmap reads, in one step."""

    metadata: ObjectMeta
    spec: WorkloadSpec
    status: WorkloadStatus


def _decode_alone(objects: Sequence[bytes]) -> float:
    """Decode the objects and keep none; returns the processor time."""
    decoder = msgspec.json.Decoder(_Decoded)
    used = time.process_time()
    for item in objects:
        decoder.decode(item)
    return time.process_time() - used


class _Run(NamedTuple):
    """What one fresh process found."""

    seconds: float
    #: Of its own: what it would take with a server and a wire that cost nothing.
    cpu_seconds: float
    growth_mb: float


def _times(runs: Sequence[_Run]) -> list[float]:
    return [run.seconds for run in runs]


def _cpu_times(runs: Sequence[_Run]) -> list[float]:
    return [run.cpu_seconds for run in runs]


def _growth(runs: Sequence[_Run]) -> list[float]:
    return [run.growth_mb for run in runs]


# -- the server --------------------------------------------------------------------------------


async def _run_once(objects: Sequence[bytes], *, streams: bool) -> _Run:
    """Serve the objects to a fresh process, as a stream or as pages; returns what it found."""
    server = _Server(objects, streams=streams)
    runner = web.AppRunner(server.application(), handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.bench_decode"),
            *(f"http://{host}:{port}", str(len(objects))),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise HotmapError("the measuring process failed; its error stands above")
    finally:
        await runner.cleanup()
    return _Run(**json.loads(output))


class _Server:
    """Answers a list and a watch of Deployments with bytes that were made before."""

    def __init__(self, objects: Sequence[bytes], *, streams: bool) -> None:
        self._objects = objects
        lines = b"".join(b'{"type":"ADDED","object":%b}\n' % item for item in objects)
        self._stream = (lines + _bookmark()) if streams else b""

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get(DEPLOYMENTS.path(None), self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return self._page(request)
        if "sendInitialEvents" in request.query and not self._stream:
            return web.json_response(_refusal(), status=400)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with suppress(ConnectionResetError):  # the client has seen enough
            await self._stream_to(response, request)
        return response

    async def _stream_to(self, response: web.StreamResponse, request: web.Request) -> None:
        await response.prepare(request)
        if "sendInitialEvents" in request.query:
            for start in range(0, len(self._stream), _PIECE):
                await response.write(self._stream[start : start + _PIECE])
        await asyncio.Event().wait()

    def _page(self, request: web.Request) -> web.Response:
        start = int(request.query.get("continue") or 0)
        end = start + int(request.query["limit"])
        after = str(end) if end < len(self._objects) else ""
        metadata = {"resourceVersion": _RESOURCE_VERSION, "continue": after}
        body = b'{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":%b,"items":[%b]}' % (
            json.dumps(metadata).encode(),
            b",".join(self._objects[start:end]),
        )
        return web.Response(body=body, content_type="application/json")


def _bookmark() -> bytes:
    """Write the line that ends the initial objects of a stream (KEP-3157)."""
    metadata = {
        "resourceVersion": _RESOURCE_VERSION,
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    body = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata}
    return json.dumps({"type": "BOOKMARK", "object": body}).encode() + b"\n"


def _refusal() -> dict[str, object]:
    message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is on"
    return {"kind": "Status", "status": "Failure", "message": message, "code": 400}


# -- the fresh process -------------------------------------------------------------------------


async def _measure(url: str, count: int) -> _Run:
    """Fill the controller's own store from `url`; measure time and memory."""
    set_up_memory()
    store = Index(defaults=Defaults()).consumers["Deployment"]
    config = ClusterConfig(server=url, origin="the benchmark", credentials=BearerToken(""))
    async with Client(config) as client:
        reflector = Reflector(
            client,
            Selection(DEPLOYMENTS),
            type=Workload,
            writer=StoreWriter(store, lambda item: consumer_from_workload("Deployment", item)),
        )
        before = resident_mb(os.getpid())
        began, used = time.perf_counter(), time.process_time()
        reflecting = asyncio.create_task(reflector.run())
        await store.synced.wait()
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        growth = resident_mb(os.getpid()) - before
        reflecting.cancel()
        await asyncio.gather(reflecting, return_exceptions=True)
    if len(store) != count:
        raise RuntimeError(f"{len(store)} of {count} Deployments arrived")
    return _Run(seconds, cpu, growth)


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 100)  # as `hotmap controller` does
    print(json.dumps(asyncio.run(_measure(sys.argv[1], int(sys.argv[2])))._asdict()))
