"""LimitRanges (pkg/apis/core/validation, ValidateLimitRange)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.resource_names import (
    container_resource_errors,
    is_extended,
    resource_name_errors,
)
from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    rule_errors,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import qualified_name_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

_RATIO = "maxLimitRequestRatio"
_FIELDS = ("max", "min", "default", "defaultRequest", _RATIO)


def limits_errors(limits: JsonObject) -> Iterator[FieldError]:
    """Check a LimitRange."""
    seen: set[str] = set()
    for index, item in enumerate(limits["spec"].get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item["type"]
        errors = rule_errors(f"{path}.type", kind, qualified_name_errors)
        yield from errors
        if (
            not errors
            and "/" not in kind
            and kind not in ("Container", "PersistentVolumeClaim", "Pod")
        ):
            why = "must be a standard limit type or fully qualified"
            yield invalid_value(f"{path}.type", kind, why)
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        for field in _FIELDS:
            yield from _amounts_errors(item, path, field)
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in (item.get(field) or ()) for field in ("min", "max")
        ):
            why = "either minimum or maximum storage value is required, but neither was provided"
            yield required(f"{path}.limits", why)
        yield from _limit_errors(item, path)


def _amounts_errors(item: JsonObject, path: str, field: str) -> Iterator[FieldError]:
    kind, names = item["type"], item.get(field) or ()
    if kind == "Pod" and field.startswith("default"):
        if names:
            yield forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        return
    of_pods = kind in ("Pod", "Container")
    for name in sorted(names):
        errors = container_resource_errors if of_pods else resource_name_errors
        yield from errors(name, f"{path}.{field}[{name}]")


# Two amounts of which the first must not exceed the second: the field that is reported, the fields
# of both amounts, the field whose value is shown, and the parts of the message before each amount.
_LIMIT_ORDER = (
    ("min", "min", "max", "min", "min value", "is greater than max value"),
    ("defaultRequest", "min", "defaultRequest", "defaultRequest", "min value",
     "is greater than default request value"),
    ("defaultRequest", "defaultRequest", "max", "defaultRequest", "default request value",
     "is greater than max value"),
    ("defaultRequest", "defaultRequest", "default", "defaultRequest", "default request value",
     "is greater than default limit value"),
    ("default", "min", "default", "min", "min value", "is greater than default value"),
    ("default", "default", "max", "max", "default value", "is greater than max value"),
)  # fmt: skip


def _limit_errors(item: JsonObject, path: str) -> Iterator[FieldError]:
    for name in sorted({name for field in _FIELDS for name in item.get(field) or {}}):
        shown = {field: (item.get(field) or {}).get(name) for field in _FIELDS}
        amounts = {field: quantity_or_zero(text) for field, text in shown.items() if text}
        for field, small, great, wrong, first, second in _LIMIT_ORDER:
            if {small, great} <= amounts.keys() and amounts[small] > amounts[great]:
                why = f"{first} {shown[small]} {second} {shown[great]}"
                yield invalid_value(f"{path}.{field}[{name}]", shown[wrong], why)
        at, ratio = f"{path}.{_RATIO}[{name}]", amounts.get(_RATIO)
        if ratio is not None and ratio < 1:
            yield invalid_value(at, shown[_RATIO], f"ratio {shown[_RATIO]} is less than 1")
        if ratio is not None and amounts.get("min") and "max" in amounts:
            most = amounts["max"] / amounts["min"]
            if ratio > most:
                why = f"ratio {shown[_RATIO]} is greater than max/min = {most:.6f}"
                yield invalid_value(at, shown[_RATIO], why)
        default, request = shown["default"], shown["defaultRequest"]
        fixed = is_extended(name) or name.startswith("hugepages-")
        if fixed and default and request and default != request:
            why = f"default value {default} must equal to defaultRequest value {request} in {name}"
            yield invalid_value(f"{path}.defaultRequest[{name}]", request, why)
