"""A controller in this process for many histories at once, which ends and loses its connections.

Its ends, its crashes and the interruptions of its watches are drawn as for a history of its own;
every history that is played at the time has them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.simulation.disturbances import draw, pause_after

from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings, Settings
from hotmap.core.errors import Unreachable
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client
from hotmap.kube.config import ClusterConfig

__all__ = ["LONGEST_PAUSE", "Connection", "HistoryLog", "SharedController"]

#: Seconds between two disturbances: time is real here.
LONGEST_PAUSE = 4.0

_CHECKS = PodCheckSettings(
    rate=50.0, initial_delay=1.0, rollout_delay=1.0, pause=2.0, max_pause=4.0, max_pause_rolling=4.0
)

#: The names of sources and Deployments end with the number of their history.
_NUMBERED = re.compile(r"\b(?:one|two|web)-([0-9]+)\b")


class HistoryLog(logging.Handler):
    """Collects what the controller says, by the number of the history."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: defaultdict[int, list[str]] = defaultdict(list)

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.getMessage()} {getattr(record, 'workload', '')}"
        line = f"{time.time():.2f} {text}"
        for number in {int(found) for found in _NUMBERED.findall(text)}:
            self.lines[number].append(line)


class Connection(Client):
    """A controller's client, whose connections break at once when it is cut off."""

    is_cut_off = False

    def cut_off(self) -> None:
        """Break all connections, and refuse new ones; of a process that is killed for good."""
        self.is_cut_off = True
        http = self._transport._http
        for connection in tuple(http._open) if http else ():
            connection.abort()

    async def request(self, *arguments: Any, **options: Any) -> bytes:
        if self.is_cut_off:
            raise Unreachable("cut off")
        return await super().request(*arguments, **options)

    @asynccontextmanager
    async def open_watch(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        if self.is_cut_off:
            raise Unreachable("cut off")
        async with super().open_watch(*arguments, **options) as stream:
            yield stream


class SharedController:
    """The controller of one namespace: one process at a time."""

    def __init__(self, config: ClusterConfig, namespace: str, chance: random.Random) -> None:
        self._config = config
        self._namespace = namespace
        self._chance = chance
        self._connection: Connection | None = None
        self.controller: Controller | None = None
        #: What happened to it, for the message of a failure.
        self.events: list[str] = []

    async def start(self) -> None:
        """Start it, unless it runs; returns when every consumer is queued."""
        if self.controller is not None:
            return
        self._note("started")
        self._connection = Connection(self._config, user_agent="hotmap-history")
        await self._connection.__aenter__()
        settings = Settings(
            namespace=self._namespace,
            watch_namespaces=(self._namespace,),
            defaults=Defaults(follow="auto", settle=0.5, settle_max=5.0),
            pod_checks=_CHECKS,
            flap_limit=0,
            listen=None,
        )
        controller = Controller(self._connection, settings)
        await controller.__aenter__()
        self.controller = controller

    async def stop(self, *, crash: bool) -> None:
        """End it, if it runs; what an orderly end writes is lost in a crash."""
        controller, connection = self.controller, self._connection
        self.controller = self._connection = None
        if connection is None:
            return
        self._note("crashes" if crash else "ends")
        if crash:
            connection.cut_off()
        if controller is not None:
            await controller.__aexit__(None, None, None)
        await connection.__aexit__(None, None, None)

    async def disturb(self, ended: asyncio.Event) -> None:
        """End it, start it and cut it off now and then, until the histories have ended."""
        while not ended.is_set():
            event = draw(self._chance)
            if event.kind == "down":
                if self.controller is None:
                    await self.start()
                else:
                    await self.stop(crash=event.hard)
            elif event.kind == "cut_off" and self._connection is not None:
                self._note(f"is cut off for {event.gap} s")
                self._connection.cut_off()
                await asyncio.sleep(event.gap)
                self._connection.is_cut_off = False
            await asyncio.sleep(min(LONGEST_PAUSE, pause_after(self._chance)))

    def is_written(self) -> bool:
        """Return whether all that it asked of consumers is in its Secrets."""
        controller = self.controller
        if controller is None or controller.record_shards is None:
            return False
        return not controller.record_shards.statistics().dirty

    def _note(self, what: str) -> None:
        self.events.append(f"{time.time():.2f} the controller {what}")
