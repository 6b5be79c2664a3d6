"""The fields of CustomResourceDefinitions, and which ones a sent definition has beyond them.

apiextensions-apiserver/pkg/apis/apiextensions/v1: generated.proto for the numbers, types.go for
the JSON names and for what is a pointer, marshal.go for what has a JSON form of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hotmap.local.json_object import JsonObject

__all__ = ["DEFINITION_FIELDS", "DefinitionField", "prune_definition", "unknown_definition_fields"]

# NAME NUMBER TYPE; a type is s(tring), b(ool), i(nteger), d(ouble), j(son), (b)y(tes), t(ime) or a
# message, with [] for a list and {} for a map before it. What ends in ! is required, and written
# whatever it holds; what ends in ? is a pointer, so that it is written whenever it was sent.
_MESSAGES = {
    "Spec": "group 1 s! names 3 Names! scope 4 s! versions 7 []Version! conversion 9 Conversion? "
    "preserveUnknownFields 10 b",
    "Names": "plural 1 s! singular 2 s shortNames 3 []s kind 4 s! listKind 5 s categories 6 []s",
    "Version": "name 1 s! served 2 b! storage 3 b! deprecated 7 b deprecationWarning 8 s? "
    "schema 4 Validation? subresources 5 Subresources? additionalPrinterColumns 6 []Column "
    "selectableFields 9 []Selectable",
    "Status": "conditions 1 []Condition acceptedNames 2 Names! storedVersions 3 []s "
    "observedGeneration 4 i",
    "Condition": "type 1 s! status 2 s! lastTransitionTime 3 t reason 4 s message 5 s "
    "observedGeneration 6 i",
    "Column": "name 1 s! type 2 s! format 3 s description 4 s priority 5 i jsonPath 6 s!",
    "Selectable": "jsonPath 1 s!",
    "Validation": "openAPIV3Schema 1 Schema?",
    "Subresources": "status 1 Empty? scale 2 Scale?",
    "Empty": "",
    "Scale": "specReplicasPath 1 s! statusReplicasPath 2 s! labelSelectorPath 3 s?",
    "Conversion": "strategy 1 s! webhook 2 Webhook?",
    "Webhook": "clientConfig 2 Client? conversionReviewVersions 3 []s!",
    "Client": "url 3 s? service 1 Service? caBundle 2 y",
    "Service": "namespace 1 s! name 2 s! path 3 s? port 4 i?",
    "Rule": "rule 1 s! message 2 s messageExpression 3 s reason 4 s? fieldPath 5 s "
    "optionalOldSelf 6 b?",
    "Docs": "description 1 s url 2 s",
    "Schema": "id 1 s $schema 2 s $ref 3 s? description 4 s type 5 s format 6 s title 7 s "
    "default 8 j? maximum 9 d? exclusiveMaximum 10 b minimum 11 d? exclusiveMinimum 12 b "
    "maxLength 13 i? minLength 14 i? pattern 15 s maxItems 16 i? minItems 17 i? uniqueItems 18 b "
    "multipleOf 19 d? enum 20 []j maxProperties 21 i? minProperties 22 i? required 23 []s "
    "items 24 SchemaOrList? allOf 25 []Schema oneOf 26 []Schema anyOf 27 []Schema not 28 Schema? "
    "properties 29 {}Schema additionalProperties 30 SchemaOrBool? patternProperties 31 {}Schema "
    "dependencies 32 {}SchemaOrNames additionalItems 33 SchemaOrBool? definitions 34 {}Schema "
    "externalDocs 35 Docs? example 36 j? nullable 37 b x-kubernetes-preserve-unknown-fields 38 b? "
    "x-kubernetes-embedded-resource 39 b x-kubernetes-int-or-string 40 b "
    "x-kubernetes-list-map-keys 41 []s "
    "x-kubernetes-list-type 42 s? x-kubernetes-map-type 43 s? x-kubernetes-validations 44 []Rule",
}


class DefinitionField(msgspec.Struct, frozen=True):
    name: str
    kind: str
    keeps_zero: bool
    required: bool


def _parse(text: str) -> dict[int, DefinitionField]:
    words = text.split()
    return {
        int(number): DefinitionField(
            name, kind.rstrip("!?"), kind.endswith(("!", "?")), kind.endswith("!")
        )
        for name, number, kind in zip(words[::3], words[1::3], words[2::3], strict=True)
    }


#: Message → number → field.
DEFINITION_FIELDS = {name: _parse(text) for name, text in _MESSAGES.items()}

_OWN_FORMS = ("SchemaOrBool", "SchemaOrList", "SchemaOrNames")
_ROOTS = (("spec", "Spec"), ("status", "Status"))


class _Unknown(NamedTuple):
    parent: JsonObject
    name: str
    path: str
    #: Whether strict decoding reports it. It does not look into values with a JSON form of their
    #: own.
    is_reported: bool


def prune_definition(obj: JsonObject) -> None:
    """Remove the fields that definitions do not have, in place."""
    for unknown in _unknown(obj):
        del unknown.parent[unknown.name]


def unknown_definition_fields(obj: JsonObject) -> list[str]:
    """List the paths of the fields that definitions do not have and strict decoding reports."""
    return [unknown.path for unknown in _unknown(obj) if unknown.is_reported]


def _unknown(obj: JsonObject) -> list[_Unknown]:
    known = ("apiVersion", "kind", "metadata", *dict(_ROOTS))
    found = [_Unknown(obj, name, name, True) for name in obj if name not in known]
    for name, message in _ROOTS:
        found += _unknown_in(obj.get(name), message, name, is_reported=True)
    return found


def _unknown_in(value: Any, kind: str, path: str, *, is_reported: bool) -> list[_Unknown]:
    found: list[_Unknown] = []
    if kind.startswith("[]"):
        for index, inner in enumerate(value if isinstance(value, list) else ()):
            found += _unknown_in(inner, kind[2:], f"{path}[{index}]", is_reported=is_reported)
    elif isinstance(value, list):  # of SchemaOrList
        for index, inner in enumerate(value):
            found += _unknown_in(inner, kind, f"{path}[{index}]", is_reported=False)
    elif isinstance(value, dict) and kind.startswith("{}"):
        for name, inner in value.items():
            found += _unknown_in(inner, kind[2:], f"{path}.{name}", is_reported=is_reported)
    elif isinstance(value, dict):
        if kind in _OWN_FORMS:
            kind, is_reported = "Schema", False
        if kind not in DEFINITION_FIELDS:
            return []
        fields = {field.name: field for field in DEFINITION_FIELDS[kind].values()}
        for name, inner in value.items():
            at = f"{path}.{name}"
            if name in fields:
                found += _unknown_in(inner, fields[name].kind, at, is_reported=is_reported)
            else:
                found.append(_Unknown(value, name, at, is_reported))
    return found
