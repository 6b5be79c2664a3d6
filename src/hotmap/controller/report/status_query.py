"""The parameters of /v1/status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hotmap.core.decide.preview import Edit
from hotmap.core.errors import BadRequest
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.status.consumer import State
from hotmap.core.text import parse_number, quote

__all__ = [
    "StatusQuery",
    "parse_query",
    "split_name",
]

#: Consumers on a page, by default and at most.
_DEFAULT_LIMIT, _MAX_LIMIT = 500, 5000

_PARAMETERS = (
    "workload",
    "source",
    "namespace",
    "state",
    "limit",
    "continue",
    "sources",
    "snapshot",
    "consistent",
    "changed",
    "removed",
    "moved",
)

#: Data keys in a parameter (kubernetes: validation.IsConfigMapKey).
_DATA_KEYS = re.compile(r"[-._a-zA-Z0-9]+(,[-._a-zA-Z0-9]+)*")

#: Kinds of the parameter `source`.
_SOURCE_KINDS = {kind.lower(): kind for kind in ("ConfigMap", "Secret", PROVIDER_CLASS)}


class StatusQuery(NamedTuple):
    """A query for the status."""

    workload: str
    #: Only workloads that follow it; then `namespace` is its own.
    source: ObjectKey | None
    namespace: str
    states: frozenset[str]
    limit: int
    token: str
    #: Whether each workload is shown with its sources; a named one always is.
    sources: bool
    #: Whether the snapshot of a named consumer is included, to replay its decision.
    snapshot: bool
    #: Whether the sources and workloads are compared with the API server's first.
    consistent: bool
    #: An edit of `source`, whose effect is shown instead of the status.
    edit: Edit | None = None

    @property
    def named_namespace(self) -> str:
        """The namespace that it is about; "" for all."""
        return split_name(self.workload)[1] if self.workload else self.namespace


def split_name(text: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of `[KIND/]NAMESPACE/NAME`, "" for what is missing."""
    kind, namespace, name = ["", "", *text.split("/")][-3:]
    return kind, namespace, name


def parse_query(query: Mapping[str, str]) -> StatusQuery:
    """Read the parameters of a request.

    Raises:
        BadRequest: a parameter is unknown or cannot be read; the text names it.
    """
    unknown = [name for name in query if name not in _PARAMETERS]
    if unknown:
        raise BadRequest(
            f"unknown parameter {quote(unknown[0][:40])}: expected one of {', '.join(_PARAMETERS)}"
        )
    source = _parse_source(query.get("source", ""))
    return StatusQuery(
        query.get("workload", ""),
        source,
        source.namespace if source else query.get("namespace", ""),
        _parse_states(query.get("state", "")),
        _parse_limit(query.get("limit", "")),
        query.get("continue", ""),
        _parse_flag(query, "sources"),
        _parse_flag(query, "snapshot"),
        _parse_flag(query, "consistent"),
        _parse_edit(query, source),
    )


def _parse_limit(text: str) -> int:
    if not text:
        return _DEFAULT_LIMIT
    limit = parse_number(text)
    if limit is None or not 0 < limit <= _MAX_LIMIT:
        raise BadRequest(
            f"invalid limit {quote(text[:40])}: expected a number from 1 to {_MAX_LIMIT}"
        )
    return limit


def _parse_source(text: str) -> ObjectKey | None:
    if not text:
        return None
    kind, *place = text.split("/")
    known = _SOURCE_KINDS.get(kind.lower(), "")
    if not known or len(place) != 2 or not all(place):
        raise BadRequest(f"invalid source {quote(text[:40])}: expected KIND/NAMESPACE/NAME")
    return ObjectKey(known, *place)


def _parse_edit(query: Mapping[str, str], source: ObjectKey | None) -> Edit | None:
    changed, removed, moved = (query.get(name, "") for name in ("changed", "removed", "moved"))
    if moved and not changed:
        raise BadRequest("moved requires changed: expected data keys that are in changed too")
    if not changed and not removed:
        return None
    if query.get("workload"):
        raise BadRequest("changed and removed cannot be used with workload: name a source alone")
    if source is None or source.kind == PROVIDER_CLASS:
        raise BadRequest("changed and removed require source: expected a ConfigMap or Secret")
    keys = None if changed == "*" else _split_keys(changed)
    return Edit(source, keys, _split_keys(removed), _split_keys(moved))


def _split_keys(text: str) -> frozenset[str]:
    if not text:
        return frozenset()
    if not _DATA_KEYS.fullmatch(text):
        raise BadRequest(f"invalid data keys {quote(text[:40])}: expected KEY,KEY,…")
    return frozenset(text.split(","))


def _parse_flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "")
    if text not in ("", "true", "false"):
        raise BadRequest(f"invalid {name} {quote(text[:40])}: expected true or false")
    return text == "true"


def _parse_states(text: str) -> frozenset[str]:
    states = [part for part in text.split(",") if part]
    known = [value.value for value in State]
    for state in states:
        if state not in known:
            raise BadRequest(
                f"invalid state {quote(state[:40])}: expected one of {', '.join(known)}"
            )
    return frozenset(states)
