"""Sends a signal to just the process that was found.

A number that was read a moment ago may name another process. So a process is held by a pidfd, and
its start time is compared again after it is held.
"""

from __future__ import annotations

import os
import signal
import time

from hotmap.agent.process.process_table import (
    Process,
    ProcessError,
    read_proc,
    start_ticks,
    started_at,
)
from hotmap.agent.runtime.clock import since_boot

__all__ = ["open_pidfd", "send_reload", "send_signal", "signal_name"]


def open_pidfd(process: Process) -> int:
    """Open a pidfd of a process, and check that it is still the one that was found.

    Raises:
        ProcessError: it has exited.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        raise ProcessError(f"process {process.pid} has exited") from None
    if start_ticks(process.pid) != process.started:
        os.close(descriptor)
        raise ProcessError(f"process {process.pid} has exited and its number was reused")
    return descriptor


def send_signal(process: Process, number: int) -> None:
    """Send a signal to a process, and never to another one with the same number.

    Raises:
        ProcessError: it has exited, or permission is denied.
    """
    descriptor = open_pidfd(process)
    try:
        signal.pidfd_send_signal(descriptor, number)
    except PermissionError:
        raise ProcessError(
            f"process {process.pid} runs as user {_user(process.pid)}, the agent as user "
            f"{os.geteuid()}: set the same runAsUser for both containers"
        ) from None
    except ProcessLookupError:
        raise ProcessError(f"process {process.pid} has exited") from None
    finally:
        os.close(descriptor)


def send_reload(process: Process, number: int) -> None:
    """Send a reload signal, unless the process has just started and would be killed by it.

    SIGHUP kills a program that has not set its handler yet. So during its first seconds, a signal
    that it neither catches nor blocks nor ignores is not sent, unless the signal is meant to stop
    a process. A process that waits in sigwait(3) looks as if it did not block, which is why this
    is limited to the first seconds. The runtime of Go catches every signal before the program has
    asked for one, and still exits, so a Go program has to be older than that.

    Raises:
        ProcessError: it is not ready yet, it has exited, or permission is denied.
    """
    send_signal(process, 0)
    if (
        number not in _HARMLESS_OR_MEANT
        and since_boot() - started_at(process) < _STARTUP
        and not _is_ready_for(process.pid, number)
    ):
        raise ProcessError(
            f"process {process.pid} has just started and may not handle {signal_name(number)} "
            "yet, which would kill it"
        )
    send_signal(process, number)


#: Seconds that a program has to set its handlers; ours, a JVM takes about one.
_STARTUP = 5.0

#: Seconds; Go takes some 30 µs for all of its handlers.
_ADDING_HANDLERS = 0.002

#: Signals 35 to 64, all of which the runtime of Go catches, and hardly anything else does.
_CAUGHT_BY_GO = sum(1 << (number - 1) for number in range(35, 65))

#: Signals whose default action is what the sender wants, or nothing.
_HARMLESS_OR_MEANT = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGABRT,
    signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
)  # fmt: skip


def _is_ready_for(pid: int, number: int) -> bool:
    """Whether a process handles a signal; seen twice, since Go adds its handlers one by one."""
    if not _handles(pid, number):
        return False
    time.sleep(_ADDING_HANDLERS)
    return _handles(pid, number)


def _handles(pid: int, number: int) -> bool:
    """Whether proc(5) status shows that a process catches, ignores or blocks a signal."""
    masks = {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}
    for line in read_proc(f"/proc/{pid}/status").split("\n"):
        name, _, mask = line.partition(":")
        if name in masks:
            masks[name] = int(mask, 16)
    if masks["SigCgt"] & _CAUGHT_BY_GO == _CAUGHT_BY_GO:
        return False
    return any(mask >> (number - 1) & 1 for mask in masks.values())


def signal_name(number: int) -> str:
    """Name a signal without SIG; a real-time signal has a number only."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"signal {number}"


def _user(pid: int) -> str:
    try:
        return str(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "unknown"
