"""Whether a request is permitted, and the 403 if it is not.

kubernetes: apiserver/pkg/endpoints/filters/authorization.go, handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import Forbidden
from hotmap.core.text import quote
from hotmap.local.access import Attributes, Decision, UserInfo
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.access import Authorizer
    from hotmap.local.apiserver.routes import ResourcePath

__all__ = ["AccessDenied", "AllowAll", "check_allowed", "path_attributes", "resource_attributes"]


_PATH_VERBS = {"GET": "get", "POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}


class AccessDenied(Forbidden):
    """The 403 of an authorizer, which has one more header than a 403 of admission."""


class AllowAll:
    """Permits everything to authenticated users (--authorization-mode=AlwaysAllow)."""

    def authorize(self, attributes: Attributes) -> Decision:
        return Decision(True)

    def rules_for(
        self, user: UserInfo, namespace: str
    ) -> tuple[list[JsonObject], list[JsonObject]]:
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return [everything], [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


def check_allowed(authorizer: Authorizer, attributes: Attributes) -> None:
    """Refuse what a user may not do.

    Raises:
        Forbidden: it is not allowed; the text is upstream's.
    """
    decision = authorizer.authorize(attributes)
    if not decision.allowed:
        raise _forbidden(attributes, decision.reason)


def resource_attributes(
    user: UserInfo, verb: str, path: ResourcePath, query: Mapping[str, str]
) -> Attributes:
    """Return what a request for a resource wants; a list of one name is for that name."""
    kind = path.kind
    # A namespace is its own scope (RequestInfoFactory).
    own = path.name if kind.plural == "namespaces" and not kind.group else ""
    return Attributes(
        user,
        verb,
        kind.group,
        kind.plural,
        path.subresource,
        path.namespace or own,
        path.name or _selected_name(verb, query),
    )


def _selected_name(verb: str, query: Mapping[str, str]) -> str:
    """Find the name that a collection is restricted to (RequestInfoFactory)."""
    if verb not in ("list", "watch", "deletecollection"):
        return ""
    for term in query.get("fieldSelector", "").split(","):
        field, equal, name = term.partition("=")
        if field.strip() == "metadata.name" and equal:
            return name.removeprefix("=").strip()
    return ""


def path_attributes(user: UserInfo, method: str, path: str) -> Attributes:
    """Return what a request for a path that is not a resource wants."""
    return Attributes(user, _PATH_VERBS.get(method, method.lower()), path=path)


def _forbidden(attributes: Attributes, reason: str) -> Forbidden:
    user, verb = quote(attributes.user.name), attributes.verb
    if not attributes.resource:
        text = f"User {user} cannot {verb} path {quote(attributes.path)}"
        return AccessDenied(f"forbidden: {text}", details={})
    group, plural = attributes.group, attributes.resource
    part = f"{plural}/{attributes.subresource}" if attributes.subresource else plural
    text = f"User {user} cannot {verb} resource {quote(part)} in API group {quote(group)}"
    if attributes.namespace:
        text += f" in the namespace {quote(attributes.namespace)}"
    else:
        text += " at the cluster scope"
    if reason:
        text += f": {reason}"
    resource = f"{plural}.{group}" if group else plural
    named = f' "{attributes.name}"' if attributes.name else ""
    details = {"name": attributes.name} if attributes.name else {}
    if group:
        details["group"] = group
    text = f"{resource}{named} is forbidden: {text}"
    return AccessDenied(text, details={**details, "kind": plural})
