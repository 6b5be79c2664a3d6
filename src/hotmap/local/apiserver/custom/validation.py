"""What a schema finds wrong with a value, in upstream's words.

k8s.io/kube-openapi/pkg/validation/validate and apiextensions-apiserver/pkg/apiserver/validation;
list types: apiextensions-apiserver/pkg/apiserver/schema/listtype. Rules in CEL are in `rules`.
"""

from __future__ import annotations

import base64
import binascii
import operator
import re
from datetime import date, datetime
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from hotmap.core.errors import HotmapError
from hotmap.local.field_errors import FieldError, duplicate, invalid_value, required, unsupported
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_1035_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["is_valid_pattern", "schema_errors"]


_JSON_TYPES: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("boolean", bool),
    ("integer", int),
    ("number", float),
    ("string", str),
    ("array", list),
    ("object", dict),
)
_LIMITS = (
    ("maxLength", str, "Too long: may not be more than {limit} bytes"),
    ("maxItems", list, "Too many: {size}: must have at most {limit} items"),
    ("maxProperties", dict, "Too many: {size}: must have at most {limit} items"),
)


def schema_errors(value: Any, schema: JsonObject, path: str = "") -> list[FieldError]:
    """Find everything that a schema forbids in a value, which is at a path of its object."""
    return list(_errors(value, schema, path))


def _errors(value: Any, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if value is None:
        # A null that may not be is dropped before where a default or a parent allows it.
        if not schema.get("nullable") and schema.get("type"):
            yield _type_error(path, "null", str(schema["type"]))
        return
    found = _type_errors(value, schema, path)
    if found:
        yield from found
        return
    yield from _combined_errors(value, schema, path)
    if "enum" in schema and value not in schema["enum"]:
        known = [item if isinstance(item, str) else _json(item) for item in schema["enum"]]
        yield unsupported(path, value, known)
    if isinstance(value, str):
        yield from _string_errors(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_errors(value, schema, path)
    yield from _size_errors(value, schema, path)
    if isinstance(value, dict):
        yield from _object_errors(value, schema, path)
    elif isinstance(value, list):
        items = schema.get("items")
        if items:
            for index, inner in enumerate(value):
                yield from _errors(inner, items, f"{path}[{index}]")
        yield from _list_type_errors(value, schema, path)


def _type_errors(value: Any, schema: JsonObject, path: str) -> list[FieldError]:
    wanted, found = schema.get("type"), _json_type(value)
    if schema.get("x-kubernetes-int-or-string"):
        if found in ("integer", "string"):
            return []
        return [_type_error(path, found, "integer,string")]
    if not wanted or wanted == found or (wanted == "number" and found == "integer"):
        return []
    if wanted == "integer" and isinstance(value, float):
        return [] if value.is_integer() else _fraction_errors(schema.get("format", ""), path)
    return [_type_error(path, found, wanted)]


def _fraction_errors(form: str, path: str) -> list[FieldError]:
    """Refuse a fraction where an integer is wanted; upstream says so twice."""
    if form in ("int32", "int64"):
        error, shown = _type_error(path, "float64", form), f"with format {form}"
    else:
        error, shown = _type_error(path, "number", "integer"), "(default format)"
    return [error, _combination_error(f"Checked value must be of type integer {shown} in {path}")]


def _type_error(path: str, found: str, wanted: str) -> FieldError:
    text = f'{path} in body must be of type {wanted}: "{found}"'
    return FieldError("FieldValueTypeInvalid", path, f'Invalid value: "{found}": {text}')


def _string_errors(value: str, schema: JsonObject, path: str) -> Iterator[FieldError]:
    shortest = schema.get("minLength")
    if shortest is not None and len(value) < shortest:
        text = f"{path} in body should be at least {shortest} chars long"
        yield invalid_value(path, value, text)
    pattern = schema.get("pattern")
    # Upstream holds a text against its pattern only where its length is right.
    fits = (shortest or 0) <= len(value) <= schema.get("maxLength", len(value))
    if pattern and fits and not _matches(pattern, value):
        yield invalid_value(path, value, f"{path} in body should match '{pattern}'")
    check = _FORMATS.get(schema.get("format", ""))
    if check is not None and not _passes(check, value):
        text = f'{path} in body must be of type {schema["format"]}: "{value}"'
        yield invalid_value(path, value, text)


def _number_errors(value: float, schema: JsonObject, path: str) -> Iterator[FieldError]:
    for limit, exclusive, fails, words in (
        ("maximum", "exclusiveMaximum", operator.gt, "less than"),
        ("minimum", "exclusiveMinimum", operator.lt, "greater than"),
    ):
        bound = schema.get(limit)
        if bound is None:
            continue
        if isinstance(value, int):
            bound = int(bound)  # as upstream, which compares integers with integers
        is_exclusive = schema.get(exclusive)
        if fails(value, bound) or (is_exclusive and value == bound):
            equal = "" if is_exclusive else " or equal to"
            text = f"{path} in body should be {words}{equal} {_json(bound)}"
            yield invalid_value(path, value, text)
    step = schema.get("multipleOf")
    if step and value % step:
        text = f"{path} in body should be a multiple of {_json(step)}"
        yield invalid_value(path, value, text)
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if bits and not -(1 << bits) <= value < 1 << bits:
        text = f'{path} in body must be of type {schema["format"]}: "{_json(value)}"'
        yield invalid_value(path, value, text)


def _size_errors(value: Any, schema: JsonObject, path: str) -> Iterator[FieldError]:
    for name, kind, text in _LIMITS:
        limit = schema.get(name)
        if limit is not None and isinstance(value, kind) and len(value) > limit:
            shown = text.format(limit=limit, size=len(value))
            if kind is str:
                yield FieldError("FieldValueTooLong", path, shown)
            else:
                yield FieldError("FieldValueTooMany", path, shown)
    for name, kind in (("minItems", list), ("minProperties", dict)):
        limit = schema.get(name)
        if limit is not None and isinstance(value, kind) and len(value) < limit:
            things = "items" if kind is list else "properties"
            text = f"{path} in body should have at least {limit} {things}"
            yield invalid_value(path, len(value), text)


def _object_errors(value: JsonObject, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _embedded_errors(value, path)
    specified = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, inner in value.items():
        if name in specified:
            yield from _errors(inner, specified[name], _join(path, name))
        elif isinstance(additional, dict):
            yield from _errors(inner, additional, _join(path, name))
    for name in schema.get("required") or ():
        if name not in value:
            yield required(_join(path, name))


def _embedded_errors(value: JsonObject, path: str) -> Iterator[FieldError]:
    """Check that an embedded object says what it is (apiserver/schema/objectmeta)."""
    for name, why_not in (("apiVersion", _version_error), ("kind", _kind_error)):
        at = _join(path, name)
        if name not in value:
            yield required(at)
            continue
        given = value[name]
        if not isinstance(given, str):
            yield invalid_value(at, given, "must be a string")
        elif why := why_not(given) if given else "must not be empty":
            yield invalid_value(at, given, why)


def _version_error(version: str) -> str:
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _kind_error(kind: str) -> str:
    wrong = label_1035_errors(kind.lower())
    return f"may have mixed case, but should otherwise match: {','.join(wrong)}" if wrong else ""


def _combined_errors(value: Any, schema: JsonObject, path: str) -> Iterator[FieldError]:
    for part in schema.get("allOf") or ():
        yield from _errors(value, part, path)
    alternatives = schema.get("anyOf") or ()
    if alternatives and not any(_is_valid(value, part, path) for part in alternatives):
        yield _combination_error(f'"{path}" must validate at least one schema (anyOf)')
        yield from _errors(value, alternatives[0], path)
    exclusive = schema.get("oneOf") or ()
    if exclusive:
        count = sum(_is_valid(value, part, path) for part in exclusive)
        if count != 1:
            found = "Found none valid" if not count else f"Found {count} valid alternatives"
            text = f'"{path}" must validate one and only one schema (oneOf). {found}'
            yield _combination_error(text)
            if not count:
                yield from _errors(value, exclusive[0], path)
    if schema.get("not") and _is_valid(value, schema["not"], path):
        yield _combination_error(f'"{path}" must not validate the schema (not)')


def _combination_error(text: str) -> FieldError:
    # Upstream loses the path here.
    return FieldError("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}')


def _is_valid(value: Any, schema: JsonObject, path: str) -> bool:
    return next(_errors(value, schema, path), None) is None


def _list_type_errors(value: list[Any], schema: JsonObject, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    seen: set[str] = set()
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    properties = (schema.get("items") or {}).get("properties") or {}
    for index, inner in enumerate(value):
        shown = inner
        if kind == "map":
            if not isinstance(inner, dict):
                continue
            shown = {
                key: inner.get(key, (properties.get(key) or {}).get("default"))
                for key in keys
                if key in inner or "default" in (properties.get(key) or {})
            }
        text = _json(shown)
        if text in seen:
            yield duplicate(f"{path}[{index}]", shown)
        seen.add(text)


class _Pattern(NamedTuple):
    search: Callable[[str], object]


@cache
def _compiled(pattern: str) -> _Pattern | None:
    """Compile a pattern with Go's engine, which bounds time; None where it is not one of Go's."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return _Pattern(re2.compile(pattern, options=options).search)
    except re2.error:
        return None


def pattern_error(pattern: str) -> str:
    """Return the error of a pattern in the words of Go's regexp."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        text = why.decode() if isinstance(why, bytes) else str(why)
        what, _, where = text.partition(": ")
        # The library names the pattern where Go quotes the part.
        what = {"missing )": "missing closing )", "missing ]": "missing closing ]"}.get(what, what)
        return f"error parsing regexp: {what}: `{where}`"
    return ""


def is_valid_pattern(pattern: str) -> bool:
    """Return whether a pattern is one of Go's regular expressions."""
    return _compiled(pattern) is not None


def _matches(pattern: str, value: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is None or bool(compiled.search(value))


def _passes(check: Callable[[str], object], value: str) -> bool:
    try:
        return bool(check(value))
    except (ValueError, binascii.Error, HotmapError):
        return False


def _is_date_time(value: str) -> bool:
    return bool(re.match(r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d", value)) and bool(
        datetime.fromisoformat(value.replace("z", "Z"))
    )


def _is_ip(value: str) -> bool:
    return bool(IPv4Address(value) if "." in value and ":" not in value else IPv6Address(value))


_DURATION = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w|y)+", re.ASCII)
# k8s.io/kube-openapi/pkg/validation/strfmt; formats that are not here are not checked.
_FORMATS: dict[str, Callable[[str], object]] = {
    "byte": lambda value: value == "" or base64.b64decode(value, validate=True),
    "cidr": lambda value: "/" in value and ip_network(value, strict=False),
    "date": date.fromisoformat,
    "date-time": _is_date_time,
    "duration": _DURATION.match,
    "email": lambda value: re.fullmatch(r"[^@\s]+@[^@\s]+", value),
    "hostname": lambda value: re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", value),
    "ip": _is_ip,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "mac": lambda value: re.fullmatch(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", value),
    "uri": lambda value: urlsplit(value).scheme,
    "uuid": UUID,
}


def _json_type(value: Any) -> str:
    for name, kind in _JSON_TYPES:
        if isinstance(value, kind):
            return name
    return "null"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
