"""The probe `workers`: a program has replaced its worker processes.

A worker is a line of text: its process number, its start and its command line, in which nginx's old
workers say that they are shutting down. So what was read before an action is text, as for every
probe.
"""

from __future__ import annotations

import time
from itertools import pairwise

from hotmap.agent.act.probe_errors import NotConfirmed, NothingToCompare
from hotmap.agent.process.process_table import (
    START_PRECISION,
    Process,
    children_of,
    command_of,
    find,
    identify,
    listed_children_of,
    parent_of,
)
from hotmap.agent.runtime.clock import since_boot

__all__ = ["INTERVAL", "WorkerProbe", "read_workers"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Seconds between two readings: nginx leaves the old ones beside the new ones for 100 ms at least
#: (ngx_master_process_cycle), also where they have nothing to finish. The second is for a read of
#: the children of its master alone.
INTERVAL, _WATCH_INTERVAL = 0.03, 0.005

#: Seconds that old workers have to hand over, from the start of the last new one; some serve open
#: connections for hours. Where none are left, a new one has to stay for so long: those of gunicorn
#: read the content when the old ones have ended, and may end by it.
_HAND_OVER = 2.0

#: The same where new workers started so many seconds apart: each may have been started once the one
#: before served, and the last old one is told once the last new one does. uvicorn waits five
#: seconds for that, and otherwise keeps the old one. gunicorn starts all of them within a moment.
_APART, _HAND_OVER_APART = 0.5, 6.0

#: The program of haproxy's workers. Each reload starts one, however many serve open connections
#: since earlier ones, and ends those only once the new one serves.
_ONE_WORKER = "haproxy"

#: In the command line of a child that starts with Python's first worker, stays, and is none.
_TRACKER = "multiprocessing.resource_tracker"

#: In the command line of nginx's workers, and of those that end.
_TITLE, _SHUTTING = "nginx: worker process", " is shutting down"

#: So many workers that all of them are hardly replaced by crashes during one reload, within so
#: many seconds: nginx starts them one after the other, on a busy machine with pauses.
_SEVERAL_WORKERS, _STARTING = 2, 0.2


def read_workers(target: str, child: int) -> str:
    """Read which workers a process has, one in a line.

    `child`: process number of the supervised application, 0 without one.

    Raises:
        NotConfirmed: the application is not running.
        ProcessError: there is not exactly one such process.
    """
    if target == "child" and not child:
        raise NotConfirmed("the application is not running")
    parent = child if target == "child" else find(target).pid
    return "\n".join(map(_line, children_of(parent)))


class WorkerProbe:
    """Compares the workers of a process with those before an action."""

    def __init__(self, target: str, before: str) -> None:
        self._target = target
        self._old = _lines(before)
        self._is_nginx = any(_TITLE in line for line in self._old)
        #: Whether new workers of nginx were seen beside the old ones.
        self._seen_beside = False

    def watch(self) -> None:
        """Look for new workers of nginx beside the old ones, from the first moment on.

        They are beside each other for a tenth of a second. An agent with little processor time
        needs longer than that to look at all processes, as `find` does.
        """
        old = _nginx_workers(self._old)
        numbers = [int(line.partition(":")[0]) for line in old]
        running = [worker for worker in map(identify, numbers) if worker and _line(worker) in old]
        masters = {parent_of(worker.pid) for worker in running}
        deadline = time.monotonic() + _STARTING
        while masters and not self._seen_beside and time.monotonic() < deadline:
            for master in masters:
                new = {_line(child) for child in listed_children_of(master)}
                if _are_beside(old, _nginx_workers(new)):
                    self._seen_beside = True
            time.sleep(_WATCH_INTERVAL)

    def confirm(self, now: str) -> None:
        """Confirm that the program has replaced its workers.

        Raises:
            NotConfirmed: it has not (yet).
            NothingToCompare: it has, but perhaps for another reason.
        """
        if self._is_nginx:
            self._confirm_nginx(_lines(now))
        else:
            self._confirm_any(_lines(now))

    def _confirm_any(self, new: set[str]) -> None:
        """Confirm it of a program of which only the processes are known.

        Old ones may stay beside as many new ones, since they have connections to finish. With fewer
        new ones, or as many of which the last has just started, the program may replace one after
        the other: an old one may not have been told yet, and serve the old content. Without old
        ones, those that end by the content, and are started again and again, do not get old.
        """
        old, new = ({line for line in lines if _TRACKER not in line} for lines in (self._old, new))
        numbers = {line.partition(" ")[0] for line in old}
        started = [line for line in new if line.partition(" ")[0] not in numbers]
        if not started:
            raise NotConfirmed(f"{self._target} has not started a new worker")
        is_haproxy = any(map(_is_haproxy, old))
        wanted = 1 if is_haproxy else len(old)
        starts = _starts(started)
        if not old & new:
            if not is_haproxy and since_boot() - starts[0] < _HAND_OVER:
                raise NotConfirmed(f"all workers of {self._target} have just started")
            return
        if len(started) < wanted:
            replaced = f"{len(started)} of {wanted} are replaced"
            raise NotConfirmed(f"{self._target} still has old workers: {replaced}")
        if since_boot() - starts[-1] < (_HAND_OVER if wanted == 1 else _hand_over(starts)):
            raise NotConfirmed(f"{self._target} still has old workers")

    def _confirm_nginx(self, new: set[str]) -> None:
        """Confirm that nginx has replaced its workers, and not one that has crashed.

        A crashed worker is replaced after its end. A reload starts the new ones beside the old
        ones, and tells these to shut down then, which they say in their command line. Where that
        was missed, nginx has to be told again, unless several were replaced at once.
        """
        old, new = _nginx_workers(self._old), _nginx_workers(new)
        before, now = _without_shutting(old), _without_shutting(new)
        if _are_beside(old, new):
            self._seen_beside = True
        if before & new:
            raise NotConfirmed(f"{self._target} still has old workers")
        if not now - before:
            raise NotConfirmed(f"{self._target} has not started a new worker")
        are_several = len(before) >= _SEVERAL_WORKERS and _started_together(now)
        if not self._seen_beside and not are_several:
            raise NothingToCompare(
                f"{self._target} has new workers, which may have replaced crashed ones"
            )


def _is_haproxy(line: str) -> bool:
    """Whether a worker runs haproxy, and not another program with that word in an argument.

    The second word is its path where an interpreter or an emulator runs it.
    """
    program, _, rest = line.partition(" ")[2].partition(" ")
    run = rest.partition(" ")[0]
    return program.rpartition("/")[2] == _ONE_WORKER or run.endswith(f"/{_ONE_WORKER}")


def _hand_over(starts: list[float]) -> float:
    """Return how long old workers have to hand over to new ones that started then."""
    longest = max(later - earlier for earlier, later in pairwise(starts))
    return _HAND_OVER if longest <= _APART else max(_HAND_OVER_APART, 2 * longest)


def _starts(workers: Iterable[str]) -> list[float]:
    """Return when workers started, in seconds since boot, the first one first."""
    return sorted(
        int(line.partition(" ")[0].partition(":")[2]) * START_PRECISION for line in workers
    )


def _started_together(workers: set[str]) -> bool:
    """Whether the master has started workers together, and not one by one as they crashed."""
    starts = _starts(workers)
    return starts[-1] - starts[0] <= _STARTING


def _are_beside(old: set[str], new: set[str]) -> bool:
    """Whether there are new workers beside the old ones, or old ones that end because of them."""
    before, now = _without_shutting(old), _without_shutting(new)
    shutting = {line.partition(" ")[0] for line in new - now}
    return len(now) > len(before) or bool(shutting & {line.partition(" ")[0] for line in before})


def _nginx_workers(lines: set[str]) -> set[str]:
    return {line for line in lines if _TITLE in line}


def _without_shutting(lines: set[str]) -> set[str]:
    return {line for line in lines if _SHUTTING not in line}


def _lines(text: str) -> set[str]:
    return set(filter(None, text.split("\n")))


def _line(worker: Process) -> str:
    return f"{worker.pid}:{worker.started} {command_of(worker.pid)}"
