"""OpenAPI v3 documents of the served kinds, one per group version, and their index.

k8s.io/kube-openapi/pkg/handler3. Made from `api_types`: types, structure and enumerations, no
descriptions. kubectl reads them for `apply` (field validation, merge keys), `diff` and `explain`;
`openapi_v2` makes the document of version 2 from them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from hotmap.local.apiserver import openapi_v2
from hotmap.local.apiserver.api_types import METADATA, Field, api_types, type_of
from hotmap.local.apiserver.custom.definition_openapi import KIND, definition_schemas
from hotmap.local.json_object import JsonObject
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind, Scheme

_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_LIST_META = f"{_META}ListMeta"
# Schemas of types whose JSON form is not that of their fields, and of what lists need.
_SPECIAL: dict[str, JsonObject] = {
    f"{_META}Time": {"type": "string", "format": "date-time"},
    f"{_META}MicroTime": {"type": "string", "format": "date-time"},
    f"{_META}FieldsV1": {"type": "object"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "oneOf": [{"type": "string"}, {"type": "number"}]
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
    _LIST_META: {
        "type": "object",
        "properties": {
            "continue": {"type": "string"},
            "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": {"type": "string"},
            "selfLink": {"type": "string"},
        },
    },
}
_METHODS = {"create": "post", "update": "put", "patch": "patch", "delete": "delete", "get": "get"}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


class OpenAPI:
    """The documents of one scheme; each is made when it is first asked for."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._documents: dict[str, bytes] = {}
        self._version_2: dict[str, tuple[str, bytes]] = {}
        scheme.subscribe(lambda *_: self._forget())

    def index(self) -> JsonObject:
        """Return the document at `/openapi/v3`: the path of each group version with its hash."""
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.hash(path)}"}
                for path in self._paths()
            }
        }

    def hash(self, path: str) -> str | None:
        """Return the hash of the document of `api/v1` or `apis/<group>/<version>`, if any."""
        group_version = self._paths().get(path)
        if group_version is None:
            return None
        named = [
            (
                *kind[:3],
                kind.namespaced,
                kind.subresources,
                kind.verbs,
                _own_schemas(kind),
            )
            for kind in self._kinds(*group_version)
        ]
        digest = hashlib.sha512(repr((api_types().version, named)).encode())
        return digest.hexdigest().upper()

    def document(self, path: str) -> bytes:
        """Return the document of a path that has a hash."""
        document = self._documents.get(path)
        if document is None:
            kinds = self._kinds(*self._paths()[path])
            document = self._documents[path] = msgspec.json.encode(_document(path, kinds))
        return document

    def version_2(self, *, protobuf: bool) -> tuple[str, bytes]:
        """Return the hash and the text of the document of version 2."""
        form = "protobuf" if protobuf else "json"
        if form not in self._version_2:
            paths = self._paths().items()
            document = openapi_v2.merge_documents(
                _document(path, self._kinds(*group_version)) for path, group_version in paths
            )
            encode = openapi_v2.encode_protobuf if protobuf else msgspec.json.encode
            body = encode(document)
            self._version_2[form] = (hashlib.sha512(body).hexdigest().upper(), body)
        return self._version_2[form]

    def _forget(self) -> None:
        self._documents.clear()
        self._version_2.clear()

    def _paths(self) -> dict[str, tuple[str, str]]:
        return {
            f"apis/{group}/{version}" if group else f"api/{version}": (group, version)
            for group, version in self._scheme.group_versions()
        }

    def _kinds(self, group: str, version: str) -> list[Kind]:
        kinds = [k for k in self._scheme if k.group == group and version in k.versions]
        return [kind.at(version) for kind in kinds]


def _document(path: str, kinds: list[Kind]) -> JsonObject:
    paths: JsonObject = {}
    schemas: JsonObject = {}
    for kind in kinds:
        _add_kind_schemas(schemas, kind)
        _add_kind_paths(paths, path, kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"{VERSION['major']}.{VERSION['minor']}"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _schema_name(kind: Kind) -> str:
    """Name a kind's schema; one without a type of the table is called by its reversed group."""
    group = ".".join(reversed(kind.group.split(".")))
    return type_of(kind) or f"{group}.{kind.version}.{kind.kind}"


def _kind_of(kind: Kind, suffix: str = "") -> JsonObject:
    return {"group": kind.group, "version": kind.version, "kind": f"{kind.kind}{suffix}"}


def _add_kind_schemas(schemas: JsonObject, kind: Kind) -> None:
    name = _schema_name(kind)
    if type_of(kind) is None:
        schemas.update(_own_schemas(kind))
        _add_schema(schemas, METADATA)
    else:
        _add_schema(schemas, name)
    schemas[name]["x-kubernetes-group-version-kind"] = [_kind_of(kind)]
    _add_schema(schemas, _LIST_META)
    schemas[f"{name}List"] = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": _REF + _LIST_META}], "default": {}},
            "items": {"type": "array", "items": {"$ref": _REF + name}},
        },
        "x-kubernetes-group-version-kind": [_kind_of(kind, "List")],
    }


def _own_schemas(kind: Kind) -> JsonObject:
    """Return the schemas of a kind without a type in the table, by their names."""
    if type_of(kind) is not None:
        return {}
    name = _schema_name(kind)
    if kind.group == "apiextensions.k8s.io" and kind.kind == KIND:
        return definition_schemas(name.removesuffix(KIND))
    return {name: _custom_schema(kind)}


def _custom_schema(kind: Kind) -> JsonObject:
    """Return the schema of a kind without a type in the table, as its definition has it."""
    schema = kind.strategy.openapi_schema()
    if schema is None:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties: JsonObject = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **(schema.get("properties") or {}),
        "metadata": {"allOf": [{"$ref": _REF + METADATA}]},
    }
    return {**schema, "properties": properties}


def _add_schema(schemas: JsonObject, name: str) -> None:
    """Add the schema of a type, and of everything that it names."""
    if name in schemas:
        return
    if name in _SPECIAL:
        schemas[name] = _SPECIAL[name]
        return
    fields = api_types().types[name]
    schema: JsonObject = {"type": "object"}
    schemas[name] = schema
    required = sorted(field_name for field_name, field in fields.items() if field.required)
    if required:
        schema["required"] = required
    schema["properties"] = {
        field_name: _property(field) for field_name, field in sorted(fields.items())
    }
    if name in api_types().atomic_types:
        schema["x-kubernetes-map-type"] = "atomic"
    for field in fields.values():
        if "#" in field.type:
            _add_schema(schemas, field.type.rpartition("#")[2])


def _property(field: Field) -> JsonObject:
    extensions: JsonObject = {}
    if field.list_type:
        extensions["x-kubernetes-list-type"] = field.list_type
    if field.list_keys:
        extensions["x-kubernetes-list-map-keys"] = list(field.list_keys)
    if field.map_type:
        extensions["x-kubernetes-map-type"] = field.map_type
    if field.patch_strategy:
        extensions["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
    if field.patch_merge_key:
        extensions["x-kubernetes-patch-merge-key"] = field.patch_merge_key
    schema = _type_schema(field.type)
    if "$ref" in schema and (extensions or not field.pointer):
        schema = {"allOf": [schema]}
        if not field.pointer and field.type[1:] in api_types().types:
            schema["default"] = {}
    if field.default:
        schema["default"] = field.default
    if field.enum:
        inner = schema.get("items") or schema.get("additionalProperties") or schema
        inner["enum"] = list(field.enum)
    return schema | extensions


def _type_schema(text: str) -> JsonObject:
    text = text.removeprefix("wrapped")
    if text.startswith("[]"):
        return {"type": "array", "items": _type_schema(text[2:])}
    if text.startswith("{}"):
        return {"type": "object", "additionalProperties": _type_schema(text[2:])}
    if text.startswith("#"):
        return {"$ref": _REF + text[1:]}
    if text.startswith("int"):
        return {"type": "integer", "format": text}
    if text == "bool":
        return {"type": "boolean"}
    if text == "bytes":
        return {"type": "string", "format": "byte"}
    return {"type": "string"}


def _add_kind_paths(paths: JsonObject, prefix: str, kind: Kind) -> None:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"/{prefix}{scope}/{kind.plural}"
    paths[collection] = _operations(kind, [v for v in kind.verbs if v == "create"])
    if "list" in kind.verbs:
        paths[collection]["get"] = _operation(kind, "list", "List")
        if kind.namespaced:
            paths[f"/{prefix}/{kind.plural}"] = {"get": _operation(kind, "list", "List")}
    named = _operations(kind, [v for v in kind.verbs if v != "create"])
    if named:
        paths[f"{collection}/{{name}}"] = named
    for part in kind.subresources:
        if part.response is None:
            paths[f"{collection}/{{name}}/{part.name}"] = _operations(kind, list(part.verbs))


def _operations(kind: Kind, verbs: list[str]) -> JsonObject:
    return {_METHODS[verb]: _operation(kind, verb) for verb in verbs if verb in _METHODS}


def _operation(kind: Kind, verb: str, suffix: str = "") -> JsonObject:
    reference = {"schema": {"$ref": f"{_REF}{_schema_name(kind)}{suffix}"}}
    operation: JsonObject = {
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": _kind_of(kind),
    }
    if verb in ("create", "update", "patch"):
        names = (*_WRITE_PARAMETERS, "force") if verb == "patch" else _WRITE_PARAMETERS
        operation["parameters"] = [_parameter(name) for name in names]
        patches = _PATCH_TYPES if kind.strategy.typed else _PATCH_TYPES[:-1]
        media = patches if verb == "patch" else ("*/*",)
        body = {"schema": {"type": "object"}} if verb == "patch" else reference
        operation["requestBody"] = {"content": dict.fromkeys(media, body), "required": True}
    return operation


def _parameter(name: str) -> JsonObject:
    schema = {"type": "boolean" if name == "force" else "string", "uniqueItems": True}
    return {"name": name, "in": "query", "schema": schema}
