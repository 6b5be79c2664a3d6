"""The kinds that come of CustomResourceDefinitions.

apiextensions-apiserver/pkg/registry/customresource (strategy.go, tableconvertor). Objects are not
converted between versions: another version is another apiVersion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from hotmap.local.apiserver.columns import AGE, NAME, ago
from hotmap.local.apiserver.custom.jsonpath import find
from hotmap.local.apiserver.custom.rules import has_rules, rule_errors
from hotmap.local.apiserver.custom.schema import (
    add_defaults,
    drop_nulls,
    has_defaults,
    prune,
    shorten_floats,
    unknown_fields,
)
from hotmap.local.apiserver.custom.validation import schema_errors
from hotmap.local.apiserver.status import go_text
from hotmap.local.field_errors import invalid_value
from hotmap.local.group_version_kind import GroupVersionKind, version_order
from hotmap.local.json_object import JsonObject, is_same
from hotmap.local.scheme import SCALE, STATUS, Kind, Names
from hotmap.local.strategy import Column, ScalePaths, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotmap.local.field_errors import FieldError
    from hotmap.local.strategy import Cell

__all__ = ["CustomStrategy", "custom_kind"]


_INT32_MAX = (1 << 31) - 1
_GO_TYPES = {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}
#: What has to be right before rules make sense (customresource/strategy.go, hasBlockingErr).
_BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)


class CustomStrategy(Strategy):
    """What a definition has on the objects of one version."""

    typed = False
    is_custom = True
    has_generation = True
    unconditional_update = False

    def __init__(self, version: JsonObject, deprecation: str = "") -> None:
        self.deprecation = deprecation
        self.schema: JsonObject = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self.defaults_on_read = has_defaults(self.schema)
        self._has_rules = has_rules(self.schema)
        self.columns = _columns(version.get("additionalPrinterColumns"))
        self.selectable_fields = tuple(
            (path.lstrip("."), tuple(path.lstrip(".").split(".")))
            for path in (field["jsonPath"] for field in version.get("selectableFields") or ())
        )
        subresources = version.get("subresources") or {}
        self.has_status = "status" in subresources
        scale = subresources.get("scale")
        if scale:
            self.scale = ScalePaths(
                scale["specReplicasPath"],
                scale["statusReplicasPath"],
                scale.get("labelSelectorPath", ""),
            )

    def decode(self, kind: GroupVersionKind, obj: JsonObject) -> None:
        prune(obj, self.schema, is_root=True)
        shorten_floats(obj)

    def openapi_schema(self) -> JsonObject | None:
        return self.schema

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        return unknown_fields(obj, self.schema)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        # What a client sends is dropped, as the status has its own subresource.
        obj.pop("status", None)
        return None

    def drop_nulls(self, obj: JsonObject) -> None:
        drop_nulls(obj, self.schema)

    def default(self, obj: JsonObject) -> None:
        add_defaults(obj, self.schema)

    def _schema_errors(self, obj: JsonObject) -> list[FieldError]:
        body = {
            name: v for name, v in obj.items() if name not in ("metadata", "kind", "apiVersion")
        }
        schema = self.schema
        if schema.get("required"):
            known = ("metadata", "kind", "apiVersion")
            needed = [name for name in schema["required"] if name not in known]
            schema = {**schema, "required": needed}
        return schema_errors(body, schema)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return self._validate(obj, None)

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        return self._validate(new, old)

    def validate_status(self, obj: JsonObject) -> list[FieldError]:
        return self._validate(obj, None)

    def _scale_errors(self, obj: JsonObject) -> Iterator[FieldError]:
        """Check the numbers that a Scale shows (ValidateScaleSpec and ValidateScaleStatus)."""
        for path in (self.scale.replicas, self.scale.status_replicas) if self.scale else ():
            found: Any = obj
            for name in path.removeprefix(".").split("."):
                found = found.get(name, 0) if isinstance(found, dict) else 0
            if isinstance(found, bool) or not isinstance(found, int):
                of = _GO_TYPES.get(type(found), "map[string]interface {}")
                why = f"{path} accessor error: {go_text(found)} is of the type {of}, expected int64"
                yield invalid_value(path, 0, why)
            elif found < 0:
                yield invalid_value(path, found, "should be a non-negative integer")
            elif found > _INT32_MAX:
                why = f"should be less than or equal to {_INT32_MAX}"
                yield invalid_value(path, found, why)

    def _validate(self, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
        errors = [*self._schema_errors(obj), *self._scale_errors(obj)]
        if not self._has_rules:
            return errors
        if any(error.reason in _BLOCKING for error in errors):
            text = (
                "some validation rules were not checked because the object was invalid; "
                "correct the existing errors to complete validation"
            )
            return [*errors, invalid_value("<nil>", None, text)]
        return errors + rule_errors(obj, old, self.schema)

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        ignored = ("metadata", "status") if self.has_status else ("metadata",)
        before, after = (
            {name: v for name, v in obj.items() if name not in ignored} for obj in (old, new)
        )
        return not is_same(before, after)


def custom_kind(definition: JsonObject) -> Kind:
    """Return the kind of a definition, with its preferred version first."""
    spec, names = definition["spec"], definition["spec"]["names"]
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: version_order(version["name"]))
    strategies = {
        version["name"]: CustomStrategy(version, _deprecation(spec, version)) for version in served
    }
    first = strategies[served[0]["name"]]
    subresources = (STATUS,) if first.has_status else ()
    return Kind(
        spec["group"],
        tuple(strategies),
        Names(
            names["plural"],
            names["kind"],
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
            names.get("singular", ""),
        ),
        spec["scope"] == "Namespaced",
        (*subresources, SCALE) if first.scale else subresources,
        first,
        stored_version=next(v["name"] for v in spec["versions"] if v.get("storage")),
        version_strategies=tuple(strategies.items()),
    )


def _deprecation(spec: JsonObject, version: JsonObject) -> str:
    """Return what each answer in a version warns of (customresource_handler.go)."""
    if not version.get("deprecated"):
        return ""
    if (warning := version.get("deprecationWarning")) is not None:
        return str(warning)
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    lasting = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    best = min(lasting, key=version_order, default=name)
    instead = f"; use {group}/{best} {kind}" if version_order(best) < version_order(name) else ""
    return f"{group}/{name} {kind} is deprecated{instead}"


def _columns(described: list[JsonObject] | None) -> tuple[Column, ...]:
    if not described:
        return (NAME, AGE)
    return (
        NAME,
        *(
            Column(
                column["name"],
                _cell(column["jsonPath"], column.get("type", "string")),
                column.get("priority", 0),
                column.get("type", "string"),
            )
            for column in described
        ),
    )


def _cell(path: str, kind: str) -> Callable[[JsonObject, float], Cell]:
    """Show what a path leads to, as the type of its column says."""

    def cell(obj: JsonObject, now: float) -> Cell:
        found = find(path, obj)
        value = found[0] if found else None
        if value is None:
            return None
        match kind:
            case "integer":
                return int(value) if _is_number(value) else None
            case "number":
                return value if _is_number(value) else None
            case "boolean":
                return value if isinstance(value, bool) else None
            case "date":
                return _age(value, now) if isinstance(value, str) else None
        return _text(value)

    return cell


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _age(value: str, now: float) -> str:
    try:
        return ago(value, now)
    except ValueError:
        return "<unknown>"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
