"""The processes of one cluster: start, stop, pause, kill, and who is still there.

A component is known by process id *and* start time, so that a reused id is never mistaken for
it. Everything that is started also carries the cluster's folder in its environment; children of
a component inherit it (containerd's shims), which is how `leftovers` finds what has no record.
"""

import enum
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import TestBedError

MARK = "HOTMAP_TESTBED_CLUSTER"
PROC = Path("/proc")
# What components inherit from the caller, with how often Go collects garbage; its HTTP proxy or
# other Go settings are not theirs.
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "GOGC")


class State(enum.StrEnum):
    """What has become of a component."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    PAUSED = "paused"
    KILLED = "killed"  # it was started, was not stopped, and is gone


@dataclass(frozen=True)
class Component:
    """One program of the cluster, how it is run and how to ask whether it works."""

    name: str
    command: tuple[str, ...]
    # Returns None when healthy, else the reason in a few words. Must return within seconds.
    ask: Callable[[], str | None]
    listens: tuple[str, ...] = ()  # names in layout.PORTS
    seconds: float = 60  # from start until it must be healthy, on a busy machine


@dataclass(frozen=True)
class Process:
    """A process that cannot be confused with a later one of the same id."""

    pid: int
    started: int  # clock ticks since boot (proc(5), /proc/PID/stat, field 22)


class Processes:
    """The processes of the cluster in one folder."""

    def __init__(self, folder: Path) -> None:
        self._mark = f"{MARK}={folder}"
        self._records = folder / "run"
        self._logs = folder / "log"

    def start(self, component: Component) -> bool:
        """Start a component unless it runs; tell whether it was started.

        Its output is appended to log/NAME.log. It outlives the caller, in a session of its own.
        """
        self._records.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        if self.state(component.name) in (State.RUNNING, State.PAUSED) or self._adopt(component):
            return False
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        name, _, value = self._mark.partition("=")
        appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            # Not subprocess: its objects insist on being waited for, and these are to outlive us.
            pid = os.posix_spawnp(
                component.command[0],
                component.command,
                {**environment, name: value},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(self.log(component.name)), appending, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except FileNotFoundError:
            raise TestBedError(f"{component.command[0]} is not installed.") from None
        self._await_exec(pid)
        self._write_record(component.name, current(pid))
        return True

    def _await_exec(self, pid: int) -> None:
        """Wait until a child shows its mark; the kernel lets its parent go on a moment before."""
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            with suppress(OSError):
                if self._mark.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                    return
            time.sleep(0.001)

    def state(self, name: str) -> State:
        """Return what has become of a component."""
        process = self.process(name)
        if process is None:
            return State.NOT_STARTED
        return _state(process)

    def process(self, name: str) -> Process | None:
        """Return the process that was started for a component, dead or alive."""
        try:
            return Process(*json.loads(self._record(name).read_text()))
        except (FileNotFoundError, ValueError):
            return None

    def log(self, name: str) -> Path:
        """Return the log file of a component."""
        return self._logs / f"{name}.log"

    def stop(self, name: str, *, seconds: float = 10) -> None:
        """End a component: SIGTERM, and SIGKILL if it is still there after `seconds`."""
        if process := self.process(name):
            end(process, seconds=seconds)
        self._record(name).unlink(missing_ok=True)

    def kill(self, name: str) -> None:
        """Kill a component as a crash would; its record stays, so that `state` says killed."""
        self._signal(name, signal.SIGKILL)
        if process := self.process(name):
            end(process, seconds=0)

    def pause(self, name: str) -> None:
        """Stop a component's clock (SIGSTOP): connections stay open and nothing answers."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused component go on."""
        self._signal(name, signal.SIGCONT)

    def names(self) -> list[str]:
        """List the components that have a record, in no particular order."""
        return [path.stem for path in self._records.glob("*.json")]

    def leftovers(self) -> list[Process]:
        """List every living process that carries this cluster's mark, recorded or not."""
        wanted = self._mark.encode()
        found = []
        for path in PROC.glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    process = Process(int(path.name), _stat(int(path.name))[1])
                    if _state(process) in (State.RUNNING, State.PAUSED):
                        found.append(process)
        return found

    def _adopt(self, component: Component) -> bool:
        """Record a component whose starter was killed before it could."""
        wanted = b"\0".join(part.encode() for part in component.command) + b"\0"
        for process in self.leftovers():
            with suppress(OSError):
                if (PROC / str(process.pid) / "cmdline").read_bytes() == wanted:
                    self._write_record(component.name, process)
                    return True
        return False

    def _write_record(self, name: str, process: Process) -> None:
        partial = self._record(name).with_suffix(".partial")
        partial.write_text(json.dumps([process.pid, process.started]))
        partial.rename(self._record(name))

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.process(name)
        if process is None or _state(process) is State.KILLED:
            raise TestBedError(f"{name} does not run, so it cannot be sent {number.name}.")
        with _opened(process) as descriptor:
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, number)

    def _record(self, name: str) -> Path:
        return self._records / f"{name}.json"


def end(process: Process, *, seconds: float) -> None:
    """End a process and wait until it is gone; after `seconds` of grace, by SIGKILL."""
    with _opened(process) as descriptor:
        if descriptor is None:
            return
        with suppress(ProcessLookupError):
            if seconds > 0:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            if not wait_gone(descriptor, seconds):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                wait_gone(descriptor, 10)
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def wait_gone(descriptor: int, seconds: float | None) -> bool:
    """Wait until the process of a pidfd has ended, zombie or not; False after `seconds`."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def current(pid: int) -> Process:
    """Return the process that has this id now.

    Raises:
        ProcessLookupError: there is none.
    """
    try:
        return Process(pid, _stat(pid)[1])
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None


def resident_bytes(process: Process) -> int:
    """Return the memory a process holds (VmRSS), 0 when it is gone."""
    with suppress(OSError):
        pages = int((PROC / str(process.pid) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextmanager
def _opened(process: Process) -> Iterator[int | None]:
    """Yield a pidfd of exactly this process, or None when it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (ProcessLookupError, FileNotFoundError):  # the latter while it is being reaped
        yield None
        return
    try:
        yield descriptor if _state(process) is not State.KILLED else None
    finally:
        os.close(descriptor)


def _state(process: Process) -> State:
    try:
        letter, started = _stat(process.pid)
    except (FileNotFoundError, ProcessLookupError):
        return State.KILLED
    # Z: ended, and its parent has not asked yet; the init of a container may take seconds.
    if started != process.started or letter in "ZX":
        return State.KILLED
    return State.PAUSED if letter in "Tt" else State.RUNNING


def _stat(pid: int) -> tuple[str, int]:
    """Return a process's state letter and start time; the name before them may hold anything."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])
