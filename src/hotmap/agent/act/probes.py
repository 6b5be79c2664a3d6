"""Verifies that an action took effect: the probes of `settings.probes`, run before and after it.

Probes block, so they run in a child process.
"""

from __future__ import annotations

import os
import time
from binascii import crc32

from hotmap.agent.act.http import EndpointError, send_request
from hotmap.agent.act.metric_samples import parse_sample
from hotmap.agent.act.probe_errors import NotConfirmed, NothingToCompare, Refused
from hotmap.agent.act.worker_probe import INTERVAL as WORKER_INTERVAL
from hotmap.agent.act.worker_probe import WorkerProbe, read_workers
from hotmap.agent.process.process_table import ProcessError
from hotmap.agent.process.spawn import execute_program, exit_status
from hotmap.agent.runtime.program_output import mark_output
from hotmap.core.errors import os_reason

__all__ = ["confirm", "read_before"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hotmap.agent.act.http import Response
    from hotmap.agent.settings.settings import Probe

#: Seconds that one request of a probe may wait, within the time of all of them.
_REQUEST_TIMEOUT = 5.0

#: Seconds between two attempts: short at first, since most programs need only a moment.
_INTERVAL_FIRST, _INTERVAL_MAX = 0.02, 0.5

#: Bytes of a command's output that are kept; more of them count by a checksum.
_MAX_OUTPUT = 1 << 16

#: Lines of a reason that are shown.
_MAX_LINES = 3


def read_before(probe: Probe, child: int, *, seconds: float = 0.0) -> str | None:
    """Read a probe before the action, for `confirm`; None if it cannot be read for `seconds`.

    `child`: process number of the supervised application, 0 without one.
    """
    if probe.kind == "log":
        return _end_of_log(probe.path)
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
    longest, workers = _INTERVAL_MAX, None
    if probe.kind == "workers" and before is not None:
        longest, workers = WORKER_INTERVAL, WorkerProbe(probe.target, before)
        workers.watch()
    while True:
        try:
            _confirm_once(probe, before, child, workers)
        except (NotConfirmed, EndpointError, ProcessError) as error:
            if isinstance(error, NothingToCompare) or time.monotonic() + interval > deadline:
                kind = Refused if isinstance(error, Refused) else NotConfirmed
                raise kind(f"verification failed: {error}") from None
        else:
            return ""
        time.sleep(interval)
        interval = min(longest, interval * 1.5)


def _confirm_once(
    probe: Probe, before: str | None, child: int, workers: WorkerProbe | None
) -> None:
    if probe.kind == "log":
        if before is None:
            raise NothingToCompare(f"{_name(probe)} could not be read before the reload")
        if (probe.value or "").encode() not in _read_after(before, probe.path):
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
        raise NothingToCompare(f"{_name(probe)} could not be read before the reload")
    if workers is not None:
        workers.confirm(now)
    else:
        _confirm_value(probe, before, now)


def _confirm_value(probe: Probe, before: str, now: str) -> None:
    if not now and probe.kind in ("file", "output"):
        # A program may remove what it writes again once it has loaded the content.
        raise NotConfirmed(f"{_name(probe)} {'is empty' if probe.command else 'does not exist'}")
    if probe.value is not None:
        if not _equal(probe, now, probe.value):
            raise NotConfirmed(f"{_name(probe)} is not {probe.value}")
    elif now == before:
        raise NotConfirmed(f"{_name(probe)} has not changed")


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
        return _file_version(probe.path)
    if probe.kind == "workers":
        return read_workers(probe.target, child)
    assert probe.call is not None
    # Where only the status counts, the body is not waited for: it may have no end.
    is_http = probe.kind == "http"
    response = send_request(probe.call, seconds=_REQUEST_TIMEOUT, head_only=is_http)
    if response.status != 200:
        raise NotConfirmed(f"{probe.call.url} returned {response.status}")
    if probe.kind == "field":
        return _field(response.body, probe.name)
    return _metric(response, probe.name) if probe.kind == "metric" else ""


def _file_version(path: str) -> str:
    """Return what another write of a file changes; "" where it does not exist."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise NotConfirmed(f"cannot read {path}: {os_reason(error)}") from None
    return f"{found.st_ino}:{found.st_mtime_ns}"


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


def _end_of_log(path: str) -> str | None:
    """Return which file a log is and where it ends: "" without one, None where that is unknown."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None
    return f"{found.st_ino}:{found.st_size}"


def _read_after(end: str, path: str) -> bytes:
    """Read a log from where it ended before; all of another file, or of one that is shorter now."""
    inode, _, size = end.partition(":")
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if str(found.st_ino) == inode and found.st_size >= int(size):
                file.seek(int(size))
            return file.read()
    except OSError as error:
        raise NotConfirmed(f"cannot read {path}: {os_reason(error)}") from None
