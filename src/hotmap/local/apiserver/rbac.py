"""Role-based access control over the roles and bindings in the store.

kubernetes: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation, and the checks that
keep people from granting what they do not have (pkg/registry/rbac/*/policybased).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.core.text import quote
from hotmap.local.access import ADMINISTRATORS, Attributes, Authorizer, Decision, UserInfo
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.scheme import Kind, Scheme
    from hotmap.local.store import Store
    from hotmap.local.store_watch import Watch

__all__ = ["RBACAuthorizer", "check_escalation"]


GROUP = "rbac.authorization.k8s.io"
_KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


class _Binding(NamedTuple):
    """A binding: its roles and subjects; `namespace` is "" for the whole cluster."""

    kind: str
    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[JsonObject, ...]


class _Policy:
    """The roles and bindings of one moment, by what a request asks for."""

    def __init__(self, found: dict[str, list[JsonObject]]) -> None:
        self.rules: dict[tuple[str, str, str], list[JsonObject]] = {}
        for plural in ("clusterroles", "roles"):
            for role in found[plural]:
                metadata = role["metadata"]
                key = role["kind"], metadata.get("namespace", ""), metadata["name"]
                self.rules[key] = role.get("rules") or []
        self.bindings: dict[str, list[_Binding]] = {}
        for plural in ("clusterrolebindings", "rolebindings"):
            for binding in found[plural]:
                namespace = binding["metadata"].get("namespace", "")
                self.bindings.setdefault(namespace, []).append(_binding(binding, namespace))


class RBACAuthorizer:
    """Decides by roles and bindings as they are at the moment of the request."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._kinds = [scheme.resource(f"{plural}.{GROUP}") for plural in _KINDS]
        self._watches: list[Watch] = []
        self._policy: _Policy | None = None

    def authorize(self, attributes: Attributes) -> Decision:
        if ADMINISTRATORS in attributes.user.groups:
            return Decision(True)
        missing: list[str] = []
        for binding, subject, rules in self._rules(attributes.user, attributes.namespace):
            if rules is None:
                missing.append(f"{_role_resource(binding)} {quote(binding.role_name)} not found")
            elif any(allows(rule, attributes) for rule in rules):
                return Decision(True, _reason(binding, subject))
        return Decision(False, _missing_reason(missing))

    def rules_for(
        self, user: UserInfo, namespace: str
    ) -> tuple[list[JsonObject], list[JsonObject]]:
        resources: list[JsonObject] = []
        paths: list[JsonObject] = []
        for _, _, rules in self._rules(user, namespace):
            for rule in rules or ():
                if rule.get("resources"):
                    fields = ("verbs", "apiGroups", "resources", "resourceNames")
                    resources.append({name: rule[name] for name in fields if rule.get(name)})
                if rule.get("nonResourceURLs"):
                    paths.append({name: rule[name] for name in ("verbs", "nonResourceURLs")})
        return resources, paths

    def role_rules(self, role_kind: str, namespace: str, name: str) -> list[JsonObject]:
        """Return the rules of a role, none where it does not exist."""
        within = "" if role_kind == "ClusterRole" else namespace
        return self._current().rules.get((role_kind, within, name), [])

    def _rules(
        self, user: UserInfo, namespace: str
    ) -> Iterator[tuple[_Binding, JsonObject, list[JsonObject] | None]]:
        """Iterate over the rules that bindings give a user; None for a role that does not exist."""
        policy = self._current()
        within = [*policy.bindings.get("", ())]
        if namespace:
            within += policy.bindings.get(namespace, ())
        for binding in within:
            subject = next((s for s in binding.subjects if _is_user(s, user, binding)), None)
            if subject is not None:
                scope = "" if binding.role_kind == "ClusterRole" else binding.namespace
                key = binding.role_kind, scope, binding.role_name
                yield binding, subject, policy.rules.get(key)

    def _current(self) -> _Policy:
        if self._policy is None or any(w.take() or w.ended for w in self._watches):
            for watch in self._watches:
                watch.close()
            prefixes = [kind.prefix(None) for kind in self._kinds]
            since = self._store.revision
            self._watches = [self._store.watch(prefix, since=since) for prefix in prefixes]
            self._policy = _Policy(
                {
                    kind.plural: [
                        msgspec.json.decode(entry.value or b"null")
                        for entry in self._store.range(kind.prefix(None)).entries
                    ]
                    for kind in self._kinds
                }
            )
        return self._policy


def check_escalation(
    authorizer: Authorizer, kind: Kind, namespace: str, obj: JsonObject, user: UserInfo
) -> None:
    """Refuse to let a user grant more than the user may do.

    Raises:
        Forbidden: a role, or the role that a binding names, has rules that the user has not.
    """
    if not isinstance(authorizer, RBACAuthorizer) or ADMINISTRATORS in user.groups:
        return
    name = obj["metadata"].get("name", "")
    wanted = Attributes(user, "", kind.group, kind.plural, "", namespace, name)
    if kind.plural in ("roles", "clusterroles"):
        if authorizer.authorize(wanted._replace(verb="escalate")).allowed:
            return
        rules = obj.get("rules") or []
    else:
        reference = obj.get("roleRef") or {}
        role_kind, role = reference.get("kind", ""), reference.get("name", "")
        bind = wanted._replace(verb="bind", resource=f"{role_kind.lower()}s", name=role)
        if authorizer.authorize(bind).allowed:
            return
        rules = authorizer.role_rules(role_kind, namespace, role)
    held, held_paths = authorizer.rules_for(user, namespace)
    missing = [
        simple
        for rule in rules
        for simple in _simple_rules(rule)
        if not any(_covers(other, simple) for other in (*held, *held_paths))
    ]
    if missing:
        groups = " ".join(quote(group) for group in user.groups)
        shown = "\n".join(_shown(rule) for rule in _compact(missing))
        raise forbidden(
            kind,
            name,
            f"user {quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC "
            f"permissions not currently held:\n{shown}",
        )


def allows(rule: JsonObject, attributes: Attributes) -> bool:
    """Return whether a rule allows a request (RuleAllows)."""
    if not _matches(rule.get("verbs"), attributes.verb):
        return False
    if not attributes.resource:
        return any(_covers_path(url, attributes.path) for url in rule.get("nonResourceURLs") or ())
    resource = attributes.resource
    if attributes.subresource:
        resource += f"/{attributes.subresource}"
    names = rule.get("resourceNames")
    return (
        _matches(rule.get("apiGroups"), attributes.group)
        and _matches_resource(rule.get("resources") or (), resource, attributes.subresource)
        and (not names or attributes.name in names)
    )


def _matches(allowed: list[str] | None, wanted: str) -> bool:
    return allowed is not None and ("*" in allowed or wanted in allowed)


def _matches_resource(allowed: Any, wanted: str, subresource: str) -> bool:
    return (
        "*" in allowed or wanted in allowed or bool(subresource and f"*/{subresource}" in allowed)
    )


def _covers_path(allowed: str, wanted: str) -> bool:
    if allowed.endswith("*"):
        return wanted.startswith(allowed[:-1])
    return allowed == wanted


def _binding(obj: JsonObject, namespace: str) -> _Binding:
    reference = obj.get("roleRef") or {}
    return _Binding(
        obj["kind"],
        namespace,
        obj["metadata"]["name"],
        reference.get("kind", ""),
        reference.get("name", ""),
        tuple(obj.get("subjects") or ()),
    )


def _is_user(subject: JsonObject, user: UserInfo, binding: _Binding) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            namespace = subject.get("namespace") or binding.namespace
            return bool(user.name == f"system:serviceaccount:{namespace}:{name}")
    return False


def _role_resource(binding: _Binding) -> str:
    return f"{binding.role_kind.lower()}.{GROUP}"


def _reason(binding: _Binding, subject: JsonObject) -> str:
    kind, name = subject["kind"], subject["name"]
    if kind == "ServiceAccount":
        shown = f'"{name}/{subject.get("namespace") or binding.namespace}"'
    else:
        shown = quote(name)
    where = f"{binding.name}/{binding.namespace}" if binding.namespace else binding.name
    return (
        f"RBAC: allowed by {binding.kind} {quote(where)} of {binding.role_kind} "
        f"{quote(binding.role_name)} to {kind} {shown}"
    )


def _missing_reason(missing: list[str]) -> str:
    if not missing:
        return ""
    return f"RBAC: {missing[0]}" if len(missing) == 1 else f"RBAC: [{', '.join(missing)}]"


def _simple_rules(rule: JsonObject) -> Iterator[JsonObject]:
    """Split a rule into those with one verb, group, resource and name (BreakdownRule)."""
    verbs = rule.get("verbs") or ()
    for group, resource, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), verbs
    ):
        simple = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        names = rule.get("resourceNames") or ()
        yield from ({**simple, "resourceNames": [name]} for name in names)
        if not names:
            yield simple
    for url, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(held: JsonObject, simple: JsonObject) -> bool:
    """Return whether a rule gives all that a simple one does (ruleCovers)."""
    if not _matches(held.get("verbs"), simple["verbs"][0]):
        return False
    if "nonResourceURLs" in simple:
        url = simple["nonResourceURLs"][0]
        return any(_covers_path(allowed, url) for allowed in held.get("nonResourceURLs") or ())
    resource = simple["resources"][0]
    names = held.get("resourceNames")
    subresource = resource.partition("/")[2]
    return (
        _matches(held.get("apiGroups"), simple["apiGroups"][0])
        and _matches_resource(held.get("resources") or (), resource, subresource)
        and (not names or (simple.get("resourceNames") or [None])[0] in names)
    )


def _compact(rules: list[JsonObject]) -> list[JsonObject]:
    """Join simple rules that differ in their verb alone (CompactRules)."""
    joined: dict[bytes, JsonObject] = {}
    for rule in rules:
        key = msgspec.json.encode({name: v for name, v in rule.items() if name != "verbs"})
        known = joined.setdefault(key, {**rule, "verbs": []})
        known["verbs"] += rule["verbs"]
    return list(joined.values())


def _shown(rule: JsonObject) -> str:
    fields = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "resourceNames": "ResourceNames",
        "nonResourceURLs": "NonResourceURLs",
        "verbs": "Verbs",
    }
    parts = [
        f"{shown}:[{', '.join(quote(value) for value in rule[name])}]"
        for name, shown in fields.items()
        if rule.get(name)
    ]
    return f"{{{', '.join(parts)}}}"
