"""The JSON paths of printer columns and scale subresources.

The part of k8s.io/client-go/util/jsonpath that CustomResourceDefinitions use: fields, indices,
wildcards, and filters that compare a field with a literal.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["find", "is_valid_path"]

_STEP = re.compile(
    r"""
    \.(?P<field>(?:\\.|[^.\[\]\\])+)
    | \[(?P<index>-?\d+)\]
    | \[['"](?P<quoted>(?:\\.|[^'"\\])+)['"]\]
    | (?P<all>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<left>[^=!<>]+?)\s*(?P<operator>==|!=)\s*(?P<right>[^)]+?)\s*\)\]
    """,
    re.VERBOSE,
)


class _Step(NamedTuple):
    field: str | None = None
    element: int | None = None
    #: Path, operator and literal of a filter.
    condition: tuple[str, str, object] | None = None


def find(path: str, obj: Any) -> list[Any]:
    """Return the values that a path such as `.spec.replicas` leads to, which may be none."""
    found: list[Any] = [obj]
    for step in _steps(path) or ():
        found = [inner for value in found for inner in _walk(step, value)]
    return found


def is_valid_path(path: str) -> bool:
    """Return whether a path can be followed."""
    return _steps(path) is not None


@cache
def _steps(path: str) -> tuple[_Step, ...] | None:
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[_Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return None
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> _Step:
    if match["index"] is not None:
        return _Step(element=int(match["index"]))
    if match["all"]:
        return _Step()
    if match["left"]:
        return _Step(condition=(match["left"], match["operator"], _literal(match["right"])))
    name = match["field"] or match["quoted"]
    return _Step(field=re.sub(r"\\(.)", r"\1", name))


def _literal(text: str) -> object:
    if text[:1] in "'\"":
        return text[1:-1]
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value


def _walk(step: _Step, value: Any) -> Iterator[Any]:
    if step.condition is not None:
        yield from (inner for inner in _elements(value) if _meets(step.condition, inner))
    elif step.field is not None:
        if isinstance(value, dict) and step.field in value:
            yield value[step.field]
    elif step.element is not None:
        if isinstance(value, list) and -len(value) <= step.element < len(value):
            yield value[step.element]
    else:
        yield from _elements(value)


def _meets(condition: tuple[str, str, object], value: Any) -> bool:
    path, operator, literal = condition
    found = find(path, value)
    return bool(found) and (found[0] == literal) is (operator == "==")


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()
