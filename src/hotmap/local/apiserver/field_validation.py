"""Fields that a kind does not have, and fields that a body has twice (KEP-2885, fieldValidation).

sigs.k8s.io/json, UnmarshalStrict: unknown and duplicate fields at any depth, by their paths, in
the order of the body.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.api_types import METADATA, Field, api_types, fields_of
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotmap.local.scheme import Kind

# Errors that one answer lists at most (sigs.k8s.io/json: strict errors).
_LIMIT = 100
_METADATA_ONLY = {"metadata": Field(f"#{METADATA}")}


class _Pairs(list[tuple[str, Any]]):
    """An object of a body with every field that was sent."""


def strict_errors(kind: Kind, obj: JsonObject, body: bytes) -> list[str]:
    """Find unknown fields in a decoded object, and duplicate ones where its JSON is given."""
    fields = fields_of(kind)
    unknown_allowed = fields is None
    sent: Any = obj
    if body and has_duplicates(body):
        sent = json.loads(body, object_pairs_hook=_Pairs)
    found: list[str] = []
    for error in _errors(sent, fields or _METADATA_ONLY, "", unknown_allowed=unknown_allowed):
        if error not in found:
            found.append(error)
        if len(found) == _LIMIT:
            break
    found += [f'unknown field "{path}"' for path in kind.strategy.unknown_fields(obj)]
    return found[:_LIMIT]


def duplicate_fields(body: bytes) -> list[str]:
    """Find what any JSON has twice, each place once."""
    if not has_duplicates(body):
        return []
    found = _duplicates(json.loads(body, object_pairs_hook=_Pairs), "")
    return list(dict.fromkeys(islice(found, _LIMIT)))


def has_duplicates(body: bytes) -> bool:
    duplicates = False

    def check(pairs: list[tuple[str, Any]]) -> JsonObject:
        nonlocal duplicates
        made = dict(pairs)
        duplicates = duplicates or len(made) != len(pairs)
        return made

    try:
        json.loads(body, object_pairs_hook=check)
    except (ValueError, RecursionError):
        # It was decoded already, so this is about nesting or an odd encoding.
        return False
    return duplicates


def _errors(
    obj: Any, fields: Mapping[str, Field], path: str, *, unknown_allowed: bool = False
) -> Iterator[str]:
    seen: set[str] = set()
    for name, value in _pairs(obj):
        if name in seen:
            yield f'duplicate field "{path}{name}"'
        seen.add(name)
        field = fields.get(name)
        if field is not None:
            yield from _value_errors(value, field.type, f"{path}{name}")
        elif unknown_allowed:
            yield from _duplicates(value, f"{path}{name}")
        else:
            yield f'unknown field "{path}{name}"'


def _duplicates(value: Any, path: str) -> Iterator[str]:
    """Find what comes twice in a value whose fields are not known."""
    if isinstance(value, list) and not isinstance(value, _Pairs):
        for index, element in enumerate(value):
            yield from _duplicates(element, f"{path}[{index}]")
        return
    seen: set[str] = set()
    for name, inner in _pairs(value):
        at = f"{path}.{name}" if path else name
        if name in seen:
            yield f'duplicate field "{at}"'
        seen.add(name)
        yield from _duplicates(inner, at)


def _value_errors(value: Any, wanted: str, path: str) -> Iterator[str]:
    if wanted.startswith("[]"):
        if isinstance(value, list) and not isinstance(value, _Pairs):
            for index, element in enumerate(value):
                yield from _value_errors(element, wanted[2:], f"{path}[{index}]")
    elif wanted.startswith("{}"):
        seen: set[str] = set()
        for name, inner in _pairs(value):
            if name in seen:
                yield f'duplicate field "{path}.{name}"'
            seen.add(name)
            yield from _value_errors(inner, wanted[2:], f"{path}.{name}")
    elif wanted.startswith("#"):
        fields = api_types().types.get(wanted[1:])
        if fields is not None:
            yield from _errors(value, fields, f"{path}.")


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _Pairs):
        return iter(value)
    return iter(value.items()) if isinstance(value, dict) else iter(())
