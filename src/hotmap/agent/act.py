"""Carries one rule's actions out, in order, and lets its probes confirm them.

Never blocks: what may take time runs in a child with a deadline. An attempt ends once, with the
number of the action that failed, or with none. Actions before it are not done again for the same
content; a probe that does not confirm starts over at the first.
"""

from __future__ import annotations

import os
import signal
from collections import namedtuple

from hotmap.agent.exchange import Exchange, is_plain
from hotmap.agent.http import request
from hotmap.agent.loop import READ
from hotmap.agent.probes import confirm, look_before
from hotmap.agent.processes import (
    Process,
    ProcessError,
    find,
    hold,
    send,
    started_at,
    tell,
)

__all__ = ["Attempt", "Surroundings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NamedTuple

    from hotmap.agent.children import Children, Outcome
    from hotmap.agent.http import Answer, Call
    from hotmap.agent.loop import Loop
    from hotmap.agent.settings import Action, Rule, Settings

    class Surroundings(NamedTuple):
        loop: Loop
        children: Children
        settings: Settings
        child: Callable[[], Process | None]
        restart: Callable[[Callable[[], None]], None]
        restart_all: Callable[[], None]
        called: Callable[[Call, int, float, str], None]

else:
    Surroundings = namedtuple(
        "Surroundings", "loop children settings child restart restart_all called"
    )
    Surroundings.__doc__ = """What attempts have in common. child: the supervised application;
    restart: restarts it; restart_all: makes the kubelet restart the pod's containers; called: is
    told each call's answer (status 0 for none), seconds and error."""


#: Seconds by which a container has to be younger than an announcement to have the new content: its
#: kubelet hears of sources by a watch of its own.
_KUBELET_LAG = 2.0


class Attempt:
    """One attempt to make a process load what changed."""

    def __init__(
        self,
        rule: Rule,
        position: int,
        changed: Sequence[str],
        wanted_since: float,
        surroundings: Surroundings,
        done: Callable[[str, int], None],
    ) -> None:
        """Prepare it; `changed` are files; `wanted_since` is a time of the loop."""
        self._rule = rule
        self._position = position
        self._changed = changed
        self._wanted_since = wanted_since
        self._around = surroundings
        self._done = done
        self._before: list[str] = []

    def start(self) -> None:
        """Begin; `done` is called with "" or an error, and the position to begin with next."""
        probes = self._rule.probes
        if not probes:
            self._act()
            return
        import json

        child = self._child_pid()

        def look() -> str:
            return json.dumps([look_before(probe, child) for probe in probes])

        def looked(outcome: Outcome) -> None:
            if outcome.status or outcome.late:
                self._done(outcome.output or "looking at the probes took too long", 0)
                return
            self._before = json.loads(outcome.output)
            self._act()

        self._around.children.function(
            look, seconds=self._around.settings.verify_seconds, done=looked
        )

    def _child_pid(self) -> int:
        child = self._around.child()
        return child.pid if child else 0

    def _act(self) -> None:
        if self._position == len(self._rule.actions):
            self._confirm()
            return
        action = self._rule.actions[self._position]
        perform = {
            "signal": self._signal,
            "http": self._http,
            "exec": self._exec,
            "touch": self._touch,
            "restart": self._restart,
            "none": self._nothing,
        }
        perform[action.kind](action)

    def _nothing(self, _: Action) -> None:
        self._next("")

    def _next(self, error: str) -> None:
        if error:
            self._done(error, self._position)
            return
        self._position += 1
        self._act()

    def _signal(self, action: Action) -> None:
        try:
            process = self._target(action)
            # One that has appeared just now read the content at its start. Where something has to
            # confirm a load there is to be one.
            if self._rule.probes or started_at(process) <= self._wanted_since:
                tell(process, action.signal)
        except ProcessError as error:
            self._next(str(error))
        else:
            self._next("")

    def _target(self, action: Action) -> Process:
        if action.target != "child":
            return find(action.target)
        child = self._around.child()
        if child is None:
            raise ProcessError("the application is not running")
        return child

    def _http(self, action: Action) -> None:
        call = action.call
        assert call is not None
        seconds = self._around.settings.action_seconds
        began = self._around.loop.now()

        def ended(status: int, reason: str, error: str) -> None:
            if not error and status not in call.statuses:
                wanted = ", ".join(map(str, call.statuses[:5]))
                error = f"{call.method} {call.url} answered {status} {reason}, not {wanted}"
            self._around.called(call, status, self._around.loop.now() - began, error)
            self._next(error)

        def answered(answer: Answer | None, error: str) -> None:
            ended(answer.status if answer else 0, answer.reason if answer else "", error)

        def send_it() -> str:
            answer = request(call, seconds=seconds)
            return f"{answer.status} {answer.reason}"

        def sent(outcome: Outcome) -> None:
            status, _, reason = outcome.output.partition(" ")
            if outcome.late:
                ended(0, "", f"{call.url} gave no answer within {seconds:g} s")
            elif outcome.status or not status.isdecimal():
                ended(0, "", outcome.output or f"{call.url} could not be called")
            else:
                ended(int(status), reason, "")

        if is_plain(call):
            Exchange(self._around.loop, call, seconds=seconds, done=answered)
        else:
            self._around.children.function(send_it, seconds=seconds, done=sent)

    def _exec(self, action: Action) -> None:
        seconds = self._around.settings.action_seconds
        environment = {
            **os.environ,
            "HOTMAP_RULE": self._rule.name,
            "HOTMAP_CHANGED": "\n".join(self._changed),
            "HOTMAP_DIRECTORIES": "\n".join(self._around.settings.directories),
        }
        self._around.children.command(
            action.command,
            seconds=seconds,
            environment=environment,
            done=lambda outcome: self._next(_complaint(action.command[0], outcome, seconds)),
        )

    def _touch(self, action: Action) -> None:
        try:
            os.close(os.open(action.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            os.utime(action.path)
        except OSError as error:
            self._next(f"{action.path} cannot be touched: {(error.strerror or '').lower()}")
        else:
            self._next("")

    def _restart(self, action: Action) -> None:
        if action.way == "supervised":
            self._around.restart(lambda: self._next(""))
        elif action.way == "all-containers":
            self._next("")
            self._around.restart_all()
        else:
            self._terminate(action)

    def _terminate(self, action: Action) -> None:
        """End the main process of another container; its kubelet starts the container again.

        One that began after the change has been restarted already, by itself or by an attempt
        that nobody could confirm.
        """
        loop = self._around.loop
        try:
            process = self._target(action)
            descriptor = hold(process)
        except ProcessError as error:
            self._next(str(error))
            return
        if started_at(process) > self._wanted_since + _KUBELET_LAG:
            os.close(descriptor)
            self._next("")
            return
        killer = loop.after(
            self._around.settings.grace, lambda: _signal_if_there(process, signal.SIGKILL)
        )

        def gone() -> None:
            loop.forget(descriptor)
            os.close(descriptor)
            killer.cancel()
            self._next("")

        loop.watch(descriptor, READ, gone)
        try:
            send(process, signal.SIGTERM)
        except ProcessError as error:
            loop.forget(descriptor)
            os.close(descriptor)
            killer.cancel()
            self._next(str(error))

    def _confirm(self) -> None:
        probes, before, child = self._rule.probes, self._before, self._child_pid()
        if not probes:
            self._done("", 0)
            return
        seconds = self._around.settings.verify_seconds

        def look() -> str:
            for probe, was in zip(probes, before, strict=True):
                confirm(probe, was, child, seconds=seconds)
            return ""

        def looked(outcome: Outcome) -> None:
            error = ""
            if outcome.status or outcome.late:
                error = outcome.output or f"not confirmed within {seconds:g} s"
            self._done(error, 0)

        self._around.children.function(look, seconds=seconds * len(probes) + 1, done=looked)


def _signal_if_there(process: Process, number: int) -> None:
    try:
        send(process, number)
    except ProcessError:
        return


def _complaint(name: str, outcome: Outcome, seconds: float) -> str:
    """Say how a command failed; what it printed goes where the operator put it, not here."""
    if outcome.late:
        return f"{name} did not end within {seconds:g} s and was killed"
    if outcome.status == 127:
        return f"{name} could not be started: no such program"
    if outcome.status:
        return f"{name} ended with status {outcome.status}{_tail(outcome.output)}"
    return ""


def _tail(output: str) -> str:
    return f": {output[-500:]}" if output else ""


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the files that are new, gone or different, by their digests."""
    paths = sorted(before.keys() | now.keys())
    return [path for path in paths if before.get(path) != now.get(path)]
