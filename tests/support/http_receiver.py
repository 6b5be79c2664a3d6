"""An HTTP server that keeps what it gets, and answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

__all__ = ["PASSWORD", "Receiver", "http_receiver"]

#: In the path of the URL, as in those of chat services; nothing may show it.
PASSWORD = "planted-password"


class Receiver:
    """The requests that a server got, and its next answers."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.content_types: list[str] = []
        #: Statuses of the next answers; 200 after them.
        self.answers: list[int] = []
        #: Headers of every answer.
        self.headers: Mapping[str, str] = {"Location": "/elsewhere"}
        #: While set, requests are not answered.
        self.hangs = asyncio.Event()
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.text())
        self.content_types.append(request.content_type)
        if self.hangs.is_set():
            await asyncio.sleep(3600)
        status = self.answers.pop(0) if self.answers else 200
        return web.Response(status=status, headers=self.headers)


@asynccontextmanager
async def http_receiver() -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of the loopback address."""
    receiver = Receiver()
    app = web.Application()
    app.add_routes([web.post("/hook/{password}", receiver.take)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook/{PASSWORD}"
        yield receiver
    finally:
        await runner.cleanup()
