"""Checks the JSON types of fields: refuses what Go's decoder refuses, drops what it drops.

By the table of `api_types`. Kinds that it does not know keep every field; only their metadata is
checked.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.api_types import METADATA, Field, api_types, fields_of, type_of
from hotmap.local.apiserver.decode_errors import canonical_time, json_type, time_error
from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import canonical_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.group_version_kind import GroupVersionKind
    from hotmap.local.scheme import Kind

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_INTEGERS = {"int32": 1 << 31, "int64": 1 << 63}
_FIELDS = "#io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
# What it holds is any JSON.
_RAW = "#io.k8s.apimachinery.pkg.runtime.RawExtension"
_QUANTITY_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_QUANTITY = "#io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "#io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_MICRO_TIME = "#io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_TIMES = frozenset({"#io.k8s.apimachinery.pkg.apis.meta.v1.Time", _MICRO_TIME})
# Structs that Go does not write as such, and those that are filled in by other rules.
_OPAQUE = (_FIELDS, _RAW, _QUANTITY, _INT_OR_STRING)
_SET_LATER = ("metadata", "status")
#: The zero values that Go writes.
_SCALARS: dict[str, Any] = {"string": "", "int32": 0, "int64": 0, "bool": False}
#: Types of decoded values as Go's reflection names them.
_GO_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "slice",
    dict: "map",
}
#: Go type → the embedded struct that has some of its fields, which paths in messages name.
_EMBEDDED = {
    "ConfigMapEnvSource": "LocalObjectReference.",
    "ConfigMapKeySelector": "LocalObjectReference.",
    "ConfigMapProjection": "LocalObjectReference.",
    "ConfigMapVolumeSource": "LocalObjectReference.",
    "EphemeralContainer": "EphemeralContainerCommon.",
    "IngressRule": "IngressRuleValue.",
    "PersistentVolumeSpec": "PersistentVolumeSource.",
    "Probe": "ProbeHandler.",
    "RuleWithOperations": "Rule.",
    "SecretEnvSource": "LocalObjectReference.",
    "SecretKeySelector": "LocalObjectReference.",
    "SecretProjection": "LocalObjectReference.",
    "Volume": "VolumeSource.",
}
# An empty list of it is a request to forget all managers, unlike none.
_CLEARED = "metadata.managedFields"
_METADATA_ONLY = {"metadata": Field(f"#{METADATA}")}


class _Place(NamedTuple):
    """Where in an object: the Go type that the innermost field belongs to, and its path."""

    kind: Kind
    owner: str
    path: str


def check_types(kind: Kind, obj: JsonObject) -> None:
    """Check the JSON types of an object, and drop the fields that its kind does not have.

    Nulls, empty maps of strings, empty lists and zero values of optional scalars are dropped, too:
    Go does not write them. In a map or a list, null is the zero value. Quantities become canonical.
    Works in place.

    Raises:
        BadRequest: a field has another type than Kubernetes gives it.
    """
    fields = fields_of(kind)
    if fields is not None:
        _check_fields(obj, fields, _Place(kind, kind.kind, ""))
        _fill_in(obj, type_of(kind) or "")
        return
    if not isinstance(obj.get("status", {}), dict) and kind.subresource("status") is not None:
        raise decode_error(kind.group_version_kind, kind.kind, "status", obj["status"], "object")
    metadata = {"metadata": obj["metadata"]}
    _check_fields(metadata, _METADATA_ONLY, _Place(kind, kind.kind, ""))


class WrongType(BadRequest):
    """Raised for a field with a wrong JSON type; `wanted` is its type in Go."""

    def __init__(self, message: str, value: object, wanted: str) -> None:
        super().__init__(message)
        self.value = value
        self.wanted = wanted

    @property
    def is_out_of_range(self) -> bool:
        """Whether a whole number was sent and is wanted, but another size of it."""
        value = self.value
        is_whole = value.is_integer() if isinstance(value, float) else type(value) is int
        return is_whole and self.wanted in _INTEGERS


def decode_error(
    kind: GroupVersionKind, owner: str, field: str, value: object, wanted: str
) -> WrongType:
    """Make the 400 of a field with a wrong JSON type; the value itself is never shown."""
    return WrongType(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"json: cannot unmarshal {_sent(value, wanted)} into Go struct field "
        f"{owner}.{field} of type {wanted}",
        value,
        wanted,
    )


def conversion_error(error: WrongType) -> str:
    """Describe a wrong type of a field as Go does where it converts maps, which patches are.

    apimachinery/pkg/runtime/converter.go: fromUnstructured.
    """
    value, wanted = error.value, error.wanted
    sent = _GO_KINDS[type(value)]
    if wanted.startswith("[]"):
        return f"cannot restore slice from {sent}"
    if wanted.startswith("map["):
        return f"cannot restore map from {sent}"
    if wanted in _struct_names():
        return f"cannot restore struct from: {sent}"
    # All other named types are texts.
    scalar = wanted if wanted in _SCALARS else "string"
    converts = (sent == "int64" and scalar != "bool") or (sent == "float64" and scalar in _INTEGERS)
    if converts:
        return f"cannot convert {sent} to {wanted}"
    return f"unrecognized type: {scalar}"


@cache
def _struct_names() -> frozenset[str]:
    return frozenset(_go_type(f"#{name}") for name in api_types().types)


def _sent(value: object, wanted: str) -> str:
    """Name what was sent; a number that does not fit is shown."""
    if wanted in _INTEGERS and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"number {value}"
    return json_type(value)


def _check_fields(obj: JsonObject, fields: Mapping[str, Field], place: _Place) -> None:
    for name in tuple(obj):
        field = fields.get(name)
        if field is None:
            del obj[name]
            continue
        value = obj[name]
        if value is None:
            del obj[name]
            continue
        # Not _replace, which took a quarter of the time of a write.
        embedded = _EMBEDDED.get(place.owner, "") if len(field.number) > 1 else ""
        inner = _Place(place.kind, place.owner, f"{place.path}{embedded}{name}")
        _check(value, field.type, inner)
        if field.type == _QUANTITY:
            obj[name] = _read_quantity(value, place)
        elif field.type == "bytes" or field.type in _TIMES:
            obj[name] = _canonical(value, field.type)
        elif not value and _is_left_out(value, field) and inner.path != _CLEARED:
            del obj[name]


def _is_left_out(value: Any, field: Field) -> bool:
    """Return whether Go leaves out an empty value, so that its default applies."""
    if isinstance(value, list):
        return True
    if isinstance(value, dict):
        return field.omitempty and field.type.startswith("{}")
    is_scalar = field.type == "bytes" or field.type.partition(" ")[0] in _SCALARS
    return field.omitempty and not field.pointer and is_scalar


def _check(value: Any, wanted: str, place: _Place) -> None:
    if not _has_type(value, wanted):
        raise decode_error(
            place.kind.group_version_kind, place.owner, place.path, value, _go_type(wanted)
        )
    why = ""
    if wanted in _TIMES:
        why = time_error(value, micro=wanted == _MICRO_TIME)
    elif wanted == "bytes":
        why = base64_error(value)
    if why:
        raise unreadable(why, place.kind.group_version_kind)
    if isinstance(value, list) and wanted != _RAW:
        element = wanted[wanted.index("[]") + 2 :]
        value[:] = [_zero(element) if inner is None else inner for inner in value]
        for inner in value:
            _check(inner, element, place)
    elif wanted.startswith("{}"):
        value.update({n: _zero(wanted[2:]) for n, inner in value.items() if inner is None})
        for inner in value.values():
            _check(inner, wanted[2:], place)
        if wanted[2:] == _QUANTITY:
            value.update({name: _read_quantity(inner, place) for name, inner in value.items()})
        elif wanted[2:] == "bytes":
            value.update({name: _canonical(inner, "bytes") for name, inner in value.items()})
    elif isinstance(value, dict) and wanted not in (_FIELDS, _RAW):
        owner = wanted.rpartition(".")[2]
        fields = api_types().types[wanted[1:]]
        _check_fields(value, fields, _Place(place.kind, owner, f"{place.path}."))
        _fill_in(value, wanted[1:])


def _zero(wanted: str) -> Any:
    """Return what null is as an element of a list or a map."""
    if wanted == _QUANTITY:
        return "0"
    if wanted == "bytes" or wanted in _TIMES:
        return ""
    if wanted.startswith("[]"):
        return []
    return _SCALARS.get(wanted.partition(" ")[0], {})


def _read_quantity(value: Any, place: _Place) -> str:
    try:
        return canonical_quantity(str(value).strip())
    except ValueError:
        raise unreadable(_QUANTITY_TEXT, place.kind.group_version_kind) from None


def unreadable(why: str, kind: GroupVersionKind) -> BadRequest:
    """Make the 400 of a value that Go's decoder does not read."""
    text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return BadRequest(f"{text}: {why}")


def _canonical(value: str, wanted: str) -> str:
    """Write a value as Go does after it was decoded: times in UTC, base64 without line breaks."""
    if wanted in _TIMES:
        return canonical_time(value, micro=wanted == _MICRO_TIME)
    return base64.b64encode(base64.b64decode(value)).decode()


def base64_error(value: str) -> str:
    """Return where Go could not decode a value; the text has its place, never its content.

    encoding/base64: Encoding.decodeQuantum.
    """
    sent = value.encode()
    try:
        # Go's decoder skips line breaks and refuses everything else.
        base64.b64decode(sent.translate(None, b"\r\n"), validate=True)
    except ValueError:
        return f"illegal base64 data at input byte {_illegal_at(sent)}"
    return ""


def _illegal_at(sent: bytes) -> int:
    """Find where Go's decoder stops."""
    count, at = 0, 0
    while at < len(sent):
        char = sent[at]
        at += 1
        if char in b"\r\n":
            continue
        if char in _BASE64:
            count += 1
        elif char != ord("=") or count % 4 < 2:
            return at - 1
        else:
            return _illegal_after_padding(sent, at, count % 4)
    return at - count % 4


def _illegal_after_padding(sent: bytes, at: int, digits: int) -> int:
    def skip(start: int) -> int:
        while start < len(sent) and sent[start] in b"\r\n":
            start += 1
        return start

    if digits == 2:
        at = skip(at)
        if at == len(sent):
            return at
        if sent[at] != ord("="):
            return at - 1
        at += 1
    return skip(at)


def _fill_in(obj: JsonObject, name: str) -> None:
    """Add what Go writes of a type although it is not set, in place."""
    for field, zero in _zeros(name).items():
        if field not in obj:
            obj[field] = zero
            if zero == {}:
                obj[field] = {}
                _fill_in(obj[field], api_types().types[name][field].type[1:])


@cache
def _zeros(name: str) -> dict[str, Any]:
    """Return what Go writes of a type where it is not set: times as null, scalars and structs."""
    types = api_types().types
    zeros: dict[str, Any] = {}
    for field, known in types[name].items():
        if known.pointer or known.omitzero:
            continue
        if known.type in _TIMES:
            zeros[field] = None
        elif known.type[1:] in types and known.type not in _OPAQUE and field not in _SET_LATER:
            zeros[field] = {}
        elif (
            not known.omitempty and (zero := _SCALARS.get(known.type.partition(" ")[0])) is not None
        ):
            zeros[field] = zero
    return zeros


def _has_type(value: Any, wanted: str) -> bool:
    if wanted.startswith("string") or wanted == "bytes" or wanted in _TIMES:
        return isinstance(value, str)
    if wanted == "bool":
        return isinstance(value, bool)
    limit = _INTEGERS.get(wanted)
    if limit is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if wanted == _INT_OR_STRING:
        return isinstance(value, str) or _has_type(value, "int32")
    if wanted == _QUANTITY:
        return isinstance(value, (int, str, float)) and not isinstance(value, bool)
    if wanted.startswith(("[]", "wrapped[]")):
        return isinstance(value, list)
    return wanted == _RAW or isinstance(value, dict)


def _go_type(wanted: str) -> str:
    """Write a type of the table as Go does in messages."""
    if wanted == _INT_OR_STRING:
        return "int32"
    if wanted.startswith("[]"):
        return f"[]{_go_type(wanted[2:])}"
    if wanted.startswith("{}"):
        return f"map[string]{_go_type(wanted[2:])}"
    if wanted in _TIMES:
        return "string"
    if wanted.startswith("#"):
        return ".".join(wanted.split(".")[-2:])
    if wanted == "bytes":
        return "[]uint8"
    return wanted.removeprefix("wrapped").rpartition(" ")[2]
