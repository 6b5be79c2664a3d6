"""Sets of fields of objects: what an object has, what differs, and how FieldsV1 writes it.

sigs.k8s.io/structured-merge-diff: fieldpath (sets), typed (compare, merge). A path is a tuple of
elements as FieldsV1 writes them: `f:<field>`, `k:<keys of a list item>`, `v:<value of a set>`. The
structure comes from `api_types`, that of custom resources from their schemas (`schema_structure`);
what neither knows has maps of fields and atomic lists.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.local.apiserver.api_types import Field, api_types, type_of
from hotmap.local.apiserver.schema_structure import SchemaField, custom_root
from hotmap.local.json_object import JsonObject, is_same

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotmap.local.scheme import Kind

Path = tuple[str, ...]
FieldSet = set[Path]
# Elements of a map or a list, by the last element of their paths.
_Children = dict[str, tuple[Field, Any]]

_ANY = Field("any", pointer=True)
#: Items of a list with one element: all of them are written, and compared, as a whole.
_REPEATED = Field("repeated items", pointer=True)
_ZERO_VALUES: tuple[Any, ...] = (None, "", 0, False, {}, [])


class Difference(NamedTuple):
    """How a write has changed an object; `removed` is what it had in the fields taken away."""

    changed: FieldSet
    removed: FieldSet


def _children(field: Field, value: Any) -> _Children | None:
    """Split a value by its structure, None for a scalar or what is written as a whole."""
    if isinstance(value, dict):
        return _map_children(field, value)
    if isinstance(value, list) and field.list_type in ("map", "set"):
        return _list_children(field, value)
    return None


def _map_children(field: Field, value: JsonObject) -> _Children | None:
    text = field.type
    if field.map_type == "atomic":
        return None
    if text.startswith("{}"):
        inner = Field(text[2:], pointer=True, omitempty=True)
        return {f"f:{name}": (inner, value[name]) for name in value}
    if isinstance(field, SchemaField):
        known = field.fields
        return {f"f:{name}": (known.get(name, field.inner), value[name]) for name in value}
    if text == "any":
        return {f"f:{name}": (_ANY, value[name]) for name in value}
    table = api_types()
    fields = table.types.get(text[1:])
    if fields is None or text[1:] in table.atomic_types:
        return None
    return {f"f:{name}": (fields.get(name, _ANY), value[name]) for name in value}


def _list_children(field: Field, value: list[Any]) -> _Children | None:
    items = _elements(field, value)
    if items is None:
        return None
    inner = _element_field(field)
    found: _Children = {}
    repeated: dict[str, list[Any]] = {}
    for element, item in items:
        if element in found:
            repeated.setdefault(element, [found[element][1]]).append(item)
        else:
            found[element] = (inner, item)
    # Only an update can make them; a configuration that has some is refused.
    return {**found, **{element: (_REPEATED, same) for element, same in repeated.items()}}


def _elements(field: Field, value: list[Any]) -> list[tuple[str, Any]] | None:
    """Name each item of an associative list, None for a list that is written as a whole."""
    found = [(element, item) for item in value if (element := item_element(field, item))]
    return found if len(found) == len(value) else None


def item_element(field: Field, item: Any) -> str | None:
    """Return the element of a path that an item of an associative list is, None for none."""
    if field.list_type == "set":
        return None if isinstance(item, (dict, list)) else f"v:{_json(item)}"
    if not isinstance(item, dict):
        return None
    if isinstance(field, SchemaField):
        defaults = field.defaults
    else:
        fields = api_types().types.get(field.type[3:], {})
        defaults = {name: known.default for name, known in fields.items() if known.default}
    keys = {
        key: item.get(key, defaults.get(key))
        for key in sorted(field.list_keys)
        if key in item or key in defaults
    }
    return f"k:{_json(keys)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def root_field(kind: Kind) -> Field:
    """Return the structure of a kind's objects."""
    name = type_of(kind)
    structure = kind.strategy.structure
    if isinstance(structure, Field):
        return structure
    return custom_root(kind.strategy) if name is None else Field(f"#{name}")


def fields_of_object(field: Field, value: Any, path: Path = ()) -> FieldSet:
    """Return the fields that a configuration has (TypedValue.ToFieldSet)."""
    children = _children(field, value)
    if children is None:
        return {path}
    found: FieldSet = set()
    is_struct = field.type.startswith("#")
    known = field.fields if isinstance(field, SchemaField) else {}
    for element, (inner, item) in children.items():
        at = (*path, element)
        if not (is_struct or element[2:] in known) or item is None or item == {}:
            found.add(at)
        found |= fields_of_object(inner, item, at)
    return found


def compare(field: Field, old: Any, new: Any, path: Path = ()) -> Difference:
    """Find what differs between two values of one structure (TypedValue.Compare)."""
    difference = Difference(set(), set())
    _compare(field, old, new, path, difference)
    return difference


def _compare(field: Field, old: Any, new: Any, path: Path, difference: Difference) -> None:
    if is_same(old, new):
        return
    before, after = _children(field, old), _children(field, new)
    if old is None and after is not None:
        # A list that Go writes as null is there, without anything in it.
        before = {}
    if new is None and before:
        after = {}  # so is what the removal of fields has left empty
    if before is None or after is None:
        # A part of another type, as in custom resources, takes along what was in the old one.
        for element, child in (before or {}).items():
            _add(*child, (*path, element), difference.removed, was_zero=False)
        _add(field, new, path, difference.changed, was_zero=False)
        return
    for element in before.keys() - after.keys():
        _add(*before[element], (*path, element), difference.removed, was_zero=False)
    for element, (inner, item) in after.items():
        at = (*path, element)
        known = before.get(element)
        if known is not None and (known[0] is _REPEATED) == (inner is _REPEATED):
            _compare(inner, known[1], item, at, difference)
        elif known is not None:
            # One item in the place of several, or several in the place of one.
            _add(*known, at, difference.removed, was_zero=False)
            _add(inner, item, at, difference.changed, was_zero=False)
        else:
            _add(inner, item, at, difference.changed, was_zero=_is_always_there(inner))


def _is_always_there(field: Field) -> bool:
    """Whether Go always has this field of a struct, with its zero value at least."""
    if field.type == "any" or field.pointer:
        return False
    if isinstance(field, SchemaField):
        return True
    return not field.omitzero and (field.type.startswith("#") or not field.omitempty)


def _add(field: Field, value: Any, path: Path, added: FieldSet, *, was_zero: bool) -> None:
    """Add everything that is in a new part of an object.

    With `was_zero` the part was there before with Go's zero value: then it is not new itself, nor
    is anything in it that still is zero. What lies behind a pointer or in a new element of a list
    is new as a whole.
    """
    children = _children(field, value)
    if not was_zero:
        added.add(path)
    elif not children:
        if value not in _ZERO_VALUES:
            added.add(path)
        return
    is_map = field.type.startswith("{}")
    is_list = isinstance(value, list)
    for element, (inner, item) in (children or {}).items():
        there = was_zero and not is_map and not is_list and _is_always_there(inner)
        _add(inner, item, (*path, element), added, was_zero=there)


def merge(field: Field, live: Any, applied: Any) -> Any:
    """Put an applied configuration on top of a live value (TypedValue.Merge)."""
    before, after = _children(field, live), _children(field, applied)
    if before is None or after is None:
        return applied
    merged = {
        element: merge(inner, before[element][1], item) if _has_one(before, element) else item
        for element, (inner, item) in after.items()
    }
    if isinstance(applied, dict):
        kept = {name: item for name, item in live.items() if f"f:{name}" not in after}
        return {**kept, **{element[2:]: item for element, item in merged.items()}}
    items = _elements(field, live) or []
    left: dict[str, deque[Any]] = {}
    for element, item in items:
        left.setdefault(element, deque()).append(item)
    return [
        merged[element] if element in merged else left[element].popleft()
        for element in _merged_order([element for element, _ in items], list(after))
    ]


def _has_one(children: _Children, element: str) -> bool:
    """Whether there is exactly one such item, so that it can be merged."""
    return element in children and children[element][0] is not _REPEATED


def _merged_order(before: list[str], after: list[str]) -> list[str]:
    """Put items into the applied order; items only in the live list keep their places.

    structured-merge-diff: typed/merge.go, visitListItems.
    """
    live, applied = set(before), set(after)
    shared = deque(element for element in after if element in live)
    order: list[str] = []
    taken: set[str] = set()
    left, right = deque(before), deque(after)
    wanted = shared.popleft() if shared else None
    while left or right:
        if left and right and left[0] == right[0]:
            taken.add(left.popleft())
            order.append(right.popleft())
            wanted = shared.popleft() if shared else None
        elif left and right and left[0] in applied and wanted not in (None, left[0]):
            left.popleft()
        elif left and left[0] not in applied:
            order.append(left.popleft())
        else:
            if left and left[0] in taken:
                left.popleft()
            if right:
                taken.add(right[0])
                order.append(right.popleft())
                if order[-1] == wanted:
                    wanted = shared.popleft() if shared else None
    return order


def remove(field: Field, value: Any, paths: Iterable[Path]) -> Any:
    """Take fields and list items out of a value; None where nothing is left.

    So `{}` in an applied configuration becomes null where the manager had fields in it, which the
    schema of a custom resource refuses (structured-merge-diff: typed/remove.go).
    """
    inside: dict[str, list[Path]] = {}
    for path in paths:
        inside.setdefault(path[0], []).append(path[1:])
    children = _children(field, value)
    if not inside or children is None:
        return value
    if isinstance(value, dict):
        return {
            element[2:]: remove(inner, item, inside.get(element, ()))
            for element, (inner, item) in children.items()
            if () not in inside.get(element, ())
        } or None
    return [
        remove(_element_field(field), item, inside.get(element, ()))
        for element, item in _elements(field, value) or ()
        if () not in inside.get(element, ())
    ] or None


def read_fields_v1(fields: JsonObject, path: Path = ()) -> FieldSet:
    """Read a FieldsV1; malformed parts are left out."""
    found: FieldSet = set()
    for element, inner in fields.items():
        if element == ".":
            found.add(path)
        elif element[:2] not in ("f:", "k:", "v:", "i:"):
            continue
        elif not inner or not isinstance(inner, dict):
            found.add((*path, element))
        else:
            found |= read_fields_v1(inner, (*path, element))
    return found


def write_fields_v1(fields: FieldSet) -> JsonObject:
    """Write a FieldsV1; `.` says that a field with fields below is a member itself."""
    tree: JsonObject = {}
    # As texts, which are sorted three times as fast as tuples; a parent comes first all the same.
    for path in sorted(fields, key="\0".join):
        node = tree
        for element in path[:-1]:
            if not node.get(element) and element in node:
                node[element] = {".": {}}
            node = node.setdefault(element, {})
        node[path[-1]] = {}
    return tree


def with_named_fields(field: Field, fields: FieldSet) -> FieldSet:
    """Add the fields of structs in which others of the set lie (EnsureNamedFieldsAreMembers)."""
    found = set(fields)
    for path in fields:
        inner = field
        for length, element in enumerate(path[:-1], 1):
            known = _named_field(inner, element)
            if known is not None:
                found.add(path[:length])
            inner = known or _element_field(inner)
    return found


def _named_field(field: Field, element: str) -> Field | None:
    if not element.startswith("f:"):
        return None
    if isinstance(field, SchemaField):
        return field.fields.get(element[2:])
    return api_types().types.get(field.type.removeprefix("#"), {}).get(element[2:])


def _element_field(field: Field) -> Field:
    """Return the structure of what is in a list, or in a map without names."""
    if isinstance(field, SchemaField):
        return field.inner
    if field.type.startswith(("[]", "{}")):
        return Field(field.type[2:], pointer=True, omitempty=True)
    return _ANY


def in_order(fields: FieldSet) -> list[Path]:
    """Sort fields as messages name them: members of a field, then what lies in its others."""
    return sorted(
        fields, key=lambda path: [(n < len(path), part) for n, part in enumerate(path, 1)]
    )


def path_text(path: Path) -> str:
    """Write a path as messages do (fieldpath.Path.String)."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind in ("f", "i"):
            text += f".{rest}"
        elif kind == "v":
            text += f"[={rest}]"
        else:
            text += f"[{_keys_text(rest)}]"
    return text


def _keys_text(text: str) -> str:
    try:
        keys = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return text
    return ",".join(f"{key}={_json(value)}" for key, value in keys.items())
