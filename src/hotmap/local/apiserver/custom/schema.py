"""Structural schemas at work: pruning, defaulting, and unknown fields.

apiextensions-apiserver/pkg/apiserver/schema: pruning, defaulting, objectmeta.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hotmap.local.json_object import JsonObject

__all__ = [
    "add_defaults", "drop_nulls", "has_defaults", "prune", "shorten_floats", "unknown_fields",
]  # fmt: skip

_INT64 = 1 << 63

_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_TYPE_META = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: JsonObject, *, is_root: bool = False) -> None:
    """Remove the fields that a schema does not specify, in place."""
    for parent, name, _ in _unspecified(value, schema, "", is_root=is_root):
        del parent[name]


def shorten_floats(value: Any) -> None:
    """Turn floats without a fraction into integers, in place: Go writes 1.0 as 1."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for at, inner in inside:
        if isinstance(inner, (dict, list)):
            shorten_floats(inner)
        elif isinstance(inner, float) and inner.is_integer() and abs(inner) < _INT64:
            value[at] = int(inner)


def unknown_fields(value: Any, schema: JsonObject) -> list[str]:
    """List the paths of the fields that a schema does not specify, such as `spec.junk`."""
    return [path for _, _, path in _unspecified(value, schema, "", is_root=True)]


def _unspecified(
    value: Any, schema: JsonObject, path: str, *, is_root: bool
) -> list[tuple[JsonObject, str, str]]:
    found: list[tuple[JsonObject, str, str]] = []
    if isinstance(value, dict):
        specified = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        own = _TYPE_META if is_root or schema.get(_EMBEDDED) else ()
        for name, inner in value.items():
            at = f"{path}.{name}" if path else name
            if name in own:
                continue
            if name in specified:
                found += _unspecified(inner, specified[name], at, is_root=False)
            elif isinstance(additional, dict):
                found += _unspecified(inner, additional, at, is_root=False)
            elif not additional and not schema.get(_PRESERVES):
                found.append((value, name, at))
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for index, inner in enumerate(value):
            found += _unspecified(inner, items, f"{path}[{index}]", is_root=False)
    return found


def has_defaults(schema: JsonObject) -> bool:
    """Return whether `add_defaults` could change anything."""
    inner = [*(schema.get("properties") or {}).values()]
    inner += [schema[name] for name in ("additionalProperties", "items") if name in schema]
    return "default" in schema or any(
        has_defaults(value) for value in inner if isinstance(value, dict)
    )


def add_defaults(value: Any, schema: JsonObject) -> None:
    """Fill in defaults, in place; a null where none may be is as good as nothing."""
    if isinstance(value, dict):
        specified = schema.get("properties") or {}
        for name, inner in specified.items():
            if inner.get("default") is None:
                continue  # null is none
            if name not in value or (value[name] is None and not inner.get("nullable")):
                value[name] = deepcopy(inner["default"])
        additional = schema.get("additionalProperties")
        for name, inner in value.items():
            if name in specified:
                add_defaults(inner, specified[name])
            elif isinstance(additional, dict):
                if inner is None and "default" in additional and not additional.get("nullable"):
                    value[name] = deepcopy(additional["default"])
                add_defaults(value[name], additional)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for index, inner in enumerate(value):
            if inner is None and "default" in items and not items.get("nullable"):
                value[index] = deepcopy(items["default"])
            add_defaults(value[index], items)


def drop_nulls(value: Any, schema: JsonObject) -> None:
    """Remove the fields that are null, may not be, and have no default, in place.

    Go writes such a null for an empty pointer, list or map (PruneNonNullableNullsWithoutDefaults).
    """
    if isinstance(value, dict):
        specified = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for name, inner in list(value.items()):
            of_field = specified.get(name, additional)
            if not isinstance(of_field, dict):
                continue
            if inner is None and not of_field.get("nullable"):
                if "default" not in of_field:
                    del value[name]
            else:
                drop_nulls(inner, of_field)
    elif isinstance(value, list):
        for inner in value:
            drop_nulls(inner, schema.get("items") or {})
