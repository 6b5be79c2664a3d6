"""Forwards connections to the addresses of Services to their pods: what kube-proxy does.

Listeners on loopback instead of rules of the kernel, so neither root nor a namespace is needed. TCP
only. A port below 1024 needs privileges; without them the Service has no listener, which is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hotmap.local.informer import Informers

__all__ = ["ServiceProxy"]

_log = logging.getLogger(__name__)

Object = dict[str, Any]
_CONNECT_TIMEOUT = 5.0
_CHUNK = 1 << 16
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

    def __init__(self, informers: Informers) -> None:
        self._services = informers["services"]
        self._slices = informers["endpointslices"]
        self._servers: dict[_Listener, asyncio.Server | None] = {}
        self._changed = asyncio.Event()
        self._services.subscribe(lambda *_: self._changed.set())

    async def run(self) -> None:
        """Forward until cancelled."""
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._listen(self._wanted())
        finally:
            await self._listen(set())

    def _wanted(self) -> set[_Listener]:
        found: set[_Listener] = set()
        for (namespace, name), service in self._services.objects.items():
            if (namespace, name) == ("default", "kubernetes"):
                # The API server itself listens there.
                continue
            spec = service["spec"]
            address = spec.get("clusterIP", "")
            for port in spec.get("ports") or ():
                if port.get("protocol", "TCP") != "TCP" or not address or address == "None":
                    continue
                target = namespace, name, port.get("name", "")
                found.add(_Listener(address, port["port"], *target))
                if port.get("nodePort"):
                    found.add(_Listener(_NODE, port["nodePort"], *target))
        return found

    async def _listen(self, wanted: set[_Listener]) -> None:
        for listener in self._servers.keys() - wanted:
            server = self._servers.pop(listener)
            if server is not None:
                server.close()
        for listener in wanted - self._servers.keys():
            self._servers[listener] = await self._start(listener)

    async def _start(self, listener: _Listener) -> asyncio.Server | None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._forward(listener, reader, writer)

        try:
            return await asyncio.start_server(serve, listener.address, listener.port)
        except OSError as error:
            _log.warning(
                "service %s/%s: cannot listen on %s:%d: %s",
                listener.namespace,
                listener.service,
                listener.address,
                listener.port,
                error.strerror or error,
            )
            return None

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
