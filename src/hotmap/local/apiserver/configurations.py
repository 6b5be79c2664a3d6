"""Whether an applied configuration fits the structure of its kind.

sigs.k8s.io/structured-merge-diff: typed/validate.go. Unlike a decoder, this looks at every field
that was sent and names all errors, by paths of FieldsV1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.api_types import Field, api_types
from hotmap.local.apiserver.field_sets import item_element, path_text, root_field
from hotmap.local.apiserver.schema_structure import SchemaField
from hotmap.local.apiserver.status import go_text, internal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.apiserver.routes import ResourcePath

__all__ = ["check_configuration"]

_NUMERIC = ("int32", "int64", "number")
_GO_TYPES = (
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (str, "string"),
    (list, "[]interface {}"),
)
# Types whose JSON is a scalar, or anything.
_SCALARS = (
    "#io.k8s.apimachinery.pkg.api.resource.Quantity",
    "#io.k8s.apimachinery.pkg.util.intstr.IntOrString",
)
_TEXTS = (
    "#io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "#io.k8s.apimachinery.pkg.apis.meta.v1.Time",
)
_UNTYPED = (
    "any",
    "#io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "#io.k8s.apimachinery.pkg.runtime.RawExtension",
)


def check_configuration(path: ResourcePath, config: dict[str, Any]) -> None:
    """Refuse an applied configuration that does not have the structure of its kind.

    Raises:
        ApiError: 500, as upstream.
    """
    kind, metadata = path.kind, config.get("metadata")
    known = {name: value for name, value in config.items() if name not in ("apiVersion", "kind")}
    errors = list(_errors(root_field(kind), known, ""))
    if not kind.strategy.is_custom:
        unknown = kind.strategy.unknown_fields(config)
        errors += [f".{name}: field not declared in schema" for name in unknown]
    if not errors:
        return
    text = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
    metadata = metadata if isinstance(metadata, dict) else {}
    shown = f"{metadata.get('namespace', '')}/{metadata.get('name', path.name)}"
    version = f"{kind.group}/{kind.version}, Kind={kind.kind}"
    raise internal(f"failed to create typed patch object ({shown}; {version}): {text}")


def _errors(field: Field, value: Any, at: str) -> Iterator[str]:
    text = field.type
    if value is None or text in _UNTYPED:
        return
    if isinstance(field, SchemaField):
        yield from _custom_errors(field, value, at)
    elif text.startswith("{}") or (text.startswith("#") and text not in (*_SCALARS, *_TEXTS)):
        yield from _map_errors(text, value, at)
    elif "[]" in text:
        yield from _list_errors(field, Field(text[text.index("[]") + 2 :], pointer=True), value, at)
    elif text not in _SCALARS:
        yield from _scalar_errors(text, value, at)
    elif isinstance(value, (dict, list)):
        yield f"{at}: expected any scalar, got {_reflected(value)}"


def _map_errors(text: str, value: Any, at: str) -> Iterator[str]:
    """Check a map of strings, or a struct."""
    if not isinstance(value, dict):
        yield _wrong(at, "map", value)
        return
    inner = Field(text[2:], pointer=True)
    fields = None if text.startswith("{}") else api_types().types[text[1:]]
    for name, item in value.items():
        if fields is None or name in fields:
            known = inner if fields is None else fields[name]
            yield from _errors(known, item, f"{at}.{name}")
        else:
            yield f"{at}.{name}: field not declared in schema"


def _custom_errors(field: SchemaField, value: Any, at: str) -> Iterator[str]:
    if field.type == "list":
        yield from _list_errors(field, field.inner, value, at)
        return
    if not isinstance(value, dict):
        yield _wrong(at, "map", value)
        return
    for name, item in value.items():
        if name in field.fields or not field.closed:
            yield from _errors(field.fields.get(name, field.inner), item, f"{at}.{name}")
        elif at or name not in ("apiVersion", "kind"):
            yield f"{at}.{name}: field not declared in schema"


def _list_errors(field: Field, inner: Field, value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield _wrong(at, "list", value)
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if field.list_type in ("map", "set"):
            found = item_element(field, item)
            if found is None:
                yield f"{at}: element {index}: {_no_element(field, item)}"
                return
            element = found
            if element in seen:
                shown = path_text((element,))
                yield f"{at}: duplicate entries for key {shown}"
            seen.add(element)
        shown = f"[{index}]" if element.startswith("i:") else path_text((element,))
        yield from _errors(inner, item, f"{at}{shown}")


def _no_element(field: Field, item: Any) -> str:
    if field.list_type == "set":
        return "associative list without keys has an element that's a map type"
    if item is None:
        return "associative list with keys may not have a null element"
    return "associative list with keys may not have non-map elements"


def _scalar_errors(wanted: str, value: Any, at: str) -> Iterator[str]:
    if wanted in _NUMERIC:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            go = next((name for kind, name in _GO_TYPES if isinstance(value, kind)), "")
            shown = go or "map[string]interface {}"
            yield f"{at}: expected numeric (int or float), got {shown}"
    elif wanted == "bool":
        if not isinstance(value, bool):
            yield f"{at}: expected boolean, got {_reflected(value)}"
    elif not isinstance(value, str):
        yield f"{at}: expected string, got &value.valueUnstructured{{Value:{_go_value(value)}}}"


def _wrong(at: str, wanted: str, value: Any) -> str:
    return f"{at}: expected {wanted}, got {_reflected(value)}"


def _reflected(value: Any) -> str:
    """Write a value as Go's %v writes structured-merge-diff's wrapper of it."""
    return f"&{{{go_text(value)}}}"


def _go_value(value: Any) -> str:
    """Write a value as Go's %#v does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_value, value))}}}"
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}":{_go_value(item)}' for name, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    return "interface {}(nil)" if value is None else str(value)
