"""ControllerRevisions (pkg/registry/apps/controllerrevision/strategy.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.field_errors import IMMUTABLE, FieldError, invalid_value
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

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        if old.get("data") == new.get("data"):
            return []
        return [invalid_value("data", new.get("data"), IMMUTABLE)]


CONTROLLERREVISIONS = Kind(
    "apps",
    ("v1",),
    Names("controllerrevisions", "ControllerRevision", storage="controllerrevisions"),
    strategy=ControllerRevisionStrategy(),
)
