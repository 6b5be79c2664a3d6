"""Clients that send very many requests keep the controller from nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from hotmap.controller.report.metrics import CONTENT_TYPE
from hotmap.controller.report.server import Answer, Endpoints, StatusServer

#: Seconds of processor time that the metrics take here, more than one slice.
_COST: Final = 0.002

#: Connections, and requests that each of them sends at once.
_CONNECTIONS, _REQUESTS = 20, 4

_GET: Final = b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n"


class Served:
    """A server whose metrics take a while, and what it was asked."""

    def __init__(self) -> None:
        self.turns = 0
        #: How often metrics were answered in each turn of the event loop.
        self.answered: Counter[int] = Counter()
        #: Called with the first answer.
        self.on_first: Callable[[], object] = lambda: None
        #: How many metrics had been answered before the probe.
        self.before_probe: int | None = None
        self.server = StatusServer(
            Endpoints(
                metrics=self._metrics,
                metrics_type=CONTENT_TYPE,
                health=self._health,
                readiness=self._health,
                status=_status,
                user_status=_user_status,
            )
        )

    def _metrics(self) -> bytes:
        if not self.answered:
            self.on_first()
        self.answered[self.turns] += 1
        until = time.perf_counter() + _COST
        while time.perf_counter() < until:
            pass
        return b"metrics"

    def _health(self) -> Answer:
        self.before_probe = self.answered.total()
        return True, {}

    async def count_turns(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1


async def _status(query: Mapping[str, str]) -> dict[str, Any]:
    return {}


async def _user_status(token: str, query: Mapping[str, str]) -> dict[str, Any]:
    return {}


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served()
    await served.server.start("127.0.0.1", 0)
    counting = asyncio.create_task(served.count_turns())
    try:
        yield served
    finally:
        counting.cancel()
        await served.server.close()


async def flood(port: int) -> list[asyncio.StreamWriter]:
    """Send requests for metrics on many connections."""
    writers = []
    for _ in range(_CONNECTIONS):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
    for writer in writers:
        writer.write(_GET % b"/metrics" * _REQUESTS)
    return writers


async def test_many_requests_leave_each_turn_of_the_event_loop_to_others() -> None:
    """The Lease is renewed, and watches are read, between two of them."""
    async with serving() as served:
        writers = await flood(served.server.port)
        async with asyncio.timeout(60):
            while served.answered.total() < _CONNECTIONS * _REQUESTS:  # noqa: ASYNC110  it is polled
                await asyncio.sleep(0.01)
        assert max(served.answered.values()) == 1
        for writer in writers:
            writer.close()


async def test_probe_does_not_wait_for_many_other_requests() -> None:
    """A kubelet restarts a controller that does not answer in time."""
    async with serving() as served:
        reader, probe = await asyncio.open_connection("127.0.0.1", served.server.port)
        served.on_first = lambda: probe.write(_GET % b"/healthz")
        writers = await flood(served.server.port)
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert served.before_probe is not None
        assert served.before_probe < _CONNECTIONS * _REQUESTS / 2
        for writer in (probe, *writers):
            writer.close()
