"""A proxy before an API server that adds objects which no API server of ours would accept.

Some are accepted by others: upstream's server decodes what nests deeper than our test server does,
and etcd may hold what an older version let in. The text of an object is put into lists and watches
of its resource as it is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

__all__ = ["Injected", "injecting_proxy"]

#: By the plural of the resource: texts of objects, without whitespace between them.
Injected = dict[str, list[str]]

_HOP = {"transfer-encoding", "content-length", "connection", "content-encoding", "host"}


class _Proxy:
    def __init__(self, server: str, objects: Injected, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._objects = objects
        self._session = session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, and its answer back with the objects added."""
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        headers["Accept-Encoding"] = "identity"
        added = self._objects.get(request.path.rsplit("/", 1)[-1], [])
        added = added if request.method == "GET" else []
        async with self._session.request(
            request.method,
            URL(self._server + request.raw_path, encoded=True),
            data=await request.read(),
            headers=headers,
        ) as answer:
            passed = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=passed)
            if answer.status == 200 and added and request.query.get("watch") != "true":
                text = (await answer.read()).replace(b'"items":[', self._items(added), 1)
                return web.Response(body=text, status=200, headers=passed)
            await response.prepare(request)
            if answer.status == 200 and "sendInitialEvents" in request.query:
                for item in added:
                    await response.write(f'{{"type":"ADDED","object":{item}}}\n'.encode())
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    @staticmethod
    def _items(added: list[str]) -> bytes:
        return ('"items":[' + "".join(f"{item}," for item in added)).encode()


@asynccontextmanager
async def injecting_proxy(
    server: str, *, token: str, objects: Injected, folder: Path
) -> AsyncIterator[Path]:
    """Serve before an API server on loopback; returns the path of a kubeconfig."""
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", _Proxy(server, objects, session).handle)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        path = folder / "kubeconfig-injecting"
        context = {"cluster": "test", "user": "test"}
        path.write_text(
            json.dumps(
                {
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": context}],
                    "clusters": [{"name": "test", "cluster": {"server": f"http://{host}:{port}"}}],
                    "users": [{"name": "test", "user": {"token": token}}],
                }
            )
        )
        try:
            yield path
        finally:
            await runner.cleanup()
