"""Finds the process that a signal is for, and sends it; says why it cannot when it cannot.

Process numbers are used again, and a number that was read a moment ago may name another process.
So a process is held by a pidfd, and what it is, is looked at again after it is held.
"""

from __future__ import annotations

import os
import signal
from collections import namedtuple

from hotmap.agent.clock import WallClock, since_boot

__all__ = [
    "Process",
    "ProcessError",
    "children_of",
    "command_of",
    "find",
    "hold",
    "look_at_the_clock",
    "send",
    "started_at",
    "started_process",
    "tell",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NamedTuple

    class Process(NamedTuple):
        pid: int
        started: int

else:
    Process = namedtuple("Process", "pid started")
    Process.__doc__ = "A process: its number, and when it started, in clock ticks since boot."

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessError(Exception):
    """Raised when no process, or not exactly one, can be found or told; one sentence."""


def find(target: str) -> Process:
    """Find the one process that `pidfile:PATH`, `name:NAME` or `command:TEXT` names.

    Of a process and its children with one name (a master and its workers) the eldest is meant.

    Raises:
        ProcessError: there is none, or there are several; the text says what to do.
    """
    kind, _, value = target.partition(":")
    if kind == "pidfile":
        return _from_file(value)
    found = {one.pid: one for one in _matching(kind, value)}
    eldest = [one for one in found.values() if _parent(one.pid) not in found]
    if not eldest:
        raise ProcessError(f"no process with {kind} {value} is visible{_why_invisible()}")
    if len(eldest) > 1:
        pids = ", ".join(str(one.pid) for one in sorted(eldest))
        raise ProcessError(
            f"{len(eldest)} processes have {kind} {value} ({pids}); name one of them"
        )
    return eldest[0]


def hold(process: Process) -> int:
    """Open a pidfd of a process, after making sure that it is still the one that was found.

    Raises:
        ProcessError: it has ended.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        raise ProcessError(f"process {process.pid} has ended") from None
    if _started(process.pid) != process.started:
        os.close(descriptor)
        raise ProcessError(f"process {process.pid} has ended, and its number is used again")
    return descriptor


def send(process: Process, number: int) -> None:
    """Send a signal to a process, and to no other one that has its number by now.

    Raises:
        ProcessError: it has ended, or we may not.
    """
    descriptor = hold(process)
    try:
        signal.pidfd_send_signal(descriptor, number)
    except PermissionError:
        raise ProcessError(
            f"process {process.pid} runs as user {_user(process.pid)} and we as user "
            f"{os.geteuid()}, so we may not signal it: give both containers the same runAsUser"
        ) from None
    except ProcessLookupError:
        raise ProcessError(f"process {process.pid} has ended") from None
    finally:
        os.close(descriptor)


def tell(process: Process, number: int) -> None:
    """Send a process a signal, unless it is so young that the signal would be its end.

    A program takes HUP for its end until it has set its handler. So while it is young, a signal
    that it neither catches nor blocks nor ignores is not sent, unless ending a process is what
    such a signal is for. One that waits by sigwait(3) looks as if it did not block, which is why
    this ends with its youth.

    Raises:
        ProcessError: it is not ready yet, it has ended, or we may not.
    """
    send(process, 0)
    if (
        number not in _NEVER_BY_SURPRISE
        and since_boot() - started_at(process) < _YOUNG
        and not _is_ready_for(process.pid, number)
    ):
        raise ProcessError(
            f"process {process.pid} has just begun and does not handle {_signal_name(number)} "
            "yet, so the signal would end it"
        )
    send(process, number)


#: Seconds that a program gets to set its handlers; ours, a JVM takes about one.
_YOUNG = 5.0

#: Signals whose default action is what somebody who sends them wants, or is nothing.
_NEVER_BY_SURPRISE = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGABRT,
    signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
)  # fmt: skip


def _is_ready_for(pid: int, number: int) -> bool:
    """Look at the signal masks of proc(5) status; a process that blocks a signal waits for it."""
    masks = 0
    for line in _read(f"/proc/{pid}/status").split("\n"):
        name, _, mask = line.partition(":")
        if name in ("SigBlk", "SigIgn", "SigCgt"):
            masks |= int(mask, 16)
    return bool(masks >> (number - 1) & 1)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"signal {number}"


def started_at(process: Process) -> float:
    """Tell when a process started, in seconds since boot, rounded down to a clock tick."""
    return process.started / _TICKS


def started_process(pid: int) -> Process | None:
    """Name the process that has a number now; None when none that runs has it."""
    started = _started(pid)
    return None if started is None else Process(pid, started)


def children_of(pid: int) -> list[Process]:
    """List the children of a process that are running now."""
    return [
        Process(one, started)
        for one in _pids()
        if _parent(one) == pid and (started := _started(one)) is not None
    ]


def _from_file(path: str) -> Process:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(64).split()
    except FileNotFoundError:
        raise ProcessError(f"{path} is not there, so the process is not known yet") from None
    except OSError as error:
        raise ProcessError(f"{path} cannot be read: {(error.strerror or '').lower()}") from None
    if not text or not text[0].isdecimal() or int(text[0]) < 1:
        raise ProcessError(f"{path} holds no process number")
    pid = int(text[0])
    started = _started(pid)
    if started is None:
        raise ProcessError(f"{path} names process {pid}, which is not running{_why_invisible()}")
    process = Process(pid, started)
    try:
        found = os.stat(path)
    except OSError:
        raise ProcessError(f"{path} is not there any more") from None
    written = (found.st_ino, found.st_mtime_ns)
    known = _trusted.get(path)
    if known is None or known[0] != written:
        # Programs write it after they started; two seconds are for clocks that differ in their
        # steps, and for those who write it a moment before.
        if started_at(process) > _wall_clock.at_the_latest(found.st_mtime) + 2:
            raise ProcessError(
                f"{path} is older than process {pid}, so it names another one; if the clock was "
                "set meanwhile, write the file again"
            )
    elif known[1] != process:
        raise ProcessError(f"{path} named a process that has ended, and its number is used again")
    _trusted[path] = (written, process)
    return process


def look_at_the_clock() -> None:
    """Take note of how the wall clock stands; to be called now and then, since it can be set."""
    _wall_clock.look()


_wall_clock = WallClock()

#: By pid file: which writing of it, and the process that it named then. It stays right for both,
#: however the clock jumps.
_trusted: dict[str, tuple[tuple[int, int], Process]] = {}


def _matching(kind: str, value: str) -> Iterator[Process]:
    ours = os.getpid()
    for pid in _pids():
        if pid == ours or _is_ours(pid, ours):
            continue
        if (_has_name(pid, value) if kind == "name" else value in command_of(pid)) and (
            started := _started(pid)
        ) is not None:
            yield Process(pid, started)


def _is_ours(pid: int, ours: int) -> bool:
    """Tell whether a process is a step of the agent (a forked copy of it), not an application."""
    return _parent(pid) == ours and command_of(pid) == command_of(ours)


def _has_name(pid: int, name: str) -> bool:
    words = command_of(pid).split(" ")
    # nginx and postgres rewrite their command line to "nginx: master process …".
    first = words[0].rstrip(":").rpartition("/")[2]
    return name in (first, _read(f"/proc/{pid}/comm").strip())


def command_of(pid: int) -> str:
    """Read a process's command line as it is now, on one line; "" when there is none."""
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ").replace("\n", " ").strip()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _started(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in ("Z", "X") else None


def _stat(pid: int) -> list[str]:
    """Read the fields of proc(5) stat after the name, which may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(") ")[2].split()


def _user(pid: int) -> str:
    try:
        return str(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "unknown"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _why_invisible() -> str:
    """Explain the usual reason: a process namespace of our own, in which we are number 1."""
    if os.getpid() == 1:
        return "; the pod needs shareProcessNamespace: true"
    return ""
