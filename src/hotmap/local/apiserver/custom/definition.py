"""CustomResourceDefinitions (apiextensions-apiserver/pkg/apis/apiextensions)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver.api_types import METADATA, Field
from hotmap.local.apiserver.columns import NAME, field_cell
from hotmap.local.apiserver.custom.definition_fields import (
    prune_definition,
    unknown_definition_fields,
)
from hotmap.local.apiserver.custom.definition_spec import DefinitionSpec
from hotmap.local.apiserver.custom.jsonpath import is_valid_path
from hotmap.local.apiserver.custom.rule_validation import compile_errors, cost_errors, rule_errors
from hotmap.local.apiserver.custom.structure import extension_errors, root_errors
from hotmap.local.apiserver.custom.validation import is_valid_pattern, pattern_error, schema_errors
from hotmap.local.apiserver.schema_structure import SchemaField
from hotmap.local.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_1035_errors, subdomain_errors
from hotmap.local.scheme import STATUS, Kind, Names
from hotmap.local.strategy import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

GROUP = "apiextensions.k8s.io"
FINALIZER = f"customresourcecleanup.{GROUP}"
# Fields that hold any JSON.
_RAW = ("default", "enum", "example")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


_TEXT, _LIST = Field("string"), Field("any")
_NAMES = SchemaField(
    "struct",
    fields={
        **dict.fromkeys(("plural", "kind"), _TEXT),
        **{name: Field("string", omitempty=True) for name in ("singular", "listKind")},
        **{name: Field("any", omitempty=True) for name in ("shortNames", "categories")},
    },
    inner=_LIST,
    defaults={},
)
_CONDITIONS = SchemaField(
    "list",
    list_type="map",
    list_keys=("type",),
    fields={},
    inner=Field("any", pointer=True),
    defaults={},
)
# As upstream's types are; a definition's own schema is one field.
_STRUCTURE = SchemaField(
    "struct",
    fields={
        "metadata": Field(f"#{METADATA}"),
        "spec": SchemaField(
            "struct",
            fields={
                "group": _TEXT,
                "names": _NAMES,
                "scope": _TEXT,
                "versions": Field("any"),
                "conversion": Field("any", pointer=True),
            },
            inner=_LIST,
            defaults={},
        ),
        "status": SchemaField(
            "struct",
            fields={
                "acceptedNames": _NAMES,
                "conditions": _CONDITIONS,
                "storedVersions": Field("any"),
            },
            inner=_LIST,
            defaults={},
        ),
    },
    inner=_LIST,
    defaults={},
)


_WRONG_TYPE = re.compile(
    r"Expected `(?P<wanted>[^`|]+).*`, got `(?P<found>\w+)` - at `(?P<path>.*)`"
)
_GO_TYPES = {"str": "string", "bool": "bool", "int": "int64"}
_JSON_TYPES = {"str": "string", "int": "number", "float": "number"}
#: Field → the Go type of what it holds.
_STRUCTS = {
    "names": "CustomResourceDefinitionNames",
    "versions": "CustomResourceDefinitionVersion",
    "additionalPrinterColumns": "CustomResourceColumnDefinition",
    "selectableFields": "SelectableField",
    "scale": "CustomResourceSubresourceScale",
    "openAPIV3Schema": "JSONSchemaProps",
}


class DefinitionStrategy(Strategy):
    typed = False
    has_generation = True
    tells_grace = False
    structure = _STRUCTURE
    columns = (NAME, Column("Created At", field_cell("metadata.creationTimestamp"), type="date"))

    def decode(self, kind: GroupVersionKind, obj: JsonObject) -> None:
        for field in [name for name in obj if name != "metadata"]:
            obj[field] = _without_nulls(obj[field])
        try:
            msgspec.convert(obj.get("spec", {}), DefinitionSpec)
        except (msgspec.ValidationError, RecursionError) as error:
            raise BadRequest(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"{_decode_error(str(error))}"
            ) from None
        prune_definition(obj)

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        return unknown_definition_fields(obj)

    def add_finalizers(self, obj: JsonObject) -> None:
        """Let the objects of the kind go first (customresourcedefinition/etcd.go)."""
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "deletionTimestamp" not in obj["metadata"] and FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def prepare_delete(self, obj: JsonObject) -> None:
        status = obj.setdefault("status", {})
        kept = [c for c in status.get("conditions") or () if c.get("type") != "Terminating"]
        terminating = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": obj["metadata"]["deletionTimestamp"],
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will "
            "begin soon",
        }
        status["conditions"] = [*kept, terminating]

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        versions = obj["spec"].get("versions") or ()
        stored = [v.get("name", "") for v in versions if v.get("storage")]
        return {
            "conditions": None,
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
        if errors:
            return errors
        versions = spec.get("versions") or ()
        stored = (obj.get("status") or {}).get("storedVersions") or []
        if not stored and not any(version.get("storage") for version in versions):
            why = "must have at least one stored version"
            errors.append(invalid_value("status.storedVersions", None, why))
        errors += _removed_errors(stored, versions)
        return [*_name_errors(obj, spec), *_version_errors(spec), *errors]

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = self.validate(new)
        if errors:
            return errors
        for field in ("group", "scope"):
            if old["spec"][field] != new["spec"][field]:
                why = IMMUTABLE
                errors.append(invalid_value(f"spec.{field}", new["spec"][field], why))
        for field in ("plural", "kind"):
            after = new["spec"]["names"][field]
            if old["spec"]["names"][field] != after:
                errors.append(invalid_value(f"spec.names.{field}", after, IMMUTABLE))
        return errors


def _decode_error(text: str) -> str:
    """Return what encoding/json does of a value of another type than its field."""
    match = _WRONG_TYPE.fullmatch(text)
    wanted = _GO_TYPES.get(match["wanted"]) if match else None
    if match is None or wanted is None:
        return f"json: cannot unmarshal: {text}"
    parts = re.sub(r"\[[^\]]*\]", "", match["path"]).removeprefix("$").split(".")[1:]
    structs = [_STRUCTS[part] for part in parts[:-1] if part in _STRUCTS]
    struct = structs[-1] if structs else "CustomResourceDefinitionSpec"
    found = _JSON_TYPES.get(match["found"], match["found"])
    return (
        f"json: cannot unmarshal {found} into Go struct field "
        f"{struct}.{'.'.join(['spec', *parts])} of type {wanted}"
    )


def _without_nulls(value: Any) -> Any:
    """Drop nulls that Go's types cannot hold; keep the ones in defaults and examples."""
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


def _removed_errors(stored: Sequence[str], versions: Iterable[JsonObject]) -> Iterator[FieldError]:
    """Check that each version in which objects may be stored is still there."""
    names = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid_value(f"status.storedVersions[{index}]", name, why)


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
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            for why in label_1035_errors(name):
                yield invalid_value(f"spec.names.{field}[{index}]", name, why)
    for field in ("kind", "listKind"):
        for why in label_1035_errors(names[field].lower()):
            text = f"may have mixed case, but should otherwise match: {why}"
            yield invalid_value(f"spec.names.{field}", names[field], text)
    if names["kind"] == names["listKind"]:
        text = "kind and listKind may not be the same"
        yield invalid_value("spec.names.listKind", names["listKind"], text)


def _version_errors(spec: JsonObject) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", [_go_version(v) for v in versions], text)
    names = [version.get("name") for version in versions]
    if len(set(map(str, names))) != len(names):
        yield invalid_value("spec.versions", names, "must contain unique version names")
    yield from _conversion_errors(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield invalid_value("spec.preserveUnknownFields", True, why)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name")
        if not name:
            yield required(f"{path}.name")
            continue
        for why in label_1035_errors(name):
            yield invalid_value(f"{path}.name", name, why)
            if index == 0:
                yield invalid_value("spec.version", name, why)
        yield from _one_version_errors(version, path, is_only=len(versions) == 1)


def _conversion_errors(conversion: JsonObject) -> Iterator[FieldError]:
    path, strategy = "spec.conversion", conversion.get("strategy", "")
    webhook = conversion.get("webhook") or {}
    if strategy not in ("None", "Webhook"):
        yield unsupported(f"{path}.strategy", strategy, ("None", "Webhook"))
        return
    # Upstream's internal type has the webhook's fields side by side.
    for internal, field, why in (
        ("webhookClientConfig", "clientConfig", "required when strategy is set to Webhook"),
        ("conversionReviewVersions", "conversionReviewVersions", ""),
    ):
        if strategy == "Webhook" and not webhook.get(field):
            yield required(f"{path}.{internal}", why)
        elif strategy == "None" and webhook.get(field):
            why = "should not be set when strategy is not set to Webhook"
            yield forbidden_field(f"{path}.{internal}", why)


def _deprecation_errors(version: JsonObject, path: str) -> Iterator[FieldError]:
    warning, at = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid_value(at, warning, "can only be set for deprecated versions")
    if not warning:
        yield invalid_value(at, warning, "must not be an empty string")
    odd = next((i for i, char in enumerate(warning) if not char.isprintable()), None)
    if odd is not None:
        why = (
            "must only contain printable UTF-8 characters; non-printable character found at "
            f"index {odd}"
        )
        yield invalid_value(at, warning, why)


def _one_version_errors(version: JsonObject, path: str, *, is_only: bool) -> Iterator[FieldError]:
    yield from _deprecation_errors(version, path)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema")
        return
    # Internally a schema that all versions share is that of the definition.
    at = "spec.validation" if is_only else f"{path}.schema"
    shared = "spec" if is_only else path
    wrong = list(_structure_errors(schema, f"{at}.openAPIV3Schema", is_root=True))
    wrong = wrong or list(compile_errors(schema, f"{at}.openAPIV3Schema"))
    yield from wrong or cost_errors(schema, f"{at}.openAPIV3Schema")
    yield from _column_errors(version.get("additionalPrinterColumns") or (), shared)
    for index, field in enumerate(version.get("selectableFields") or ()):
        if not is_valid_path(field.get("jsonPath") or "["):
            yield required(f"{path}.selectableFields[{index}].jsonPath")
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale_errors(scale, shared)


def _column_errors(columns: Any, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns):
        at = f"{path}.additionalPrinterColumns[{index}]"
        for field in ("name", "type", "jsonPath"):
            if not column.get(field):
                yield required(f"{at}.{field}")
        found, kind = column.get("jsonPath"), column.get("type")
        if kind and kind not in _COLUMN_TYPES:
            text = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield invalid_value(f"{at}.type", kind, text)
        if found and not is_valid_path(found):
            yield invalid_value(f"{at}.jsonPath", found, "is an invalid simple json path")


def _scale_errors(scale: JsonObject, path: str) -> Iterator[FieldError]:
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
    yield from rule_errors(schema, path)
    yield from extension_errors(schema, path)
    if is_root:
        yield from root_errors(schema, path)
    if "$ref" in schema:
        yield forbidden_field(f"{path}.$ref", "$ref is not supported")
        return
    if "default" in schema and "type" in schema:
        yield from _default_errors(schema, path)
    yield from _type_errors(schema, path, "at the root" if is_root else f"for {where}")
    if properties and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", text)
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    if schema.get("pattern") and not is_valid_pattern(schema["pattern"]):
        why = pattern_error(schema["pattern"])
        text = f"must be a valid regular expression, but isn't: {why}"
        yield invalid_value(f"{path}.pattern", schema["pattern"], text)
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", text)


def _default_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """A default has to be valid itself."""
    for error in schema_errors(schema["default"], schema):
        yield error._replace(path=f"{path}.default{'.' if error.path else ''}{error.path}")


def _go_version(version: JsonObject) -> JsonObject:
    """Show a version as Go's messages do; a schema that all share is not part of it."""
    return {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }


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
