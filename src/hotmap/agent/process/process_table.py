"""Finds processes in /proc: the one that a target names, its children, its start.

Process numbers are reused, so a process is its number together with its start time.
"""

from __future__ import annotations

import errno
import os

from hotmap.agent.runtime.clock import WallClock, since_boot
from hotmap.core.errors import os_reason
from hotmap.core.value import Value

__all__ = [
    "CHECK_MARK",
    "START_PRECISION",
    "Process",
    "ProcessError",
    "children_of",
    "command_of",
    "executed_again_at",
    "find",
    "find_main",
    "has_mark",
    "has_memory_of_parent",
    "identify",
    "is_stopped",
    "latest_since_boot",
    "listed_children_of",
    "name_this_process",
    "observe_wall_clock",
    "parent_of",
    "read_proc",
    "start_ticks",
    "started_at",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Characters of a command line in which it says that it is of a master: `nginx: master process …`.
_TITLE_LENGTH = 30

#: Numbers of processes in a message: with more, it would be another one each time that it is made.
_MAX_LISTED = 5

_SHELLS = ("sh", "bash", "dash", "ash")

#: Variable in the environment of check commands.
CHECK_MARK = "HOTMAP_CHECK"

#: The name of an agent's process, whatever it was started as; what it executes has another one.
_AGENT_NAME = "hotmap-agent"

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

#: Errors of a machine without descriptors or memory.
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

#: Of the flags of a process (linux: include/linux/sched.h, PF_FORKNOEXEC).
_FORKED_WITHOUT_EXEC = 0x40

#: Seconds in which a new master may have no worker yet: gunicorn starts none before it has imported
#: the application, if it preloads it.
_STARTUP_OF_MASTER = 60.0

#: Seconds by which the start of a process may be rounded down.
START_PRECISION = 1 / _TICKS_PER_SECOND


class Process(Value):
    """A process: its number, and when it started, in clock ticks since boot."""

    pid: int
    started: int


class ProcessError(Exception):
    """Raised when not exactly one process matches, or it cannot be signalled; one sentence.

    Also by each function here when the machine has no descriptors or no memory to look at one.
    """


def find(target: str) -> Process:
    """Find the process that `pidfile:PATH`, `name:NAME` or `command:TEXT` names.

    Of a process and its children with the same name (a master and its workers) it is the parent;
    of a shell and what its command runs, the latter; of two masters during an upgrade of the
    program, the one with workers.

    Raises:
        ProcessError: none or several match; the message says what to do.
    """
    return _serving(_named(target, _without_shells))


def find_main(target: str) -> Process:
    """Find the process that a container ends with: as `find`, but a shell, not its command.

    Raises:
        ProcessError: none or several match; the message says what to do.
    """
    return _serving(_named(target, dict))


def _named(target: str, select: Callable[[dict[int, Process]], dict[int, Process]]) -> Process:
    kind, _, value = target.partition(":")
    if kind == "pidfile":
        return _from_file(value)
    found = select({process.pid: process for process in _matching(kind, value)})
    parents = [process for process in found.values() if parent_of(process.pid) not in found]
    if not parents:
        raise ProcessError(f"no process with {kind} {value} found{_why_invisible()}")
    if len(parents) > 1:
        pids = ", ".join(str(process.pid) for process in sorted(parents)[:_MAX_LISTED])
        pids += ", …" if len(parents) > _MAX_LISTED else ""
        raise ProcessError(f"{len(parents)} processes have {kind} {value} ({pids}): use a pid file")
    return parents[0]


def _without_shells(found: dict[int, Process]) -> dict[int, Process]:
    """Leave out shells that run the command in their command line as another process.

    `sh -c "app | tee log"` does. A reload signal would end the shell, and its container with it.
    """
    others = {pid: process for pid, process in found.items() if not _is_shell_with_command(pid)}
    return others or found


def _is_shell_with_command(pid: int) -> bool:
    words = _read_of(pid, "cmdline").split("\0")
    is_shell = words[0].rpartition("/")[2] in _SHELLS
    return is_shell and words[1:2] != [] and words[1].startswith("-") and "c" in words[1]


def _serving(process: Process) -> Process:
    """Return the master with workers, where a process is a master beside another one.

    nginx and gunicorn start a new master as a child of the old one, at USR2; both serve until the
    old one's workers end.
    """
    parent = identify(parent_of(process.pid))
    is_second = parent is not None and _is_new_master(process.pid, parent.pid)
    first = parent if parent is not None and is_second else process
    children = children_of(first.pid)
    masters = [first, *(child for child in children if _is_new_master(child.pid, first.pid))]
    if len(masters) == 1:
        return process
    serving = [master for master in masters if _has_workers(master.pid)]
    if len(serving) > 1:
        pids = " and ".join(str(master.pid) for master in serving)
        raise ProcessError(f"{pids} are both masters with workers: an upgrade is not finished")
    if serving == [first]:
        _require_no_starting(masters[1:])
    return serving[0] if serving else process


def _require_no_starting(masters: Iterable[Process]) -> None:
    """Require that no new master is about to start workers, with what it has read by now."""
    for master in masters:
        if since_boot() - started_at(master) < _STARTUP_OF_MASTER:
            raise ProcessError(
                f"{master.pid} is a new master without workers: an upgrade is not finished"
            )


def _is_new_master(pid: int, parent: int) -> bool:
    """Whether a process is a master that its parent, another one, has started for an upgrade.

    nginx says in its command line what it is, and gunicorn if it can. Otherwise a master has
    executed the command of its parent once more, and its workers have not executed any.
    """
    if _is_titled_master(parent):
        return _is_titled_master(pid)
    return command_of(pid) == command_of(parent) != "" and not has_memory_of_parent(pid)


def _is_titled_master(pid: int) -> bool:
    return ": master" in command_of(pid)[:_TITLE_LENGTH]


def _has_workers(pid: int) -> bool:
    return any(
        has_memory_of_parent(child.pid) and not _is_titled_master(child.pid)
        for child in children_of(pid)
    )


def started_at(process: Process) -> float:
    """Return when a process started, in seconds since boot, rounded down to a clock tick."""
    return process.started / _TICKS_PER_SECOND


def latest_since_boot(date: float) -> float:
    """Return when a file was written, in seconds since boot, by the wall clock's offset now.

    Rounded down, by 10 ms at most. The result is wrong if the clock was set between that and the
    start of the agent.
    """
    return _wall_clock.latest_since_boot(date)


def identify(pid: int) -> Process | None:
    """Return the running process that has a number now; None without one."""
    started = start_ticks(pid)
    return None if started is None else Process(pid, started)


def has_memory_of_parent(pid: int) -> bool:
    """Whether a process is a fork that has executed no program since.

    It may have configuration that its parent has read, whenever it started itself: a daemon reads
    its configuration before it goes to the background.
    """
    fields = _stat(f"/proc/{pid}")
    return bool(fields) and bool(int(fields[6]) & _FORKED_WITHOUT_EXEC)


def executed_again_at(process: Process) -> float:
    """Return when a process was first seen to have executed a program since the look before.

    In seconds since boot; 0 where it has not, or where the kernel does not show it. Its number and
    its start stay the same then, and it reads its configuration again.
    """
    fields = _stat(f"/proc/{process.pid}")
    image = int(fields[25]) if fields else 0  # the start of its stack, which is random (ASLR)
    if process not in _images:
        for each in [each for each in _images if start_ticks(each.pid) != each.started]:
            del _images[each]
    before, at = _images.get(process, (image, 0.0))
    if image and before and image != before:
        at = since_boot()
    _images[process] = (image or before, at)
    return at


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process, so that it takes no other one but SIGKILL.

    False where that is unknown.
    """
    try:
        return _stat(f"/proc/{pid}")[:1] == ["T"]
    except ProcessError:
        return False


def has_mark(pid: int, name: str) -> bool:
    """Whether a process has a variable in the environment that it was started with."""
    return f"\0{name}=" in f"\0{_read_of(pid, 'environ')}"


def children_of(pid: int) -> list[Process]:
    """List the running children of a process."""
    if _has_no_children(pid):
        return []  # as of most programs that are told to reload; all processes need not be read
    return [
        Process(child, started)
        for child in _pids()
        if parent_of(child) == pid and (started := start_ticks(child)) is not None
    ]


def listed_children_of(pid: int) -> list[Process]:
    """List children of a process as the kernel does, without a look at any other process.

    Quick, and for what it shows only: one that exits meanwhile may hide another, and a kernel
    without CONFIG_PROC_CHILDREN lists none (proc(5)).
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    words = " ".join(read_proc(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    found = (identify(int(word)) for word in words.split())
    return [process for process in found if process is not None]


def _has_no_children(pid: int) -> bool:
    """Whether the kernel lists no child of any thread; False where it does not list children."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                if file.read(1):
                    return False
    except OSError:  # also of a thread that has ended: another one has its children
        return False
    return True


def _from_file(path: str) -> Process:
    try:
        with open(path, encoding="ascii", errors="replace", opener=_open_at_once) as file:
            # Of the same file, and before it is read: another may take its place at any time.
            found = os.fstat(file.fileno())
            text = file.read(64).split()
    except FileNotFoundError:
        raise ProcessError(f"pid file {path} does not exist") from None
    except OSError as error:
        raise ProcessError(f"cannot read pid file {path}: {os_reason(error)}") from None
    if not text or not text[0].isdecimal() or int(text[0]) < 1:
        raise ProcessError(f"pid file {path} contains no process number")
    pid = int(text[0])
    started = start_ticks(pid)
    if started is None:
        raise ProcessError(f"process {pid} of pid file {path} is not running{_why_invisible()}")
    process = Process(pid, started)
    written = (found.st_ino, found.st_mtime_ns)
    known = _trusted.get(path)
    if known is None or known[0] != written or known[1].pid != pid:
        # Programs write it after they started; two seconds allow for clock granularity, and for
        # programs that write it just before.
        if started_at(process) > _wall_clock.latest_since_boot(found.st_mtime) + 2:
            raise ProcessError(
                f"pid file {path} is older than process {pid}, so it names an earlier process; if "
                "the clock was set in between, write the file again"
            )
    elif known[1] != process:
        raise ProcessError(f"the process of pid file {path} has exited and its number was reused")
    _trusted[path] = (written, process)
    return process


def _open_at_once(path: str, flags: int) -> int:
    """Open a file that another program has made, which may be a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def name_this_process() -> None:
    """Name this process as an agent, so that no agent takes it for an application."""
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(_AGENT_NAME)
    except OSError:
        return  # then only this agent knows


def observe_wall_clock() -> None:
    """Record the offset of the wall clock; to be called regularly, since it can be set."""
    _wall_clock.observe()


_wall_clock = WallClock()

#: By process: what tells its programs from each other, and when another one was first seen.
_images: dict[Process, tuple[int, float]] = {}

#: By pid file: its inode and modification time, and the process that it named then. That stays
#: valid for both, however the clock is set.
_trusted: dict[str, tuple[tuple[int, int], Process]] = {}


#: Characters that the kernel keeps of a program's name (linux: TASK_COMM_LEN, with a zero byte).
_MAX_NAME = 15


def _matching(kind: str, value: str) -> Iterator[Process]:
    ours = command_of(os.getpid())
    for pid in _pids():
        if command_of(pid) == ours or _name_of(pid) == _AGENT_NAME:
            continue  # an agent, or a forked child of it; a pod may have several
        if (
            (_has_name(pid, value) if kind == "name" else _has_text(pid, value))
            and (started := start_ticks(pid)) is not None
            and not has_mark(pid, CHECK_MARK)  # it is the same program, often
            and command_of(pid)  # one that is ending shows neither its mark nor this
        ):
            yield Process(pid, started)


def _has_name(pid: int, name: str) -> bool:
    words = command_of(pid).split(" ")
    # nginx and postgres rewrite their command line to "nginx: master process …".
    first = words[0].rstrip(":").rpartition("/")[2]
    known = _name_of(pid)
    if name in (first, known):
        return True
    # Of a script with a longer name: its command line begins with the interpreter and its option.
    is_cut = len(known) == _MAX_NAME and name.startswith(known)
    return is_cut and any(word.rpartition("/")[2] == name for word in words[1:3])


def _has_text(pid: int, text: str) -> bool:
    """Whether a command line contains a text, other than as the target of an agent below it."""
    return text in command_of(pid).replace(f"command:{text}", "")


def _name_of(pid: int) -> str:
    return read_proc(f"/proc/{pid}/comm").strip()


def command_of(pid: int) -> str:
    """Read a process's command line, on one line; "" without one."""
    return _read_of(pid, "cmdline").replace("\0", " ").replace("\n", " ").strip()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 where it is not running."""
    fields = _stat(f"/proc/{pid}")
    return int(fields[1]) if fields else 0


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None where it is not running."""
    fields = _stat(f"/proc/{pid}")
    if not fields or (_has_ended(fields) and not _running_thread(pid)):
        return None
    return int(fields[19])


def _stat(place: str) -> list[str]:
    """Read the fields of proc(5) stat after the name, which may contain anything."""
    return read_proc(f"{place}/stat").rpartition(") ")[2].split()


def _has_ended(fields: list[str]) -> bool:
    return fields[0] in ("Z", "X")


def _running_thread(pid: int) -> str:
    """Return the place of a thread beside the first one, which has ended; "" without one.

    /proc shows the process as ended then, without command line and environment.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        _require_means(error, f"/proc/{pid}/task")
        return ""
    for thread in threads:
        place = f"/proc/{pid}/task/{thread}"
        if int(thread) != pid and (fields := _stat(place)) and not _has_ended(fields):
            return place
    return ""


def _read_of(pid: int, name: str) -> str:
    """Read what all threads of a process share."""
    found = read_proc(f"/proc/{pid}/{name}")
    if not found and (place := _running_thread(pid)):
        return read_proc(f"{place}/{name}")
    return found


def read_proc(path: str) -> str:
    """Read a file of /proc; "" where the process has exited or access is denied.

    Raises:
        ProcessError: the machine lacks what reading takes, so nothing is known of the process.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        _require_means(error, path)
        return ""


def _require_means(error: OSError, path: str) -> None:
    """Require that an error is about the process, and not that the machine lacks something."""
    if error.errno in _LACKS:
        raise ProcessError(f"cannot read {path}: {os_reason(error)}") from None


def _why_invisible() -> str:
    """Explain the usual reason: a process namespace of our own, in which we are PID 1."""
    if os.getpid() == 1:
        return ": set shareProcessNamespace: true in the pod"
    if not os.path.exists("/proc/1/stat"):  # with hidepid=1 its directory is there
        return f": /proc does not show all processes to user {os.geteuid()}"
    return ""
