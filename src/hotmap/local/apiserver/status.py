"""Failures in Kubernetes' words: ApiErrors made from facts, and the Status they are sent as.

The texts follow apimachinery/pkg/api/errors/errors.go. An Invalid names the Kind, every other
failure the plural resource; that is upstream's habit, and clients print it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hotmap.core.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    api_error,
)
from hotmap.local.field_errors import invalid_value
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotmap.local.field_errors import FieldError
    from hotmap.local.scheme import Kind

#: Where release 1.36 says that its types are registered (apimachinery: pkg/runtime/scheme.go).
SCHEME = '"pkg/runtime/scheme.go:111"'
# Failures that upstream makes of the HTTP status alone have empty details.
_GENERIC = (
    "the server could not find the requested resource",
    "the server does not allow this method on the requested resource",
    "the server rejected our request due to an error in our request",
    "406: Not Acceptable",
    "415: Unsupported Media Type",
    "forbidden: User",
)
# As the fields of Go's ObjectMeta come.
_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> Invalid:
    """Make the 422 for an object that breaks rules; several are listed in code order, each once."""
    texts = list(dict.fromkeys(map(str, errors)))
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(
        f'{kind.qualified} "{name}" is invalid: {shown}',
        details=_details(
            name,
            kind.group,
            kind.kind,
            causes=[
                {"reason": error.reason, "message": error.text, "field": error.path}
                for error in errors
            ],
        ),
    )


def version_required(kind: Kind, name: str) -> Invalid:
    """Make the 422 for a PUT without the resourceVersion that its kind asks for.

    Upstream names the resource here.
    """
    error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    cause = {"reason": error.reason, "message": error.text, "field": error.path}
    return Invalid(
        f'{kind.resource} "{name}" is invalid: {error}',
        details=_details(name, kind.group, kind.plural, causes=[cause]),
    )


def invalid_patch(patched: JsonObject, why: str, *, is_custom: bool = False) -> Invalid:
    """Make the 422 for a patch whose result cannot be decoded as its kind.

    Custom resources are shown in the order of their keys, others in that of Go's types.
    """
    document = {name: patched[name] for name in sorted(patched)}
    metadata = patched.get("metadata")
    if isinstance(metadata, dict):
        known = {name: metadata[name] for name in _METADATA_ORDER if name in metadata}
        document["metadata"] = {**known, **metadata}
        for name in ("labels", "annotations"):
            if isinstance(metadata.get(name), dict):
                document["metadata"][name] = dict(sorted(metadata[name].items()))
    order: Literal["sorted"] | None = "sorted" if is_custom else None
    written = msgspec.json.encode(document, order=order).decode()
    shown = msgspec.json.encode(written).decode()
    text = f"Invalid value: {shown}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": text, "field": "patch"}
    return Invalid(f' "" is invalid: patch: {text}', details={"causes": [cause]})


def invalid_strategic_patch(patch: JsonObject, why: str) -> Invalid:
    """Make the 422 for a strategic merge patch that does not fit its kind's types."""
    shown = msgspec.json.encode(go_text(patch)).decode()
    text = f"Invalid value: {shown}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": text, "field": "patch"}
    return Invalid(f' "" is invalid: patch: {text}', details={"causes": [cause]})


def go_text(value: Any) -> str:
    """Write a decoded value as fmt.Sprint does."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{go_text(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def invalid_options(options: str, errors: Sequence[FieldError]) -> Invalid:
    """Make the 422 for query parameters, such as `ListOptions.meta.k8s.io`."""
    shown = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
    return Invalid(
        f'{options}.meta.k8s.io "" is invalid: {shown}',
        details={
            "group": "meta.k8s.io",
            "kind": options,
            "causes": [
                {"reason": error.reason, "message": error.text, "field": error.path}
                for error in errors
            ],
        },
    )


def not_found(kind: Kind, name: str) -> NotFound:
    """Make the 404 for an object that does not exist."""
    return NotFound(
        f'{kind.resource} "{name}" not found', details=_details(name, kind.group, kind.plural)
    )


def already_exists(kind: Kind, name: str, *, deleted: bool) -> AlreadyExists:
    """Make the 409 for a create whose name is taken, by an object that is `deleted` or not."""
    why = "object is being deleted: " if deleted else ""
    return AlreadyExists(
        f'{why}{kind.resource} "{name}" already exists',
        details=_details(name, kind.group, kind.plural),
    )


def no_name_left(kind: Kind, name: str) -> AlreadyExists:
    """Make the 409 for a create whose generated names were all taken (KEP-4420)."""
    return AlreadyExists(
        f'{kind.resource} "{name}" already exists, the server was not able to generate a unique '
        "name for the object",
        details=_details(name, kind.group, kind.plural),
        retry_after=1,
    )


def conflict(kind: Kind, name: str, why: str = STALE) -> Conflict:
    """Make the 409 for a write that was based on another version of the object."""
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}',
        details=_details(name, kind.group, kind.plural),
    )


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> Conflict:
    """Make the 409 for an apply that would change fields of others, as (manager, field)."""
    by_manager: dict[str, list[str]] = {}
    for manager, field in conflicts:
        by_manager.setdefault(manager, []).append(field)
    if len(conflicts) == 1:
        text = f"1 conflict: conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    else:
        lines = [
            line
            for manager in sorted(by_manager)
            for line in (f"conflicts with {manager}:", *(f"- {f}" for f in by_manager[manager]))
        ]
        text = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
        for manager, field in conflicts
    ]
    return Conflict(f"Apply failed with {text}", details={"causes": causes})


def failed_precondition(kind: Kind, name: str, why: str) -> Conflict:
    """Make the 409 for a delete whose precondition fails; upstream names the Kind here."""
    return Conflict(
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}',
        details=_details(name, kind.group, kind.kind),
    )


def forbidden(kind: Kind, name: str, why: str, *, causes: Sequence[JsonObject] = ()) -> Forbidden:
    """Make the 403 for something that the server refuses to anyone."""
    return Forbidden(
        f'{kind.resource} "{name}" is forbidden: {why}',
        details=_details(name, kind.group, kind.plural, causes=causes),
    )


def internal(message: str) -> ApiError:
    """Make the 500 without a reason that upstream answers where it returns a bare error."""
    return api_error(500, message)


def internal_error(message: str) -> ApiError:
    """Make the 500 of an error that upstream wraps (NewInternalError)."""
    return api_error(
        500,
        f"Internal error occurred: {message}",
        reason="InternalError",
        details={"causes": [{"message": message}]},
    )


def _details(
    name: str, group: str, kind: str, *, causes: Sequence[JsonObject] = ()
) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    if causes:
        details["causes"] = list(causes)
    return details


def failure_status(error: ApiError) -> JsonObject:
    """Return the Status body that tells a client of an error."""
    metadata = {}
    details = dict(error.details)
    token = details.pop("continue", None)
    if token is not None:
        metadata["continue"] = token
    status: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata,
        "status": "Failure",
        "message": error.message,
    }
    if error.reason and not (error.code == 500 and error.reason == "ServiceUnavailable"):
        status["reason"] = error.reason
    if error.retry_after is not None:
        details["retryAfterSeconds"] = int(error.retry_after)
    if details or error.message.startswith(_GENERIC):
        status["details"] = details
    status["code"] = error.code
    return status


def success_status(kind: Kind, name: str, uid: str) -> JsonObject:
    """Return the Status body that tells a client of a deletion that is complete."""
    details = _details(name, kind.group, kind.plural)
    details["uid"] = uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
