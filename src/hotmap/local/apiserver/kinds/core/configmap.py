"""ConfigMaps (pkg/registry/core/configmap/strategy.go; validation: ValidateConfigMap)."""

from __future__ import annotations

from hotmap.local.apiserver.columns import AGE, NAME
from hotmap.local.apiserver.kinds.core.data import DATA_COLUMN, SIZE_LIMIT, DataStrategy
from hotmap.local.field_errors import FieldError, invalid_value, too_long
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Kind, Names


class ConfigMapStrategy(DataStrategy):
    binary_field = "binaryData"
    columns = (NAME, DATA_COLUMN, AGE)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        data, binary = obj.get("data", {}), obj.get("binaryData", {})
        errors: list[FieldError] = []
        for key in data:
            errors += self.key_errors("data", key)
            if key in binary:
                why = "duplicate of key present in binaryData"
                errors.append(invalid_value(f"data[{key}]", key, why))
        for key in binary:
            errors += self.key_errors("binaryData", key)
        size = sum(len(value.encode()) for value in data.values())
        size += self.binary_size(obj)
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
