"""How much an expression in CEL may cost: estimated before it runs, since the package cannot count.

apiserver/pkg/apis/cel/config.go has the limits. An estimate never is too low by much: all loops run
to their end, over the largest list there is.
"""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from typing import Any, NamedTuple

from hotmap.local.json_object import JsonObject

__all__ = ["Budget", "exceeds_limit", "is_oversized", "largest_size", "static_cost"]


#: Steps that one evaluation may take (PerCallLimit).
_LIMIT = 1_000_000
# Steps of an iteration: its variable, and what is done with it.
_ITERATION = 3
# Characters that are examined in one step.
_CHARACTERS = 1_000
#: Seconds of processor time for all rules of one write; upstream's budget is one of steps.
_BUDGET_SECONDS = 2.0
#: Items and characters that a variable of a policy may consist of.
_VARIABLE_SIZE = 3_000_000

_STRING = re.compile(r"""r?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_TOKEN = re.compile(
    r"\.(all|exists|exists_one|existsOne|map|filter|transformList|transformMap)\(|[()]"
)
_RECEIVER = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*$")
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*,")
# apiserver: MaxRequestBodyBytes
_MAX_REQUEST = 3 << 20
_SPLITS = (".split(", ".findAll(")


class _Shape(NamedTuple):
    """What of an expression's text decides about its cost."""

    depth: int
    literals: int
    splits: bool


class Budget:
    """The processor time that is left for the rules of one write."""

    def __init__(self) -> None:
        self._end = time.thread_time() + _BUDGET_SECONDS

    def is_spent(self) -> bool:
        return time.thread_time() > self._end


def exceeds_limit(text: str, values: Any) -> bool:
    """Return whether an expression over some values may take more steps than it should."""
    shape = _shape(text)
    if not shape.depth:
        return False
    items, characters = _extent(values)
    size = max(items, shape.literals, characters if shape.splits else 0)
    steps = _ITERATION * size**shape.depth * max(1, characters // _CHARACTERS)
    return bool(steps > _LIMIT)


def largest_size(schema: JsonObject) -> int:
    """Return how many items or keys a value of a schema may have, at most."""
    for limit in ("maxItems", "maxProperties"):
        if limit in schema:
            return int(schema[limit])
    if schema.get("type") == "array":
        return _MAX_REQUEST // (_least_bytes(schema.get("items") or {}) + 1)
    inner = schema.get("additionalProperties")
    # A key takes two quotes, a colon, a comma, and a name.
    return _MAX_REQUEST // (_least_bytes(inner) + 6) if isinstance(inner, dict) else 1


def _least_bytes(schema: JsonObject) -> int:
    return {"boolean": 4, "integer": 1, "number": 1}.get(str(schema.get("type")), 2)


def static_cost(text: str, schema: JsonObject) -> int:
    """Return the steps that an expression may take for any value of a schema of `self`, or fewer.

    Only loops over `self`, its fields, and what other loops name are counted.
    """
    bare = _STRING.sub("''", text)
    names: dict[str, JsonObject] = {"self": schema, "oldSelf": schema}
    stack: list[int] = []
    most = 1
    for token in _TOKEN.finditer(bare):
        if token[0] == ")":
            if stack:
                stack.pop()
            continue
        factor = 1
        if token[1] is not None:
            found = _RECEIVER.search(bare[: token.start()])
            looped = _resolve(found[0], names) if found else {}
            factor = largest_size(looped)
            variable = _VARIABLE.match(bare, token.end())
            if variable is not None:
                inner = looped.get("items") if looped.get("type") == "array" else None
                names[variable[1]] = inner if isinstance(inner, dict) else {}
        stack.append(factor)
        most = max(most, math.prod(stack))
    return most


def _resolve(receiver: str, names: dict[str, JsonObject]) -> JsonObject:
    root, *fields = receiver.split(".")
    schema = names.get(root, {})
    for field in fields:
        found = (schema.get("properties") or {}).get(field, schema.get("additionalProperties"))
        schema = found if isinstance(found, dict) else {}
    return schema


def is_oversized(value: Any) -> bool:
    """Return whether a value is too large to be computed with."""
    return _total(value) > _VARIABLE_SIZE


@lru_cache(maxsize=4096)
def _shape(text: str) -> _Shape:
    bare = _STRING.sub("''", text)
    deepest, stack = 0, list[bool]()
    for token in _TOKEN.finditer(bare):
        if token[0] == ")":
            if stack:
                stack.pop()
            continue
        stack.append(token[1] is not None)
        deepest = max(deepest, sum(stack))
    return _Shape(deepest, bare.count(",") + 1, any(name in bare for name in _SPLITS))


def _extent(value: Any) -> tuple[int, int]:
    """Return the size of the largest list or map in a value, and the longest text's length."""
    items = characters = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            characters = max(characters, len(part))
        elif isinstance(part, dict):
            items = max(items, len(part))
            waiting += part.values()
        elif isinstance(part, list):
            items = max(items, len(part))
            waiting += part
    return items, characters


def _total(value: Any) -> int:
    total, waiting = 0, [value]
    while waiting and total <= _VARIABLE_SIZE:
        part = waiting.pop()
        total += 1
        if isinstance(part, str | bytes):
            total += len(part)
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return total
