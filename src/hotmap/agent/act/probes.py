"""Verifies that an action took effect: the probes of `settings.probes`, run before and after it.

Probes block, so they run in a child process.
"""

from __future__ import annotations

import os
import time
from binascii import crc32
from itertools import pairwise

from hotmap.agent.act.http import EndpointError, send_request
from hotmap.agent.act.metric_samples import parse_sample
from hotmap.agent.process.process_table import (
    START_PRECISION,
    Process,
    ProcessError,
    children_of,
    command_of,
    find,
    identify,
    listed_children_of,
    parent_of,
)
from hotmap.agent.process.spawn import execute_program, exit_status
from hotmap.agent.runtime.clock import since_boot
from hotmap.agent.runtime.program_output import mark_output
from hotmap.core.errors import os_reason

__all__ = ["NotConfirmed", "Refused", "confirm", "read_before"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from hotmap.agent.act.http import Response
    from hotmap.agent.settings.settings import Probe

#: Seconds that one request of a probe may wait, within the time of all of them.
_REQUEST_TIMEOUT = 5.0

#: Seconds between two attempts: short at first, since most programs need only a moment.
_INTERVAL_FIRST, _INTERVAL_MAX = 0.02, 0.5

#: The same for workers: nginx leaves the old ones beside the new ones for 100 ms at least
#: (ngx_master_process_cycle), also where they have nothing to finish. And where only the children
#: of its master are looked at.
_WORKERS_INTERVAL, _WATCH_INTERVAL = 0.03, 0.005

#: Seconds that old workers have to hand over, from the start of the last new one; some serve open
#: connections for hours.
_HAND_OVER = 2.0

#: The same where new workers started so many seconds apart: each may have been started once the one
#: before served, and the last old one is told once the last new one does. uvicorn waits five
#: seconds for that, and otherwise keeps the old one. gunicorn starts all of them within a moment.
_APART, _HAND_OVER_APART = 0.5, 6.0

#: In the command line of haproxy's workers. Each reload starts one, however many serve open
#: connections since earlier ones.
_ONE_WORKER = "haproxy"

#: In the command line of a child that starts with Python's first worker, stays, and is none.
_TRACKER = "multiprocessing.resource_tracker"

#: In the command line of nginx's workers, and of those that end.
_TITLE, _SHUTTING = "nginx: worker process", " is shutting down"

#: So many workers that all of them are hardly replaced by crashes during one reload, within so
#: many seconds: nginx starts them one after the other, on a busy machine with pauses.
_SEVERAL_WORKERS, _STARTING = 2, 0.2

#: Bytes of a command's output that are kept; more of them count by a checksum.
_MAX_OUTPUT = 1 << 16

#: Lines of a reason that are shown.
_MAX_LINES = 3


class NotConfirmed(Exception):
    """Raised when a probe does not show (yet) what it should; one sentence."""


class Refused(NotConfirmed):
    """Raised when the application says what it has not loaded; it has to be told again."""


class _NothingToCompare(Refused):
    """Raised when what a probe shows proves nothing, and will not: it was not read in time."""


def read_before(probe: Probe, child: int, *, seconds: float = 0.0) -> str | None:
    """Read a probe before the action, for `confirm`; None if it cannot be read for `seconds`.

    `child`: process number of the supervised application, 0 without one.
    """
    if probe.kind == "log":
        return str(_size(probe.path))
    deadline = time.monotonic() + (seconds if probe.detects_change else 0.0)
    interval = _INTERVAL_FIRST
    while True:
        try:
            return _read(probe, child)
        except (NotConfirmed, EndpointError, ProcessError):
            if time.monotonic() + interval > deadline:
                return None if probe.detects_change else ""
        time.sleep(interval)
        interval = min(_INTERVAL_MAX, interval * 1.5)


def confirm(probe: Probe, before: str | None, child: int, *, seconds: float) -> str:
    """Read a probe until it shows what it should; returns "" then.

    `before`: the result of `read_before`.

    Raises:
        Refused: the application has to be told again: it has refused the content, or what the probe
            shows may be what it showed before.
        NotConfirmed: it did not within `seconds`; the message is the last one.
    """
    deadline = time.monotonic() + seconds
    interval = _INTERVAL_FIRST
    longest = _WORKERS_INTERVAL if probe.kind == "workers" else _INTERVAL_MAX
    seen: list[bool] = []
    if probe.kind == "workers" and before is not None:
        _watch_nginx(_lines(before), seen)
    while True:
        try:
            _confirm_once(probe, before, child, seen=seen)
        except (NotConfirmed, EndpointError, ProcessError) as error:
            if isinstance(error, _NothingToCompare) or time.monotonic() + interval > deadline:
                kind = Refused if isinstance(error, Refused) else NotConfirmed
                raise kind(f"verification failed: {error}") from None
        else:
            return ""
        time.sleep(interval)
        interval = min(longest, interval * 1.5)


def _confirm_once(probe: Probe, before: str | None, child: int, *, seen: list[bool]) -> None:
    if probe.kind == "log":
        if (probe.value or "").encode() not in _read_from(probe.path, int(before or 0)):
            raise NotConfirmed(f"no new line in {probe.path} contains {probe.value!r}")
        return
    now = _read(probe, child)
    if probe.kind in ("http", "exec"):
        return
    if probe.kind == "empty":
        if lines := now.splitlines():
            words = " | ".join(lines[:_MAX_LINES])
            raise Refused(mark_output(words, f"{probe.command[0]} printed {len(lines)} lines"))
        return
    if before is None:
        raise _NothingToCompare(f"{_name(probe)} could not be read before the reload")
    if probe.kind == "workers":
        old, new = _lines(before), _lines(now)
        if any(_TITLE in line for line in old):
            _confirm_nginx(probe, old, new, seen)
        else:
            _confirm_workers(probe, old, new)
    else:
        _confirm_value(probe, before, now)


def _confirm_value(probe: Probe, before: str, now: str) -> None:
    if not now and probe.kind in ("file", "output"):
        # A program may remove what it writes anew once it has loaded the content.
        raise NotConfirmed(f"{_name(probe)} {'is empty' if probe.command else 'does not exist'}")
    if probe.value is not None:
        if not _equal(probe, now, probe.value):
            raise NotConfirmed(f"{_name(probe)} is not {probe.value}")
    elif now == before:
        raise NotConfirmed(f"{_name(probe)} has not changed")


def _lines(text: str) -> set[str]:
    return set(filter(None, text.split("\n")))


def _confirm_workers(probe: Probe, old: set[str], new: set[str]) -> None:
    """Confirm that a program has replaced its workers.

    Old ones may stay beside as many new ones, since they have connections to finish. With fewer new
    ones, or as many of which the last has just started, the program may replace one after the
    other: an old one may not have been told yet, and serve the old content.
    """
    old, new = ({line for line in lines if _TRACKER not in line} for lines in (old, new))
    numbers = {line.partition(" ")[0] for line in old}
    started = [line for line in new if line.partition(" ")[0] not in numbers]
    if not started:
        raise NotConfirmed(f"{probe.target} has not started a new worker")
    wanted = 1 if any(_ONE_WORKER in line for line in old) else len(old)
    if not old & new:
        return
    if len(started) < wanted:
        replaced = f"{len(started)} of {wanted} are replaced"
        raise NotConfirmed(f"{probe.target} still has old workers: {replaced}")
    starts = _starts(started)
    if since_boot() - starts[-1] < (_HAND_OVER if wanted == 1 else _hand_over(starts)):
        raise NotConfirmed(f"{probe.target} still has old workers")


def _hand_over(starts: list[float]) -> float:
    """Return how long old workers have to hand over to new ones that started then."""
    longest = max(later - earlier for earlier, later in pairwise(starts))
    return _HAND_OVER if longest <= _APART else max(_HAND_OVER_APART, 2 * longest)


def _starts(workers: Iterable[str]) -> list[float]:
    """Return when workers started, in seconds since boot, the first one first."""
    return sorted(
        int(line.partition(" ")[0].partition(":")[2]) * START_PRECISION for line in workers
    )


def _watch_nginx(old: set[str], seen: list[bool]) -> None:
    """Look for new workers of nginx beside the old ones, from the first moment on.

    They are beside each other for a tenth of a second. An agent with little processor time needs
    longer than that to look at all processes, as `find` does.
    """
    numbers = [int(line.partition(":")[0]) for line in _workers(old)]
    running = [worker for worker in map(identify, numbers) if worker and _line(worker) in old]
    masters = {parent_of(worker.pid) for worker in running}
    deadline = time.monotonic() + _STARTING
    while masters and not seen and time.monotonic() < deadline:
        for master in masters:
            new = {_line(child) for child in listed_children_of(master)}
            if _are_beside(_workers(old), _workers(new)):
                seen.append(True)
        time.sleep(_WATCH_INTERVAL)


def _workers(lines: set[str]) -> set[str]:
    return {line for line in lines if _TITLE in line}


def _are_beside(old: set[str], new: set[str]) -> bool:
    """Whether there are new workers beside the old ones, or old ones that end because of them."""
    before, now = ({line for line in lines if _SHUTTING not in line} for lines in (old, new))
    shutting = {line.partition(" ")[0] for line in new - now}
    return len(now) > len(before) or bool(shutting & {line.partition(" ")[0] for line in before})


def _confirm_nginx(probe: Probe, old: set[str], new: set[str], seen: list[bool]) -> None:
    """Confirm that nginx has replaced its workers, and not one that has crashed.

    A crashed worker is replaced after its end. A reload starts the new ones beside the old ones,
    and tells these to shut down then, which they say in their command line. `seen`: of readings
    before. Where that was missed, nginx has to be told again, unless several were replaced at
    once.
    """
    old, new = _workers(old), _workers(new)
    before, now = ({line for line in lines if _SHUTTING not in line} for lines in (old, new))
    if _are_beside(old, new):
        seen.append(True)
    if before & new:
        raise NotConfirmed(f"{probe.target} still has old workers")
    if not now - before:
        raise NotConfirmed(f"{probe.target} has not started a new worker")
    if not seen and (len(before) < _SEVERAL_WORKERS or not _started_together(now)):
        raise _NothingToCompare(
            f"{probe.target} has new workers, which may have replaced crashed ones"
        )


def _started_together(workers: set[str]) -> bool:
    """Whether the master has started workers together, and not one by one as they crashed."""
    starts = _starts(workers)
    return starts[-1] - starts[0] <= _STARTING


def _name(probe: Probe) -> str:
    if probe.command:
        return f"the output of {probe.command[0]}"
    return probe.name or probe.path or probe.target


class _Number(str):
    """A number of a JSON document, as it is written there."""

    __slots__ = ()


def _equal(probe: Probe, now: str, wanted: str) -> bool:
    """Compare a value with the wanted one: numbers by their value, everything else as text.

    A sample is a binary floating-point number for Prometheus. A number of JSON is a decimal of any
    length; a string is never a number, since 1.10 and 1.1 are two versions.
    """
    if now == wanted:
        return True
    if probe.kind == "field" and not isinstance(now, _Number):
        return False
    if probe.kind == "field":
        from decimal import Decimal, InvalidOperation  # in the child only

        number: type[Decimal] | type[float] = Decimal
        invalid: type[Exception] = InvalidOperation
    else:
        number, invalid = float, ValueError
    try:
        return "_" not in wanted and number(now) == number(wanted)
    except invalid:
        return False


def _read(probe: Probe, child: int) -> str:
    if probe.kind in ("output", "exec", "empty"):
        return _run(probe.command)
    if probe.kind == "file":
        found = os.stat(probe.path) if os.path.exists(probe.path) else None
        return f"{found.st_ino}:{found.st_mtime_ns}" if found else ""
    if probe.kind == "workers":
        if probe.target == "child" and not child:
            raise NotConfirmed("the application is not running")
        parent = child if probe.target == "child" else find(probe.target).pid
        # With the command line, in which nginx's old workers show that they are shutting down.
        return "\n".join(map(_line, children_of(parent)))
    assert probe.call is not None
    response = send_request(probe.call, seconds=_REQUEST_TIMEOUT)
    if response.status != 200:
        raise NotConfirmed(f"{probe.call.url} returned {response.status}")
    if probe.kind == "field":
        return _field(response.body, probe.name)
    return _metric(response, probe.name) if probe.kind == "metric" else ""


def _line(worker: Process) -> str:
    return f"{worker.pid}:{worker.started} {command_of(worker.pid)}"


def _run(command: tuple[str, ...]) -> str:
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.dup2(writer, 1)
            execute_program(command, None)
        finally:
            os._exit(126)
    os.close(writer)
    with open(reader, "rb") as file:
        output = file.read(_MAX_OUTPUT)
        rest = 0
        while piece := file.read(_MAX_OUTPUT):  # to its end, or the command could not write it
            rest = crc32(piece, rest)
    if rest:
        output += b"\n%x" % rest
    if status := exit_status(os.waitpid(pid, 0)[1]):
        raise NotConfirmed(f"{command[0]} failed with exit status {status}")
    return output.decode("utf-8", "replace").strip()


def _field(body: bytes, path: str) -> str:
    import json

    def find(document: Any) -> Any:
        for part in path.split("."):
            document = document[int(part)] if isinstance(document, list) else document[part]
        return document

    try:
        value = find(json.loads(body, parse_int=_Number, parse_float=_Number))
        if not isinstance(value, str):
            value = json.dumps(find(json.loads(body)))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotConfirmed(f"the response has no field {path}") from None
    return value


def _metric(response: Response, name: str) -> str:
    wanted = parse_sample(f"{name} 0")
    plain = name.partition("{")[0].strip()
    body = response.body
    if response.is_cut:
        body = body[: body.rfind(b"\n") + 1]  # half of a number is another number
    for line in body.decode("utf-8", "replace").splitlines():
        if not line.lstrip().startswith(plain):
            continue
        sample = parse_sample(line)
        if sample is not None and wanted is not None and sample[:2] == wanted[:2]:
            return sample[2]
    raise NotConfirmed(f"the page has no sample {name}")


def _read_from(path: str, size: int) -> bytes:
    """Read a file from an offset, or all of it when it is shorter by now."""
    try:
        with open(path, "rb") as file:
            file.seek(size if os.fstat(file.fileno()).st_size >= size else 0)
            return file.read()
    except OSError as error:
        raise NotConfirmed(f"cannot read {path}: {os_reason(error)}") from None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
