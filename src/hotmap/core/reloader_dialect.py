"""Reloader's annotations, read into what a Policy needs; no other module knows them.

Understood now: `configmap.reloader.stakater.com/reload` and `secret.…/reload` (comma lists of
anchored expressions), `reloader.stakater.com/auto` and `reloader.stakater.com/ignore` on sources.
The rest of the dialect has its place here.

Expressions are matched by RE2, Go's own engine: linear time, so that nobody's annotation can
stall or crash the controller (stakater/Reloader 1.4.21 dies of an invalid one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import re2

__all__ = ["Dialect", "read", "source_ignored"]

AUTO = "reloader.stakater.com/auto"
NAMED = {
    "configmap.reloader.stakater.com/reload": "ConfigMap",
    "secret.reloader.stakater.com/reload": "Secret",
}
IGNORE = "reloader.stakater.com/ignore"

#: What Go's strconv.ParseBool accepts.
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class Dialect(NamedTuple):
    """What Reloader's annotations on one consumer ask for."""

    auto: bool
    #: (kind, expression, matcher) of each named source.
    named: tuple[tuple[str, str, Callable[[str], bool]], ...]
    origin: str
    #: (annotation, message) of what could not be read.
    problems: tuple[tuple[str, str], ...]


def read(lookup: Callable[[str], tuple[str, str] | None]) -> Dialect | None:
    """Read the dialect by `lookup(annotation) -> (value, place) | None`; None: it is not spoken."""
    problems: list[tuple[str, str]] = []
    named: list[tuple[str, str, Callable[[str], bool]]] = []
    said: list[str] = []
    auto = False
    if (found := lookup(AUTO)) is not None:
        text, place = found
        said.append(f"{AUTO}: {text}{place}")
        auto = text in _TRUE
        if text not in _TRUE and text not in _FALSE:
            problems.append(
                (AUTO, f"annotation {AUTO}{place}: {text!r} is no boolean; taken as false")
            )
    for annotation, kind in NAMED.items():
        if (found := lookup(annotation)) is None:
            continue
        text, place = found
        said.append(f"{annotation}: {text}{place}")
        for item in filter(None, (part.strip() for part in text.split(","))):
            try:
                named.append((kind, item, _matcher(item)))
            except re2.error as error:
                reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
                problems.append(
                    (
                        annotation,
                        f"annotation {annotation}{place}: {item!r} is no regular expression "
                        f"({reason}); the others in the list still count",
                    )
                )
    if not said:
        return None
    return Dialect(auto, tuple(named), ", ".join(said), tuple(problems))


@lru_cache(maxsize=4096)
def _matcher(item: str) -> Callable[[str], bool]:
    """Compile one list item to match whole names: `a|b` is anchored at both ends for both.

    It is compiled as it was written, so that `a)|(b` is refused and errors quote the item.
    """
    options = re2.Options()
    options.log_errors = False
    pattern = re2.compile(item, options)
    return lambda name: pattern.fullmatch(name) is not None


def source_ignored(annotations: Mapping[str, str]) -> bool:
    """Tell whether a source carries Reloader's ignore annotation."""
    return annotations.get(IGNORE) == "true"
