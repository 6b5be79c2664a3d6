"""CustomResourceDefinitions (apiextensions-apiserver/pkg/apis/apiextensions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.columns import NAME, field_cell
from hotmap.local.apiserver.custom.jsonpath import is_valid_path
from hotmap.local.apiserver.custom.types import DefinitionSpec
from hotmap.local.apiserver.custom.validation import is_valid_pattern
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.names import label_1035_errors, subdomain_errors
from hotmap.local.scheme import STATUS, Kind, Names
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]

GROUP = "apiextensions.k8s.io"
FINALIZER = f"customresourcecleanup.{GROUP}"
# Fields that hold any JSON.
_RAW = ("default", "enum", "example")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


class DefinitionStrategy(Strategy):
    typed = False
    has_generation = True
    columns = (NAME, Column("Created At", field_cell("metadata.creationTimestamp"), type="date"))

    def decode(self, kind: GroupVersionKind, obj: JsonObject) -> None:
        for field in [name for name in obj if name != "metadata"]:
            obj[field] = _without_nulls(obj[field])
        try:
            msgspec.convert(obj.get("spec", {}), DefinitionSpec)
        except (msgspec.ValidationError, RecursionError) as error:
            raise BadRequest(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"json: cannot unmarshal: {error}"
            ) from None

    def prepare_create(self, obj: JsonObject) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        versions = obj["spec"].get("versions") or ()
        stored = [v.get("name", "") for v in versions if v.get("storage")]
        return {
            "conditions": [],
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        }

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if names.get("kind"):
            names.setdefault("listKind", f"{names['kind']}List")
            names.setdefault("singular", names["kind"].lower())
        spec.setdefault("conversion", {"strategy": "None"})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = list(_missing_errors(spec))
        return errors or [*_name_errors(obj, spec), *_version_errors(spec)]

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = self.validate(new)
        if errors:
            return errors
        for field in ("group", "scope"):
            if old["spec"][field] != new["spec"][field]:
                why = "field is immutable"
                errors.append(invalid_value(f"spec.{field}", new["spec"][field], why))
        for field in ("plural", "kind"):
            after = new["spec"]["names"][field]
            if old["spec"]["names"][field] != after:
                errors.append(invalid_value(f"spec.names.{field}", after, "field is immutable"))
        return errors


def _without_nulls(value: Any) -> Any:
    """Drop the nulls that Go's types have no place for; those of defaults and examples stay."""
    if isinstance(value, dict):
        return {
            name: inner if name in _RAW else _without_nulls(inner)
            for name, inner in value.items()
            if inner is not None or name in _RAW
        }
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _missing_errors(spec: JsonObject) -> Iterator[FieldError]:
    """Check that nothing is missing on which the rest relies."""
    if not spec.get("group"):
        yield required("spec.group")
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            yield required(f"spec.names.{field}")
    if not spec.get("versions"):
        yield required("spec.versions", "must have at least one version")


def _name_errors(obj: JsonObject, spec: JsonObject) -> Iterator[FieldError]:
    names, group = spec["names"], spec["group"]
    name = obj["metadata"].get("name", "")
    if name != f"{names['plural']}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    for why in subdomain_errors(group):
        yield invalid_value("spec.group", group, why)
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    for field in ("plural", "singular"):
        for why in label_1035_errors(names[field]):
            yield invalid_value(f"spec.names.{field}", names[field], why)
    for field in ("kind", "listKind"):
        for why in label_1035_errors(names[field].lower()):
            text = f"may have mixed case, but should otherwise match: {why}"
            yield invalid_value(f"spec.names.{field}", names[field], text)
    if names["kind"] == names["listKind"]:
        text = "kind and listKind may not be the same"
        yield invalid_value("spec.names.listKind", names["listKind"], text)


def _version_errors(spec: JsonObject) -> Iterator[FieldError]:
    versions = spec["versions"]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", [v.get("name") for v in versions], text)
    names = [version.get("name") for version in versions]
    if len(set(map(str, names))) != len(names):
        yield invalid_value("spec.versions", names, "must contain unique version names")
    if (spec.get("conversion") or {}).get("strategy") not in ("None", "Webhook"):
        text = spec["conversion"].get("strategy", "")
        yield unsupported("spec.conversion.strategy", text, ("None", "Webhook"))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name")
        if not name:
            yield required(f"{path}.name")
            continue
        for why in label_1035_errors(name):
            yield invalid_value(f"{path}.name", name, why)
        yield from _one_version_errors(version, path, is_only=len(versions) == 1)


def _one_version_errors(version: JsonObject, path: str, *, is_only: bool) -> Iterator[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
        return
    # Internally a schema that all versions share is that of the definition.
    at = "spec.validation" if is_only else f"{path}.schema"
    yield from _structure_errors(schema, f"{at}.openAPIV3Schema", is_root=True)
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        at = f"{path}.additionalPrinterColumns[{index}]"
        for field in ("name", "type", "jsonPath"):
            if not column.get(field):
                yield required(f"{at}.{field}")
        found = column.get("jsonPath")
        if found and not is_valid_path(found):
            yield invalid_value(f"{at}.jsonPath", found, "is an invalid simple json path")
    for index, field in enumerate(version.get("selectableFields") or ()):
        if not is_valid_path(field.get("jsonPath") or "["):
            yield required(f"{path}.selectableFields[{index}].jsonPath")
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
            at = f"{path}.subresources.scale.{field}"
            found = scale.get(field)
            if not found:
                yield required(at)
            elif not found.startswith(root):
                yield invalid_value(at, found, f"should be a json path under {root[:-1]}")


def _structure_errors(
    schema: JsonObject, path: str, *, is_root: bool = False, where: str = ""
) -> Iterator[FieldError]:
    """Check that a schema is structural (apiserver/schema/validation.go)."""
    properties = schema.get("properties")
    for name, inner in (properties or {}).items():
        if not (is_root and name == "metadata"):
            at = f"{path}.properties[{name}]"
            yield from _structure_errors(inner, at, where="specified object fields")
    for field, place in (
        ("additionalProperties", "specified object fields"),
        ("items", "specified array items"),
    ):
        inner = schema.get(field)
        if isinstance(inner, dict):
            yield from _structure_errors(inner, f"{path}.{field}", where=place)
    yield from _type_errors(schema, path, "at the root" if is_root else f"for {where}")
    if properties and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", text)
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    if schema.get("pattern") and not is_valid_pattern(schema["pattern"]):
        text = f"must be a valid regular expression, but isn't: {schema['pattern']}"
        yield invalid_value(f"{path}.pattern", schema["pattern"], text)
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", text)


def _type_errors(schema: JsonObject, path: str, where: str) -> Iterator[FieldError]:
    kind, is_root = schema.get("type", ""), where == "at the root"
    free = (
        "x-kubernetes-int-or-string" in schema or "x-kubernetes-preserve-unknown-fields" in schema
    )
    if not kind:
        if is_root or not free:
            yield required(f"{path}.type", f"must not be empty {where}")
    elif is_root and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)


DEFINITIONS = Kind(
    GROUP,
    ("v1",),
    Names(
        "customresourcedefinitions",
        "CustomResourceDefinition",
        ("crd", "crds"),
        ("api-extensions",),
    ),
    False,
    (STATUS,),
    DefinitionStrategy(),
)
