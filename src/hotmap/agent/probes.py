"""How a probe is written, and how it is looked at.

    http URL                   answers 200
    field URL PATH=VALUE       a field of a JSON answer, as data.config.version
    metric URL NAME=VALUE      a sample of a Prometheus page, with its labels if it has any
    output COMMAND             what a command prints
    exec COMMAND               a command succeeds
    file PATH                  the file was written anew
    log PATH TEXT              the file has a new line with this text
    workers TARGET             the process has a child that it did not have before, and those it
                               had are gone, say that they end, or had two seconds to do either

Without `=VALUE`, `field` and `metric` have to differ from what they were before the action, as
`output` always has to. Probes block, so they run in a child process.
"""

from __future__ import annotations

import os
import time

from hotmap.agent.http import Call, EndpointError, request
from hotmap.agent.processes import ProcessError, children_of, command_of, find
from hotmap.agent.settings import Probe
from hotmap.agent.values import parse_url, split_command

__all__ = ["KINDS", "NotConfirmed", "confirm", "look_before", "parse_probe"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = ("http", "field", "metric", "output", "exec", "file", "log", "workers")

#: Seconds that one request of a probe may wait, within the time of all of them.
_SECONDS = 5.0

#: Seconds between two looks: short at first, since most programs take a moment only.
_PAUSE_FIRST, _PAUSE_LAST = 0.02, 0.5


#: Seconds that old workers get to hand over; some serve open connections for hours.
_HAND_OVER = 2.0


class NotConfirmed(Exception):
    """Raised when a probe does not show (yet) what it should; one sentence."""


def parse_probe(text: str) -> Probe:
    """Read a probe as a person writes it.

    Raises:
        ValueError: it is none; the text says how it is written.
    """
    kind, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if kind not in KINDS:
        raise ValueError(f"is no probe; write {', '.join(KINDS[:-1])} or {KINDS[-1]}, then what")
    if not rest:
        raise ValueError(f"is no probe: {kind} lacks its argument")
    if kind in ("output", "exec"):
        return Probe(kind, command=split_command(rest))
    if kind == "workers":
        return Probe(kind, target=parse_target(rest))
    if kind == "file":
        return Probe(kind, path=rest)
    first, _, second = rest.partition(" ")
    second = second.strip()
    if kind == "log":
        if not second:
            raise ValueError("is no probe; write log PATH TEXT")
        return Probe(kind, path=first, value=second)
    call = Call(parse_url(first), method="GET")
    if kind == "http":
        return Probe(kind, call=call)
    # A metric's labels may hold "=", its value cannot.
    name, equals, value = second.rpartition("=") if kind == "metric" else second.partition("=")
    if equals and kind == "metric" and value.endswith("}"):
        name, equals, value = second, "", ""
    if not equals:
        name = second
    if not name:
        raise ValueError(f"is no probe; write {kind} URL NAME or {kind} URL NAME=VALUE")
    return Probe(kind, call=call, name=name, value=value if equals else None)


def parse_target(text: str) -> str:
    """Read which process is meant: `pidfile:FILE`, `name:NAME`, `command:TEXT` or `child`."""
    kind, _, value = text.partition(":")
    if text == "child" or (kind in ("pidfile", "name", "command") and value):
        return text
    raise ValueError("names no process; write pidfile:FILE, name:NAME or command:TEXT")


def look_before(probe: Probe, child: int) -> str:
    """Note what a probe shows before the action, for `confirm`; "" where it is not reachable."""
    if probe.kind == "log":
        return str(_size(probe.path))
    try:
        return _look(probe, child)
    except (NotConfirmed, EndpointError, ProcessError):
        return ""


def confirm(probe: Probe, before: str, child: int, *, seconds: float) -> str:
    """Look until a probe shows what it should; gives "" then.

    Raises:
        NotConfirmed: `seconds` have passed without it; the text is the last look's.
    """
    began = time.monotonic()
    deadline = began + seconds
    pause = _PAUSE_FIRST
    while True:
        try:
            _confirm_once(probe, before, child, patience=began + _HAND_OVER - time.monotonic())
        except (NotConfirmed, EndpointError, ProcessError) as error:
            if time.monotonic() + pause > deadline:
                raise NotConfirmed(f"not confirmed: {error}") from None
        else:
            return ""
        time.sleep(pause)
        pause = min(_PAUSE_LAST, pause * 1.5)


def _confirm_once(probe: Probe, before: str, child: int, *, patience: float) -> None:
    if probe.kind == "log":
        if (probe.value or "").encode() not in _grown(probe.path, int(before or 0)):
            raise NotConfirmed(f"{probe.path} has no new line with {probe.value!r}")
        return
    now = _look(probe, child)
    if probe.kind in ("http", "exec"):
        return
    if probe.kind == "workers":
        old, new = set(before.split("\n")), set(now.split("\n"))
        numbers = {line.partition(" ")[0] for line in old}
        if all(line.partition(" ")[0] in numbers for line in new):
            raise NotConfirmed(f"{probe.target} has started no new worker")
        if patience > 0 and old & new:
            raise NotConfirmed(f"{probe.target} still has old workers")
    elif probe.value is not None:
        if not _same(now, probe.value):
            raise NotConfirmed(f"{_name(probe)} is not {probe.value}")
    elif now == before:
        raise NotConfirmed(f"{_name(probe)} has not changed")


def _name(probe: Probe) -> str:
    return probe.name or probe.path or f"the output of {probe.command[0]}"


def _same(now: str, wanted: str) -> bool:
    try:
        return float(now) == float(wanted)
    except ValueError:
        return now == wanted


def _look(probe: Probe, child: int) -> str:
    if probe.kind in ("output", "exec"):
        return _run(probe.command)
    if probe.kind == "file":
        found = os.stat(probe.path) if os.path.exists(probe.path) else None
        return f"{found.st_ino}:{found.st_mtime_ns}" if found else ""
    if probe.kind == "workers":
        parent = child if probe.target == "child" else find(probe.target).pid
        # With the command line: nginx's old workers say there that they are shutting down.
        return "\n".join(
            f"{one.pid}:{one.started} {command_of(one.pid)}" for one in children_of(parent)
        )
    assert probe.call is not None
    answer = request(probe.call, seconds=_SECONDS)
    if answer.status != 200:
        raise NotConfirmed(f"{probe.call.url} answered {answer.status}")
    if probe.kind == "field":
        return _field(answer.body, probe.name)
    return _metric(answer.body, probe.name) if probe.kind == "metric" else ""


def _run(command: tuple[str, ...]) -> str:
    from hotmap.agent.children import execute_program

    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.dup2(writer, 1)
            execute_program(command, None)
        finally:
            os._exit(126)
    os.close(writer)
    with open(reader, "rb") as file:
        output = file.read(1 << 16)
    if os.waitpid(pid, 0)[1]:
        raise NotConfirmed(f"{command[0]} failed")
    return output.decode("utf-8", "replace").strip()


def _field(body: bytes, path: str) -> str:
    import json

    try:
        value: Any = json.loads(body)
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NotConfirmed(f"the answer has no field {path}") from None
    return value if isinstance(value, str) else json.dumps(value)


def _metric(body: bytes, name: str) -> str:
    for line in body.decode("utf-8", "replace").splitlines():
        found, _, value = line.strip().rpartition(" ")
        if found == name:
            return value
    raise NotConfirmed(f"the page has no sample {name}")


def _grown(path: str, size: int) -> bytes:
    """Read what a file has beyond a size, or all of it when it is shorter by now."""
    try:
        with open(path, "rb") as file:
            file.seek(size if os.fstat(file.fileno()).st_size >= size else 0)
            return file.read()
    except OSError as error:
        raise NotConfirmed(f"{path} cannot be read: {(error.strerror or '').lower()}") from None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
