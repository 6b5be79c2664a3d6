"""ControllerRevisions (pkg/registry/apps/controllerrevision/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.field_errors import (
    IMMUTABLE,
    NOT_NEGATIVE,
    FieldError,
    invalid_value,
    required,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell


def _owner(obj: JsonObject, _: float) -> Cell:
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return "<none>"


class ControllerRevisionStrategy(Strategy):
    columns = (
        NAME,
        Column("Controller", _owner),
        Column("Revision", field_cell("revision", 0)),
        AGE,
    )

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors, data = _revision_errors(obj), obj.get("data")
        if data is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = _revision_errors(new)
        if old.get("data") != new.get("data"):
            errors.append(invalid_value("data", new.get("data"), IMMUTABLE))
        return errors


def _revision_errors(obj: JsonObject) -> list[FieldError]:
    revision = obj.get("revision", 0)
    return [invalid_value("revision", revision, NOT_NEGATIVE)] if revision < 0 else []


CONTROLLERREVISIONS = Kind(
    "apps",
    ("v1",),
    Names("controllerrevisions", "ControllerRevision", storage="controllerrevisions"),
    strategy=ControllerRevisionStrategy(),
)
