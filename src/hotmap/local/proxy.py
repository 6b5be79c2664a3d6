"""Forwards connections to the addresses of Services to their pods: what kube-proxy does.

Listeners on loopback instead of rules of the kernel, so neither root nor a namespace is needed. TCP
only. A port below 1024 needs privileges; without them the Service has no listener, which is logged.
Each listener is an open file, so their number is bounded; a Service that has ports beyond gets an
Event.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import resource
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hotmap.local.json_object import JsonObject
from hotmap.local.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hotmap.local.client import Client
    from hotmap.local.informer import Informers

__all__ = ["ServiceProxy"]

_log = logging.getLogger(__name__)
_asyncio_log = logging.getLogger("asyncio")

_CONNECT_TIMEOUT = 5.0
_CHUNK = 1 << 16
#: Ports on which Services of one namespace, and of all, are listened for.
_MOST_OF_NAMESPACE = 500
_MOST = 2_000
#: The same as a part of the files that the process may open, where that is less.
_SHARE_OF_FILES = 4
#: Seconds between two lines of the log that say that no connection can be accepted.
_LOG_INTERVAL = 60.0
#: Where ports of the node are.
_NODE = "127.0.0.1"
_SERVICE = "kubernetes.io/service-name"


class _Listener(NamedTuple):
    """Where to listen, and for which port of which Service."""

    address: str
    port: int
    namespace: str
    service: str
    port_name: str


class ServiceProxy:
    """Listens where Services of a plane are, and forwards to a ready pod of each."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._recorder = Recorder(client, "kube-proxy")
        #: What the last Event of a Service says.
        self._told: dict[tuple[str, str], str] = {}
        self._services = informers["services"]
        self._slices = informers["endpointslices"]
        self._servers: dict[_Listener, asyncio.Server | None] = {}
        self._changed = asyncio.Event()
        self._services.subscribe(lambda *_: self._changed.set())

    async def run(self) -> None:
        """Forward until cancelled."""
        self._changed.set()
        log_filter = _limited_accept_errors()
        _asyncio_log.addFilter(log_filter)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._recorder.run())
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._listen(self._within_bounds(self._wanted()))
        finally:
            _asyncio_log.removeFilter(log_filter)
            await self._listen(())

    def _within_bounds(self, wanted: list[_Listener]) -> list[_Listener]:
        """Choose which listeners there are: those that are there already, then the oldest."""
        most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_FILES)
        taken: Counter[str] = Counter()
        chosen: list[_Listener] = []
        left_out: dict[tuple[str, str], list[_Listener]] = defaultdict(list)
        for listener in sorted(wanted, key=lambda listener: listener not in self._servers):
            namespace = listener.namespace
            if len(chosen) < most and taken[namespace] < min(most, _MOST_OF_NAMESPACE):
                taken[namespace] += 1
                chosen.append(listener)
            else:
                left_out[namespace, listener.service].append(listener)
        self._tell(left_out, most)
        return chosen

    def _tell(self, left_out: dict[tuple[str, str], list[_Listener]], most: int) -> None:
        told: dict[tuple[str, str], str] = {}
        for name, listeners in left_out.items():
            first = min(listeners)
            text = told[name] = (
                f"{len(listeners)} ports are not served, the first is {first.address}:{first.port}:"
                f" the local plane listens on at most {min(most, _MOST_OF_NAMESPACE)} ports for "
                f"the Services of a namespace, and {most} for all"
            )
            service = self._services.objects.get(name)
            if service is not None and self._told.get(name) != text:
                self._recorder.event(service, "Warning", "PortsNotServed", text)
        self._told = told

    def _wanted(self) -> list[_Listener]:
        found: dict[_Listener, None] = {}
        services = self._services.objects.items()
        oldest = sorted(services, key=lambda item: (_creation(item[1]), item[0]))
        for (namespace, name), service in oldest:
            if (namespace, name) == ("default", "kubernetes"):
                # The API server itself listens there.
                continue
            spec = service["spec"]
            address = spec.get("clusterIP", "")
            for port in spec.get("ports") or ():
                if port.get("protocol", "TCP") != "TCP" or not address or address == "None":
                    continue
                target = namespace, name, port.get("name", "")
                found[_Listener(address, port["port"], *target)] = None
                if port.get("nodePort"):
                    found[_Listener(_NODE, port["nodePort"], *target)] = None
        return list(found)

    async def _listen(self, wanted: Collection[_Listener]) -> None:
        for listener in self._servers.keys() - set(wanted):
            server = self._servers.pop(listener)
            if server is not None:
                server.close()
        failed: dict[tuple[str, str, str], list[_Listener]] = defaultdict(list)
        for listener in wanted:
            if listener not in self._servers:
                self._servers[listener] = None
                try:
                    self._servers[listener] = await self._start(listener)
                except OSError as error:
                    why = error.strerror or str(error)
                    failed[listener.namespace, listener.service, why].append(listener)
        for (namespace, service, why), listeners in failed.items():
            first, others = listeners[0], len(listeners) - 1
            more = f" and {others} more" if others else ""
            at = f"{first.address}:{first.port}{more}"
            _log.warning("service %s/%s: cannot listen on %s: %s", namespace, service, at, why)

    async def _start(self, listener: _Listener) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._forward(listener, reader, writer)

        return await asyncio.start_server(serve, listener.address, listener.port)

    async def _forward(
        self, listener: _Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        backends = self._backends(listener)
        random.shuffle(backends)
        try:
            for address, port in backends:
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(_CONNECT_TIMEOUT):
                        opened = await asyncio.open_connection(address, port)
                    await _join(reader, writer, *opened)
                    break
        finally:
            # Without a backend the connection is refused in effect: it is reset.
            if writer.transport.is_closing():
                writer.close()
            else:
                writer.transport.abort()

    def _backends(self, listener: _Listener) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for (namespace, _), known in self._slices.objects.items():
            labels = known["metadata"].get("labels") or {}
            if namespace != listener.namespace or labels.get(_SERVICE) != listener.service:
                continue
            for port in known.get("ports") or ():
                if port.get("name", "") == listener.port_name and port.get("port"):
                    for endpoint in known.get("endpoints") or ():
                        if (endpoint.get("conditions") or {}).get("ready", True):
                            found += [(address, port["port"]) for address in endpoint["addresses"]]
        return found


def _creation(service: JsonObject) -> str:
    return str(service["metadata"].get("creationTimestamp", ""))


def _limited_accept_errors() -> Callable[[logging.LogRecord], bool]:
    """Make a filter of asyncio's log: each listener logs each second that files are exhausted."""
    last = -_LOG_INTERVAL

    def is_shown(record: logging.LogRecord) -> bool:
        nonlocal last
        if not record.getMessage().startswith("socket.accept() out of system resource"):
            return True
        now = time.monotonic()
        if now - last < _LOG_INTERVAL:
            return False
        last = now
        return True

    return is_shown


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    backend_reader: asyncio.StreamReader,
    backend_writer: asyncio.StreamWriter,
) -> None:
    """Pass on both directions until both have ended."""
    try:
        await asyncio.gather(_copy(reader, backend_writer), _copy(backend_reader, writer))
        writer.close()
    finally:
        backend_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
