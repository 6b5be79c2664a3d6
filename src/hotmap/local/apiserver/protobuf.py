"""Objects that clients send as protobuf: the envelope `k8s\\0`, and messages by the type table.

apimachinery/pkg/runtime/serializer/protobuf/protobuf.go. Go writes fields that are not pointers
also where they are zero, and JSON leaves those out; so this decoder gives what Go's would give
as JSON. Answers are never protobuf: every client accepts JSON as well.
"""

from __future__ import annotations

import base64
import codecs
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.api_types import (
    DELETE_OPTIONS,
    METADATA,
    Field,
    api_types,
    type_of_kind,
)
from hotmap.local.apiserver.decode_errors import summarize
from hotmap.local.apiserver.definition_protobuf import DefinitionDecoder
from hotmap.local.apiserver.status import SCHEME
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A message's fields by number; an inlined struct is a message whose fields are the parent's.
_Numbers = dict[int, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CUT = "unexpected EOF"
_WIRE_ERRORS = {3: _CUT, 4: "proto: unexpected end of group"}

_REPLACE_EACH = "hotmap.replace-each-byte"


def _replace_each(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_REPLACE_EACH, _replace_each)


def decode_object(body: bytes, wanted: str = "") -> JsonObject:
    """Read an object in its envelope (runtime.Unknown); `wanted` is the kind that it should have.

    Raises:
        BadRequest: it is not well formed, or of a kind that the table does not know.
    """
    try:
        unknown = dict(_fields(_in_envelope(body)))
        type_meta = dict(_fields(unknown.get(1, b"")))
        api_version, kind = (_text(type_meta.get(n, b"")) for n in (1, 2))
    except (ValueError, TypeError, AttributeError) as error:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {wanted}): {_reason(error)} "
            f"({summarize(body)})"
        ) from None
    version = api_version.rpartition("/")[2]
    unfit = f'{kind} in version "{version}" cannot be handled as a {wanted}: '
    try:
        if (api_version, kind) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition"):
            return _decode_definition(unknown.get(2, b""))
        name = DELETE_OPTIONS if kind == "DeleteOptions" else type_of_kind(api_version, kind)
        if name is None:
            raise BadRequest(
                f'{unfit}no kind "{kind}" is registered for version "{api_version}" in scheme '
                f"{SCHEME}"
            )
        obj: JsonObject = {"kind": kind, "apiVersion": api_version}
        _decode_message(unknown.get(2, b""), _numbers(name), obj)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadRequest(f"{unfit}{_reason(error)}") from None
    return obj


def _in_envelope(body: bytes) -> bytes:
    if not body:
        raise ValueError("empty data")
    if not body.startswith(MAGIC):
        raise ValueError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    if body == MAGIC:
        raise ValueError("empty body")
    return body[len(MAGIC) :]


def _reason(error: Exception) -> str:
    """Return what is wrong with a message; a value of another wire type is noticed by its type."""
    return str(error) if isinstance(error, ValueError) else "proto: wrong wireType"


def _text(data: bytes) -> str:
    """Read a text. Go does not check its encoding, and writes what is not a character as U+FFFD."""
    return data.decode(errors=_REPLACE_EACH)


def _decode_definition(data: bytes) -> JsonObject:
    parts = dict(_fields(data))
    metadata: JsonObject = {}
    _decode_message(parts.get(1, b""), _numbers(METADATA), metadata)
    decoder = DefinitionDecoder(_fields, _time)
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": metadata,
        "spec": decoder.message("Spec", parts.get(2, b"")),
        "status": decoder.message("Status", parts.get(3, b"")),
    }


@cache
def _numbers(name: str) -> _Numbers:
    numbers: _Numbers = {}
    for field_name, field in api_types().types[name].items():
        if not field.number:
            continue
        inner = numbers
        for number in field.number[:-1]:
            inner = inner.setdefault(number, {})
        inner[field.number[-1]] = (field_name, field)
    return numbers


def _decode_message(data: bytes, numbers: _Numbers, obj: JsonObject) -> None:
    for number, value in _fields(data):
        known = numbers.get(number)
        if isinstance(known, dict):
            _decode_message(value, known, obj)
        elif known is not None:
            name, field = known
            _set(obj, name, field, value)


def _set(obj: JsonObject, name: str, field: Field, value: Any) -> None:
    kind = field.type
    if kind.startswith("[]"):
        elements = obj.setdefault(name, [])
        if kind[2:3] == "i" and isinstance(value, bytes):
            elements += [_decode(kind[2:], number) for number in _packed(value)]
        else:
            elements.append(_decode(kind[2:], value))
    elif kind.startswith("{}"):
        entry = dict(_fields(value))
        inner = _decode(kind[2:], entry[2]) if 2 in entry else _zero(kind[2:])
        obj.setdefault(name, {})[_text(entry.get(1, b""))] = inner
    else:
        decoded = _decode(kind, value)
        is_zero = decoded is None or (decoded in ("", 0, False) and not field.pointer)
        if not (is_zero and (field.omitempty or decoded is None)):
            obj[name] = decoded


def _decode(kind: str, value: Any) -> Any:
    if kind.startswith("string"):
        return _text(value)
    if kind.startswith("int"):
        return value - (1 << 64) if value >= 1 << 63 else value
    if kind == "bool":
        return bool(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind.startswith("wrapped[]"):
        return [_decode(kind.removeprefix("wrapped[]"), inner) for _, inner in _fields(value)]
    name = kind[1:]
    special = _SPECIAL.get(name)
    if special is not None:
        return special(value)
    obj: JsonObject = {}
    _decode_message(value, _numbers(name), obj)
    return obj


def _zero(kind: str) -> Any:
    return 0 if kind.startswith("int") else False if kind == "bool" else _decode(kind, b"")


def _quantity(data: bytes) -> str:
    return _text(dict(_fields(data)).get(1, b"0"))


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    if parts.get(1, 0) == 0:
        number: int = _decode("int32", parts.get(2, 0))
        return number
    return _text(parts.get(3, b""))


def _time(data: bytes) -> str | None:
    parts = dict(_fields(data))
    seconds = _decode("int64", parts.get(1, 0))
    if not seconds and not parts.get(2):
        return None
    # strftime writes the years before 1000 with fewer digits.
    try:
        year, *rest = time.gmtime(seconds)[:6]
    except (OSError, OverflowError):
        raise ValueError(f"seconds out of range: {seconds}") from None
    return "{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}Z".format(year, *rest)


def _micro_time(data: bytes) -> str | None:
    whole = _time(data)
    nanos = dict(_fields(data)).get(2, 0)
    return whole and f"{whole[:-1]}.{nanos // 1000:06d}Z"


def _raw(data: bytes) -> Any:
    raw = dict(_fields(data)).get(1, b"")
    if raw.startswith(MAGIC):
        return decode_object(raw)
    return msgspec.json.decode(raw) if raw else None


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _raw,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Split a message into (number, value): an integer, or the bytes of what has a length."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire = tag & 7
        if tag < 8:
            raise ValueError(f"proto: illegal tag 0 (wire type {wire})")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(_WIRE_ERRORS.get(wire, f"proto: illegal wireType {wire}"))
        if size >= 1 << 63:
            raise ValueError("proto: negative length found during unmarshaling")
        if at + size > end:
            raise ValueError(_CUT)
        yield tag >> 3, data[at : at + size]
        at += size


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError(_CUT)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("proto: integer overflow")
