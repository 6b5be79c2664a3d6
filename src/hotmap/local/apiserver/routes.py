"""Paths and methods of the Kubernetes API, as values.

`/api/v1/…` and `/apis/<group>/<version>/…` are regular, so no table of routes is needed: a
path splits into resource, namespace, name and subresource (kubernetes:
apiserver/pkg/endpoints/request/requestinfo.go), and the method then gives the verb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hotmap.core.errors import api_error
from hotmap.local.apiserver.status import not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.scheme import Kind, Scheme

Verb = Literal[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"
]  # fmt: skip


class ResourcePath(NamedTuple):
    """The part of a cluster that a path means; `name` is "" for a collection."""

    kind: Kind
    namespace: str | None
    name: str = ""
    subresource: str = ""
    #: Whether the path is the old one of a watch.
    watched: bool = False
    #: What follows the subresource `proxy`, without slashes at its ends.
    subpath: str = ""


def parse_path(scheme: Scheme, path: str) -> ResourcePath | None:
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
    if len(rest) < 2 or not any(kind.group == group for kind in scheme):
        return None
    version, rest = rest[0], rest[1:]
    # The oldest form of a watch (/api/v1/watch/…).
    watched = rest[0] == "watch" and len(rest) > 1
    rest = rest[watched:]
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    subpath = ""
    if rest[2:3] == ["proxy"]:
        # What follows is a path of whatever is behind it.
        rest, subpath = rest[:3], "/".join(rest[3:])
    kind = scheme.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.namespaced):
        raise _unknown()
    name, subresource = (*rest[1:], "", "")[:2]
    if name and kind.namespaced and namespace is None:
        raise _unknown()
    if subresource and kind.subresource(subresource) is None:
        raise not_found(kind, name) if kind.strategy.is_custom else _unknown()
    return ResourcePath(kind, namespace, name, subresource, watched, subpath)


def verb_of(method: str, path: ResourcePath, query: Mapping[str, str]) -> Verb:
    """Return the verb of a request.

    Raises:
        ApiError: 405, the method is not for this path.
    """
    if path.kind.namespaced and path.namespace is None and method != "GET":
        # All namespaces at once can only be read.
        raise not_allowed()
    verb = _verb(method, path, query)
    if verb is None or (not path.subresource and verb not in path.kind.verbs):
        raise not_allowed()
    return verb


def _verb(method: str, path: ResourcePath, query: Mapping[str, str]) -> Verb | None:
    named = bool(path.name)
    subresource = path.kind.subresource(path.subresource)
    match method:
        case "GET" if path.watched or (is_true(query.get("watch")) and not named):
            return "watch"
        case "GET" if subresource is None or "get" in subresource.verbs:
            return "get" if named else "list"
        case "POST" if not named or (subresource and "create" in subresource.verbs):
            return "create"
        case "PUT" if named:
            return "update"
        case "PATCH" if named:
            return "patch"
        case "DELETE" if subresource is None or "delete" in subresource.verbs:
            return "delete" if named else "deletecollection"
    return None


#: The verbs by which proxied requests are authorized, for each method that can be proxied.
PROXIED_METHODS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "OPTIONS": "",
}


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
