"""Events (pkg/registry/core/event/strategy.go; validation: legacyValidateEvent)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import ago, converted_columns, field_cell, name_cell
from hotmap.local.field_errors import FieldError, invalid_value, required
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Conversion, Kind, Names
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from hotmap.local.strategy import Cell


def _object(event: JsonObject, _: float) -> Cell:
    involved = event.get("involvedObject", {})
    kind, name = involved.get("kind", "").lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def _first_seen(event: JsonObject, now: float) -> Cell:
    return ago(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: JsonObject, now: float) -> Cell:
    series, last = event.get("series"), event.get("lastTimestamp")
    if series:
        return ago(series.get("lastObservedTime"), now)
    return ago(last, now) if last else _first_seen(event, now)


def _source(event: JsonObject, _: float) -> Cell:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance")
    return f"{component}, {host}" if host else component


def _count(event: JsonObject, _: float) -> Cell:
    return (event.get("series") or event).get("count") or 1


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
    columns: tuple[Column, ...] = (
        Column("Last Seen", _last_seen),
        Column("Type", field_cell("type")),
        Column("Reason", field_cell("reason")),
        Column("Object", _object),
        Column("Subobject", field_cell("involvedObject.fieldPath"), 1),
        Column("Source", _source, 1),
        Column("Message", _message),
        Column("First Seen", _first_seen, 1),
        Column("Count", _count, 1),
        Column("Name", name_cell, 1),
    )

    def default(self, obj: JsonObject) -> None:
        """Set the fields that Go writes even if they are empty."""
        for field in ("eventTime", "firstTimestamp", "lastTimestamp"):
            obj.setdefault(field, None)
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Check that an Event is in its object's namespace, or in `default` for one without."""
        involved = (obj.get("involvedObject") or {}).get("namespace", "")
        if (involved or "default") == obj["metadata"]["namespace"]:
            return []
        why = "does not match event.namespace"
        return [invalid_value("involvedObject.namespace", involved, why)]


# Fields of events.k8s.io/v1 and how core/v1 calls them (pkg/apis/events/v1/conversion.go).
_RENAMED = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def _renamed(event: JsonObject, names: dict[str, str], api_version: str) -> JsonObject:
    renamed = {names.get(field, field): value for field, value in event.items()}
    return {**renamed, "apiVersion": api_version}


def _to_core(event: JsonObject) -> JsonObject:
    return _renamed(event, dict(_RENAMED), "v1")


def _from_core(event: JsonObject) -> JsonObject:
    return _renamed(event, {core: new for new, core in _RENAMED}, "events.k8s.io/v1")


class NewEventStrategy(EventStrategy):
    """Events of events.k8s.io/v1, which require more fields than core/v1."""

    selectable_fields = (
        *field_labels(
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "type",
            "reportingController",
        ),
        ("source", ("deprecatedSource", "component")),
    )
    columns = converted_columns(EventStrategy.columns, _to_core)

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("eventTime", None)
        obj.setdefault("deprecatedSource", {})
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
            obj.setdefault(field, None)
        obj.setdefault("regarding", {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Check what the newer API asks for (ValidateEventCreate)."""
        errors = super().validate(_to_core(obj))
        if not obj.get("eventTime"):
            errors.append(required("eventTime"))
        for field in ("reportingController", "reportingInstance", "action", "reason"):
            if not obj.get(field):
                errors.append(
                    required("reportingComponent" if field.endswith("Controller") else field)
                )
        if obj.get("type") not in ("Normal", "Warning"):
            errors.append(
                invalid_value("type", "", "has invalid value: " + str(obj.get("type", "")))
            )
        return errors


EVENTS = Kind(
    "",
    ("v1",),
    Names("events", "Event", ("ev",), storage="events"),
    strategy=EventStrategy(),
)
NEW_EVENTS = Kind(
    "events.k8s.io",
    ("v1",),
    Names("events", "Event", ("ev",), storage="events"),
    strategy=NewEventStrategy(),
    conversion=Conversion(_to_core, _from_core),
)
