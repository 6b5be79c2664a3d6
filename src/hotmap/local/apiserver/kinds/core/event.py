"""Events (pkg/registry/core/event/strategy.go; validation: legacyValidateEvent)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import ago, field_cell, name_cell
from hotmap.local.field_errors import FieldError, invalid_value
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell

JsonObject = dict[str, Any]


def _object(event: JsonObject, _: float) -> Cell:
    involved = event.get("involvedObject", {})
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _last_seen(event: JsonObject, now: float) -> Cell:
    last = event.get("lastTimestamp") or event.get("eventTime")
    first = event.get("firstTimestamp") or last
    count = event.get("count", 1)
    if count > 1:
        return f"{ago(last, now)} (x{count} over {ago(first, now)})"
    return ago(last, now)


def _message(event: JsonObject, _: float) -> Cell:
    return str(event.get("message", "")).strip()


class EventStrategy(Strategy):
    create_on_update = True
    selectable_fields = (
        *field_labels(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "type",
            "reportingComponent",
        ),
        ("source", ("source", "component")),
    )
    columns = (
        Column("Last Seen", _last_seen),
        Column("Type", field_cell("type")),
        Column("Reason", field_cell("reason")),
        Column("Object", _object),
        Column("Subobject", field_cell("involvedObject.fieldPath"), 1),
        Column("Source", field_cell("source.component"), 1),
        Column("Message", _message),
        Column("Count", field_cell("count", 1), 1),
        Column("Name", name_cell, 1),
    )

    def default(self, obj: JsonObject) -> None:
        """Go writes these fields whatever they hold."""
        for field in ("eventTime", "firstTimestamp", "lastTimestamp"):
            obj.setdefault(field, None)
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """An Event lies where its object lies; those of the cluster lie in `default`."""
        involved = (obj.get("involvedObject") or {}).get("namespace", "")
        if (involved or "default") == obj["metadata"]["namespace"]:
            return []
        why = "does not match event.namespace"
        return [invalid_value("involvedObject.namespace", involved, why)]


EVENTS = Kind(
    "",
    ("v1",),
    Names("events", "Event", ("ev",), storage="events"),
    strategy=EventStrategy(),
)
