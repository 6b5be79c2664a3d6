"""Paths and methods of the Kubernetes API, as values.

`/api/v1/…` and `/apis/<group>/<version>/…` are regular, so no table of routes is needed: a
path splits into resource, namespace, name and subresource (kubernetes:
apiserver/pkg/endpoints/request/requestinfo.go), and the method then gives the verb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hotmap.core.errors import api_error
from hotmap.local.scheme import BY_RESOURCE, KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

Verb = Literal[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"
]  # fmt: skip

_GROUPS = {kind.group for kind in KINDS}
GROUP_VERSIONS = tuple(dict.fromkeys((kind.group, kind.version) for kind in KINDS))


class ResourcePath(NamedTuple):
    """The part of a cluster that a path means; `name` is "" for a collection."""

    kind: Kind
    namespace: str | None
    name: str
    subresource: str


def parse_path(path: str) -> ResourcePath | None:
    """Find the resource that a path means, or None where there is nothing to find.

    Raises:
        NotFound: the path lies inside a served group, but its resource is not served.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        return None
    if len(rest) < 2 or group not in _GROUPS:
        return None
    version, rest = rest[0], rest[1:]
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = BY_RESOURCE.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.namespaced):
        raise _unknown()
    name, subresource = (*rest[1:], "", "")[:2]
    if name and kind.namespaced and namespace is None:
        raise _unknown()
    if subresource and subresource not in subresources(kind):
        raise _unknown()
    return ResourcePath(kind, namespace, name, subresource)


def subresources(kind: Kind) -> tuple[str, ...]:
    """Name what can stand behind an object's name."""
    found = []
    if kind.has_status:
        found.append("status")
    if kind.has_scale:
        found.append("scale")
    if kind.plural == "pods":
        found += ["log", "exec", "binding", "eviction"]
    if kind.plural == "namespaces":
        found.append("finalize")
    return tuple(found)


def verb_of(method: str, path: ResourcePath, query: Mapping[str, str]) -> Verb:
    """Give the verb of a request.

    Raises:
        ApiError: 405, the method is not for this path.
    """
    named = bool(path.name)
    if path.kind.namespaced and path.namespace is None and method != "GET":
        # All namespaces at once can be looked at only.
        raise not_allowed()
    match method:
        case "GET" if is_true(query.get("watch")) and not path.subresource:
            return "watch"
        case "GET":
            return "get" if named else "list"
        case "POST" if not named or path.subresource in ("binding", "eviction", "exec"):
            return "create"
        case "PUT" if named:
            return "update"
        case "PATCH" if named:
            return "patch"
        case "DELETE" if not path.subresource:
            return "delete" if named else "deletecollection"
    raise not_allowed()


def is_true(text: str | None) -> bool:
    """Read a boolean query parameter (apimachinery: Convert_Slice_string_To_bool)."""
    return text is not None and text.lower() not in ("0", "false")


def not_allowed() -> Exception:
    """Make the 405 for a method that a path does not have."""
    return api_error(
        405,
        "the server does not allow this method on the requested resource",
        reason="MethodNotAllowed",
    )


def _unknown() -> Exception:
    return api_error(404, "the server could not find the requested resource", reason="NotFound")
