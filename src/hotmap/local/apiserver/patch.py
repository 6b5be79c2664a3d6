"""Patches: which dialect changes an object how."""

from __future__ import annotations

from typing import Any, Literal

from hotmap.core.errors import BadRequest

JsonObject = dict[str, Any]
PatchKind = Literal["json", "merge", "strategic"]


def apply_patch(kind: PatchKind, obj: JsonObject, patch: object) -> JsonObject:
    """Apply a patch to an object, which may be changed in place; return the result."""
    merged = merge_patch(obj, patch)
    if not isinstance(merged, dict):
        raise BadRequest("a merge patch of an object must be an object")
    return merged


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): null removes, maps merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
