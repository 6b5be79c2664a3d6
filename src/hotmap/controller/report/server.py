"""What the controller shows over HTTP: /metrics, /healthz (and /live), /readyz and /v1/status.

Plain HTTP for scrapers and probes; nothing can be changed through it and no debug surface stands
behind it. The status is a document that the command line prints too.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from hotmap.core.errors import BadRequest, SettingsError

__all__ = ["StatusServer"]

Answer = tuple[bool, dict[str, Any]]


class StatusServer:
    """Serves the controller's state until it is closed.

    `status` answers the parameters of a query, or raises BadRequest.
    """

    def __init__(
        self,
        *,
        metrics: Callable[[], bytes],
        metrics_type: str,
        health: Callable[[], Answer],
        readiness: Callable[[], Answer],
        status: Callable[[Mapping[str, str]], Awaitable[dict[str, Any]]],
    ) -> None:
        self._metrics = metrics
        self._metrics_type = metrics_type
        self._health = health
        self._readiness = readiness
        self._status = status
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
                web.get("/live", self._get_life),
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
            # asyncio's own text repeats the address.
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise SettingsError(
                f"cannot serve metrics and health on {host}:{port}: {reason}; name another "
                "address with --listen, or --listen none"
            ) from error
        addresses = self._runner.addresses
        self.port = addresses[0][1] if addresses else port

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _get_metrics(self, request: web.Request) -> web.Response:
        headers = {"Content-Type": self._metrics_type}
        return web.Response(body=self._metrics(), headers=headers)

    async def _get_health(self, request: web.Request) -> web.Response:
        return _answer(self._health())

    async def _get_life(self, request: web.Request) -> web.Response:
        # Reloader's own probe and its answers.
        healthy, _ = self._health()
        return web.Response(text="alive" if healthy else "dead", status=200 if healthy else 500)

    async def _get_readiness(self, request: web.Request) -> web.Response:
        return _answer(self._readiness())

    async def _get_status(self, request: web.Request) -> web.Response:
        try:
            return _json(await self._status(request.query), 200)
        except BadRequest as error:
            return _json({"error": str(error)}, error.code)


def _answer(answer: Answer) -> web.Response:
    good, body = answer
    return _json(body, 200 if good else 503)


def _json(body: dict[str, Any], status: int) -> web.Response:
    text = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
    return web.Response(body=text, status=status, content_type="application/json")
