"""Patches: JSON patch, JSON merge patch, and strategic merge patch by its own module.

JSON patch as the library upstream uses does it (gopkg.in/evanphx/json-patch.v4), with its
departures from RFC 6902: `replace` creates a missing member of a map, a `test` for null is met
by a missing member, a `copy` of one copies null, negative indices count from the end, what comes
before the first slash of a path is not looked at, and the empty path is for `replace` and `test`
only.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.apiserver.api_types import type_of
from hotmap.local.apiserver.nesting import MAX_DEPTH, is_too_deep
from hotmap.local.apiserver.strategic import strategic_merge_patch
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.client import PatchKind
    from hotmap.local.scheme import Kind

# apiserver/pkg/endpoints/handlers/patch.go: maxJSONPatchOperations
MAX_OPERATIONS = 10_000
# Bytes that all copies of a JSON patch may make (jsonpatch.AccumulatedCopySizeLimit).
MAX_COPIED = 3 << 20


def apply_patch(kind: PatchKind, obj: JsonObject, patch: object, *, of: Kind) -> JsonObject:
    """Apply a patch to an object of a kind; return the result, the object may be used up.

    Raises:
        BadRequest: the patch is not of its dialect's form.
        Invalid: an operation of a JSON patch does not apply.
        ApiError: 413, a JSON patch has too many operations.
    """
    if kind == "json":
        patched = json_patch(obj, patch)
        if is_too_deep(patched):
            # Merging makes nothing deeper than the two are that are merged.
            raise BadRequest(f"exceeded max depth of {MAX_DEPTH}")
    elif not isinstance(patch, dict):
        raise BadRequest("error decoding patch: it must be an object")
    elif kind == "merge":
        patched = merge_patch(obj, patch)
    else:
        patched = strategic_merge_patch(obj, patch, type_name=type_of(of))
    if not isinstance(patched, dict):
        raise BadRequest("the patch does not leave an object")
    return patched


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): null removes, maps merge, all else replaces.

    Unlike in the RFC, there are no nulls in the maps of a new list, either (pruneAryNulls).
    """
    if isinstance(patch, list):
        return [merge_patch(None, item) for item in patch]
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(document: Any, patch: object) -> Any:
    """Apply a JSON patch (RFC 6902) to a document, which is changed in place."""
    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise BadRequest("error decoding patch: a JSON patch must be a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise api_error(
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(patch)}",
            reason="RequestEntityTooLarge",
        )
    # A list around the document lets the empty path mean the document itself.
    root = [document]
    copied = 0
    try:
        for step in patch:
            copied += _operate(root, step)
            if copied > MAX_COPIED:
                raise api_error(
                    413,
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MAX_COPIED}",
                    reason="RequestEntityTooLarge",
                )
        return root[0]
    except (LookupError, TypeError, ValueError):
        # The document itself may be gone as well. Upstream does not name the operation, either.
        raise api_error(
            422,
            "the server rejected our request due to an error in our request",
            reason="Invalid",
        ) from None


def _operate(root: list[Any], step: JsonObject) -> int:
    """Carry out a step; return the bytes that it copied."""
    path = _pointer(step["path"])
    if len(path) == 1 and step["op"] not in ("replace", "test"):
        raise ValueError(path)
    match step["op"]:
        case "add":
            _add(root, path, step.get("value"))
        case "remove":
            _remove(root, path)
        case "replace":
            _replace(root, path, step.get("value"))
        case "move":
            _add(root, path, _remove(root, _pointer(step["from"])))
        case "copy":
            value = _copied(root, _pointer(step["from"]))
            _add(root, path, deepcopy(value))
            return len(msgspec.json.encode(value))
        case "test":
            _test(root, path, step.get("value"))
        case unknown:
            raise ValueError(unknown)
    return 0


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and "/" not in text):
        raise ValueError(text)
    parts = text.split("/")[1:]
    return ["0", *(part.replace("~1", "/").replace("~0", "~") for part in parts)]


def _get(root: list[Any], path: list[str]) -> Any:
    value: Any = root
    for part in path:
        value = value[part] if isinstance(value, dict) else _list(value)[_index(value, part)]
    return value


def _copied(root: list[Any], path: list[str]) -> Any:
    """Get what a copy copies: null for a missing member of a map, never the whole document."""
    if len(path) == 1:
        raise ValueError(path)
    parent, last = _get(root, path[:-1]), path[-1]
    return parent.get(last) if isinstance(parent, dict) else _get(root, path)


def _add(root: list[Any], path: list[str], value: Any) -> None:
    parent, last = _get(root, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        _list(parent).append(value)
    else:
        # One more place than there are elements: the end is a place to insert at.
        elements = _list(parent)
        elements.insert(_index(elements, last, places=len(elements) + 1), value)


def _remove(root: list[Any], path: list[str]) -> Any:
    parent, last = _get(root, path[:-1]), path[-1]
    if isinstance(parent, dict):
        return parent.pop(last)
    elements = _list(parent)
    return elements.pop(_index(elements, last))


def _replace(root: list[Any], path: list[str], value: Any) -> None:
    parent, last = _get(root, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    else:
        _list(parent)[_index(parent, last)] = value


def _test(root: list[Any], path: list[str], wanted: Any) -> None:
    parent, last = _get(root, path[:-1]), path[-1]
    found = parent.get(last) if isinstance(parent, dict) else _get(root, path)
    if found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
        raise ValueError("test failed")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("neither a map nor a list")
    return value


def _index(elements: list[Any], text: str, *, places: int | None = None) -> int:
    count = len(elements) if places is None else places
    index = int(text)
    if index < 0:
        index += count
    if not 0 <= index < count:
        raise IndexError(text)
    return index
