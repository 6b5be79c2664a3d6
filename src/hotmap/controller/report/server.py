"""The controller's HTTP server: /metrics, /healthz (and /live), /readyz and /v1/status.

Plain HTTP for scrapers and probes; read-only, without debug endpoints. The command line prints
the status document too.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from hotmap.core.errors import BadRequest, SettingsError

__all__ = ["Endpoints", "StatusServer"]

Answer = tuple[bool, dict[str, Any]]


class Endpoints(NamedTuple):
    """What the server serves; each is called for each request."""

    #: Renders the metrics, of `metrics_type`.
    metrics: Callable[[], bytes]
    metrics_type: str
    health: Callable[[], Answer]
    readiness: Callable[[], Answer]
    #: Returns the document for query parameters, or raises BadRequest.
    status: Callable[[Mapping[str, str]], Awaitable[dict[str, Any]]]


class StatusServer:
    """Serves the controller's state until it is closed."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 picks a free one, and no host means every address of the machine.

        Raises:
            SettingsError: the address cannot be listened on.
        """
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._get_metrics),
                web.get("/healthz", self._get_health),
                web.get("/live", self._get_liveness),
                web.get("/readyz", self._get_readiness),
                web.get("/v1/status", self._get_status),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        try:
            await site.start()
        except OSError as error:
            await self.close()
            # asyncio's message repeats the address.
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise SettingsError(
                f"cannot serve metrics and health on {host}:{port}: {reason}; choose "
                "another address with --listen, or --listen none"
            ) from error
        addresses = self._runner.addresses
        self.port = addresses[0][1] if addresses else port

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _get_metrics(self, request: web.Request) -> web.Response:
        headers = {"Content-Type": self._endpoints.metrics_type}
        return web.Response(body=self._endpoints.metrics(), headers=headers)

    async def _get_health(self, request: web.Request) -> web.Response:
        return _answer(self._endpoints.health())

    async def _get_liveness(self, request: web.Request) -> web.Response:
        # Reloader's own probe and its answers.
        healthy, _ = self._endpoints.health()
        return web.Response(text="alive" if healthy else "dead", status=200 if healthy else 500)

    async def _get_readiness(self, request: web.Request) -> web.Response:
        return _answer(self._endpoints.readiness())

    async def _get_status(self, request: web.Request) -> web.Response:
        try:
            return _json(await self._endpoints.status(request.query), 200)
        except BadRequest as error:
            return _json({"error": str(error)}, error.code)


def _answer(answer: Answer) -> web.Response:
    good, body = answer
    return _json(body, 200 if good else 503)


def _json(body: dict[str, Any], status: int) -> web.Response:
    text = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
    return web.Response(body=text, status=status, content_type="application/json")
