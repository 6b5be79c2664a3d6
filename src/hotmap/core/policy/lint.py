"""Annotations that have no effect: misspelled, or on the wrong kind of object; and sources' values.

This module has the valid names for each kind of object. The values on a consumer and a Namespace
are checked where they are read, in `annotations`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from hotmap.core.model.annotations import (
    ANNOTATIONS,
    FLAP_LIMIT,
    FOLLOW,
    IGNORE,
    MAX_ROLLOUTS,
    OURS,
    SUSPEND,
)
from hotmap.core.policy.rollout_limits import parse_rollout_limit
from hotmap.core.reloader.annotations import (
    DEFAULT_SETTINGS,
    EXCLUDES,
    LAST_RELOADED_FROM,
    ROLLOUT_STRATEGY,
    Names,
)
from hotmap.core.text import printable, quote_short

__all__ = ["Problem", "limit_problems", "misplaced_annotations", "source_problems"]


#: A longer name resembles none, and comparing it would take long.
_LONGEST_TYPO = 64

#: Of all characters; the names have a domain in common, so it is more than difflib's 0.6.
_SIMILAR = 0.9


class Problem(NamedTuple):
    """An annotation that a user wrote and that cannot be read."""

    annotation: str
    message: str


class _Place(enum.Enum):
    """The kinds of objects that users annotate, as named in messages."""

    CONSUMER = "the workload"
    SOURCE = "a ConfigMap or Secret"
    NAMESPACE = "a Namespace"


def misplaced_annotations(
    present: Iterable[str], kind: str, names: Names = DEFAULT_SETTINGS.names
) -> list[Problem]:
    """Find annotations in hotmap's or Reloader's domain that have no effect on an object of a kind.

    A name of Reloader's that a flag has replaced is ignored: it may be another instance's.
    """
    place = _PLACES.get(kind, _Place.CONSUMER)
    known = _known(names)
    unknown = set(present) - known[place] - _renamed_defaults(names)
    return [
        Problem(name, f"annotation {printable(name)} {_why_not(name, kind, place, known)}")
        for name in sorted(unknown)
    ]


def source_problems(
    annotations: Mapping[str, str] | None, kind: str, names: Names = DEFAULT_SETTINGS.names
) -> tuple[Problem, ...]:
    """Find invalid annotations of a source of a kind."""
    present = annotations or {}
    unreadable = [
        Problem(
            name,
            f"annotation {name}: invalid boolean {quote_short(present[name])}: "
            "expected true or false; treating as false",
        )
        for name in (IGNORE, names.ignore, names.match)
        if present.get(name, "").strip() not in ("true", "false", "")
    ]
    return (*unreadable, *limit_problems(present), *misplaced_annotations(present, kind, names))


def limit_problems(present: Mapping[str, str]) -> list[Problem]:
    """Find an invalid limit of rollouts on a source or a Namespace."""
    try:
        parse_rollout_limit(present.get(MAX_ROLLOUTS, "0"))
    except ValueError as error:
        return [Problem(MAX_ROLLOUTS, f"annotation {MAX_ROLLOUTS}: {error}")]
    return []


_PLACES = {
    "ConfigMap": _Place.SOURCE,
    "Secret": _Place.SOURCE,
    "SecretProviderClass": _Place.SOURCE,
    "Namespace": _Place.NAMESPACE,
}


@lru_cache(maxsize=8)
def _known(names: Names) -> Mapping[_Place, frozenset[str]]:
    """Return the valid names on a kind of object."""
    of_sources = frozenset((IGNORE, MAX_ROLLOUTS, names.ignore, names.match))
    of_consumers = {
        *ANNOTATIONS,
        *OURS,
        *names,
        *EXCLUDES.values(),
        ROLLOUT_STRATEGY,
        LAST_RELOADED_FROM,
    }
    return {
        _Place.CONSUMER: frozenset(of_consumers) - of_sources,
        _Place.SOURCE: of_sources,
        _Place.NAMESPACE: frozenset((FOLLOW, FLAP_LIMIT, MAX_ROLLOUTS, SUSPEND)),
    }


@lru_cache(maxsize=8)
def _renamed_defaults(names: Names) -> frozenset[str]:
    return frozenset(Names()) - frozenset(names)


def _why_not(name: str, kind: str, place: _Place, known: Mapping[_Place, frozenset[str]]) -> str:
    for other, there in known.items():
        if name in there:
            return f"has no effect on a {kind}; it belongs on {other.value}"
    if is_reloaders := "reloader.stakater.com/" in name:
        similar_to = sorted(known[place] - {*ANNOTATIONS, *OURS})
    else:
        similar_to = [item for item in ANNOTATIONS if item in known[place]]
    meant = get_close_matches(name[:_LONGEST_TYPO], similar_to, n=1, cutoff=_SIMILAR)
    if is_reloaders:
        hint = f"; did you mean {meant[0]}?" if meant else ""
        return f"has no effect: Reloader has no such annotation{hint}"
    if meant:
        return f"is unknown; did you mean {meant[0]}?"
    return f"is unknown; known on {place.value}: {', '.join(similar_to)}"
