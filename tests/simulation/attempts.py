"""Attempts of simulated agents: signals, calls of endpoints and restarts, step by step.

What they do to a process is a model of `hotmap.agent.act`; when they are made, and what follows
from their results, is decided by the agent.
"""

from __future__ import annotations

import random
from math import floor, inf
from typing import Protocol

from tests.simulation.applications import Application

from hotmap.agent.act.actions import KUBELET_LAG
from hotmap.agent.act.attempt import ContentHistory
from hotmap.agent.decide.facts import AttemptFinished, StartAttempt
from hotmap.agent.settings.settings import FROZEN, Settings

__all__ = ["TICK", "Attempt", "Process", "make_attempt", "ticks"]

#: Seconds by which the kernel rounds down the times of processes.
TICK = 0.01


def ticks(at: float) -> float:
    """Round a time down as the kernel does."""
    return floor(at / TICK) * TICK


class Process(Protocol):
    """The process of a container, whichever it is at the moment."""

    def find(self) -> Application | None:
        """Return it; None while the container is not running."""
        ...

    def terminate(self, now: float) -> None:
        """End it; its kubelet starts the container again."""
        ...


class Attempt:
    """One attempt to make a process load what changed; this one does nothing."""

    def __init__(
        self,
        command: StartAttempt,
        history: ContentHistory,
        process: Process,
        settings: Settings,
        chance: random.Random,
    ) -> None:
        self._command = command
        self._history = history
        self._process = process
        self._settings = settings
        self._chance = chance
        #: How often it has told the process to load.
        self.told = 0
        #: Until when it cannot be given up for newer content.
        self.busy_until = -inf

    def step(self, now: float) -> AttemptFinished | None:
        """Do what is due; returns the result once there is one."""
        return self._succeed(now)

    def _succeed(self, now: float) -> AttemptFinished:
        return AttemptFinished(self._command.rule.name, "", 0, now)

    def _fail(self, error: str, now: float, position: int = 0) -> AttemptFinished:
        return AttemptFinished(self._command.rule.name, error, position, now)

    def _tell(self, now: float) -> str:
        """Tell the process to load; returns why that failed, or ""."""
        application = self._process.find()
        if application is None or now < application.ready_at:
            return "the process has just started"
        application.tell(now)
        self.told += 1
        self._history.performed_at = now
        return ""


class _Signal(Attempt):
    """A signal, which a probe may confirm."""

    def __init__(
        self,
        command: StartAttempt,
        history: ContentHistory,
        process: Process,
        settings: Settings,
        chance: random.Random,
    ) -> None:
        super().__init__(command, history, process, settings, chance)
        is_told = history.performed_at is not None and command.position > 0
        #: When the probe has been read that the one after the signal is compared with.
        self._compared_at: float | None = None
        self._confirms_until: float | None = None
        self._is_sent = is_told

    def step(self, now: float) -> AttemptFinished | None:
        if not self._command.rule.probes:
            error = self._tell(now)
            return self._fail(error, now) if error else self._succeed(now)
        if self._compared_at is None:
            self._compared_at = now + self._chance.choice((0.0, 0.1, 0.3))
        if not self._is_sent:
            if now < self._compared_at:
                return None
            self._history.before = [self._shown()]
            if error := self._tell(now):
                return self._fail(error, now)
            self._is_sent = True
        return self._confirm(now)

    def _confirm(self, now: float) -> AttemptFinished | None:
        timeout = self._settings.actions.verify_timeout
        if self._confirms_until is None:
            self._confirms_until = now + timeout
            self.busy_until = (self._history.performed_at or 0.0) + timeout
        if self._process.find() is not None and self._history.before != [self._shown()]:
            return self._succeed(now)
        if now < self._confirms_until:
            return None
        position = 1 if self._history.awaits_probes(now) else 0
        return self._fail("verification timed out", now, position)

    def _shown(self) -> str | None:
        """Return what the probe shows: a number that grows with each load of one process."""
        application = self._process.find()
        return None if application is None else f"{application.pid}/{application.loads}"


class _Call(Attempt):
    """A call of an endpoint, which responds when the files are loaded."""

    #: The process that was called, and how many calls it had handled before.
    _called: tuple[Application, int] | None = None
    _ends_at = inf

    def step(self, now: float) -> AttemptFinished | None:
        if self._called is None:
            application = self._process.find()
            handled = 0 if application is None else application.handled
            if error := self._tell(now):
                return self._fail(error, now)
            assert application is not None, "it was told"
            self._called = application, handled
            self._ends_at = now + self._history.time_limit
        application, handled = self._called
        if application is not self._process.find():
            return self._fail("connection reset", now)
        if application.handled > handled:
            return self._fail("status 500", now) if application.has_failed else self._succeed(now)
        if now < self._ends_at:
            return None
        self._history.allow_more_time()
        return self._fail("timed out", now)


class _Restart(Attempt):
    """The end of a process, and the start of its successor."""

    _terminated_at: float | None = None
    _ends_at = inf

    def step(self, now: float) -> AttemptFinished | None:
        application = self._process.find()
        began = self._terminated_at
        if began is not None:
            if application is not None and ticks(application.started) + TICK > began:
                return self._succeed(now)
            return self._fail("has not started again", now) if now >= self._ends_at else None
        if application is None:
            return self._fail("no such process", now)
        lag = KUBELET_LAG if self._command.rule.name == FROZEN else 0.0
        if ticks(application.started) > self._command.desired_since + lag:
            return self._succeed(now)
        self._process.terminate(now)
        self.told += 1
        self._terminated_at, self.busy_until = now, inf
        self._ends_at = now + self._history.time_limit
        return None


def make_attempt(
    command: StartAttempt,
    history: ContentHistory,
    process: Process,
    settings: Settings,
    chance: random.Random,
) -> Attempt:
    """Make an attempt that has not begun."""
    (action,) = command.rule.actions
    kind = {"signal": _Signal, "http": _Call, "restart": _Restart}.get(action.kind, Attempt)
    return kind(command, history, process, settings, chance)
