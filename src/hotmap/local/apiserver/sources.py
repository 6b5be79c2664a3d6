"""ConfigMaps and Secrets: decoding, defaults and validation.

pkg/apis/core/validation/validation.go (ValidateConfigMap, ValidateSecret and their updates),
pkg/apis/core/v1/conversion.go. No text in here holds a value of a Secret.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.shapes import cannot_decode
from hotmap.local.field_errors import FieldError, forbidden_field, invalid_value, required, too_long
from hotmap.local.names import config_key_errors

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

JsonObject = dict[str, Any]

# Bytes of all values together, decoded; keys do not count (MaxSecretSize).
SIZE_LIMIT = 1 << 20
_IMMUTABLE_TEXT = "field is immutable when `immutable` is set"

# What a type of Secret promises to have (ValidateSecret).
_PROMISED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def decode_source(kind: Kind, obj: JsonObject) -> None:
    """Bring a sent ConfigMap or Secret into its stored form, in place.

    Null values are empty ones, empty maps are none, and `stringData` goes into `data`.

    Raises:
        BadRequest: a value is no string, or no base64 where it must be.
    """
    for field in ("data", "binaryData", "stringData"):
        if field in obj:
            _check_strings(kind, obj, field)
    if not isinstance(obj.get("immutable", False), (bool, type(None))):
        raise cannot_decode(kind, kind.kind, "immutable", obj["immutable"], "bool")
    if obj.get("immutable", False) is None:
        del obj["immutable"]
    encoded = ("data",) if kind.plural == "secrets" else ("binaryData",)
    for field in encoded:
        for value in obj.get(field, {}).values():
            _check_base64(kind, value)
    if kind.plural == "secrets":
        strings = obj.pop("stringData", {})
        if strings:
            data = {k: base64.b64encode(v.encode()).decode() for k, v in strings.items()}
            obj["data"] = {**obj.get("data", {}), **data}
        obj["type"] = obj.get("type") or "Opaque"
        if not isinstance(obj["type"], str):
            raise cannot_decode(kind, kind.kind, "type", obj["type"], "v1.SecretType")


def _check_strings(kind: Kind, obj: JsonObject, field: str) -> None:
    if not obj[field]:
        del obj[field]
        return
    if not isinstance(obj[field], dict):
        wanted = "map[string][]uint8" if _is_bytes(kind, field) else "map[string]string"
        raise cannot_decode(kind, kind.kind, field, obj[field], wanted)
    for key, value in obj[field].items():
        if value is None:
            obj[field][key] = ""
        elif not isinstance(value, str):
            wanted = "[]uint8" if _is_bytes(kind, field) else "string"
            raise cannot_decode(kind, kind.kind, field, value, wanted)


def _is_bytes(kind: Kind, field: str) -> bool:
    return field == "binaryData" or (kind.plural == "secrets" and field == "data")


def _check_base64(kind: Kind, value: str) -> None:
    try:
        # Go's decoder skips line breaks and refuses everything else.
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(
            f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}: '
            f"illegal base64 data at input byte {_illegal_at(value)}"
        ) from None


def _illegal_at(value: str) -> int:
    """Find where Go's decoder stops: the first impossible byte, or the end of a cut quantum."""
    alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n")
    for position, char in enumerate(value):
        padding_too_early = char == "=" and position % 4 < 2
        if char not in alphabet or padding_too_early:
            return position
    return len(value) // 4 * 4


def configmap_errors(obj: JsonObject) -> list[FieldError]:
    """Find everything wrong with a ConfigMap's content."""
    data, binary = obj.get("data", {}), obj.get("binaryData", {})
    errors: list[FieldError] = []
    for key in data:
        errors += _key_errors("data", key)
        if key in binary:
            why = "duplicate of key present in binaryData"
            errors.append(invalid_value(f"data[{key}]", key, why))
    for key in binary:
        errors += _key_errors("binaryData", key)
    size = sum(len(value.encode()) for value in data.values())
    size += sum(_decoded_size(value) for value in binary.values())
    if size > SIZE_LIMIT:
        # Upstream's path is empty and prints like this.
        errors.append(too_long("[]", SIZE_LIMIT))
    return errors


def secret_errors(obj: JsonObject) -> list[FieldError]:
    """Find everything wrong with a Secret's content."""
    data = obj.get("data", {})
    errors = [error for key in data for error in _key_errors("data", key)]
    if sum(_decoded_size(value) for value in data.values()) > SIZE_LIMIT:
        errors.append(too_long("data", SIZE_LIMIT))
    return errors + _promise_errors(obj, data)


def _promise_errors(obj: JsonObject, data: dict[str, str]) -> list[FieldError]:
    kind = obj["type"]
    if kind == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        if not (obj["metadata"].get("annotations") or {}).get(annotation):
            return [required(f"metadata.annotations[{annotation}]")]
        return []
    if kind == "kubernetes.io/basic-auth":
        if "username" in data or "password" in data:
            return []
        return [required("data[username]"), required("data[password]")]
    errors: list[FieldError] = []
    for key in _PROMISED_KEYS.get(kind, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            errors.append(required(f"data[{key}]"))
        elif key.startswith(".docker") and not _is_json(data[key]):
            why = "the content is not JSON"
            errors.append(invalid_value(f"data[{key}]", "<secret contents redacted>", why))
    return errors


def _is_json(encoded: str) -> bool:
    try:
        json.loads(base64.b64decode(encoded))
    except ValueError:
        return False
    return True


def _key_errors(field: str, key: str) -> list[FieldError]:
    return [invalid_value(f"{field}[{key}]", key, why) for why in config_key_errors(key)]


def _decoded_size(encoded: str) -> int:
    return len(base64.b64decode(encoded))


def source_update_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Find what an update of a ConfigMap or Secret may not change."""
    errors: list[FieldError] = []
    if new["kind"] == "Secret" and old["type"] != new["type"]:
        errors.append(invalid_value("type", new["type"], "field is immutable"))
    if old.get("immutable"):
        if not new.get("immutable"):
            errors.append(forbidden_field("immutable", _IMMUTABLE_TEXT))
        errors += [
            forbidden_field(field, _IMMUTABLE_TEXT)
            for field in ("data", "binaryData")
            if old.get(field) != new.get(field)
        ]
    return errors
