"""The types of a CustomResourceDefinition's spec (apiextensions/v1: types.go, types_jsonschema.go).

Only to check that a definition has them: it is used as it was sent.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["DefinitionSpec"]

_X = "x-kubernetes-"


class _Names(msgspec.Struct):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    listKind: str = ""
    shortNames: list[str] = []
    categories: list[str] = []


class _Schema(msgspec.Struct):
    type: str = ""
    format: str = ""
    pattern: str = ""
    nullable: bool = False
    enum: list[Any] = []
    required: list[str] = []
    maximum: float | None = None
    minimum: float | None = None
    exclusiveMaximum: bool = False
    exclusiveMinimum: bool = False
    multipleOf: float | None = None
    maxLength: int | None = None
    minLength: int | None = None
    maxItems: int | None = None
    minItems: int | None = None
    maxProperties: int | None = None
    minProperties: int | None = None
    properties: dict[str, _Schema] = {}
    additionalProperties: _Schema | bool | None = None
    items: _Schema | None = None
    allOf: list[_Schema] = []
    anyOf: list[_Schema] = []
    oneOf: list[_Schema] = []
    not_: _Schema | None = msgspec.field(name="not", default=None)
    preserves: bool = msgspec.field(name=f"{_X}preserve-unknown-fields", default=False)
    int_or_string: bool = msgspec.field(name=f"{_X}int-or-string", default=False)
    embedded: bool = msgspec.field(name=f"{_X}embedded-resource", default=False)
    list_type: str = msgspec.field(name=f"{_X}list-type", default="")
    list_keys: list[str] = msgspec.field(name=f"{_X}list-map-keys", default_factory=list)
    map_type: str = msgspec.field(name=f"{_X}map-type", default="")


class _Validation(msgspec.Struct):
    openAPIV3Schema: _Schema | None = None


class _Scale(msgspec.Struct):
    specReplicasPath: str = ""
    statusReplicasPath: str = ""
    labelSelectorPath: str = ""


class _Subresources(msgspec.Struct):
    status: dict[str, Any] | None = None
    scale: _Scale | None = None


class _Column(msgspec.Struct):
    name: str = ""
    type: str = ""
    format: str = ""
    description: str = ""
    priority: int = 0
    jsonPath: str = ""


class _SelectableField(msgspec.Struct):
    jsonPath: str = ""


class _Version(msgspec.Struct):
    name: str = ""
    served: bool = False
    storage: bool = False
    deprecated: bool = False
    deprecationWarning: str | None = None
    schema: _Validation | None = None
    subresources: _Subresources | None = None
    additionalPrinterColumns: list[_Column] = []
    selectableFields: list[_SelectableField] = []


class _Webhook(msgspec.Struct):
    clientConfig: dict[str, Any] | None = None
    conversionReviewVersions: list[str] = []


class _Conversion(msgspec.Struct):
    strategy: str = ""
    webhook: _Webhook | None = None


class DefinitionSpec(msgspec.Struct):
    """What the spec of a definition is made of."""

    group: str = ""
    scope: str = ""
    names: _Names = msgspec.field(default_factory=_Names)
    versions: list[_Version] = []
    conversion: _Conversion | None = None
    preserveUnknownFields: bool = False
