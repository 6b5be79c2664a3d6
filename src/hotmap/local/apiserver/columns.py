"""Columns that several kinds share, and how cells are written.

pkg/printers/internalversion/printers.go; ages are those of apimachinery/pkg/util/duration.
"""

from __future__ import annotations

import calendar
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hotmap.local.json_object import JsonObject
from hotmap.local.strategy import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Callable


def human_duration(seconds: float) -> str:
    """Write a duration as kubectl does: at most two units (HumanDuration)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    minutes, hours = whole // 60, whole // 3600
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(hours // 24, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    if hours < 24 * 365 * 8:
        return _two(hours // (24 * 365), "y", hours // 24 % 365, "d")
    return f"{hours // (24 * 365)}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def ago(timestamp: str | None, now: float) -> str:
    if not timestamp:
        return "<unknown>"
    return human_duration(now - posix(timestamp))


@lru_cache(maxsize=4096)
def posix(timestamp: str) -> float:
    """Read RFC 3339 to whole seconds; objects of one second share it."""
    whole = timestamp.partition(".")[0].rstrip("Z")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))


def age_cell(obj: JsonObject, now: float) -> Cell:
    return ago(obj["metadata"].get("creationTimestamp"), now)


def name_cell(obj: JsonObject, _: float) -> Cell:
    return str(obj["metadata"].get("name", ""))


def field_cell(path: str, missing: Cell = "") -> Callable[[JsonObject, float], Cell]:
    """Show one field, `missing` where it is absent."""
    parts = path.split(".")

    def cell(obj: JsonObject, _: float) -> Cell:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        return missing if value is None or value == "" else value

    return cell


def labels_text(labels: JsonObject | None) -> str:
    """Write labels (labels.FormatLabels)."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: JsonObject | None) -> str:
    """Write a LabelSelector, "" for one that selects everything (LabelSelectorAsSelector)."""
    labels = (selector or {}).get("matchLabels") or {}
    terms = [(key, f"{key}={value}") for key, value in labels.items()]
    for expression in (selector or {}).get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = ",".join(sorted(expression.get("values") or ()))
        shown = {"Exists": key, "DoesNotExist": f"!{key}"}
        terms.append((key, shown.get(operator, f"{key} {operator.lower()} ({values})")))
    return ",".join(term for _, term in sorted(terms, key=lambda term: term[0]))


def template_columns(template: str, selector: str = "") -> tuple[Column, ...]:
    """Show the containers of a pod template at a path, and a LabelSelector at another."""
    find_template, find_selector = field_cell(template), field_cell(selector or "metadata")

    def containers(field: str) -> Callable[[JsonObject, float], Cell]:
        def cell(obj: JsonObject, now: float) -> Cell:
            found: Any = find_template(obj, now) or {}
            listed = (found.get("spec") or {}).get("containers") or ()
            return ",".join(container.get(field, "") for container in listed)

        return cell

    def selected(obj: JsonObject, now: float) -> Cell:
        found: Any = find_selector(obj, now) or {}
        return selector_text(found) or "<none>"

    columns = (
        Column("Containers", containers("name"), 1),
        Column("Images", containers("image"), 1),
    )
    return (*columns, Column("Selector", selected, 1)) if selector else columns


def converted_columns(
    columns: tuple[Column, ...], convert: Callable[[JsonObject], JsonObject]
) -> tuple[Column, ...]:
    """Show objects of another version by the columns of the stored one."""

    def converted(column: Column) -> Column:
        return column._replace(cell=lambda obj, now: column.cell(convert(obj), now))

    return tuple(map(converted, columns))


NAME = Column("Name", name_cell)
CREATED_AT = Column("Created At", field_cell("metadata.creationTimestamp"), type="date")
AGE = Column("Age", age_cell)
