"""`hotmap status` and `hotmap why`: what the controller knows, for people and for scripts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from rich.console import Console

from hotmap.cli.asking import Asked, CannotTell, Where, reach
from hotmap.cli.names import Name, read_name
from hotmap.cli.show import Document, show_consumers, show_decisions, show_proof
from hotmap.core.errors import SettingsError
from hotmap.core.policy.policy import parse_duration

__all__ = ["Wanted", "run_status", "run_why"]

#: Exit statuses: everything is current, something is not.
_CURRENT, _NOT_CURRENT = 0, 1

#: The biggest pages that there are (docs/reference/status.md).
_PAGE = "5000"

#: Seconds between two questions while waiting.
_PERIOD = 1.0


class Wanted(NamedTuple):
    """What a person asks for."""

    names: tuple[str, ...] = ()
    #: "" for the kubeconfig's own.
    namespace: str = ""
    all_namespaces: bool = False
    #: "table" or "json".
    output: str = "table"
    quiet: bool = False
    #: A duration, or "" not to wait.
    wait: str = ""


def run_status(wanted: Wanted, where: Where) -> int:
    """Show how workloads stand; returns the exit status.

    Raises:
        SettingsError: a name or duration cannot be read, or nobody can tell (CannotTell).
    """
    if wanted.names and wanted.all_namespaces:
        raise SettingsError("--all-namespaces and NAME exclude each other")
    return asyncio.run(_status(wanted, where, _read_wait(wanted.wait)))


def run_why(text: str, namespace: str, output: str, where: Where) -> int:
    """Show the latest decisions on one workload in words; returns the exit status.

    Raises:
        SettingsError: the name cannot be read, or nobody can tell (CannotTell).
    """
    return asyncio.run(_why(text, namespace, output, where))


async def _status(wanted: Wanted, where: Where, patience: float) -> int:
    async with reach(where) as asked:
        deadline = time.monotonic() + patience
        while True:
            answer = await _ask(asked, wanted)
            current = all(one["state"] == "current" for one in answer["consumers"])
            left = deadline - time.monotonic()
            if current or left <= 0:
                break
            await asyncio.sleep(min(_PERIOD, left))
    if not wanted.quiet:
        _show(wanted, answer)
    return _CURRENT if current else _NOT_CURRENT


async def _ask(asked: Asked, wanted: Wanted) -> dict[str, Any]:
    namespace = wanted.namespace or asked.namespace
    if not wanted.names:
        query = {} if wanted.all_namespaces else {"namespace": namespace}
        return await asked.status({**query, "limit": _PAGE})
    answers = [await _ask_for(asked, read_name(text, namespace), text) for text in wanted.names]
    consumers = [one for answer in answers for one in answer["consumers"]]
    for one in consumers:
        if one["state"] == "unfollowed":
            raise CannotTell(f"{_title(one)} is not followed: {one['reason']}")
    return {**answers[0], "consumers": consumers, **_sums(answers)}


async def _ask_for(asked: Asked, name: Name, text: str) -> dict[str, Any]:
    answer = await asked.status({"consumer": str(name)})
    if not answer["consumers"]:
        raise CannotTell(
            f"{text!r}: the controller knows of no {name.kind or 'workload'} "
            f"{name.namespace}/{name.name}; see 'hotmap status --all-namespaces'"
        )
    return answer


def _sums(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up the counts of several answers."""
    counts: dict[str, int] = {}
    for answer in answers:
        for state, count in answer["counts"].items():
            counts[state] = counts.get(state, 0) + count
    return {"counts": counts, "behind": sum(answer["behind"] for answer in answers)}


def _show(wanted: Wanted, answer: dict[str, Any]) -> None:
    if wanted.output == "json":
        _print_json(answer)
        return
    document = _converted(answer)
    console = _console()
    if not wanted.names:
        show_consumers(console, document, namespaces=wanted.all_namespaces)
        return
    for number, one in enumerate(document.consumers):
        if number:
            console.print()
        show_proof(console, one, now=time.time())


async def _why(text: str, namespace: str, output: str, where: Where) -> int:
    async with reach(where) as asked:
        answer = await _ask_for(asked, read_name(text, namespace or asked.namespace), text)
    if output == "json":
        _print_json(answer)
        return _CURRENT
    console = _console()
    for one in _converted(answer).consumers:
        show_decisions(console, one, now=time.time())
    return _CURRENT


def _converted(answer: dict[str, Any]) -> Document:
    try:
        return msgspec.convert(answer, Document)
    except msgspec.ValidationError as error:
        raise CannotTell(f"the controller is of another version: {error}") from error


def _print_json(answer: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _title(one: dict[str, Any]) -> str:
    return f"{one['kind']} {one['namespace']}/{one['name']}"


def _read_wait(text: str) -> float:
    try:
        return parse_duration(text) if text else 0.0
    except ValueError as error:
        raise SettingsError(f"--wait: {error}") from error
