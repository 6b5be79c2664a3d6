"""ConfigMaps (pkg/registry/core/configmap/strategy.go; validation: ValidateConfigMap)."""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.columns import AGE, NAME
from hotmap.local.apiserver.kinds.core.data import (
    SIZE_LIMIT,
    DataStrategy,
    data_keys_cell,
    decoded_size,
    key_errors,
)
from hotmap.local.field_errors import FieldError, invalid_value, too_long
from hotmap.local.scheme import Kind, Names
from hotmap.local.strategy import Column

JsonObject = dict[str, Any]


class ConfigMapStrategy(DataStrategy):
    fields = frozenset(("data", "binaryData", "immutable"))
    binary_field = "binaryData"
    columns = (NAME, Column("Data", data_keys_cell), AGE)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        data, binary = obj.get("data", {}), obj.get("binaryData", {})
        errors: list[FieldError] = []
        for key in data:
            errors += key_errors("data", key)
            if key in binary:
                why = "duplicate of key present in binaryData"
                errors.append(invalid_value(f"data[{key}]", key, why))
        for key in binary:
            errors += key_errors("binaryData", key)
        size = sum(len(value.encode()) for value in data.values())
        size += sum(decoded_size(value) for value in binary.values())
        if size > SIZE_LIMIT:
            # Upstream's path is empty and prints like this.
            errors.append(too_long("[]", SIZE_LIMIT))
        return errors


CONFIGMAPS = Kind(
    "",
    ("v1",),
    Names("configmaps", "ConfigMap", ("cm",), storage="configmaps"),
    strategy=ConfigMapStrategy(),
)
