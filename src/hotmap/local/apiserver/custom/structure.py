"""What makes the schema of a custom resource structural, beside its types.

apiextensions-apiserver: pkg/apiserver/schema/validation.go and
pkg/apis/apiextensions/validation/validation.go. Paths and texts are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["extension_errors", "root_errors"]


_LIST_TYPE, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-map-type"
_KEYS = "x-kubernetes-list-map-keys"
_EMBEDDED, _INT_OR_STRING = "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_UNSUPPORTED = ("definitions", "dependencies", "id", "patternProperties")
#: What schemas within anyOf and the like do not have.
_OUTER = {
    "type": "empty",
    "title": "empty",
    "description": "empty",
    "default": "undefined",
    "additionalProperties": "undefined",
    "nullable": "false",
    _PRESERVES: "false",
    _EMBEDDED: "false",
    _INT_OR_STRING: "false",
}
_NAMES = {"name", "generateName"}


def root_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the fields that every object has."""
    properties = schema.get("properties") or {}
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        if name in properties and properties[name].get("type") != wanted:
            at = f"{path}.properties[{name}].type"
            yield invalid_value(at, properties[name].get("type", ""), f"must be {wanted}")
    if ((properties.get("metadata") or {}).get("properties") or {}).keys() - _NAMES:
        yield forbidden_field(
            f"{path}.properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified",
        )


def extension_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Check a schema by itself: extensions, unsupported fields, and combinations of schemas."""
    for name in _UNSUPPORTED:
        if name in schema:
            yield forbidden_field(f"{path}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", why)
    if schema.get(_PRESERVES) is False:
        yield invalid_value(f"{path}.{_PRESERVES}", False, "must be true or undefined")
    yield from _kind_errors(schema, path)
    yield from _list_errors(schema, path)
    yield from _combination_errors(schema, path)


def _kind_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Check that extensions stand at the type that they are for."""
    kind = schema.get("type", "")
    for name, known in (
        (_LIST_TYPE, ("atomic", "set", "map")),
        (_MAP_TYPE, ("atomic", "granular")),
    ):
        if name in schema and schema[name] not in known:
            yield unsupported(f"{path}.{name}", schema[name], known)
    if schema.get(_EMBEDDED) and not (schema.get("properties") or schema.get(_PRESERVES)):
        why = f"must not be empty if {_EMBEDDED} is true without {_PRESERVES}"
        yield required(f"{path}.properties", why)
    for name, wanted, is_set in (
        (_LIST_TYPE, "array", "is specified"),
        (_MAP_TYPE, "object", "is specified"),
        (_EMBEDDED, "object", "is true"),
    ):
        if schema.get(name) and kind != wanted:
            yield invalid_value(f"{path}.type", kind, f"must be {wanted} if {name} {is_set}")


def _list_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    kind, items = schema.get(_LIST_TYPE), schema.get("items") or {}
    if schema.get(_KEYS) and kind != "map":
        yield required(f"{path}.{_LIST_TYPE}", f"must be map if {_KEYS} is non-empty")
    if kind not in ("map", "set"):
        return
    if items.get("nullable"):
        yield forbidden_field(
            f"{path}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is {kind}"
        )
    if kind == "map":
        yield from _key_errors(schema.get(_KEYS) or [], items, path)
    elif items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        why = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        yield invalid_value(f"{path}.items.{_MAP_TYPE}", items.get(_MAP_TYPE), why)


def _key_errors(keys: list[str], items: JsonObject, path: str) -> Iterator[FieldError]:
    kind, properties = items.get("type", ""), items.get("properties") or {}
    if kind != "object":
        why = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid_value(f"{path}.items.type", kind, why)
        return
    if not properties.keys() >= set(keys):
        yield invalid_value(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
    if len(set(keys)) < len(keys):
        yield invalid_value(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
    for key in dict.fromkeys(key for key in keys if key in properties):
        at, of_key = f"{path}.items.properties[{key}]", properties[key]
        if of_key.get("type") in ("array", "object"):
            why = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid_value(f"{at}.type", of_key["type"], why)
        if "default" not in of_key and key not in (items.get("required") or ()):
            why = (
                f"this property is in {_KEYS}, so it must have a default or be a required property"
            )
            yield required(f"{at}.default", why)


def _combination_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the schemas that a value must also fit."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            at = f"{path}.{name}[{index}]"
            if schema.get(_INT_OR_STRING) and (name != "allOf" or index == 0):
                # The alternatives of such a field may name their types.
                inner = _without_alternatives(schema, inner, name)
            yield from _inner_errors(inner, at)
    if "not" in schema:
        yield from _inner_errors(schema["not"], f"{path}.not")


def _without_alternatives(outer: JsonObject, inner: JsonObject, name: str) -> JsonObject:
    def names_both(schema: JsonObject) -> bool:
        return [part.get("type") for part in schema.get("anyOf") or ()] == ["integer", "string"]

    if name == "anyOf" and names_both(outer):
        return {field: value for field, value in inner.items() if field != "type"}
    if name == "allOf" and names_both(inner):
        return {field: value for field, value in inner.items() if field != "anyOf"}
    return inner


def _inner_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    for name, inner in (schema.get("properties") or {}).items():
        yield from _inner_errors(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _inner_errors(schema["items"], f"{path}.items")
    for name, wanted in _OUTER.items():
        if schema.get(name) or (wanted == "undefined" and name in schema):
            yield forbidden_field(f"{path}.{name}", f"must be {wanted} to be structural")
    yield from _combination_errors(schema, path)
