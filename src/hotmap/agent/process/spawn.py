"""Fork and exec, as a parent of processes that take signals should."""

from __future__ import annotations

import os
import signal

__all__ = [
    "die_with_parent",
    "disable_core_dumps",
    "execute_program",
    "exit_status",
    "fork",
    "kill_group",
    "lead_group",
    "open_standard_streams",
    "pass_terminal",
    "reset_signals",
    "take_orphans",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

#: Number of standard error.
_LAST_STREAM = 2

# linux: include/uapi/linux/prctl.h
_SET_DUMPABLE = 4
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36


def exit_status(code: int) -> int:
    """Convert a wait status to an exit status as a shell shows it: 128+n for signal n."""
    if os.WIFSIGNALED(code):
        return 128 + os.WTERMSIG(code)
    return os.WEXITSTATUS(code)


def fork() -> int:
    """Fork with all signals blocked in the child, until it calls `reset_signals`.

    Otherwise a signal that is sent to it at once would go to our own handlers, which it still
    has: the child would lose it, and we would receive it, through the pipe that both share.

    Raises:
        OSError: there are too many processes, or there is too little memory.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def reset_signals() -> None:
    """Reset the signals of a forked child: nothing caught, ignored or blocked."""
    signal.set_wakeup_fd(-1)
    for number in (
        *(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP),
        *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU),
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def lead_group(pid: int) -> None:
    """Put a child that was just forked into its own process group; 0 is the calling process."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        return  # it has called exec or exited by now


def kill_group(pid: int) -> None:
    """Kill the rest of the process group that a child leads; an empty one is not an error.

    A program that should outlive the one that started it starts its own session.
    """
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def pass_terminal(old: int, new: int) -> bool:
    """Make a process group the one that reads the terminal, if another one was that until now.

    The kernel stops a process of any other group that reads it. Without a terminal on standard
    input nothing happens, and neither where the terminal belongs to another job of a shell; False
    then.
    """
    # The kernel would stop the caller as well, since it is in another group at one of the calls.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        if not 0 < old == os.tcgetpgrp(0):  # 0: a group of another process namespace
            return False
        os.tcsetpgrp(0, new)
        return True
    except OSError:
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def execute_program(words: Sequence[str], environment: Mapping[str, str] | None) -> NoReturn:
    """Replace this process by a program; exits with 127 if there is none, 126 if it cannot run."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a function of ours may have ignored it
    try:
        if environment is None:
            os.execvp(words[0], list(words))
        os.execvpe(words[0], list(words), dict(environment))
    except FileNotFoundError:
        is_script = os.path.isfile(words[0])
        reason = "its interpreter does not exist" if is_script else "no such program"
        _write_error(f"{words[0]}: {reason}\n")
        os._exit(127)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        _write_error(f"{words[0]} cannot be started: {reason}\n")
        os._exit(126)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill a forked child when the agent is killed, where it can (prctl(2)).

    In a container whose PID 1 is the agent, that happens anyway. `parent` is the agent's process
    number: one that was killed before this call would not be noticed.
    """
    _prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(126)


def take_orphans() -> bool:
    """Become the parent of orphaned descendants, as PID 1 is anyway (prctl(2)).

    False when the kernel or this Python cannot do that.
    """
    return os.getpid() == 1 or _prctl(_SET_CHILD_SUBREAPER, 1)


def disable_core_dumps() -> None:
    """Keep the memory of the agent, which reads mounted Secrets, from core files (prctl(2)).

    Only its own: an application that it starts has dumps as without it, since exec resets the flag.
    RLIMIT_CORE would be inherited.
    """
    _prctl(_SET_DUMPABLE, 0)


def open_standard_streams() -> None:
    """Open /dev/null in place of standard streams that are closed.

    Otherwise the next files get their numbers: the log would be written into one of them, and an
    application would inherit it.
    """
    while (descriptor := os.open("/dev/null", os.O_RDWR)) <= _LAST_STREAM:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _prctl(option: int, argument: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def _write_error(text: str) -> None:
    os.write(2, text.encode("utf-8", "backslashreplace"))
