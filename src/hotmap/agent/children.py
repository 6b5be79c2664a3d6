"""Child processes with a deadline: commands, and functions that may block.

Whatever could hang (a check command, a webhook, a name that does not resolve) runs in a child, in
a process group of its own, and is killed when its time is over. So the loop never waits, one
rule's hanging endpoint is no other rule's trouble, and TLS costs memory only while it is used.
"""

from __future__ import annotations

import os
import signal
from collections import namedtuple

from hotmap.agent.loop import READ

__all__ = [
    "Children",
    "Outcome",
    "die_with_parent",
    "execute_program",
    "exit_status",
    "fork",
    "kill_group",
    "lead_group",
    "reset_signals",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NamedTuple, NoReturn

    from hotmap.agent.loop import Loop, Timer

    class Outcome(NamedTuple):
        status: int
        output: str
        late: bool

else:
    Outcome = namedtuple("Outcome", "status output late")
    Outcome.__doc__ = """How a child ended.

    status: its exit status, 128+n when signal n ended it, 126 or 127 when it could not be started
    output: the end of what it wrote, both streams together, made printable
    late: it was killed because its time was over
    """

#: Bytes of output that are kept, from its end.
_KEPT = 4096

#: What a forked function may give back: the answer of an endpoint, at most.
_KEPT_OF_FUNCTIONS = 1 << 20


def exit_status(code: int) -> int:
    """Turn what waitpid gives into an exit status as a shell shows it: 128+n for signal n."""
    if os.WIFSIGNALED(code):
        return 128 + os.WTERMSIG(code)
    return os.WEXITSTATUS(code)


class _Child:
    """A child that has not been reaped."""

    __slots__ = ("done", "kept", "late", "output", "pid", "reader", "timer")

    def __init__(self, pid: int, reader: int, kept: int, done: Callable[[Outcome], None]) -> None:
        self.pid = pid
        self.reader = reader
        self.kept = kept
        self.done = done
        self.output = b""
        self.late = False
        self.timer: Timer | None = None


class Children:
    """Starts children and reaps every process that ends, as PID 1 must."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._children: dict[int, _Child] = {}
        self._foreign: dict[int, Callable[[int], None]] = {}
        loop.on_signals([signal.SIGCHLD], self._reap)

    def command(
        self,
        words: Sequence[str],
        *,
        seconds: float,
        done: Callable[[Outcome], None],
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Run a command without a shell; `done` is called from the loop when it has ended.

        Its standard input is empty. What it leaves running in its process group ends with it.
        """

        def execute(_: int) -> NoReturn:
            execute_program(words, environment)

        return self._start(execute, seconds, _KEPT, done)

    def function(
        self, call: Callable[[], str], *, seconds: float, done: Callable[[Outcome], None]
    ) -> int:
        """Run a function in a forked child: its text is the output, an exception is status 1."""

        def answer(writer: int) -> NoReturn:
            status = 0
            try:
                text = call()
            except Exception as error:
                text, status = str(error) or type(error).__name__, 1
            data = text.encode("utf-8", "backslashreplace")[:_KEPT_OF_FUNCTIONS]
            while data:
                data = data[os.write(writer, data) :]
            os._exit(status)

        return self._start(answer, seconds, _KEPT_OF_FUNCTIONS, done)

    def adopt(self, pid: int, ended: Callable[[int], None]) -> None:
        """Call with the exit status once a child that somebody else started has ended."""
        self._foreign[pid] = ended

    def kill_all(self) -> None:
        """Kill every child that was started here, with its process group; nobody is told."""
        for child in self._children.values():
            child.done = _nobody
            kill_group(child.pid)

    def _start(
        self,
        run: Callable[[int], NoReturn],
        seconds: float,
        kept: int,
        done: Callable[[Outcome], None],
    ) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        pid = fork()
        if pid == 0:
            _become(run, writer)
        lead_group(pid)  # by both, since nobody knows which of them comes first
        os.close(writer)
        os.set_blocking(reader, False)
        child = self._children[pid] = _Child(pid, reader, kept, done)
        self._loop.watch(reader, READ, lambda: self._read(child))
        child.timer = self._loop.after(seconds, lambda: self._end(child))
        return pid

    def _end(self, child: _Child) -> None:
        child.late = True
        kill_group(child.pid)

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
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            pid = found.si_pid
            if pid in self._children or pid in self._foreign:
                # What it had started is part of it, and ends before the number is free again.
                kill_group(pid)
            status = exit_status(os.waitpid(pid, 0)[1])
            if (child := self._children.pop(pid, None)) is not None:
                self._ended(child, status)
            elif (ended := self._foreign.pop(pid, None)) is not None:
                ended(status)

    def _ended(self, child: _Child, status: int) -> None:
        self._read(child)
        self._loop.forget(child.reader)
        os.close(child.reader)
        if child.timer is not None:
            child.timer.cancel()
        child.done(Outcome(status, _printable(child.output), child.late))


def execute_program(words: Sequence[str], environment: Mapping[str, str] | None) -> NoReturn:
    """Become a program; ends with 127 when there is none of that name, 126 when it cannot run."""
    try:
        if environment is None:
            os.execvp(words[0], list(words))
        os.execvpe(words[0], list(words), dict(environment))
    except FileNotFoundError:
        _complain(f"{words[0]}: no such program\n")
        os._exit(127)
    except (OSError, ValueError) as error:
        _complain(f"{words[0]}: {error}\n")
        os._exit(126)


def die_with_parent() -> None:
    """Let the kernel kill a forked child when the agent is killed, where it can (prctl(2)).

    In a container whose PID 1 the agent is, that happens anyway.
    """
    try:
        import ctypes

        set_parent_death_signal = 1  # linux: include/uapi/linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
    except (ImportError, AttributeError, OSError):
        return


def _become(run: Callable[[int], NoReturn], writer: int) -> NoReturn:
    try:
        lead_group(0)
        die_with_parent()
        reset_signals()
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        run(writer)
    finally:
        os._exit(126)


def fork() -> int:
    """Fork with all signals blocked in the child, until it calls `reset_signals`.

    Otherwise a signal that is sent to it at once would be taken by our own handlers, which it
    still has: the child would not hear it, and we would, through the pipe that it shares.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid != 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def reset_signals() -> None:
    """Give a forked child the signals of a fresh process: nothing caught, ignored or blocked."""
    signal.set_wakeup_fd(-1)
    for number in (
        *(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP),
        *(signal.SIGPIPE, signal.SIGXFSZ),
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _complain(text: str) -> None:
    os.write(2, text.encode("utf-8", "backslashreplace"))


def lead_group(pid: int) -> None:
    """Give a child that was just forked a process group of its own; 0 is the child itself."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        return  # it has called exec, or ended: it was first


def kill_group(pid: int) -> None:
    """Kill what is left of the process group that a child leads; no error if that is nothing.

    A program that wants to outlive the one that started it takes its own session.
    """
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _nobody(_: Outcome) -> None:
    """Take an outcome that nobody waits for any more."""


def _printable(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()
