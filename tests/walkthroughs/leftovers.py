"""What a command leaves behind when it has ended: processes and mounts.

A process that outlives its parent becomes a child of this one for a while, so that nothing
escapes by leaving its session or changing its name (prctl(2), PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["adopting", "mounts_below"]

_PR_SET_CHILD_SUBREAPER = 36
#: Seconds that a process gets to end after its parent has.
_LIMIT = 60.0


@contextlib.contextmanager
def adopting() -> Iterator[Callable[[], list[str]]]:
    """Adopt the orphans that are made while a block lasts.

    Gives a function that lists, by command line, those which still run when their time is over.
    What still runs at the end is killed, so that one test's failure is not the next one's.
    """
    before = _children()

    def orphans() -> list[str]:
        deadline = time.monotonic() + _LIMIT
        while True:
            running = {pid: _command(pid) for pid in _children() - before if not _reaped(pid)}
            if not running or time.monotonic() > deadline:
                return list(running.values())
            time.sleep(0.02)

    library = ctypes.CDLL(None, use_errno=True)
    assert library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield orphans
    finally:
        library.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for pid in _children() - before:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def mounts_below(directory: Path) -> list[str]:
    """List the mounts of this machine that have to do with a directory."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(directory) in line]


def _children() -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything; the parent is the second field after it.
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(status.parent.name))
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
