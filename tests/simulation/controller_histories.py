"""Random histories against the whole controller, on virtual time.

The real controller runs with a real API server in the same process. There may be two controllers
with a Lease, which crash and lose their connections. A kind of history adds its own events, and
plays users and the controllers of workloads.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from tests.controller.world import World
from tests.simulation.shared_controller import Connection
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.virtual_time import VirtualTimeLoop

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.errors import HotmapError, NotFound
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client

__all__ = ["CONVERGED", "ControllerHistory", "play_history", "play_seeds"]

#: Seconds within which everything has the last content, once it is quiet; and a new leader takes a
#: Lease that was not released.
CONVERGED = 240.0

#: Seconds after which a history has hung: the traceback shows where. None takes a quarter of that.
_LONGEST = 7200.0


class _Process:
    """One controller with its connection; it may be down."""

    def __init__(self, plane: ControlPlane, identity: str, *, settle: float) -> None:
        self._plane, self._identity, self._settle = plane, identity, settle
        self.connection: Connection | None = None
        self.controller: Controller | None = None
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it in the background: with a Lease, it waits until it may lead."""
        if self.connection is None:
            agent = f"hotmap-{self._identity or 'single'}"
            self.connection = Connection(self._plane.config(), user_agent=agent)
            await self.connection.__aenter__()
            settings = Settings(
                defaults=Defaults(follow="off", settle=self._settle, settle_max=1.0),
                flap_limit=0,
                identity=self._identity,
                patient=True,
                listen=None,
            )
            self.controller = Controller(self.connection, settings)
            self._starting = asyncio.create_task(self.controller.__aenter__())  # type: ignore[arg-type]

    async def stop(self, *, crash: bool) -> None:
        """End it; a crash writes nothing more and keeps the Lease."""
        controller, connection, starting = self.controller, self.connection, self._starting
        self.controller = self.connection = self._starting = None
        if controller is None or connection is None or starting is None:
            return
        if crash:
            connection.cut_off()
        if starting.done() and not starting.exception():
            await controller.__aexit__(None, None, None)
        else:
            starting.cancel()
            with suppress(asyncio.CancelledError, HotmapError):
                await starting
        await connection.__aexit__(None, None, None)


class ControllerHistory:
    """One history: it starts the controllers, plays events in random order, and ends them."""

    #: The events, each a method of this name, and how often each happens beside the others.
    events: Mapping[str, int]
    #: The most events of a history; there are at least four.
    most_events: int

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world, self._chance = world, chance
        identities = chance.choice((("",), ("",), ("one", "two")))
        settle = chance.choice((0.0, 0.03, 0.5))
        self._processes = [
            _Process(world.plane, identity, settle=settle) for identity in identities
        ]
        self._began = self._now()
        #: What happened.
        self.log: list[str] = []

    async def run(self) -> str:
        """Play it; returns the promise that is broken, "" for none."""
        await self._set_up()
        others = asyncio.create_task(self._play_others())
        try:
            for process in self._processes:
                await process.start()
            await self._world.until(self._is_adopted, "every workload has a record")
            for _ in range(self._chance.randint(4, self.most_events)):
                await self._disturb()
                await asyncio.sleep(self._chance.choice((0.0, 0.1, 0.5, 2.0, 8.0)))
            return await self._end()
        finally:
            others.cancel()
            for process in self._processes:
                await process.stop(crash=False)

    async def _set_up(self) -> None:
        """Create the objects of the history."""
        raise NotImplementedError

    async def _play_others(self) -> None:
        """Be the controllers of the workloads, without end."""
        raise NotImplementedError

    async def _is_adopted(self) -> bool:
        """Return whether every workload has a record."""
        raise NotImplementedError

    async def _end(self) -> str:
        """Let everything go on, and return the promise that is broken at the end, "" for none."""
        raise NotImplementedError

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _note(self, text: str) -> None:
        self.log.append(f"{self._now() - self._began:.2f} {text}")

    async def _disturb(self) -> None:
        kind = self._chance.choices(tuple(self.events), tuple(self.events.values()))[0]
        self._note(kind)
        act: Callable[[], Awaitable[None]] = getattr(self, f"_{kind}")
        with suppress(NotFound):
            await act()

    # -- events of every kind --------------------------------------------------------------------

    async def _restart(self) -> None:
        process = self._chance.choice(self._processes)
        self._before_interruption()
        if process.connection is None:
            await process.start()
        else:
            await process.stop(crash=self._chance.random() < 0.5)

    async def _cut_off(self) -> None:
        if (connection := self._chance.choice(self._processes).connection) is not None:
            self._before_interruption()
            connection.cut_off()
            await asyncio.sleep(self._chance.choice((0.5, 5.0, 20.0)))
            connection.is_cut_off = False

    def _before_interruption(self) -> None:
        """Note what the next leader cannot know."""


def play_history(
    history: Callable[[World, random.Random], ControllerHistory], seed: int
) -> tuple[str, list[str]]:
    """Play one history; returns the promise that it breaks, "" for none, and what happened."""

    async def play() -> tuple[str, list[str]]:
        async with control_plane() as plane, Client(plane.config()) as client:
            played = history(World(plane, client), random.Random(seed))
            async with asyncio.timeout(_LONGEST):
                return await played.run(), played.log

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(play())


def play_seeds(play: Callable[[int], tuple[str, list[str]]], first: int, last: int) -> int:
    """Play a range of seeds and print what breaks a promise; returns how many histories did."""
    count = 0
    for seed in range(first, last):
        broken, log = play(seed)
        if broken:
            count += 1
            sys.stdout.write("\n  ".join([f"history {seed}: {broken}", *log]) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{last - first} histories, {count} broken\n")
    return count
