"""What the answers of an API server tell of its clock."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from hotmap.kube.server_clock import ServerClock, steady_clock

#: A whole second.
NOON = 1_700_000_000.0


class Machine:
    """Our own clock, and answers of a server whose clock is ahead of it."""

    def __init__(self) -> None:
        self.now = NOON
        self.clock = ServerClock(lambda: self.now)

    def answer(self, ahead: float, *, waited: float = 0.0) -> None:
        """Let the server answer at the end of `waited` seconds."""
        self.now += waited
        self.clock.learn(formatdate(self.now + ahead, usegmt=True), waited=waited)

    def answers(self, ahead: float) -> None:
        """Let the server answer once a second for a minute, at all fractions of a second."""
        for _ in range(60):
            self.now += 1.017
            self.answer(ahead)


@pytest.mark.parametrize("ahead", [0.0, 0.4, -0.4, 0.9])
def test_possibly_correct_clock_is_not_corrected(ahead: float) -> None:
    """A date names a second, so one answer within the same second shows no fault."""
    machine = Machine()
    machine.now += 0.05
    machine.answer(ahead)
    assert abs(machine.clock.ahead) < 0.5


def test_nothing_is_corrected_before_the_first_answer() -> None:
    """Without an answer the own clock is all there is."""
    assert Machine().clock.now() == NOON


@pytest.mark.parametrize("ahead", [600.0, -600.0, 3.3, -7200.25])
def test_wrong_clock_is_found_out(ahead: float) -> None:
    """The first answer shows a wrong clock to a second, a minute of them to a tenth of that."""
    machine = Machine()
    machine.answer(ahead)
    assert machine.clock.now() == pytest.approx(machine.now + ahead, abs=1.0)
    machine.answers(ahead)
    assert machine.clock.now() == pytest.approx(machine.now + ahead, abs=0.1)


def test_slow_response_proves_little() -> None:
    """The server may have said its time right after the request, or right before the answer."""
    machine = Machine()
    machine.answer(-8.0, waited=10.0)
    assert machine.clock.ahead == 0.0


def test_contradicting_date_replaces_earlier_bounds() -> None:
    """What contradicts all before counts alone: the server's clock was set."""
    machine = Machine()
    machine.answers(600.0)
    machine.now += 600.0
    machine.answers(0.0)
    assert machine.clock.ahead == pytest.approx(0.0, abs=0.1)


def test_own_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that a watch shows before the next response has the right time."""
    wall, clock = time.time, ServerClock(steady_clock())
    clock.learn(formatdate(wall(), usegmt=True), waited=0.0)
    for jump in (1200.0, -600.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: wall() + jump)
        assert clock.now() == pytest.approx(wall(), abs=1.0)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026 99:99:99 GMT"])
def test_invalid_date_is_ignored(date: str) -> None:
    """Proxies leave it out or write something else; the own clock stays."""
    clock = ServerClock(lambda: NOON)
    clock.learn(date, waited=0.0)
    assert clock.now() == NOON
