"""Events (pkg/registry/core/event/strategy.go; validation: legacyValidateEvent)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.columns import ago, converted_columns, field_cell, name_cell
from hotmap.local.field_errors import (
    IMMUTABLE,
    FieldError,
    invalid_value,
    required,
    rule_errors,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import path_segment_errors, qualified_name_errors
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

    def name_errors(self, name: str) -> list[str]:
        return path_segment_errors(name)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return _event_errors(obj, "reportingComponent")


def _event_errors(obj: JsonObject, controller_field: str) -> list[FieldError]:
    """Check an Event as core/v1 has it; one without `eventTime` is of the older kind."""
    involved = (obj.get("involvedObject") or {}).get("namespace", "")
    namespace, is_new = obj["metadata"]["namespace"], bool(obj.get("eventTime"))
    errors: list[FieldError] = []
    if is_new:
        matches = involved != "" or namespace in ("default", "kube-system")
    else:
        matches = (involved or "default") == namespace
    if not matches:
        why = "does not match event.namespace"
        errors.append(invalid_value("involvedObject.namespace", involved, why))
    if not is_new:
        return errors
    controller = obj.get("reportingComponent", "")
    if not controller:
        errors.append(required(controller_field))
    errors += rule_errors(controller_field, controller, qualified_name_errors)
    for field, is_required, limit in _NEW_FIELDS:
        value = obj.get(field, "")
        if is_required and not value:
            errors.append(required(field))
        if len(value.encode()) > limit:
            errors.append(invalid_value(field, "", f"can have at most {limit} characters"))
    return errors


# Texts of Events with an `eventTime`: whether they are required, and their greatest length.
_NEW_FIELDS = (
    ("reportingInstance", True, 128),
    ("action", True, 128),
    ("reason", True, 128),
    ("message", False, 1024),
)


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
        event = _to_core(obj)
        errors = _event_errors(event, "reportingController")
        if not event.get("eventTime"):
            errors.append(required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            why = f"has invalid value: {event.get('type', '')}"
            errors.append(invalid_value("type", "", why))
        for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if event.get(field):
                errors.append(invalid_value(field, "", "needs to be unset"))
        return errors + _series_errors(event)

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        """Check that nothing but the series changes (ValidateEventUpdate)."""
        before, after = _to_core(old), _to_core(new)
        errors = _event_errors(after, "reportingController")
        # Values of the involved object would be shown by Go's names.
        errors += [
            invalid_value(field, after.get(field, ""), IMMUTABLE)
            for field in _FIXED
            if before.get(field) != after.get(field)
        ]
        return errors + _series_errors(after)


# What an update by events.k8s.io/v1 may not change, in the order of messages.
_FIXED = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def _series_errors(event: JsonObject) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors: list[FieldError] = []
    if series.get("count", 0) < _FEWEST:
        errors.append(invalid_value("series.count", "", f"should be at least {_FEWEST}"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


# Events that make a series.
_FEWEST = 2


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
