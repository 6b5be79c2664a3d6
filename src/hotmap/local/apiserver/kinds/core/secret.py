"""Secrets (pkg/registry/core/secret/strategy.go; validation: ValidateSecret).

No text in here holds a value of a Secret.
"""

from __future__ import annotations

import base64

from hotmap.local.apiserver.columns import AGE, NAME, field_cell
from hotmap.local.apiserver.decode_errors import wrong_type
from hotmap.local.apiserver.json_reader import JsonError, read_json
from hotmap.local.apiserver.kinds.core.data import DATA_COLUMN, SIZE_LIMIT, DataStrategy
from hotmap.local.apiserver.type_checks import decode_error
from hotmap.local.field_errors import IMMUTABLE, FieldError, invalid_value, required, too_long
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import annotations_of
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column, field_labels

# What a type of Secret promises to have (ValidateSecret).
_PROMISED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


class SecretStrategy(DataStrategy):
    binary_field = "data"
    selectable_fields = field_labels("type")
    columns = (
        NAME,
        Column("Type", field_cell("type")),
        DATA_COLUMN,
        AGE,
    )

    def decode(self, kind: GroupVersionKind, obj: JsonObject) -> None:
        """Put `stringData` into `data` (pkg/apis/core/v1/conversion.go)."""
        super().decode(kind, obj)
        strings = obj.pop("stringData", {})
        if strings:
            data = {k: base64.b64encode(v.encode()).decode() for k, v in strings.items()}
            obj["data"] = {**obj.get("data", {}), **data}
        wanted = obj.get("type")
        if not isinstance(wanted, str | None):
            raise decode_error(kind, kind.kind, "type", wanted, "v1.SecretType")
        obj["type"] = wanted or "Opaque"

    def validate(self, obj: JsonObject) -> list[FieldError]:
        data = obj.get("data", {})
        errors = [error for key in data for error in self.key_errors("data", key)]
        if self.binary_size(obj) > SIZE_LIMIT:
            errors.append(too_long("data", SIZE_LIMIT))
        return errors + _type_errors(obj, data)

    def warnings(self, obj: JsonObject) -> list[str]:
        if obj["type"] != "kubernetes.io/tls":
            return []
        data = obj.get("data", {})
        parts = ((data.get(key, ""), f"tls: failed to find any PEM data in {name} input")
                 for key, name in (("tls.crt", "certificate"), ("tls.key", "key")))  # fmt: skip
        missing = [text for value, text in parts if b"-----BEGIN " not in base64.b64decode(value)]
        # Upstream stops at the first.
        return missing[:1]

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = super().validate_update(old, new)
        if old["type"] == new["type"]:
            return errors
        return [invalid_value("type", new["type"], IMMUTABLE), *errors]


def _type_errors(obj: JsonObject, data: dict[str, str]) -> list[FieldError]:
    kind = obj["type"]
    if kind == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        if not annotations_of(obj).get(annotation):
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
        elif key.startswith(".docker") and (why := _docker_error(base64.b64decode(data[key]))):
            errors.append(invalid_value(f"data[{key}]", "<secret contents redacted>", why))
    return errors


def _docker_error(config: bytes) -> str:
    try:
        value = read_json(config)
    except JsonError as error:
        return str(error)
    is_map = isinstance(value, dict | None)
    return "" if is_map else wrong_type(value, "map[string]interface {}")


SECRETS = Kind(
    "",
    ("v1",),
    Names("secrets", "Secret", storage="secrets"),
    strategy=SecretStrategy(),
)
