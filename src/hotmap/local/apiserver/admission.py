"""What happens to an object between a request and the store.

The order is upstream's (apiserver/pkg/registry/rest/create.go and update.go): decode, prepare,
default, validate. This module does what all kinds have in common; the kind's strategy does the
rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.metadata import metadata_errors
from hotmap.local.apiserver.type_checks import check_types
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.field_errors import FieldError
    from hotmap.local.scheme import Kind


def decode(kind: Kind, obj: JsonObject, *, applied: bool = False) -> None:
    """Bring a sent object into its stored form, in place.

    Of a custom resource that server-side apply has merged, Kubernetes refuses nulls that it leaves
    out of other requests.

    Raises:
        BadRequest: a field has another JSON type than its own.
    """
    kind.strategy.decode(kind.group_version_kind, obj)
    if not applied:
        kind.strategy.drop_nulls(obj)
    check_types(kind, obj)


def prepare_create(kind: Kind, obj: JsonObject) -> None:
    """Set what a client may not choose at a create, in place."""
    strategy = kind.strategy
    if strategy.has_generation:
        obj["metadata"]["generation"] = 1
    strategy.prepare_create(obj)
    if kind.subresource("status") is not None:
        status = strategy.initial_status(obj)
        if status is not None:
            obj["status"] = status


def validate_create(kind: Kind, obj: JsonObject) -> list[FieldError]:
    """Find everything wrong with a new object; its metadata comes first."""
    return metadata_errors(kind, obj["metadata"]) + kind.strategy.validate(obj)


def prepare_update(kind: Kind, old: JsonObject, new: JsonObject, subresource: str) -> None:
    """Carry over what this kind of update may not touch, in place."""
    if subresource:
        part = kind.subresource(subresource)
        kept = (part.field if part else "", "metadata", "kind", "apiVersion")
        for field in [name for name in new if name not in kept]:
            del new[field]
        new.update({field: value for field, value in old.items() if field not in kept})
        kind.strategy.prepare_subresource(old, new, subresource)
        return
    if kind.subresource("status") is not None:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    kind.strategy.prepare_update(old, new)


def validate_update(
    kind: Kind, old: JsonObject, new: JsonObject, subresource: str
) -> list[FieldError]:
    """Find everything wrong with a change; its metadata comes first.

    What is wrong with the old object already is left out, except for custom resources, of which
    Kubernetes demands more. An object that was stored before there was a rule keeps breaking it,
    and its labels and finalizers can be changed nevertheless.
    """
    if subresource:
        errors = metadata_errors(kind, new["metadata"])
        return errors + kind.strategy.validate_subresource(old, new, subresource)
    errors = _update_errors(kind, old, new)
    if errors and not kind.strategy.is_custom:
        known = set(_update_errors(kind, old, old))
        errors = [error for error in errors if error not in known]
    return errors


def _update_errors(kind: Kind, old: JsonObject, new: JsonObject) -> list[FieldError]:
    return metadata_errors(kind, new["metadata"]) + kind.strategy.validate_update(old, new)
