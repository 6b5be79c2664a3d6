"""What ConfigMaps and Secrets have in common: data keys, values, and being immutable.

pkg/apis/core/validation/validation.go (ValidateConfigMap, ValidateSecret and their updates). No
text in here holds a value of a Secret.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hotmap.local.apiserver.type_checks import base64_error, decode_error, unreadable
from hotmap.local.field_errors import FieldError, forbidden_field, rule_errors
from hotmap.local.json_object import JsonObject
from hotmap.local.names import config_key_errors
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from hotmap.local.group_version_kind import GroupVersionKind

# Bytes of all values together, decoded; keys do not count (MaxSecretSize).
SIZE_LIMIT = 1 << 20
_IMMUTABLE_TEXT = "field is immutable when `immutable` is set"


class DataStrategy(Strategy):
    """A kind that holds data by keys."""

    #: The field whose values are base64.
    binary_field = ""

    def decode(self, kind: GroupVersionKind, obj: JsonObject) -> None:
        """Read null values as empty ones, and empty maps as none."""
        for field in ("data", "binaryData", "stringData"):
            if field in obj:
                self._check_strings(kind, obj, field)
        if not isinstance(obj.get("immutable", False), (bool, type(None))):
            raise decode_error(kind, kind.kind, "immutable", obj["immutable"], "bool")
        if obj.get("immutable", False) is None:
            del obj["immutable"]

    def _check_strings(self, kind: GroupVersionKind, obj: JsonObject, field: str) -> None:
        if obj[field] in (None, {}):
            del obj[field]
            return
        is_binary = field in ("binaryData", self.binary_field)
        if not isinstance(obj[field], dict):
            wanted = "map[string][]uint8" if is_binary else "map[string]string"
            raise decode_error(kind, kind.kind, field, obj[field], wanted)
        for key, value in obj[field].items():
            if value is None:
                obj[field][key] = ""
            elif not isinstance(value, str):
                wanted = "[]uint8" if is_binary else "string"
                raise decode_error(kind, kind.kind, field, value, wanted)
            elif is_binary and (why := base64_error(value)):
                raise unreadable(why, kind)

    @staticmethod
    def key_errors(field: str, key: str) -> list[FieldError]:
        """Check a data key."""
        return rule_errors(f"{field}[{key}]", key, config_key_errors)

    def binary_size(self, obj: JsonObject) -> int:
        """Count the bytes of all base64 values, decoded."""
        return sum(
            len(base64.b64decode(value)) for value in obj.get(self.binary_field, {}).values()
        )

    def immutable_errors(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        """Find what an update of an immutable object may not change."""
        errors: list[FieldError] = []
        if old.get("immutable"):
            if not new.get("immutable"):
                errors.append(forbidden_field("immutable", _IMMUTABLE_TEXT))
            errors += [
                forbidden_field(field, _IMMUTABLE_TEXT)
                for field in ("data", "binaryData")
                if old.get(field) != new.get(field)
            ]
        return errors

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        return self.immutable_errors(old, new) + self.validate(new)


def _data_keys(obj: JsonObject, _: float) -> int:
    """Count the data keys, for `kubectl get`."""
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


DATA_COLUMN = Column("Data", _data_keys)
