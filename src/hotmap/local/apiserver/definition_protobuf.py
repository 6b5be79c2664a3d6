"""CustomResourceDefinitions in protobuf, by the numbers in `custom.definition_fields`."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.apiserver.custom.definition_fields import DEFINITION_FIELDS
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
            field = DEFINITION_FIELDS[name].get(number)
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
            case "SchemaOrList" | "SchemaOrNames":
                parts = dict(self._split(value))
                if 1 in parts:
                    return self.message("Schema", parts[1])
                inner = "Schema" if kind == "SchemaOrList" else "s"
                return [self._value(inner, part) for _, part in self._split(value)]
        return self.message(kind, value)
