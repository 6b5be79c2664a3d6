"""A way to a server that can be shut: as if the server were killed, with what it knew kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from benchmarks.clusters import Cluster

__all__ = ["Gate", "gate"]

#: Bytes passed on at once.
_PIECE = 1 << 16


class Gate:
    """Passes connections on while it is open; shut, it refuses them and has cut all there were."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def open(self) -> None:
        """Listen: on a free port at first, on the same one afterwards."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            self._writers -= {writer, back}
            for item in (writer, back):
                item.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def gate(cluster: Cluster, directory: Path) -> AsyncIterator[tuple[Gate, Cluster]]:
    """Put a gate before a cluster's API server; yields it and the cluster as seen through it."""
    text = cluster.kubeconfig.read_text()
    found = re.search(r"https://127\.0\.0\.1:(\d+)", text)
    if found is None:
        raise ValueError(f"{cluster.kubeconfig} names no server on 127.0.0.1")
    made = Gate(int(found[1]))
    await made.open()
    kubeconfig = directory / "kubeconfig-gate"
    kubeconfig.write_text(text.replace(found[0], f"https://127.0.0.1:{made.port}"))
    try:
        yield made, cluster._replace(kubeconfig=kubeconfig)
    finally:
        await made.shut()
