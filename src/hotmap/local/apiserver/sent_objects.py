"""Objects as callers send them: read from a request, or made by a patch.

They are of their kind and in its form, and nothing has been checked by the rules of that kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import BadRequest
from hotmap.local.apiserver import admission
from hotmap.local.apiserver.api_types import type_of_kind
from hotmap.local.apiserver.decode_errors import json_type
from hotmap.local.apiserver.encoding import arrange_fields
from hotmap.local.apiserver.metadata import check_name
from hotmap.local.apiserver.patch import apply_patch
from hotmap.local.apiserver.status import (
    SCHEME,
    internal,
    invalid_patch,
    invalid_strategic_patch,
)
from hotmap.local.apiserver.type_checks import WrongType, conversion_error, decode_error
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.client import PatchKind
    from hotmap.local.scheme import Kind

__all__ = ["patched_object", "read_object", "unconverted"]


def read_object(kind: Kind, namespace: str | None, sent: bytes) -> JsonObject:
    """Read the JSON of what a caller sent, with kind, apiVersion and namespace filled in."""
    new = _read_typed(kind, sent)
    _set_namespace(kind, namespace, new["metadata"])
    return new


def _read_typed(kind: Kind, sent: bytes) -> JsonObject:
    """Read an object with kind and apiVersion filled in, and metadata that can be looked at.

    Raises:
        BadRequest: its metadata, its name or its namespace has another type.
    """
    new: JsonObject = msgspec.json.decode(sent)
    metadata = {} if new.get("metadata") is None else new["metadata"]
    if not isinstance(metadata, dict):
        raise decode_error(
            kind.group_version_kind, kind.kind, "metadata", metadata, "v1.ObjectMeta"
        )
    for field in ("name", "namespace"):
        value = metadata.get(field)
        if not isinstance(value, str | None):
            at = f"metadata.{field}"
            raise decode_error(kind.group_version_kind, "ObjectMeta", at, value, "string")
    return arrange_fields(kind, new, metadata)


def _set_namespace(kind: Kind, namespace: str | None, metadata: JsonObject) -> None:
    """Fill in the namespace; an empty one is none (EnsureObjectNamespaceMatchesRequestNamespace).

    Raises:
        BadRequest: it is another one than that of the request.
    """
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    metadata["namespace"] = metadata.get("namespace") or namespace
    if metadata["namespace"] != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def patched_object(
    path: ResourcePath, kind: PatchKind, live: JsonObject, patch: object
) -> JsonObject:
    """Apply a patch to an object, which is changed, and bring the result into its stored form."""
    patched = apply_patch(kind, live, patch, of=path.kind)
    if kind == "strategic":
        # Upstream merges into a typed object, which is of its kind whatever the patch says.
        patched = {**patched, "kind": path.kind.kind, "apiVersion": path.kind.api_version}
    patched = _of_same_type(path, patched)
    try:
        new = _read_typed(path.kind, msgspec.json.encode(patched))
        admission.decode(path.kind, new)
    except BadRequest as error:
        if kind == "strategic" and isinstance(patch, dict):
            raise invalid_strategic_patch(patch, _conversion_error(error)) from None
        why, is_custom = error.message.partition(": ")[2], path.kind.strategy.is_custom
        raise invalid_patch(patched, why, is_custom=is_custom) from None
    _set_namespace(path.kind, path.namespace, new["metadata"])
    check_name(new["metadata"], path.name)
    return new


def _of_same_type(path: ResourcePath, patched: JsonObject) -> JsonObject:
    """Return a patched object with its kind, which a patch may take away.

    Raises:
        BadRequest: there is no apiVersion. Upstream then reads an object without a name.
        Invalid: it is another kind or version of an object.
    """
    kind, version = path.kind, patched.get("apiVersion")
    sent = patched.get("kind")
    for field, value in (("apiVersion", version), ("kind", sent)):
        if not isinstance(value, str | None):
            text = (
                f"cannot unmarshal {json_type(value)} into Go struct field .{field} of type string"
            )
            raise invalid_patch(
                patched, f"couldn't get version/kind; json parse error: json: {text}"
            )
    if kind.strategy.typed and not version:
        raise BadRequest(
            f"the name of the object ({path.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if kind.strategy.typed and not sent:
        sent = kind.kind
    if (sent, version) == (kind.kind, kind.api_version):
        return {**patched, "kind": sent}
    text = f'no kind "{sent}" is registered for version "{version}" in scheme {SCHEME}'
    if not kind.strategy.typed or type_of_kind(version or "", sent or "") is not None:
        short, package = (version or "").rpartition("/")[2], kind.group.partition(".")[0] or "core"
        text = f"converting ({short}.{sent or ''}) to ({package}.{kind.kind}): unknown conversion"
    raise invalid_patch(patched, text)


def unconverted(kind: Kind, config: JsonObject, error: BadRequest) -> Exception:
    """Make the 500 for a configuration whose values Go does not read.

    A number that its field cannot hold stays a 400: upstream stores the bits that fit.
    """
    if isinstance(error, WrongType) and error.is_out_of_range:
        return error
    why = _conversion_error(error)
    metadata, gvk = config.get("metadata") or {}, f"{kind.group}/{kind.version}, Kind={kind.kind}"
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return internal(
        f"failed to convert new object ({name}; {gvk}) to proper version: unable to convert "
        f"unstructured object to {gvk}: {why}"
    )


def _conversion_error(error: BadRequest) -> str:
    if isinstance(error, WrongType):
        return conversion_error(error)
    why = error.message.partition(": ")[2]
    return f"error decoding from json: {why}" if why.startswith("illegal base64") else why
