"""Checks the body of a request before the registry gets it: its declared type, and its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import ApiError, BadRequest
from hotmap.local.apiserver import admission
from hotmap.local.apiserver.decode_errors import json_type, summarize
from hotmap.local.apiserver.field_validation import duplicate_fields, strict_errors
from hotmap.local.apiserver.patch import apply_patch
from hotmap.local.apiserver.status import (
    SCHEME,
    invalid,
    invalid_patch,
    invalid_strategic_patch,
)
from hotmap.local.apiserver.yaml_reader import YAML_ERRORS
from hotmap.local.field_errors import invalid_value
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hotmap.local.apiserver.negotiation import Patch
    from hotmap.local.apiserver.options import WriteOptions
    from hotmap.local.scheme import Kind, Scheme

__all__ = [
    "check_applied_type",
    "check_delete_options",
    "check_scale",
    "check_type",
    "field_warnings",
    "patched_field_warnings",
    "repetition_warnings",
]


def check_type(scheme: Scheme, kind: Kind, obj: JsonObject, body: bytes) -> None:
    """Refuse an object that declares another type; absent fields are accepted."""
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str | None):
            raise BadRequest(
                f"the object provided is unrecognized (must be of type {kind.kind}): "
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{json_type(obj[field])} into Go struct field .{field} of type string "
                f"({summarize(body)})"
            )
    api_version = obj.get("apiVersion") or kind.api_version
    sent = obj.get("kind") or kind.kind
    if (api_version, sent) == (kind.api_version, kind.kind):
        return
    if str(api_version).count("/") > 1:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"unexpected GroupVersion string: {api_version} ({summarize(body)})"
        )
    if kind.strategy.is_custom and api_version == kind.api_version:
        error = invalid_value("kind", sent, f"must be {kind.kind}")
        name = (obj.get("metadata") or {}).get("name", "")
        raise invalid(kind._replace(names=kind.names._replace(kind=str(sent))), name, [error])
    version = str(api_version).rpartition("/")[2]
    if api_version == kind.api_version and _is_known(scheme, kind.group, str(sent)):
        package = kind.group.partition(".")[0] or "core"
        why = f"converting ({version}.{sent}) to ({package}.{kind.kind}): unknown conversion"
    else:
        why = f'no kind "{sent}" is registered for version "{api_version}" in scheme {SCHEME}'
    raise BadRequest(f'{sent} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def _is_known(scheme: Scheme, group: str, name: str) -> bool:
    """Return whether a group has a kind, or the list of one."""
    return any(
        known.group == group and name in (known.kind, f"{known.kind}List") for known in scheme
    )


def check_applied_type(kind: Kind, config: JsonObject) -> None:
    """Refuse an applied configuration whose type is missing or is not that of the object."""
    api_version, sent = str(config.get("apiVersion", "")), config.get("kind", "")
    if (api_version, sent) != (kind.api_version, kind.kind):
        group, _, version = api_version.rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={sent}")


def repetition_warnings(found: str, options: WriteOptions) -> tuple[str, ...]:
    """Report duplicate keys of an applied configuration (endpoints/handlers/patch.go)."""
    if options.field_validation == "Ignore":
        return ()
    if found and options.field_validation == "Strict":
        raise BadRequest(f"error strict decoding YAML: {found}")
    return (found,) if found else ()


def field_warnings(
    kind: Kind, obj: JsonObject, options: WriteOptions, body: bytes, *, also: Sequence[str] = ()
) -> tuple[str, ...]:
    """Find unknown and duplicate fields; the server's default is to warn (KEP-2885).

    Duplicates are found in `body`, the JSON that `obj` was, or b""; `also` was found elsewhere.
    """
    if options.field_validation == "Ignore":
        return ()
    return _warnings_of(kind, obj, options, [*also, *strict_errors(kind, obj, body)])


def _warnings_of(
    kind: Kind, obj: JsonObject, options: WriteOptions, found: Sequence[str]
) -> tuple[str, ...]:
    """Warn of what was found, or refuse it.

    Nothing is said of an object that cannot be decoded: it is refused for that.
    """
    if found and not _is_decodable(kind, obj):
        return ()
    if found and options.field_validation == "Strict":
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {', '.join(found)}"
        )
    return tuple(line for text in found for line in _yaml_warnings(text))


def _is_decodable(kind: Kind, obj: JsonObject) -> bool:
    copied: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    copied["metadata"] = copied.get("metadata") or {}
    if not isinstance(copied["metadata"], dict):
        return False
    try:
        admission.decode(kind, copied)
    except BadRequest:
        return False
    return True


def _yaml_warnings(text: str) -> list[str]:
    """Return a warning for each line, which no header can have (parseYAMLWarnings)."""
    lines = text.removeprefix(YAML_ERRORS)
    return [text] if lines == text else [line.strip() for line in lines.split("\n")]


def patched_field_warnings(
    kind: Kind,
    read: Callable[[], JsonObject],
    patch: Patch,
    body: bytes,
    options: WriteOptions,
) -> tuple[str, ...]:
    """Find duplicate fields of a patch, and unknown and duplicate ones of its result.

    `read` returns the live object, which may be changed. Fields are named in the order of their
    paths: what Kubernetes patches is a map of Go.
    """
    if options.field_validation == "Ignore":
        return ()
    try:
        patched = apply_patch(patch.kind, read(), patch.value, of=kind)
    except ApiError:
        # It is refused where it is applied.
        return ()
    found = duplicate_fields(body)
    if patch.kind == "json":
        found = [f"json patch {text}" for text in [*found, *_unknown_members(patch.value)]]
    found += sorted(strict_errors(kind, patched, b""))
    try:
        return _warnings_of(kind, patched, options, found)
    except BadRequest as error:
        why = error.message.partition(": ")[2]
        if patch.kind == "strategic" and isinstance(patch.value, dict):
            raise invalid_strategic_patch(patch.value, why) from None
        raise invalid_patch(patched, why, is_custom=kind.strategy.is_custom) from None


def _unknown_members(operations: object) -> Iterator[str]:
    """Find what the operations of a JSON patch do not have (patch.go: jsonPatchOp)."""
    for index, operation in enumerate(operations if isinstance(operations, list) else ()):
        for name in operation if isinstance(operation, dict) else ():
            if name not in ("op", "path", "from", "value"):
                yield f'unknown field "[{index}].{name}"'


def check_scale(obj: JsonObject) -> None:
    """Refuse an object that declares another type than Scale."""
    sent = obj.get("kind") or "Scale"
    if sent != "Scale":
        version = str(obj.get("apiVersion", "")).rpartition("/")[2]
        raise BadRequest(
            f'{sent} in version "{version}" cannot be handled as a Scale: '
            f"converting ({version}.{sent}) to (autoscaling.Scale): unknown conversion"
        )


def check_delete_options(body: JsonObject) -> None:
    """Refuse options that declare another type."""
    sent, version = body.get("kind"), body.get("apiVersion", "")
    if sent and sent != "DeleteOptions":
        text = f'no kind "{sent}" is registered for version "{version}" in scheme {SCHEME}'
        raise BadRequest(text)
