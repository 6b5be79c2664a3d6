"""Children of processes, as the kernel lists them."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent.agents import eventually, run_program

from hotmap.agent.process import process_table, signals
from hotmap.agent.process.process_table import (
    CHECK_MARK,
    ProcessError,
    children_of,
    command_of,
    executed_again_at,
    find,
    find_main,
    has_memory_of_parent,
    identify,
    parent_of,
    started_at,
)
from hotmap.agent.process.signals import send_reload, send_signal

#: Numbers of the system call that ends one thread.
EXIT = {"x86_64": 60, "aarch64": 93}


def test_process_without_children_has_none() -> None:
    with run_program(["sleep", "60"]) as sleep:
        assert children_of(sleep.pid) == []


def test_checker_that_ends_during_the_lookup_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has started after the content was there, so it would count as an application with it."""
    program = tmp_path / "a-checker"
    shutil.copy("/bin/sleep", program)
    with run_program([str(program), "60"], env={CHECK_MARK: "1"}) as checker:
        has_mark = process_table.has_mark

        def end_before(pid: int, name: str) -> bool:
            if pid == checker.pid:
                checker.kill()
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return has_mark(pid, name)

        monkeypatch.setattr(process_table, "has_mark", end_before)
        with pytest.raises(ProcessError, match="no process with name a-checker found"):
            find("name:a-checker")


def test_command_of_a_shell_is_found_rather_than_the_shell(tmp_path: Path) -> None:
    """A reload is for the program; a container ends with the shell, so a restart is for that."""
    program = tmp_path / "a-server"
    program.write_text(f"#!{sys.executable}\nprint(flush=True)\ninput()\n")
    program.chmod(0o755)
    command = ["sh", "-c", f"{program} | cat"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        found = find(f"command:{program}")
        assert found.pid in {child.pid for child in children_of(shell.pid)}
        assert find_main(f"command:{program}").pid == shell.pid
        shell.communicate(b"\n")


@pytest.mark.parametrize("option", ["", " -u"])
def test_script_with_a_long_name_is_found_by_it(tmp_path: Path, option: str) -> None:
    """The kernel keeps 15 characters of the name; they find it, too, and others do not."""
    program = tmp_path / "a-configuration-server"
    program.write_text(f"#!{sys.executable}{option}\nprint(flush=True)\ninput()\n")
    program.chmod(0o755)
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert find("name:a-configuration-server").pid == process.pid
        assert find("name:a-configuration").pid == process.pid
        with pytest.raises(ProcessError):
            find("name:a-configuration-reader")
        process.communicate(b"\n")


def test_shell_that_is_the_program_is_found() -> None:
    """Where no other process has the text in its command line."""
    pipe = subprocess.PIPE
    command = ["sh", "-c", ": a-script; echo; read line"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()  # it has a command line now
        assert find("command:a-script").pid == shell.pid
        shell.communicate(b"\n")


def test_children_of_all_threads_are_found() -> None:
    """The kernel lists those of each thread at that thread."""
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        ready.set()
        done.wait()

    ready = threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    ready.wait()
    try:
        assert started[0].pid in {child.pid for child in children_of(os.getpid())}
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        ("os.pidfd_open", errno.ENOSYS, "function not implemented; the kernel, its sandbox or"),
        ("os.pidfd_open", errno.EPERM, "operation not permitted; the kernel, its sandbox or"),
        ("os.pidfd_open", errno.EMFILE, "too many open files"),
        ("os.pidfd_open", errno.ESRCH, "has exited"),
        ("os.pidfd_open", errno.ENOENT, "has exited"),
        ("signal.pidfd_send_signal", errno.EPERM, "an AppArmor, SELinux or seccomp profile"),
    ],
)
def test_reason_why_a_process_cannot_be_signalled_is_given(
    call: str, error: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for one that has exited, or that runs as another user."""

    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    process = identify(os.getpid())
    assert process is not None
    monkeypatch.setattr(call, refuse)
    with pytest.raises(ProcessError, match=reason):
        send_signal(process, signal.SIGCONT)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("look", [identify, has_memory_of_parent, parent_of, command_of])
def test_process_that_cannot_be_looked_at_has_not_exited(
    look: Callable[[int], object], error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is there would count as replaced, and a fork as a program of its own."""

    def refuse(*_: object, **__: object) -> object:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ProcessError, match=f"cannot read /proc/{os.getpid()}/"):
        look(os.getpid())


#: A program whose first thread ends, while another one handles SIGHUP.
WITHOUT_FIRST_THREAD = """
import ctypes, signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
def handle():
    while True:
        signal.sigwait([signal.SIGHUP])
        print("handled", flush=True)
threading.Thread(target=handle).start()
print("started", flush=True)
libc = ctypes.CDLL(None)
libc.syscall(ctypes.c_long({exit}), ctypes.c_long(0))
"""


@pytest.mark.skipif(platform.machine() not in EXIT, reason="the number of exit(2) is not known")
def test_process_whose_first_thread_has_ended_is_signalled() -> None:
    """It looks as if it had ended, and its other threads run."""
    program = WITHOUT_FIRST_THREAD.format(exit=EXIT.get(platform.machine()))
    command = [sys.executable, "-S", "-c", program, "an-unusual-word"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "started\n"
            stat = Path(f"/proc/{process.pid}/stat")
            eventually(lambda: ") Z " in stat.read_text(), "the end of the first thread")
            found = find("command:an-unusual-word")
            assert found.pid == process.pid
            send_reload(found, signal.SIGHUP)
            assert process.stdout.readline() == "handled\n"
        finally:
            process.kill()
        process.wait()
        assert identify(process.pid) is None


ADDING_HANDLERS = """
import signal
def catch(numbers):
    for number in numbers:
        if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
            signal.signal(number, lambda *_: None)
    print(flush=True)
catch(range(1, {last} + 1))
input()
catch(range(1, 65))
input()
"""


@pytest.mark.parametrize("last", [signal.SIGHUP, signal.SIGILL, signal.SIGTRAP, signal.SIGTERM])
def test_program_that_adds_handlers_one_by_one_is_not_signalled(
    monkeypatch: pytest.MonkeyPatch, last: signal.Signals
) -> None:
    """The runtime of Go does, and may have to wait for a processor after any of them."""
    command = [sys.executable, "-c", ADDING_HANDLERS.format(last=int(last))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        given, printed = process.stdin, process.stdout
        assert given is not None
        assert printed is not None
        printed.readline()
        found = identify(process.pid)
        assert found is not None

        def sleep(seconds: float) -> None:
            """Let the program add the others in the longer pause."""
            if seconds >= 0.03:
                print(file=given, flush=True)
                printed.readline()

        monkeypatch.setattr(signals, "since_boot", lambda: started_at(found) + 0.5)
        monkeypatch.setattr(time, "sleep", sleep)
        with pytest.raises(ProcessError, match="may not handle HUP yet"):
            send_reload(found, signal.SIGHUP)
        monkeypatch.undo()
        process.communicate("\n")


def test_process_that_executes_another_program_is_seen() -> None:
    """Its number and its start stay the same."""
    command = ["sh", "-c", 'read line; exec sh -c "read line"']
    with subprocess.Popen(command, stdin=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        eventually(lambda: "exec" in process_table.command_of(shell.pid))
        process = identify(shell.pid)
        assert process is not None
        assert executed_again_at(process) == executed_again_at(process) == 0
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        at = eventually(lambda: executed_again_at(process))
        assert executed_again_at(process) == at, "only once"
        assert identify(shell.pid) == process
        shell.communicate(b"\n")


def test_message_lists_some_of_many_processes() -> None:
    """The first five are enough to see which they are."""
    command = [sys.executable, "-S", "-c", "input()", "another-unusual-word"]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(7)]
    try:
        pids = sorted(process.pid for process in started)
        for pid in pids:
            eventually(lambda pid=pid: "unusual" in process_table.command_of(pid))
        with pytest.raises(ProcessError) as caught:
            find("command:another-unusual-word")
    finally:
        for process in started:
            process.communicate(b"\n")
    listed = ", ".join(map(str, pids[:5]))
    assert f"7 processes have command another-unusual-word ({listed}, …)" in str(caught.value)
