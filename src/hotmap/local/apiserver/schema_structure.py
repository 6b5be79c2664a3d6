"""The structure of custom resources, by their schemas, for field sets and server-side apply.

k8s.io/kube-openapi/pkg/schemaconv: lists by `x-kubernetes-list-type`, maps by
`x-kubernetes-map-type`; what a schema does not say is a map of fields or a list as a whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.api_types import METADATA, Field
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.strategy import Strategy

__all__ = ["SchemaField", "custom_root"]

_TYPES = {"string": "string", "integer": "int64", "number": "number", "boolean": "bool"}


class SchemaField(Field, frozen=True, kw_only=True):
    """A field whose structure is in a schema; `type` is "struct" or "list"."""

    #: Of a struct: the fields that the schema names.
    fields: dict[str, Field]
    #: Of a struct: every other field; of a list: an item.
    inner: Field
    #: Of a list: what the keys of an item are where it leaves them out.
    defaults: dict[str, Any]
    #: Of a struct: whether it has no other fields than those of the schema.
    closed: bool = False


_ANY = Field("any", pointer=True)


@lru_cache(maxsize=1024)
def custom_root(strategy: Strategy) -> Field:
    """Return the structure of the objects of a kind without a type in the table."""
    schema = strategy.openapi_schema() or {}
    known: dict[str, Field] = {
        name: _field(inner) for name, inner in (schema.get("properties") or {}).items()
    }
    known["metadata"] = Field(f"#{METADATA}")
    closed = _is_closed(schema)
    return SchemaField("struct", fields=known, inner=_ANY, defaults={}, closed=closed)


def _is_closed(schema: JsonObject) -> bool:
    return bool(schema.get("properties")) and not (
        schema.get("x-kubernetes-preserve-unknown-fields")
        or "additionalProperties" in schema
        or schema.get("x-kubernetes-embedded-resource")
    )


def _field(schema: JsonObject) -> Field:
    match schema.get("type"):
        case "object":
            return _struct(schema)
        case "array":
            items = schema.get("items") or {}
            return SchemaField(
                "list",
                pointer=True,
                list_type=schema.get("x-kubernetes-list-type", "atomic"),
                list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
                fields={},
                inner=_field(items),
                defaults=_defaults(items),
            )
        case str() as scalar:
            return Field(_TYPES.get(scalar, "string"), pointer=True)
    return _ANY


def _struct(schema: JsonObject) -> Field:
    additional = schema.get("additionalProperties")
    known = {name: _field(inner) for name, inner in (schema.get("properties") or {}).items()}
    inner = _field(additional) if isinstance(additional, dict) else _ANY
    map_type = schema.get("x-kubernetes-map-type", "")
    return SchemaField(
        "struct",
        pointer=True,
        map_type=map_type,
        fields=known,
        inner=inner,
        defaults={},
        closed=_is_closed(schema),
    )


def _defaults(schema: JsonObject) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    return {name: inner["default"] for name, inner in properties.items() if "default" in inner}
