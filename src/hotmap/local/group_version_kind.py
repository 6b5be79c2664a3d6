"""The name of a kind of objects, as the objects themselves say it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupVersionKind"]


class GroupVersionKind(NamedTuple):
    """Group, version and kind of an object (schema.GroupVersionKind)."""

    group: str
    version: str
    kind: str
