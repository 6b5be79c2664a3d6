"""The values of annotations, as texts and parsed; an invalid one is a ValueError."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from hotmap.core.duration import InvalidDuration, parse_duration
from hotmap.core.model.patterns import (
    LONGEST_VALUE,
    NO_SOURCES,
    SourcePatterns,
    glob_patterns,
    split_items,
)
from hotmap.core.policy.policy import MAX_FLAP_LIMIT, Agent
from hotmap.core.reloader.annotations import KINDS
from hotmap.core.text import parse_number, quote_short

__all__ = [
    "EVERY_SOURCE",
    "NOTHING",
    "Follow",
    "check_length",
    "names_sources",
    "one_of",
    "parse_agent",
    "parse_bool",
    "parse_flap_limit",
    "parse_follow",
    "parse_rereads",
]

C = TypeVar("C", bound=enum.Enum)


class Follow(NamedTuple):
    """The sources that a consumer follows."""

    #: Kinds of sources, wherever they are referenced.
    auto: frozenset[str] = frozenset()
    named: SourcePatterns = NO_SOURCES
    #: Referenced sources that are offered.
    searches: bool = False


NOTHING = Follow()
EVERY_REFERENCE = Follow(auto=frozenset(KINDS))

_AUTO = ("auto", "true")
_OFF = ("off", "false", "")


def parse_follow(text: str) -> Follow:
    """Read `auto`, `off` or a list such as `configmap/app, secret/db-*`.

    Raises:
        ValueError: it is none of these; the message names the item.
    """
    if text in _AUTO:
        return EVERY_REFERENCE
    if text in _OFF:
        return NOTHING
    if "/" not in text and split_items(text):
        expected = "auto, off or a list such as configmap/app, secret/db-*"
        raise ValueError(f"invalid value {quote_short(text)}: expected {expected}")
    return Follow(named=glob_patterns(text))


def names_sources(follow: str) -> bool:
    """Return whether a value of FOLLOW is a list of sources."""
    return follow not in _AUTO and follow not in _OFF


EVERY_SOURCE = SourcePatterns(kinds=frozenset(KINDS))


def check_length(text: str) -> str:
    """Return a value that is not too long to be parsed.

    Raises:
        ValueError: it is.
    """
    if len(text) > LONGEST_VALUE:
        raise ValueError(f"the value is longer than {LONGEST_VALUE:,} characters")
    return text


def one_of(choices: type[C]) -> Callable[[str], C]:
    """Return a parser of an enumeration's values."""

    def parse(text: str) -> C:
        try:
            return choices(text)
        except ValueError:
            known = _listed([choice.value for choice in choices if choice.value])
            raise ValueError(f"invalid value {quote_short(text)}: expected {known}") from None

    return parse


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def parse_bool(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise ValueError(f"invalid boolean {quote_short(text)}: expected true or false")


def parse_rereads(text: str) -> float | None:
    """Return the seconds within which files are re-read; 0: not said; None: they are not.

    Raises:
        ValueError: the value is invalid.
    """
    if text in ("true", "false"):
        return 0.0 if text == "true" else None
    try:
        return parse_duration(text) or None
    except InvalidDuration as error:
        raise ValueError(
            f"invalid value {quote_short(text)}: expected true, false or a time such as 30s"
        ) from error


def parse_flap_limit(text: str) -> int:
    limit = parse_number(text)
    if limit is None or limit > MAX_FLAP_LIMIT:
        raise ValueError(
            f"invalid number {quote_short(text)}: expected 0 (no limit) to {MAX_FLAP_LIMIT}"
        )
    return limit


_RESTARTS = ("supervised", "all-containers", "term", "none")


def parse_agent(text: str) -> Agent | None:
    """Read the agents of a pod, separated by commas; the restart of the most limited one counts."""
    entries = [_parse_agent_entry(each) for each in text.split(",")]
    restarts = [entry.restart for entry in entries]
    return Agent(
        "none" if "none" in restarts else restarts[0],
        restarts_for_files=any(entry.for_files for entry in entries),
        containers=frozenset().union(*(entry.containers for entry in entries)),
        unnamed=sum(not entry.containers for entry in entries),
        restarts_pod="all-containers" in restarts,
    )


class _AgentEntry(NamedTuple):
    """How one agent restarts, whether for changed files too, and the containers it reloads."""

    restart: str
    for_files: bool
    containers: frozenset[str]


def _parse_agent_entry(text: str) -> _AgentEntry:
    restart, for_files, containers = "none", False, set[str]()
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, _, value = item.partition("=")
        port = parse_number(value) if name == "port" else None
        if name == "restart" and value in _RESTARTS:
            restart = value
        elif (name, value) == ("files", "restart"):
            for_files = True
        elif name == "container" and value:
            containers.add(value)
        elif port is None or not 0 < port < 65536:
            raise ValueError(
                f"invalid item {quote_short(item)}: expected port=1…65535, container=NAME, "
                f"files=restart or restart={'|'.join(_RESTARTS)}"
            )
    # A supervisor that restarts for what is read at start builds that from files.
    return _AgentEntry(restart, for_files or restart == "supervised", frozenset(containers))
