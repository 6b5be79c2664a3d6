"""LimitRanges (pkg/apis/core/validation, ValidateLimitRange)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import FieldError, duplicate, forbidden_field, invalid_value
from hotmap.local.names import qualified_name_errors
from hotmap.local.quantity import quantity_or_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


def limits_errors(limits: JsonObject) -> Iterator[FieldError]:
    """Check a LimitRange."""
    seen: set[str] = set()
    for index, item in enumerate((limits.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{index}]"
        kind = item.get("type", "")
        for why in qualified_name_errors(kind):
            yield invalid_value(f"{path}.type", kind, why)
        if kind and "/" not in kind and kind not in ("Container", "PersistentVolumeClaim", "Pod"):
            why = "must be a standard limit type or fully qualified"
            yield invalid_value(f"{path}.type", kind, why)
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    yield forbidden_field(
                        f"{path}.{field}", "may not be specified when `type` is 'Pod'"
                    )
        yield from _limit_errors(item, path)


# The greater amount must not be less than the smaller one: the field that is wrong, the smaller,
# the greater, whose value is shown, and how the text calls both.
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
    fields = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    names = sorted({name for field in fields for name in item.get(field) or {}})
    for name in names:
        for field, small, great, shown, first, second in _LIMIT_ORDER:
            low, high = (item.get(small) or {}).get(name), (item.get(great) or {}).get(name)
            if (
                low is not None
                and high is not None
                and quantity_or_zero(low) > quantity_or_zero(high)
            ):
                value = item[shown][name]
                why = f"{first} {low} {second} {high}"
                yield invalid_value(f"{path}.{field}[{name}]", str(value), why)
