"""How much processor time does a controller take from its start to its first watch?"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.support.fleet import Fleet, Sizes
from tests.support.watch_server import WatchServer, write_kubeconfig

from benchmarks.machine import cpu_seconds
from benchmarks.processes import controller_command, stop
from hotmap.local.pki import create_pki

__all__ = ["cpu_until_first_watch"]

#: Seconds for the first watch to be opened.
_PATIENCE = 60.0


async def cpu_until_first_watch() -> float:
    """Start a controller beside an empty API server; returns seconds of processor time."""
    loop = asyncio.get_running_loop()
    watched: asyncio.Future[None] = loop.create_future()
    server = WatchServer(
        Fleet(Sizes(0, 0, 0, 0, 0, 1)),
        on_watch=lambda: None if watched.done() else watched.set_result(None),
    )
    with tempfile.TemporaryDirectory(prefix="hotmap-bench-") as directory:
        pki = create_pki(Path(directory) / "pki")
        listening = await asyncio.start_server(
            server.accept, "127.0.0.1", 0, ssl=pki.server_context(), limit=1 << 20
        )
        kubeconfig = Path(directory) / "kubeconfig"
        port = listening.sockets[0].getsockname()[1]
        write_kubeconfig(kubeconfig, f"https://127.0.0.1:{port}", pki.ca_certificate)
        process = await asyncio.create_subprocess_exec(
            *controller_command(kubeconfig, ()),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_PATIENCE):
                await watched
            return cpu_seconds(process.pid)
        finally:
            await stop(process)
            listening.close()
            await server.aclose()
