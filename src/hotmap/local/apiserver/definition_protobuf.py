"""CustomResourceDefinitions in protobuf.

apiextensions-apiserver/pkg/apis/apiextensions/v1: generated.proto for the numbers, types.go for
the JSON names and for what is a pointer, marshal.go for what has a JSON form of its own.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# NAME NUMBER TYPE; a type is s(tring), b(ool), i(nteger), d(ouble), j(son), (b)y(tes), t(ime) or a
# message, with [] for a list and {} for a map before it. What ends in ! is written whatever it
# holds; what ends in ? is a pointer, so that it is written whenever it was sent.
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
    "Webhook": "clientConfig 2 Client? conversionReviewVersions 3 []s",
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
    "additionalItems 33 SchemaOrBool? definitions 34 {}Schema externalDocs 35 Docs? example 36 j? "
    "nullable 37 b x-kubernetes-preserve-unknown-fields 38 b? x-kubernetes-embedded-resource 39 b "
    "x-kubernetes-int-or-string 40 b x-kubernetes-list-map-keys 41 []s "
    "x-kubernetes-list-type 42 s? x-kubernetes-map-type 43 s? x-kubernetes-validations 44 []Rule",
}


class _Field(msgspec.Struct, frozen=True):
    name: str
    kind: str
    keeps_zero: bool


def _parse(text: str) -> dict[int, _Field]:
    words = text.split()
    return {
        int(number): _Field(name, kind.rstrip("!?"), kind.endswith(("!", "?")))
        for name, number, kind in zip(words[::3], words[1::3], words[2::3], strict=True)
    }


_TABLE = {name: _parse(text) for name, text in _MESSAGES.items()}


class DefinitionDecoder:
    """Decodes parts of a definition: its "Spec" and its "Status".

    `split` splits a message into numbers and values, `read_time` writes a time as JSON does. What
    is not well formed raises ValueError.
    """

    def __init__(
        self,
        split: Callable[[bytes], Iterator[tuple[int, Any]]],
        read_time: Callable[[bytes], str | None],
    ) -> None:
        self._split = split
        self._read_time = read_time

    def message(self, name: str, data: bytes) -> JsonObject:
        """Decode a message by its name."""
        obj: JsonObject = {}
        for number, value in self._split(data):
            field = _TABLE[name].get(number)
            if field is None:
                continue
            if field.kind.startswith("[]"):
                obj.setdefault(field.name, []).append(self._value(field.kind[2:], value))
            elif field.kind.startswith("{}"):
                entry = dict(self._split(value))
                inner = self._value(field.kind[2:], entry.get(2, b""))
                obj.setdefault(field.name, {})[entry.get(1, b"").decode()] = inner
            else:
                decoded = self._value(field.kind, value)
                if field.keeps_zero or decoded not in ("", 0, False, None):
                    obj[field.name] = decoded
        return obj

    def _value(self, kind: str, value: Any) -> Any:
        match kind:
            case "s":
                return value.decode()
            case "b":
                return bool(value)
            case "i":
                return value - (1 << 64) if value >= 1 << 63 else value
            case "d":
                number = struct.unpack("<d", value)[0]
                return int(number) if number.is_integer() else number
            case "j":
                return msgspec.json.decode(dict(self._split(value)).get(1, b"null"))
            case "t":
                return self._read_time(value)
            case "y":
                return base64.b64encode(value).decode()
            case "SchemaOrBool":
                parts = dict(self._split(value))
                return self.message("Schema", parts[2]) if 2 in parts else bool(parts.get(1))
            case "SchemaOrList":
                parts = dict(self._split(value))
                if 1 in parts:
                    return self.message("Schema", parts[1])
                return [self.message("Schema", part) for _, part in self._split(value)]
        return self.message(kind, value)
