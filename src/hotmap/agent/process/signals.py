"""Sends a signal to just the process that was found.

A number that was read a moment ago may name another process. So a process is held by a pidfd, and
its start time is compared again after it is held.
"""

from __future__ import annotations

import errno
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
from hotmap.core.errors import os_reason

__all__ = ["open_pidfd", "send_reload", "send_signal", "signal_name"]


def open_pidfd(process: Process) -> int:
    """Open a pidfd of a process, and check that it is still the one that was found.

    Raises:
        ProcessError: it has exited, or the kernel gives none.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (ProcessLookupError, FileNotFoundError):  # the latter while it is being reaped
        raise ProcessError(f"process {process.pid} has exited") from None
    except OSError as error:
        reason = f"cannot open process {process.pid}: {os_reason(error)}"
        if error.errno in (errno.ENOSYS, errno.EPERM):
            reason += (
                "; the kernel, its sandbox or a seccomp profile does not permit pidfd_open(2), "
                "without which a signal may reach another process"
            )
        raise ProcessError(reason) from None
    try:
        is_same = start_ticks(process.pid) == process.started
    except ProcessError:
        os.close(descriptor)
        raise
    if not is_same:
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
        raise ProcessError(_why_not_permitted(process.pid)) from None
    except ProcessLookupError:
        raise ProcessError(f"process {process.pid} has exited") from None
    finally:
        os.close(descriptor)


def send_reload(process: Process, number: int) -> None:
    """Send a reload signal, unless the process has just started and would be killed by it.

    SIGHUP kills a program that has not set its handler yet. So during its first minute, a signal
    that it neither handles nor blocks nor ignores is not sent, unless the signal is meant to stop a
    process. Later it is sent in any case: a thread that waits for it in sigwait(3) looks as if it
    did not block it, and is not recognised everywhere. The runtime of Go catches every signal
    before the program has asked for one, and still exits, so a Go program has to be older than
    some seconds. A Java virtual machine does so too, and its programs start slowly: no signal is
    sent to one in its first minute. A program that had a handler at the last signal and has none
    now executes itself again, so it gets another minute.

    Raises:
        ProcessError: it is not ready yet, ignores the signal, has exited, or permission is denied.
    """
    send_signal(process, 0)
    if number not in _HARMLESS_OR_MEANT and _is_ignored(process, number):
        raise ProcessError(
            f"process {process.pid} ignores {signal_name(number)}, so it would load nothing"
        )
    if number not in _HARMLESS_OR_MEANT and not _is_ready_for(process, number):
        raise ProcessError(
            f"process {process.pid} has just started and may not handle {signal_name(number)} "
            "yet, which would kill it"
        )
    is_caught = _is_caught(process, number)
    send_signal(process, number)
    if is_caught:
        _caught[process, number] = since_boot()


#: Seconds that a program may take to set its handlers. gunicorn needs 0.3, and more than five on a
#: node that starts several pods from a cold disk.
_STARTUP = 60.0

#: The same for a program in Go, which sets them within milliseconds, and does not show that.
_STARTUP_OF_GO = 10.0

#: By process and signal: when it was sent to a handler last, for a minute.
_caught: dict[tuple[Process, int], float] = {}

#: Seconds; Go takes some 30 µs for all of its handlers. It may have to wait for a processor in
#: between: then the process is young, and has a handler of a signal that other programs rarely
#: catch, or none of it and the later ones yet, as of TERM.
_ADDING_HANDLERS = 0.002
_ADDING_HANDLERS_LATE = 0.03
_RARELY_CAUGHT = 1 << (signal.SIGTRAP - 1)

#: Signals 35 to 64, all of which the runtime of Go catches, and hardly anything else does.
_CAUGHT_BY_GO = sum(1 << (number - 1) for number in range(35, 65))

#: What a Java virtual machine catches before it catches HUP, to shut down, and then still does
#: (jdk: src/hotspot/os/posix/signals_posix.cpp).
_CAUGHT_BY_JAVA = sum(
    1 << (number - 1)
    for number in (
        signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGPIPE, signal.SIGXFSZ,
    )
)  # fmt: skip

#: Signals whose default action is what the sender wants, or nothing.
_HARMLESS_OR_MEANT = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGABRT,
    signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
)  # fmt: skip


def _is_ready_for(process: Process, number: int) -> bool:
    """Whether a signal does not kill a process; seen twice, since Go adds handlers one by one."""
    now = since_boot()
    for each in [each for each, at in _caught.items() if now - at >= _STARTUP]:
        del _caught[each]
    age = now - started_at(process)
    if age >= _STARTUP and (process, number) not in _caught:
        return True
    for is_last in (False, True):
        masks = _signal_masks(f"/proc/{process.pid}/status")
        # While the runtime of Go starts a thread, it blocks all signals instead.
        if any(masks[name] & _CAUGHT_BY_GO == _CAUGHT_BY_GO for name in ("SigCgt", "SigBlk")):
            return age >= _STARTUP_OF_GO
        if number == signal.SIGHUP and masks["SigCgt"] & _CAUGHT_BY_JAVA == _CAUGHT_BY_JAVA:
            return age >= _STARTUP
        if not any(mask >> (number - 1) & 1 for mask in masks.values()):
            return _is_awaited(process.pid, number)
        if not is_last:
            caught = masks["SigCgt"]
            is_late = age < 1 and (caught & _RARELY_CAUGHT or caught < _RARELY_CAUGHT)
            time.sleep(_ADDING_HANDLERS_LATE if is_late else _ADDING_HANDLERS)
    return True


def _is_caught(process: Process, number: int) -> bool:
    """Whether a process has a handler for a signal; execve(2) removes it."""
    return bool(_signal_masks(f"/proc/{process.pid}/status")["SigCgt"] >> (number - 1) & 1)


def _is_ignored(process: Process, number: int) -> bool:
    """Whether the kernel drops a signal to a process; not while its first thread blocks it.

    In sigwait(3) it does not seem to (linux: kernel/signal.c, sig_ignored), so where the kernel
    does not say what that thread waits for, this is False.
    """
    masks = _signal_masks(f"/proc/{process.pid}/status")
    bit = number - 1
    if not masks["SigIgn"] >> bit & 1 or masks["SigBlk"] >> bit & 1:
        return False
    waits_in = read_proc(f"/proc/{process.pid}/wchan")
    return waits_in not in ("", "0") and "sigtimedwait" not in waits_in


def _is_awaited(pid: int, number: int) -> bool:
    """Whether a thread of a process waits in sigwait(3), and all others do or block the signal.

    The kernel gives a signal to any thread that does not block it. Where none waits, all of them
    block it for a moment only: the runtime of Go does while it starts a thread.
    """
    try:
        threads = [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return False
    others = [each for each in threads if "sigtimedwait" not in read_proc(f"{each}/wchan")]
    return len(others) < len(threads) and all(
        _signal_masks(f"{each}/status")["SigBlk"] >> (number - 1) & 1 for each in others
    )


def _signal_masks(path: str) -> dict[str, int]:
    """Read what proc(5) status shows as blocked, ignored and caught."""
    masks = {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}
    for line in read_proc(path).split("\n"):
        name, _, mask = line.partition(":")
        if name in masks:
            masks[name] = int(mask, 16)
    return masks


def signal_name(number: int) -> str:
    """Name a signal without SIG; a real-time signal has a number only."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"signal {number}"


def _why_not_permitted(pid: int) -> str:
    """Describe why the kernel does not permit a signal to a process."""
    user, ours = _user(pid), str(os.geteuid())
    if user == ours:
        return (
            f"may not signal process {pid}, though both run as user {ours}: an AppArmor, SELinux "
            "or seccomp profile denies it; set the same profiles for both containers"
        )
    return (
        f"process {pid} runs as user {user}, the agent as user {ours}: set the same runAsUser for "
        "both containers"
    )


def _user(pid: int) -> str:
    try:
        return str(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "unknown"
