"""What takes minutes and hours, in virtual time: the loop's clock goes on when nothing is ready.

The agent is a real one, in this process, and so are its volume, its files and its endpoint, a unix
socket that is served on the same loop. Only the clock and the waiting are not.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from tests.agent.agents import Volume

from hotmap.agent.agent import Agent
from hotmap.agent.runtime.loop import READ, Loop
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings


class VirtualTime:
    """A clock, and a poll object that moves it on instead of waiting."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits = 0
        self._poll = select.poll()
        self.register = self._poll.register
        self.unregister = self._poll.unregister

    def __call__(self) -> float:
        return self.now

    def poll(self, milliseconds: int | None) -> list[tuple[int, int]]:
        """Return what is ready; if nothing is, advance the clock."""
        if ready := self._poll.poll(0):
            return ready
        assert milliseconds is not None, "nothing can ever happen any more"
        self.waits += milliseconds > 0
        self.now += milliseconds / 1000
        return []


class Endpoint:
    """A web server on a unix socket, served by the agent's own loop."""

    def __init__(self, loop: Loop, path: Path) -> None:
        self._loop = loop
        self._path = path
        self._listening: socket.socket | None = None
        self._open: list[socket.socket] = []
        #: When it was called, and how it answers; None is never.
        self.calls: list[float] = []
        self.status: int | None = 200

    @property
    def url(self) -> str:
        return f"unix:{self._path}:/-/reload"

    def up(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(os.fspath(self._path))
        self._listening.listen()
        self._loop.watch(self._listening.fileno(), READ, self._accept)

    def down(self) -> None:
        for item in self._open:
            self._loop.forget(item.fileno())
            item.close()
        if self._listening is not None:
            self._loop.forget(self._listening.fileno())
            self._listening.close()
            self._path.unlink()
        self._listening = None

    def _accept(self) -> None:
        assert self._listening is not None
        connection, _ = self._listening.accept()
        self._open.append(connection)
        self._loop.watch(connection.fileno(), READ, lambda: self._answer(connection))

    def _answer(self, connection: socket.socket) -> None:
        self._loop.forget(connection.fileno())
        if connection.recv(4096):
            self.calls.append(self._loop.now())
            if self.status is not None:
                head = f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(head.encode())


class World:
    """Everything of one test."""

    def __init__(self, folder: Path) -> None:
        self.time = VirtualTime()
        self.loop = Loop(self.time, cast("select.poll", self.time))
        self.volume = Volume(folder / "volume", text="one")
        self.endpoint = Endpoint(self.loop, folder / "endpoint.sock")
        self.agent: Agent | None = None

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Do something that many virtual seconds after the beginning."""
        self.loop.at(1000.0 + seconds, call)

    def run(self, *flags: str, until: float) -> int:
        """Run an agent until a virtual time, at which it gets TERM."""
        words = ("--dir", str(self.volume), "--listen", "none", *flags)
        self.agent = Agent(load_settings(parse_arguments(words)), self.loop)
        self.at(until, lambda: os.kill(os.getpid(), signal.SIGTERM))
        return self.agent.run()

    def state(self) -> str:
        """What the agent says of itself now."""
        assert self.agent is not None
        return str(self.agent.reporter.status()["state"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Yield a world; restore this process's signal handlers afterwards."""
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    before = {number: signal.getsignal(number) for number in numbers}
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.endpoint.down()
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("away", [30, 60, 90, 3 * 3600])
def test_unavailable_endpoint_is_called_within_the_maximum_delay(world: World, away: int) -> None:
    """With the default pauses: once, within the longest of them, tried as often as they say."""
    states: list[str] = []
    world.at(away - 0.001, lambda: states.append(world.state()))
    world.at(away, world.endpoint.up)
    world.run("--url", world.endpoint.url, until=away + 30)
    assert states == ["failing"]
    assert len(world.endpoint.calls) == 1
    assert away <= world.endpoint.calls[0] - 1000 <= away + 15
    assert world.agent is not None
    failures = world.agent.reporter.status()["rules"][0]["failures"]
    # Pauses are 0.25, 0.5 … 8 s, then 15 s, less up to half of each.
    assert 6 + (away - 15.75) / 15 - 1 <= failures <= 8 + away / 7.5


@pytest.mark.parametrize("status", [500, None], ids=["500", "no answer"])
def test_failing_endpoint_gets_the_next_change_at_once(world: World, status: int | None) -> None:
    """Newer content does not wait for the pause after the older one, only for a call under way."""
    world.endpoint.up()
    world.endpoint.status = status

    def heal() -> None:
        world.endpoint.status = 200
        world.volume.write(text="two")

    world.at(61, heal)
    world.run("--url", world.endpoint.url, until=120)
    last = world.endpoint.calls[-1] - 1000
    assert 61 <= last <= 61 + 10 + 0.2, "at most one time-out of an action, and the settle time"
    assert world.state() == "loaded"


def test_change_is_delivered_after_its_settle_time(world: World) -> None:
    """0.1 s after the last swap of a series, 2 s after its first where it does not end."""
    world.endpoint.up()
    for number in range(3):
        world.at(10 + 0.05 * number, lambda n=number: world.volume.write(text=f"series {n}"))
    for number in range(100):
        world.at(20 + 0.05 * number, lambda n=number: world.volume.write(text=f"long {n}"))
    world.run("--url", world.endpoint.url, until=60)
    times = [round(call - 1000, 1) for call in world.endpoint.calls]
    assert times[0] == 0
    assert times[1] == 10.2
    assert times[2] == 22.0
    assert len(times) == 5, "20 to 25 s: after 2 s, after 2 s more, and after the last"


def test_agent_wakes_up_at_the_poll_interval_only(world: World) -> None:
    """In an hour without a change the loop ends its wait once for each look, and never else."""
    world.endpoint.up()
    waits: list[int] = []
    world.at(5, lambda: waits.append(world.time.waits))
    world.at(3605, lambda: waits.append(world.time.waits))
    world.run("--url", world.endpoint.url, until=3700)
    assert waits[1] - waits[0] <= 360 + 1


def test_health_depends_on_the_age_of_the_last_poll(world: World) -> None:
    """200 as long as polls are regular, 503 once three are overdue, 200 after the next."""
    answers: list[tuple[float, int, str]] = []

    def ask() -> None:
        assert world.agent is not None
        status, _, body = world.agent.reporter.respond("/healthz")
        answers.append((round(world.time.now - 1000), status, body.decode().strip()))

    def stand_still() -> None:
        world.time.now += 31
        ask()

    world.endpoint.up()
    world.at(25, ask)
    world.at(44, stand_still)
    world.at(76, ask)
    world.run("--url", world.endpoint.url, until=100)
    assert answers == [(25, 200, "5.0"), (75, 503, "35.0"), (76, 200, "1.0")]


def test_agent_continues_at_once_after_suspend(world: World) -> None:
    """What was due meanwhile is due now: a retry, and the look at the directories."""
    world.at(30, lambda: setattr(world.time, "now", world.time.now + 7200))
    world.at(30, world.endpoint.up)
    world.run("--url", world.endpoint.url, until=7300)
    assert world.endpoint.calls[0] - 1000 < 7231
