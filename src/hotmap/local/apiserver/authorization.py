"""Whether a request may do what it wants, and the 403 that says that it may not.

kubernetes: apiserver/pkg/endpoints/filters/authorization.go, handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.core.errors import Forbidden
from hotmap.core.text import quote
from hotmap.local.access import Attributes, Decision, UserInfo

if TYPE_CHECKING:
    from hotmap.local.access import Authorizer
    from hotmap.local.apiserver.routes import ResourcePath

__all__ = ["AllowAll", "check_allowed", "path_attributes", "resource_attributes"]

JsonObject = dict[str, Any]

_PATH_VERBS = {"GET": "get", "POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}


class AllowAll:
    """Everybody who is known may do everything (--authorization-mode=AlwaysAllow)."""

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


def resource_attributes(user: UserInfo, verb: str, path: ResourcePath) -> Attributes:
    """Return what a request for a resource wants."""
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
        path.name,
    )


def path_attributes(user: UserInfo, method: str, path: str) -> Attributes:
    """Return what a request for a path that is no resource wants."""
    return Attributes(user, _PATH_VERBS.get(method, method.lower()), path=path)


def _forbidden(attributes: Attributes, reason: str) -> Forbidden:
    user, verb = quote(attributes.user.name), attributes.verb
    if not attributes.resource:
        text = f"User {user} cannot {verb} path {quote(attributes.path)}"
        return Forbidden(f"forbidden: {text}", details={})
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
    return Forbidden(f"{resource}{named} is forbidden: {text}", details={**details, "kind": plural})
