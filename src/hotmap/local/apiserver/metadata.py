"""Rules that hold for the metadata of every kind.

apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import BadRequest
from hotmap.local.field_errors import (
    IMMUTABLE,
    NOT_NEGATIVE,
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    rule_errors,
    too_long,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_value_errors, qualified_name_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotmap.local.scheme import Kind

# Bytes of all annotations of an object, keys included.
ANNOTATION_LIMIT = 256 << 10
_STANDARD_FINALIZERS = (
    "kubernetes",
    "orphan",
    "foregroundDeletion",
    "customresourcecleanup.apiextensions.k8s.io",
)
# Groups of built-in kinds that upstream validates by apimachinery's rules alone.
_ANY_FINALIZER = ("admissionregistration.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy")
_IMMUTABLE = ("name", "namespace", "uid")
_SYSTEM_FIELDS = (
    *_IMMUTABLE,
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def metadata_errors(kind: Kind, metadata: JsonObject) -> list[FieldError]:
    """Find everything wrong with metadata (ValidateObjectMetaAccessor)."""
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    errors = _prefix_errors(kind, prefix) if prefix else []
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += rule_errors("metadata.name", name, kind.strategy.name_errors)
    if metadata.get("generation", 0) < 0:
        why = NOT_NEGATIVE
        errors.append(invalid_value("metadata.generation", metadata["generation"], why))
    errors += label_errors("metadata.labels", metadata.get("labels") or {})
    errors += annotation_errors("metadata.annotations", metadata.get("annotations") or {})
    finalizers = metadata.get("finalizers") or []
    for index, finalizer in enumerate(finalizers):
        at = f"metadata.finalizers[{index}]"
        errors += [
            invalid_value("metadata.finalizers", finalizer, why)
            for why in qualified_name_errors(finalizer)
        ]
        if not (kind.strategy.is_custom or kind.group in _ANY_FINALIZER or kind.kind == "Event"):
            errors += _standard_name_errors(at, finalizer)
    if {"orphan", "foregroundDeletion"}.issubset(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid_value("metadata.finalizers", finalizers, why))
    return errors + _owner_errors(metadata.get("ownerReferences") or [])


def _prefix_errors(kind: Kind, prefix: str) -> list[FieldError]:
    """Check what a generated name begins with; a dash at its end is not the last character."""
    masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    path = "metadata.generateName"
    return [invalid_value(path, prefix, why) for why in kind.strategy.name_errors(masked)]


def label_errors(path: str, labels: dict[str, str]) -> list[FieldError]:
    """Check labels, in the order of their keys."""
    errors: list[FieldError] = []
    for key in sorted(labels):
        errors += rule_errors(path, key, qualified_name_errors)
        errors += rule_errors(path, labels[key], label_value_errors)
    return errors


def annotation_errors(path: str, annotations: dict[str, str]) -> list[FieldError]:
    """Check annotations: their keys, regardless of case, and their total size."""
    errors = [
        invalid_value(path, key, why)
        for key in sorted(annotations)
        for why in qualified_name_errors(key.lower())
    ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATION_LIMIT:
        errors.append(too_long(path, ANNOTATION_LIMIT))
    return errors


def _standard_name_errors(path: str, finalizer: str) -> list[FieldError]:
    """pkg/apis/core/validation: validateKubeFinalizerName, of most built-in kinds."""
    if "/" in finalizer or finalizer in _STANDARD_FINALIZERS:
        return []
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid_value(path, finalizer, why)]


# The required fields of an owner reference beside its version.
_OWNER_FIELDS = ("kind", "name", "uid")


def _owner_version(owner: JsonObject) -> tuple[str, str]:
    """Return group and version of an owner, both empty where they cannot be parsed."""
    sent = owner.get("apiVersion") or ""
    group, slash, version = sent.partition("/")
    if not slash:
        return "", sent
    return ("", "") if "/" in version else (group, version)


def _owner_errors(owners: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers: list[str] = []
    for owner in owners:
        version = _owner_version(owner)
        if not version[1]:
            at, sent = "metadata.ownerReferences.apiVersion", owner.get("apiVersion") or ""
            errors.append(invalid_value(at, sent, "version must not be empty"))
        errors += [
            invalid_value(f"metadata.ownerReferences.{field}", "", "must not be empty")
            for field in _OWNER_FIELDS
            if not owner.get(field)
        ]
        if (version, owner.get("kind")) == (("", "v1"), "Event"):
            why = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(invalid_value("metadata.ownerReferences", owner, why))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        why = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        errors.append(invalid_value("metadata.ownerReferences", owners, why))
    return errors


def drop_repeated_owners(metadata: JsonObject) -> list[str]:
    """Leave each owner reference once, in place; return the uids of those that were repeated.

    References count as equal in their whole (apiserver/pkg/endpoints/handlers/create.go,
    dedupOwnerReferences).
    """
    kept: list[JsonObject] = []
    repeated: list[str] = []
    for owner in metadata.get("ownerReferences") or ():
        if owner in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if repeated:
        metadata["ownerReferences"] = kept
    return repeated


def name_missing(name: str) -> BadRequest:
    """Make the 400 for an object without the name that its URL has."""
    return BadRequest(
        f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    )


def check_name(metadata: JsonObject, name: str) -> None:
    """Refuse an update that names another object than its URL.

    Raises:
        BadRequest: it does, or it names none.
    """
    found = metadata.get("name")
    if not found:
        raise name_missing(name)
    if found != name:
        raise BadRequest(
            f"the name of the object ({found}) does not match the name on the URL ({name})"
        )


def _deletion_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Refuse what only a deletion writes; a deleted object keeps its time (BeforeUpdate)."""
    errors: list[FieldError] = []
    time, grace = new.get("deletionTimestamp"), new.get("deletionGracePeriodSeconds")
    why = IMMUTABLE
    if time and "deletionTimestamp" not in old:
        shown = f"{str(time).replace('T', ' ').removesuffix('Z')} +0000 UTC"
        text = f"Invalid value: {shown}: {why}"
        errors.append(FieldError("FieldValueInvalid", "metadata.deletionTimestamp", text))
    if grace is not None and grace != old.get("deletionGracePeriodSeconds"):
        errors.append(invalid_value("metadata.deletionGracePeriodSeconds", grace, why))
    return errors


def keep_metadata(fields: Iterable[str], old: JsonObject, new: JsonObject) -> None:
    """Restore fields of metadata, in place, that an update leaves as they are."""
    for field in fields:
        new.pop(field, None)
        if field in old:
            new[field] = old[field]


def carry_metadata(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Restore the fields that only the server writes; return those that the update changed.

    ValidateObjectMetaAccessorUpdate; `new` is changed in place. Upstream checks this twice, and
    its answers tell each error twice.
    """
    errors = [
        invalid_value(f"metadata.{field}", new[field], IMMUTABLE)
        for field in _IMMUTABLE
        if new.get(field) and new[field] != old.get(field)
    ]
    errors += _deletion_errors(old, new)
    keep_metadata((*_SYSTEM_FIELDS, "selfLink"), old, new)
    known = set(old.get("finalizers") or ())
    added = [name for name in new.get("finalizers") or () if name not in known]
    if added and "deletionTimestamp" in old:
        listed = ", ".join(f'"{name}"' for name in added)
        errors.append(
            forbidden_field(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}",
            )
        )
    return errors * 2
