"""Roles and their bindings (pkg/apis/rbac/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import FieldError, invalid_value, name_errors, required, unsupported
from hotmap.local.json_object import JsonObject
from hotmap.local.names import path_segment_errors, subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_RBAC_GROUP = "rbac.authorization.k8s.io"


def role_errors(role: JsonObject, *, namespaced: bool) -> Iterator[FieldError]:
    """Check the rules of a Role or ClusterRole (ValidatePolicyRule)."""
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        paths = rule.get("nonResourceURLs")
        if paths:
            at = f"{path}.nonResourceURLs"
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                yield invalid_value(at, paths, why)
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid_value(at, paths, why)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def cluster_role_errors(role: JsonObject) -> Iterator[FieldError]:
    """Check a ClusterRole, which may be the sum of others."""
    yield from role_errors(role, namespaced=False)
    rule, path = role.get("aggregationRule"), "aggregationRule.clusterRoleSelectors"
    selectors = (rule or {}).get("clusterRoleSelectors") or ()
    if rule is not None and not selectors:
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required(path, why)
    for index, selector in enumerate(selectors):
        errors = selector_errors(selector, f"{path}[{index}]")
        yield from errors
        if errors:
            yield invalid_value(f"{path}[{index}]", None, "invalid label selector.")


def binding_errors(binding: JsonObject, *, namespaced: bool) -> Iterator[FieldError]:
    """Check a RoleBinding or ClusterRoleBinding."""
    reference = binding["roleRef"]
    if reference["apiGroup"] != _RBAC_GROUP:
        yield unsupported("roleRef.apiGroup", reference["apiGroup"], (_RBAC_GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind", "") not in kinds:
        yield unsupported("roleRef.kind", reference.get("kind", ""), kinds)
    yield from name_errors(reference["name"], "roleRef.name", path_segment_errors)
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_errors(subject, f"subjects[{index}]", namespaced=namespaced)


def _subject_errors(subject: JsonObject, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        for why in subdomain_errors(name) if name else ():
            yield invalid_value(f"{path}.name", name, why)
        if group:
            yield unsupported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != _RBAC_GROUP:
            yield unsupported(f"{path}.apiGroup", group, (_RBAC_GROUP,))
    else:
        yield unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


def binding_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The role of a binding never changes."""
    if old.get("roleRef") != new.get("roleRef"):
        fields = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        shown = {go: (new.get("roleRef") or {}).get(field, "") for go, field in fields}
        yield invalid_value("roleRef", shown, "cannot change roleRef")
