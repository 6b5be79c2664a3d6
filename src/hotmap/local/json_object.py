"""The type of a JSON object: what the local plane keeps and passes on."""

from __future__ import annotations

from typing import Any

__all__ = ["JsonObject", "is_same"]

JsonObject = dict[str, Any]


def is_same(first: Any, second: Any) -> bool:
    """Return whether two values are the same in JSON, where true is not 1 as it is in Python."""
    return bool(first == second) and _has_same_truths(first, second)


def _has_same_truths(first: Any, second: Any) -> bool:
    """Return whether equal values have true and false in the same places."""
    if isinstance(first, dict):
        return all(_has_same_truths(value, second[name]) for name, value in first.items())
    if isinstance(first, list):
        return all(map(_has_same_truths, first, second))
    return isinstance(first, bool) == isinstance(second, bool)
