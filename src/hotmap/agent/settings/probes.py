"""Probes, which confirm that an action took effect:

    http URL              the endpoint returns 200
    field URL PATH=VALUE  a field of a JSON response, such as config.loads
    metric URL NAME=VALUE
                          a sample of a Prometheus page, with its labels if any
    output COMMAND        the output of a command
    exec COMMAND          a command succeeds
    empty COMMAND         a command succeeds and prints nothing: what it prints
                          is the reason
    file PATH             the file was written
    log PATH TEXT         the file has a new line that contains the text
    workers PROCESS       the process has a new child process that has run for
                          two seconds, and its previous children have exited;
                          or these show in their command line that they are
                          shutting down, or had two seconds to do so and there
                          are as many new ones (of haproxy, one)

Without `=VALUE`, `field` and `metric` must differ from their value before the
action; `output` always must. What differs by itself, such as an uptime or a
count of requests, confirms every action. What stays the same when the same
content is loaded again, such as its digest, does not confirm that.
"""

from __future__ import annotations

from hotmap.agent.settings.settings import Call, Probe
from hotmap.agent.settings.values import InvalidValue, parse_url, split_command

__all__ = ["KINDS", "parse_probe", "parse_process"]

KINDS = ("http", "field", "metric", "output", "exec", "empty", "file", "log", "workers")


def parse_probe(text: str) -> Probe:
    """Parse a probe as it is written in flags and rules.

    Raises:
        InvalidValue: it has an unknown kind, or an argument is missing or invalid.
    """
    kind, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if kind not in KINDS:
        raise InvalidValue("probe", f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]}, then what")
    if not rest:
        raise InvalidValue("probe", f"{kind} requires an argument")
    try:
        return _parse_argument(kind, rest)
    except InvalidValue as error:
        raise InvalidValue("probe", error.reason if error.noun == "probe" else str(error)) from None


def _parse_argument(kind: str, rest: str) -> Probe:
    if kind in ("output", "exec", "empty"):
        return Probe(kind, command=split_command(rest))
    if kind == "workers":
        return Probe(kind, target=parse_process(rest))
    if kind == "file":
        return Probe(kind, path=rest)
    first, _, second = rest.partition(" ")
    second = second.strip()
    if kind == "log":
        if not second:
            raise InvalidValue("probe", "expected log PATH TEXT")
        return Probe(kind, path=first, value=second)
    call = Call(parse_url(first), method="GET")
    if kind == "http":
        return Probe(kind, call=call)
    # A metric's labels may contain "=", its value cannot.
    name, equals, value = second.rpartition("=") if kind == "metric" else second.partition("=")
    if equals and kind == "metric" and value.endswith("}"):
        name, equals, value = second, "", ""
    if not equals:
        name = second
    if not name:
        raise InvalidValue("probe", f"expected {kind} URL NAME or {kind} URL NAME=VALUE")
    if kind == "metric" and ("{" in name) != name.endswith("}"):
        raise InvalidValue("probe", 'labels of a metric are in braces, such as up{job="web"}')
    return Probe(kind, call=call, name=name, value=value if equals else None)


def parse_process(text: str) -> str:
    """Parse which process is meant: `pidfile:FILE`, `name:NAME`, `command:TEXT` or `child`."""
    kind, _, value = text.partition(":")
    if text == "child" or (kind in ("pidfile", "name", "command") and value):
        return text
    raise InvalidValue("process", "expected pidfile:FILE, name:NAME or command:TEXT")
