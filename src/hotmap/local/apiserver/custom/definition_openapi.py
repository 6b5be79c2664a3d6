"""The OpenAPI schemas of CustomResourceDefinitions, which the table of types does not have.

apiextensions-apiserver/pkg/generated/openapi. `kubectl explain crd` reads them.
"""

from __future__ import annotations

from hotmap.local.apiserver.api_types import METADATA
from hotmap.local.apiserver.custom.definition_fields import DEFINITION_FIELDS, DefinitionField
from hotmap.local.json_object import JsonObject

__all__ = ["KIND", "definition_schemas"]

KIND = "CustomResourceDefinition"
_REF = "#/components/schemas/"
#: Message → the Go type, by which kubectl calls it.
_NAMES = {
    "Spec": f"{KIND}Spec",
    "Names": f"{KIND}Names",
    "Version": f"{KIND}Version",
    "Status": f"{KIND}Status",
    "Condition": f"{KIND}Condition",
    "Column": "CustomResourceColumnDefinition",
    "Selectable": "SelectableField",
    "Validation": "CustomResourceValidation",
    "Subresources": "CustomResourceSubresources",
    "Empty": "CustomResourceSubresourceStatus",
    "Scale": "CustomResourceSubresourceScale",
    "Conversion": "CustomResourceConversion",
    "Webhook": "WebhookConversion",
    "Client": "WebhookClientConfig",
    "Service": "ServiceReference",
    "Rule": "ValidationRule",
    "Docs": "ExternalDocumentation",
    "Schema": "JSONSchemaProps",
    # With JSON forms of their own: any value.
    "SchemaOrBool": "JSONSchemaPropsOrBool",
    "SchemaOrList": "JSONSchemaPropsOrArray",
    "SchemaOrNames": "JSONSchemaPropsOrStringArray",
    "j": "JSON",
}
_SCALARS: dict[str, JsonObject] = {
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "i": {"type": "integer", "format": "int64"},
    "d": {"type": "number", "format": "double"},
    "y": {"type": "string", "format": "byte"},
    "t": {"type": "string", "format": "date-time"},
}
_REASONS = ("Duplicate", "Forbidden", "Invalid", "Required")


def definition_schemas(prefix: str) -> JsonObject:
    """Return the schemas of a definition and of all parts of it, named `prefix` and a Go type."""
    schemas: JsonObject = {
        prefix + _NAMES[name]: _message(fields, prefix)
        for name, fields in DEFINITION_FIELDS.items()
    }
    schemas |= {prefix + _NAMES[name]: {} for name in _NAMES.keys() - DEFINITION_FIELDS.keys()}
    # Upstream writes it always and does not need it.
    del schemas[f"{prefix}{KIND}Status"]["required"]
    schemas[f"{prefix}ValidationRule"]["properties"]["reason"] = {
        "type": "string",
        "enum": [f"FieldValue{reason}" for reason in _REASONS],
    }
    schemas[prefix + KIND] = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": _REF + METADATA}]},
            "spec": _value("Spec", prefix),
            "status": _value("Status", prefix),
        },
    }
    return schemas


def _message(fields: dict[int, DefinitionField], prefix: str) -> JsonObject:
    schema: JsonObject = {"type": "object"}
    if required := [field.name for field in fields.values() if field.required]:
        schema["required"] = required
    if fields:
        schema["properties"] = {field.name: _value(field.kind, prefix) for field in fields.values()}
    return schema


def _value(kind: str, prefix: str) -> JsonObject:
    if kind.startswith("[]"):
        return {"type": "array", "items": _value(kind[2:], prefix)}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _value(kind[2:], prefix)}
    return dict(_SCALARS[kind]) if kind in _SCALARS else {"$ref": _REF + prefix + _NAMES[kind]}
