"""Child processes with a deadline: commands, and functions that may block.

Whatever could hang (a check command, a webhook, a name that does not resolve) runs in a child, in
its own process group, and is killed at its deadline. So the loop never waits, a rule whose endpoint
hangs delays no other rule, and TLS takes memory only while it is used.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.process.spawn import (
    die_with_parent,
    execute_program,
    exit_status,
    fork,
    kill_group,
    lead_group,
    reset_signals,
)
from hotmap.agent.runtime.errors import describe_unexpected
from hotmap.agent.runtime.loop import READ
from hotmap.core.value import Value

__all__ = ["ChildProcesses", "Outcome"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from hotmap.agent.runtime.loop import Loop, Timer

#: Bytes of output that are kept, from its end.
_KEPT = 4096

#: Bytes that a forked function may return: the responses of some endpoints, at most.
_KEPT_OF_FUNCTIONS = 8 << 20


class Outcome(Value):
    """How a child ended.

    status: its exit status, 128+n when signal n ended it, 126 or 127 when it could not be started
    output: of a command the end of what it wrote, both streams together, made printable;
        of a function what it returned
    timed_out: it was killed at its deadline
    started: False when there was no process; the output says why
    """

    status: int
    output: str
    timed_out: bool
    started: bool = True


class _Child:
    """A child that has not been reaped."""

    def __init__(self, pid: int, reader: int, kept: int, done: Callable[[Outcome], None]) -> None:
        self.pid = pid
        self.reader = reader
        self.kept = kept
        self.done = done
        self.output = b""
        self.timed_out = False
        self.timer: Timer | None = None


class ChildProcesses:
    """Starts children and reaps every process that exits, as PID 1 must."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._children: dict[int, _Child] = {}
        self._adopted: dict[int, tuple[Callable[[int], None], Callable[[int], None]]] = {}
        loop.on_signals([signal.SIGCHLD], self._reap)

    def run_command(
        self,
        words: Sequence[str],
        *,
        seconds: float,
        done: Callable[[Outcome], None],
        environment: Mapping[str, str] | None,
    ) -> None:
        """Run a command without a shell; `done` is called from the loop when it has exited.

        Its standard input is empty. Then the rest of its process group is killed.
        """

        def execute(writer: int) -> NoReturn:
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            execute_program(words, environment)

        self._start(execute, seconds, _KEPT, done)

    def run_function(
        self, call: Callable[[], str], *, seconds: float, done: Callable[[Outcome], None]
    ) -> Callable[[], None]:
        """Run a function in a forked child: its text is the output, an exception is status 1.

        The text has a pipe of its own. What the function or a program that it starts writes to the
        standard streams is dropped. Returns a function that kills it and drops its outcome.
        """

        def answer(writer: int) -> NoReturn:
            status = 0
            # An endpoint that has closed the connection is an error as any other.
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            try:
                text = call()
            except Exception as error:
                # The messages of others may quote what they met.
                ours = type(error).__module__.startswith("hotmap.")
                text, status = str(error) if ours else describe_unexpected(error), 1
            data = text.encode("utf-8", "backslashreplace")[:_KEPT_OF_FUNCTIONS]
            while data:
                data = data[os.write(writer, data) :]
            os._exit(status)

        return self._start(answer, seconds, _KEPT_OF_FUNCTIONS, done)

    def adopt(
        self, pid: int, *, ended: Callable[[int], None], stopped: Callable[[int], None]
    ) -> None:
        """Follow a child that was started elsewhere.

        ended: called with the exit status once it has exited
        stopped: called with the signal each time that one has stopped it
        """
        self._adopted[pid] = ended, stopped

    def pids(self) -> set[int]:
        """Return the process numbers of all children that were started here or adopted."""
        return {*self._children, *self._adopted}

    def kill_all(self) -> None:
        """Kill every child that was started here, with its process group, and drop its outcome."""
        for child in self._children.values():
            child.done = _ignore_outcome
            _kill(child)

    def _start(
        self,
        run: Callable[[int], NoReturn],
        seconds: float,
        kept: int,
        done: Callable[[Outcome], None],
    ) -> Callable[[], None]:
        reader = writer = -1
        agent = os.getpid()
        try:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            pid = fork()
        except OSError as error:
            for descriptor in (reader, writer):
                if descriptor >= 0:
                    os.close(descriptor)
            reason = f"cannot start a process: {describe_unexpected(error)}"
            failed = Outcome(126, reason, False, started=False)
            # From the loop, so that the caller has returned before `done` is called.
            return self._loop.after(0, lambda: done(failed)).cancel
        if pid == 0:
            _exec_child(run, writer, agent)
        lead_group(pid)  # by parent and child, since either may be first
        os.close(writer)
        os.set_blocking(reader, False)
        child = self._children[pid] = _Child(pid, reader, kept, done)
        self._loop.watch(reader, READ, lambda: self._read(child))
        child.timer = self._loop.after(seconds, lambda: self._end(child))
        return lambda: self._abandon(child)

    def _abandon(self, child: _Child) -> None:
        if self._children.get(child.pid) is child:
            child.done = _ignore_outcome
            _kill(child)

    def _end(self, child: _Child) -> None:
        child.timed_out = True
        _kill(child)

    def _read(self, child: _Child) -> None:
        while True:
            try:
                data = os.read(child.reader, 65536)
            except BlockingIOError:
                return
            if not data:
                self._loop.forget(child.reader)
                return
            child.output = (child.output + data)[-child.kept :]

    def _reap(self, _: int) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            pid = found.si_pid
            if found.si_code == os.CLD_STOPPED:
                self._on_stopped(pid, found.si_status)
                continue
            if pid in self._children or pid in self._adopted:
                # Before waitpid, so that its process group number is not reused yet.
                kill_group(pid)
            status = exit_status(os.waitpid(pid, 0)[1])
            if (child := self._children.pop(pid, None)) is not None:
                self._ended(child, status)
            elif (calls := self._adopted.pop(pid, None)) is not None:
                self._loop.guard(lambda ended=calls[0], status=status: ended(status))  # type: ignore[misc]

    def _on_stopped(self, pid: int, number: int) -> None:
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)  # it is reported once
        if pid in self._adopted:
            self._loop.guard(lambda: self._adopted[pid][1](number))

    def _ended(self, child: _Child, status: int) -> None:
        self._read(child)
        self._loop.forget(child.reader)
        os.close(child.reader)
        if child.timer is not None:
            child.timer.cancel()
        outcome = Outcome(status, _printable(child.output), child.timed_out)
        self._loop.guard(lambda: child.done(outcome))


def _exec_child(run: Callable[[int], NoReturn], writer: int, agent: int) -> NoReturn:
    try:
        lead_group(0)
        die_with_parent(agent)
        reset_signals()
        nothing = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        run(writer)
    finally:
        os._exit(126)


def _kill(child: _Child) -> None:
    """Kill a child that has not been reaped, with its process group."""
    kill_group(child.pid)
    try:
        os.kill(child.pid, signal.SIGKILL)  # by itself as well: it may have left its group
    except PermissionError:
        return  # it runs as another user


def _ignore_outcome(_: Outcome) -> None:
    """Drop the outcome of a child that was killed at the end."""


def _printable(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()
