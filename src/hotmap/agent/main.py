"""`hotmap agent`: what was typed decides between help, a look at the settings, status and work."""

from __future__ import annotations

import os
import sys

from hotmap.agent.flags import Words, help_text, read_words
from hotmap.core.errors import SettingsError

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where `status` looks when it is not told.
_SOCKET = "/run/hotmap/agent.sock"


def main(arguments: Sequence[str]) -> int:
    """Run `hotmap agent …`; gives the exit status: 2 when the call itself is wrong."""
    try:
        if arguments and arguments[0] == "status":
            return _status(read_words(_without_json(arguments[1:])), "--json" in arguments)
        if arguments and arguments[0] == "copy":
            return _copy(arguments[1:])
        words = read_words(arguments)
        for name, show in (
            ("help", help_text),
            ("help-verify", _probe_help),
            ("version", _version),
        ):
            if words.values.get(name) == ["true"]:
                _print(show())
                return 0
        return _work(words)
    except SettingsError as error:
        _complain(str(error))
        return 2


def _work(words: Words) -> int:
    from hotmap.agent.reading import read_settings

    only_check = words.values.pop("check-config", ["false"]) == ["true"]
    settings = read_settings(words)
    if only_check:
        _print("\n".join([*settings.notes, "the settings are right"]))
        return 0
    from hotmap.agent.loop import Loop
    from hotmap.agent.run import Agent

    return Agent(settings, Loop()).run()


def _status(words: Words, as_json: bool) -> int:
    """Show what a running agent says of itself; 0 only when everything is loaded."""
    import json

    from hotmap.agent.http import Call, EndpointError, request
    from hotmap.agent.report import describe_status
    from hotmap.agent.values import parse_url, quoted

    for name in words.values:
        if name not in ("socket", "url"):
            raise SettingsError(f"{words.given[name]} means nothing to status; see --socket")
    socket = words.values.get("socket", [_SOCKET])[0]
    url = words.values.get("url", [f"unix:{os.path.abspath(socket)}:/status"])[0]
    try:
        answer = request(Call(parse_url(url), method="GET"), seconds=5.0)
        status = json.loads(answer.body)
        text = describe_status(status)
    except ValueError as error:
        _complain(f"{quoted(url)} {error}" if "url" in words.values else "the answer is no status")
        return 1
    except (EndpointError, KeyError, TypeError) as error:
        _complain(f"no agent answers: {error}")
        return 1
    _print(json.dumps(status, indent=2) if as_json else text)
    return 0 if status["state"] == "loaded" else 1


def _copy(arguments: Sequence[str]) -> int:
    """Write the agent as one file; for an init container that brings it to another image."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise SettingsError("copy takes one file, where the agent's program goes")
    from hotmap.agent.build import build

    try:
        build(arguments[0])
    except OSError as error:
        _complain(f"{arguments[0]} cannot be written: {(error.strerror or str(error)).lower()}")
        return 1
    return 0


def _without_json(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if word != "--json"]


def _probe_help() -> str:
    from hotmap.agent import probes

    return probes.__doc__ or ""


def _version() -> str:
    from hotmap import __version__

    return f"hotmap agent {__version__}"


def _print(text: str) -> None:
    sys.stdout.write(f"{text.rstrip()}\n")


def _complain(text: str) -> None:
    sys.stderr.write(f"hotmap agent: {text}\n")
