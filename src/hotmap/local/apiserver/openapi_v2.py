"""The OpenAPI v2 document of all served kinds, for clients that do not read version 3.

Made from the documents of version 3 (`openapi`): Helm, older kubectl and `kubectl explain
--output=plaintext-openapiv2` read it, most of them in protobuf (github.com/google/gnostic-models,
openapiv2/OpenAPIv2.proto), others as JSON.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.json_object import JsonObject
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_REF_V3, _REF_V2 = "#/components/schemas/", "#/definitions/"
#: What version 2 cannot say; upstream leaves it out, too (apiextensions: ToStructuralOpenAPIV2).
_UNSAYABLE = ("nullable", "oneOf", "anyOf", "not")


def merge_documents(documents: Iterable[JsonObject]) -> JsonObject:
    """Join documents of version 3 to one of version 2."""
    definitions: JsonObject = {}
    paths: JsonObject = {}
    for document in documents:
        for name, schema in document["components"]["schemas"].items():
            definitions.setdefault(name, _definition(schema))
        for path, item in document["paths"].items():
            paths[path] = {method: _operation(operation) for method, operation in item.items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": f"{VERSION['major']}.{VERSION['minor']}"},
        "paths": paths,
        "definitions": definitions,
    }


def _definition(schema: JsonObject) -> JsonObject:
    """Convert the schema of a kind; of one that permits anything, clients must not know a field.

    apiextensions-apiserver: pkg/controller/openapi/builder, buildKubeNative.
    """
    kinds = "x-kubernetes-group-version-kind"
    if not schema.get("x-kubernetes-preserve-unknown-fields") or kinds not in schema:
        return _schema(schema)
    return {"type": "object", kinds: schema[kinds]}


def _schema(schema: JsonObject) -> JsonObject:
    result: JsonObject = {}
    for name, value in schema.items():
        match name:
            case "$ref":
                result[name] = value.replace(_REF_V3, _REF_V2)
            case "properties":
                result[name] = {key: _schema(inner) for key, inner in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                result[name] = _schema(value)
            case "allOf":
                for inner in value:
                    result |= _schema(inner)
            case _ if name not in _UNSAYABLE:
                result[name] = value
    if "oneOf" in schema or schema.get("x-kubernetes-int-or-string"):
        result.setdefault("type", "string")
    return result


def _operation(operation: JsonObject) -> JsonObject:
    result = {name: value for name, value in operation.items() if name.startswith("x-")}
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        result["consumes"] = list(body["content"])
        content = next(iter(body["content"].values()))
        parameters.append(
            {"in": "body", "name": "body", "required": True, "schema": _schema(content["schema"])}
        )
    if parameters:
        result["parameters"] = parameters
    result["produces"] = ["application/json"]
    result["responses"] = {
        code: {"description": answer["description"], "schema": _schema(content["schema"])}
        for code, answer in operation["responses"].items()
        for content in answer["content"].values()
    }
    return result


def _parameter(parameter: JsonObject) -> JsonObject:
    return {"name": parameter["name"], "in": parameter["in"], **parameter["schema"]}


def encode_protobuf(document: JsonObject) -> bytes:
    """Write a document of version 2 as gnostic's `Document`."""
    return b"".join(
        (
            _text(1, document["swagger"]),
            _field(2, _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])),
            _field(8, b"".join(_named(2, p, _path_item(i)) for p, i in document["paths"].items())),
            _field(9, _properties(document["definitions"])),
        )
    )


#: Fields of `Schema` by their numbers, grouped by how they are written.
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_NUMBERS = {
    "exclusiveMaximum": 8, "exclusiveMinimum": 10, "maxLength": 11, "minLength": 12,
    "maxItems": 14, "minItems": 15, "uniqueItems": 16, "maxProperties": 17, "minProperties": 18,
}  # fmt: skip
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _properties(schemas: Mapping[str, JsonObject]) -> bytes:
    return b"".join(_named(1, name, _encode_schema(inner)) for name, inner in schemas.items())


def _encode_schema(schema: JsonObject) -> bytes:
    return b"".join(_schema_field(name, value) for name, value in schema.items())


def _schema_field(name: str, value: Any) -> bytes:
    if name in _TEXTS:
        return _text(_TEXTS[name], value)
    if name in _NUMBERS:
        return _number(_NUMBERS[name], int(value))
    if name in _DOUBLES:
        return _double(_DOUBLES[name], float(value))
    match name:
        case "type":
            return _field(22, _text(1, value))
        case "default":
            return _field(5, _any(value))
        case "required":
            return b"".join(_text(19, text) for text in value)
        case "enum":
            return b"".join(_field(20, _any(item)) for item in value)
        case "additionalProperties":
            inner = _number(2, int(value)) if isinstance(value, bool) else None
            return _field(21, _field(1, _encode_schema(value)) if inner is None else inner)
        case "items":
            return _field(23, _field(1, _encode_schema(value)))
        case "properties":
            return _field(25, _properties(value))
        case _ if name.startswith("x-"):
            return _named(31, name, _any(value))
    return b""


def _path_item(item: JsonObject) -> bytes:
    return b"".join(_field(_METHODS[method], _encode_operation(o)) for method, o in item.items())


def _encode_operation(operation: JsonObject) -> bytes:
    parts = [_text(6, text) for text in operation["produces"]]
    parts += [_text(7, text) for text in operation.get("consumes", ())]
    parts += [_field(8, _encode_parameter(p)) for p in operation.get("parameters", ())]
    answers = b""
    for code, answer in operation["responses"].items():
        schema = _field(1, _encode_schema(answer["schema"]))
        response = _text(1, answer["description"]) + _field(2, schema)
        answers += _named(1, code, _field(1, response))
    parts.append(_field(9, answers))
    parts += [_named(13, k, _any(v)) for k, v in operation.items() if k.startswith("x-")]
    return b"".join(parts)


def _encode_parameter(parameter: JsonObject) -> bytes:
    """Write a ParametersItem: the body, or one of the query."""
    if parameter["in"] == "body":
        body = _text(2, parameter["name"]) + _text(3, "body") + _number(4, 1)
        return _field(1, _field(1, body + _field(5, _encode_schema(parameter["schema"]))))
    query = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    unique = _number(20, int(parameter.get("uniqueItems", False)))
    return _field(1, _field(2, _field(3, query + unique)))


def _named(number: int, name: str, value: bytes) -> bytes:
    """Write an entry of a map: messages `Named…` have the name first and the value second."""
    return _field(number, _text(1, name) + _field(2, value))


def _any(value: object) -> bytes:
    # YAML, of which JSON is a part.
    return _field(2, msgspec.json.encode(value))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
