"""Objects as protobuf in their envelope, byte for byte as Kubernetes stores them.

The counterpart of `protobuf`. Upstream's generated code (gogo/protobuf, `MarshalToSizedBuffer`)
writes fields by their numbers, fields that are not pointers also where they are zero, and the
entries of maps by their keys.
"""

from __future__ import annotations

import base64
import calendar
import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.local.apiserver.api_types import api_types, type_of_kind
from hotmap.local.apiserver.protobuf import MAGIC
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.apiserver.api_types import Field


_VARINT, _BYTES = 0, 2
_MASK = (1 << 64) - 1


class _Member(NamedTuple):
    """A field of a message; `inline` has those of a struct that JSON shows as its parent's."""

    tag: int
    name: str
    field: Field | None
    inline: tuple[_Member, ...] = ()


def encode_object(obj: JsonObject) -> bytes | None:
    """Write an object in its envelope (runtime.Unknown), None where its type is not known."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    name = type_of_kind(api_version, kind)
    if name is None:
        return None
    type_meta = _with_size(1, api_version.encode()) + _with_size(2, kind.encode())
    raw = _message(obj, _members(name))
    return b"".join(
        (MAGIC, _with_size(1, type_meta), _with_size(2, raw), _with_size(3, b""), b"\x22\x00")
    )


@cache
def _members(name: str) -> tuple[_Member, ...]:
    fields = [
        (field.number, field_name, field)
        for field_name, field in api_types().types[name].items()
        if field.number
    ]
    return _arrange(fields)


def _arrange(fields: list[tuple[tuple[int, ...], str, Field]]) -> tuple[_Member, ...]:
    members: dict[int, _Member] = {}
    inlined: dict[int, list[tuple[tuple[int, ...], str, Field]]] = {}
    for number, name, field in fields:
        if len(number) > 1:
            inlined.setdefault(number[0], []).append((number[1:], name, field))
        else:
            members[number[0]] = _Member(number[0], name, field)
    for tag, inner in inlined.items():
        members[tag] = _Member(tag, "", None, _arrange(inner))
    return tuple(members[tag] for tag in sorted(members))


def _message(obj: JsonObject, members: tuple[_Member, ...]) -> bytes:
    parts: list[bytes] = []
    for tag, name, field, inline in members:
        if field is None:
            parts.append(_with_size(tag, _message(obj, inline)))
        else:
            _add_field(parts, tag, field, obj.get(name))
    return b"".join(parts)


def _add_field(parts: list[bytes], tag: int, field: Field, value: Any) -> None:
    kind = field.type
    if kind.startswith("[]"):
        parts.extend(_value(tag, kind[2:], element) for element in value or ())
    elif kind.startswith("{}"):
        for key in sorted(value or (), key=str.encode):
            entry = _with_size(1, key.encode()) + _map_value(kind[2:], value[key])
            parts.append(_with_size(tag, entry))
    elif value is not None:
        parts.append(_value(tag, kind, value))
    elif not field.pointer and kind != "bytes" and not kind.startswith("wrapped"):
        parts.append(_value(tag, kind, _zero(kind)))


def _map_value(kind: str, value: Any) -> bytes:
    return b"" if value is None and kind == "bytes" else _value(2, kind, value)


def _zero(kind: str) -> Any:
    if kind.startswith("string"):
        return ""
    if kind.startswith("int") or kind == "bool":
        return 0
    return None


def _value(tag: int, kind: str, value: Any) -> bytes:
    if kind.startswith("int") or kind == "bool":
        return _varint(tag << 3 | _VARINT) + _varint(int(value) & _MASK)
    return _with_size(tag, _encode(kind, value))


def _encode(kind: str, value: Any) -> bytes:
    if kind.startswith("string"):
        return str(value).encode()
    if kind == "bytes":
        return base64.b64decode(value)
    if kind.startswith("wrapped[]"):
        inner = kind.removeprefix("wrapped[]")
        return b"".join(_value(1, inner, element) for element in value)
    name = kind[1:]
    special = _SPECIAL.get(name)
    if special is not None:
        return special(value)
    return _message({} if value is None else value, _members(name))


def _quantity(value: Any) -> bytes:
    return _with_size(1, str("0" if value is None else value).encode())


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + _with_size(3, value.encode())
    return b"\x08\x00\x10" + _varint(int(value or 0) & _MASK) + b"\x1a\x00"


def _time(value: Any) -> bytes:
    if value is None:
        return b""
    whole, _, fraction = value.removesuffix("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    nanos = int(fraction.ljust(9, "0")[:9]) if fraction else 0
    return b"\x08" + _varint(seconds & _MASK) + b"\x10" + _varint(nanos)


def _duration(value: Any) -> bytes:
    return b"\x08" + _varint(int(value or 0) & _MASK)


def _raw(value: Any) -> bytes:
    return b"" if value is None else _with_size(1, msgspec.json.encode(value))


def _fields_v1(value: Any) -> bytes:
    # structured-merge-diff writes the members of a set in this order.
    return b"" if value is None else _with_size(1, msgspec.json.encode(value, order="sorted"))


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SPECIAL: dict[str, Callable[[Any], bytes]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_META}Time": _time,
    f"{_META}MicroTime": _time,
    f"{_META}Duration": _duration,
    f"{_META}FieldsV1": _fields_v1,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
}


def _with_size(tag: int, data: bytes) -> bytes:
    return _varint(tag << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
