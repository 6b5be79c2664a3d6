"""Strategic merge patch: lists of named things merge by name instead of being replaced.

Which list merges by which key is written in Go's struct tags (`patchStrategy`,
`patchMergeKey`), which `api_types` holds. The algorithm, including where new elements land, is that
of apimachinery/pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.api_types import METADATA, Field, api_types
from hotmap.local.apiserver.status import go_text, internal
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_METADATA_ONLY = {"metadata": Field(f"#{METADATA}")}


def strategic_merge_patch(
    obj: JsonObject, patch: JsonObject, *, type_name: str | None
) -> JsonObject:
    """Apply a strategic merge patch to an object of a type of `api_types`, None for no type.

    Raises:
        BadRequest: the list of retained keys is malformed.
        ApiError: 500, another directive or a list is, or an element has no merge key.
    """
    fields = api_types().types[type_name] if type_name else _METADATA_ONLY
    return _merge_map(obj, patch, fields)


def _merges(field: Field) -> bool:
    """Return whether a list merges instead of being replaced."""
    return field.type.startswith("[]") and "merge" in field.patch_strategy


def _fields_of(type_text: str) -> Mapping[str, Field]:
    """Return the fields of a type of the table, none if it is not an object."""
    return api_types().types.get(type_text.rpartition("#")[2], {})


def _merge_map(original: JsonObject, patch: JsonObject, fields: Mapping[str, Field]) -> JsonObject:
    match patch.get(_DIRECTIVE):
        case "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return {}
        case None:
            pass
        case unknown:
            raise _unknown_directive(patch, unknown)
    merged = _retained(original, patch)
    orders: dict[str, list[Any]] = {}
    for name, value in patch.items():
        if name.startswith(_SET_ORDER):
            field = fields.get(name.removeprefix(_SET_ORDER))
            order = orders[name.removeprefix(_SET_ORDER)] = _as_list(value)
            sent = patch.get(name.removeprefix(_SET_ORDER))
            _check_order(sent, order, field.patch_merge_key if field is not None else "")
        elif name.startswith(_DELETE_FROM):
            listed = name.removeprefix(_DELETE_FROM)
            gone = set(map(_hashable, _as_list(value)))
            if listed in merged:
                kept = [item for item in merged[listed] if _hashable(item) not in gone]
                merged[listed] = kept
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(merged, name, value, fields.get(name))
    for name, order in orders.items():
        merging = fields.get(name)
        if merging is not None and _merges(merging) and isinstance(merged.get(name), list):
            server_order = original.get(name) or []
            merged[name] = _in_order(merged[name], order, server_order, merging.patch_merge_key)
    return merged


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    if _RETAIN_KEYS not in patch:
        return dict(original)
    retained = patch[_RETAIN_KEYS]
    sent = {
        name
        for name, value in patch.items()
        if value is not None and not name.startswith((_SET_ORDER, _DELETE_FROM, _RETAIN_KEYS))
    }
    if not isinstance(retained, list) or not sent <= {
        key for key in retained if isinstance(key, str)
    }:
        # applyRetainKeysDirective
        raise BadRequest("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in retained}


def _merge_field(merged: JsonObject, name: str, value: Any, field: Field | None) -> None:
    if value is None:
        merged.pop(name, None)
        return
    known = merged.get(name)
    if isinstance(value, dict):
        if field is not None and "replace" in field.patch_strategy:
            merged[name] = value
        elif isinstance(known, dict):
            fields = _fields_of(field.type) if field is not None else {}
            merged[name] = _merge_map(known, value, fields)
        elif _DIRECTIVE in value:
            # A directive that meets nothing takes its map along (removeDirectives).
            merged.pop(name, None)
        else:
            merged[name] = _without_directives(value)
    elif isinstance(value, list) and isinstance(known, list):
        merged[name] = _merge_list(known, value, field) if field and _merges(field) else value
    else:
        merged[name] = _without_directives(value)


def _merge_list(original: list[Any], patch: list[Any], field: Field) -> list[Any]:
    _check_types(original, patch)
    if not field.patch_merge_key:
        union = list({_hashable(item): item for item in [*original, *patch]}.values())
        return _in_order(union, patch, original, "")
    elements, replaces = _plain_elements(original, patch, field.patch_merge_key)
    if replaces:
        return elements.patch
    fields = _fields_of(field.type)
    merged = elements.original
    places: dict[Hashable, int] = {}
    for place, item in enumerate(merged):
        places.setdefault(_hashable(item.get(field.patch_merge_key)), place)
    for element in elements.patch:
        wanted = _hashable(_merge_value(element, field.patch_merge_key))
        at = places.setdefault(wanted, len(merged))
        if at == len(merged):
            merged.append(element)
        else:
            merged[at] = _merge_map(merged[at], element, fields)
    return _in_order(merged, elements.patch, original, field.patch_merge_key)


class _Elements(NamedTuple):
    original: list[JsonObject]
    patch: list[JsonObject]


def _plain_elements(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[_Elements, bool]:
    """Carry out the elements that are directives; say whether one replaces the list."""
    gone: set[Hashable] = set()
    plain: list[JsonObject] = []
    replaces = False
    for element in patch:
        match element.get(_DIRECTIVE):
            case "delete":
                gone.add(_hashable(_merge_value(element, merge_key)))
            case "replace":
                replaces = True
            case "merge":
                raise internal("merging lists cannot yet be specified in the patch")
            case None:
                plain.append(element)
            case unknown:
                raise _unknown_directive(element, unknown)
    kept = [item for item in original if _hashable(item.get(merge_key)) not in gone]
    return _Elements(kept, plain), replaces


def _unknown_directive(part: JsonObject, directive: object) -> Exception:
    return internal(f"unknown patch type: {directive} in map: {go_text(part)}")


def _merge_value(element: Any, merge_key: str) -> Any:
    if not isinstance(element, dict):
        raise internal(f"expected a map[string]interface {{}}, but received a {_go_type(element)}")
    if merge_key not in element:
        raise internal(f"map: {go_text(element)} does not contain declared merge key: {merge_key}")
    return element[merge_key]


def _hashable(value: Any) -> Hashable:
    """Return what is equal for equal values, so that long lists are not searched item by item."""
    return msgspec.json.encode(value, order="sorted") if isinstance(value, (dict, list)) else value


def _in_order(
    merged: list[Any], patch_order: list[Any], server_order: list[Any], merge_key: str
) -> list[Any]:
    """Order a merged list (normalizeElementOrder).

    What the patch names keeps the patch's order, the rest keeps the server's. The rest is then
    put among them as early as the server's order demands, so new elements land in front.
    """

    def key(item: Any) -> Hashable:
        return _hashable(item.get(merge_key) if merge_key and isinstance(item, dict) else item)

    wanted, place = _places(map(key, patch_order)), _places(map(key, server_order))
    named = deque(sorted((i for i in merged if key(i) in wanted), key=lambda i: wanted[key(i)]))
    rest = [item for item in merged if key(item) not in wanted]
    others = deque(sorted(rest, key=lambda item: place.get(key(item), len(server_order))))
    result: list[Any] = []
    while named and others:
        before = place.get(key(others[0]), -1), place.get(key(named[0]), -1)
        is_before = before[0] >= 0 and before[1] >= 0 and before[0] < before[1]
        result.append((others if is_before else named).popleft())
    return [*result, *named, *others]


def _places(order: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return where each value comes first."""
    places: dict[Hashable, int] = {}
    for place, value in enumerate(order):
        places.setdefault(value, place)
    return places


def _without_directives(value: Any) -> Any:
    """Drop directives and nulls from a part of a patch that meets nothing to merge with."""
    if isinstance(value, dict):
        return {
            name: _without_directives(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("$") and not _is_directive(inner)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise internal(f"expected a []interface {{}}, but received a {_go_type(value)}")
    return value


def _check_types(original: list[Any], patch: list[Any]) -> None:
    """Refuse to merge lists whose elements are of several types (sliceElementType)."""
    elements = [*original, *patch]
    if len({_go_type(element) for element in elements}) > 1:
        raise internal(f"list element types are not identical: {go_text([original, patch])}")


def _check_order(patch: Any, order: list[Any], merge_key: str) -> None:
    """Refuse a list that is not in its own order (validatePatchWithSetOrderList)."""
    if not isinstance(patch, list) or not order:
        return
    wanted = [_merge_value(item, merge_key) if merge_key else item for item in order]
    left = iter(wanted)
    for item in patch:
        if not _is_directive(item):
            value = _merge_value(item, merge_key) if merge_key else item
            if not any(value == known for known in left):
                raise internal(
                    f"The order in patch list:\n{go_text(patch)}\n doesn't match {_SET_ORDER[:-1]} "
                    f"list:\n{go_text(order)}\n"
                )


def _go_type(value: Any) -> str:
    """Name the type that a decoded value has in Go."""
    if value is None:
        return "%!s(<nil>)"
    names = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return names.get(
        type(value), "[]interface {}" if isinstance(value, list) else "map[string]interface {}"
    )
