"""`hotmap agent`: help, a check of the settings, status, a copy of the program, or the agent."""

from __future__ import annotations

import os

from hotmap.agent.runtime.standard_streams import print_message, print_text
from hotmap.agent.settings.flags import Arguments, help_text, parse_arguments
from hotmap.core.errors import SettingsError, os_reason

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotmap.agent.settings.settings import Call

#: Sockets at which `status` looks for an agent: the usual one, and that of an injected agent.
SOCKETS = ("/run/hotmap/agent.sock", "/hotmap/run/agent.sock")


_HELP = ("--help", "-help", "-h")

#: Help of what is not a start of the agent.
_SUBCOMMANDS = {
    "status": f"""\
Usage: hotmap agent status [--socket PATH] [--json]

Show what a running agent reports.

Exit status 0: everything is loaded; or told, if nothing confirms that the
process has loaded it. 1: something is not, or no agent answers. 2: invalid
flags.

  --socket PATH  Unix socket of the agent. Default: {SOCKETS[0]},
                 or {SOCKETS[1]} of an injected agent.
  --url URL      Address of its status instead.
  --json         Print the whole document.

Examples:
  hotmap agent status
  hotmap agent status --socket /tmp/agent.sock
  hotmap agent status --url http://127.0.0.1:9533/status --json
""",
    "copy": """\
Usage: hotmap agent copy FILE

Write the agent as one file that Python 3.11 or newer can run:
`python3 FILE --help`.

Examples:
  hotmap agent copy /agent/agent.pyz
""",
}


def main(words: Sequence[str]) -> int:
    """Run `hotmap agent …`; returns the exit status, 2 for invalid flags."""
    try:
        if words and words[0] in _SUBCOMMANDS and any(each in _HELP for each in words[1:]):
            _print(_SUBCOMMANDS[words[0]])
            return 0
        if words and words[0] == "status":
            others = [word for word in words[1:] if word != "--json"]
            arguments = parse_arguments(others, subcommand="status")
            return _show_status(arguments, as_json="--json" in words)
        if words and words[0] == "copy":
            return _copy(words[1:])
        if words and words[0] in ("configmap-reload", "prometheus-config-reloader"):
            from hotmap.agent.drop_in.run import run

            return run(words[0], words[1:])
        arguments = parse_arguments(words)
        for name, text in (
            ("help", help_text),
            ("help-verify", _probe_help),
            ("version", _version),
        ):
            if arguments.values.get(name) == ["true"]:
                _print(text())
                return 0
        return _run(arguments)
    except SettingsError as error:
        _print_error(str(error))
        return 2


def _run(arguments: Arguments) -> int:
    from hotmap.agent.settings.loader import load_settings

    only_check = arguments.values.pop("check-config", ["false"]) == ["true"]
    settings = load_settings(arguments)
    if only_check:
        _print("\n".join([*settings.warnings, "settings are valid"]))
        return 0
    from hotmap.agent.agent import Agent
    from hotmap.agent.process.spawn import disable_core_dumps, open_standard_streams
    from hotmap.agent.report.server import is_in_use
    from hotmap.agent.runtime.loop import Loop

    socket = settings.reports.socket
    if socket and is_in_use(socket):
        raise SettingsError(
            f"--socket {socket} is in use by another process: each agent needs a socket of its own"
        )
    open_standard_streams()
    disable_core_dumps()
    return Agent(settings, Loop()).run()


def _show_status(arguments: Arguments, *, as_json: bool) -> int:
    """Show the status of a running agent; returns 0 only when nothing is left to do."""
    import json

    from hotmap.agent.act.http import EndpointError, send_request
    from hotmap.agent.report.status_text import format_status

    for name in arguments.values:
        if name not in ("socket", "url"):
            raise SettingsError(f"status does not support {arguments.spelling[name]}; use --socket")
    call = _status_call(arguments)
    if call is None:
        places = " or ".join(SOCKETS)
        _print_error(f"there is no socket of an agent at {places}; name it with --socket")
        return 1
    try:
        status = json.loads(send_request(call, seconds=5.0).body)
        text = format_status(status)
    except EndpointError as error:
        _print_error(f"no response from an agent: {error}")
        return 1
    except (ValueError, KeyError, TypeError, RecursionError):
        _print_error(f"the response of {call.url} is not an agent's status")
        return 1
    _print(json.dumps(status, indent=2) if as_json else text)
    return 0 if status["state"] in ("loaded", "told") else 1


def _status_call(arguments: Arguments) -> Call | None:
    """Return the call that asks an agent; None without a flag and without a usual socket."""
    from hotmap.agent.settings.settings import Call
    from hotmap.agent.settings.values import Url, parse_socket_path, parse_url, parse_value

    urls, sockets = (arguments.values.get(name, []) for name in ("url", "socket"))
    if len(urls) + len(sockets) > 1:
        raise SettingsError("status requires one address only: --socket or --url")
    if urls:
        return Call(parse_value(urls[0], parse_url, "--url"), method="GET")
    sockets = sockets or [path for path in SOCKETS if os.path.exists(path)]
    if not sockets:
        return None
    path = parse_value(sockets[0], parse_socket_path, "--socket")
    return Call(Url("http", "localhost", 0, path, "/status", "", ""), method="GET")


def _copy(words: Sequence[str]) -> int:
    """Write the agent as one file; for an init container that copies it to another image."""
    if len(words) != 1 or not words[0] or words[0].startswith("-"):
        raise SettingsError("copy requires one argument: the file to write")
    from hotmap.agent.build import build

    try:
        build(words[0])
    except OSError as error:
        _print_error(f"cannot write {words[0]}: {os_reason(error)}")
        return 1
    return 0


def _probe_help() -> str:
    from hotmap.agent.settings import probes

    return probes.__doc__ or ""


def _version() -> str:
    from hotmap import __version__

    return f"hotmap agent {__version__}"


def _print(text: str) -> None:
    print_text("hotmap agent", text)


def _print_error(text: str) -> None:
    print_message(f"hotmap agent: {text}")
