"""Columns that several kinds share, and how cells are written.

pkg/printers/internalversion/printers.go; ages are those of apimachinery/pkg/util/duration.
"""

from __future__ import annotations

import calendar
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hotmap.local.strategy import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, Any]


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
    return human_duration(now - _posix(timestamp))


@lru_cache(maxsize=4096)
def _posix(timestamp: str) -> float:
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


NAME = Column("Name", name_cell)
AGE = Column("Age", age_cell)
