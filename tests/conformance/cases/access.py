"""Who may do what: reviews, impersonation, refusals by RBAC."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases.call import Call, configmap, core, group

_REVIEWS = "/apis/authorization.k8s.io/v1"
_JANE = (("Impersonate-User", "jane"),)


def subjects() -> dict[str, list[Call]]:
    """Return the subjects of this module."""
    return {"access": [*_reviews(), *_refusals()]}


def _reviews() -> list[Call]:
    def post(name: str, path: str, kind: str, spec: dict[str, Any], **more: Any) -> Call:
        version = path.removeprefix("/apis/").rpartition("/")[0]
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        return Call(name, "POST", path, body, **more)

    pods = {"namespace": "access", "verb": "get", "resource": "pods"}
    own, any_ = f"{_REVIEWS}/selfsubjectaccessreviews", f"{_REVIEWS}/subjectaccessreviews"
    local = f"{_REVIEWS}/namespaces/access/localsubjectaccessreviews"
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    return [
        post("own", own, "SelfSubjectAccessReview", {"resourceAttributes": pods}),
        post("own as jane", own, "SelfSubjectAccessReview", {"resourceAttributes": pods}, headers=_JANE),
        post("own empty", own, "SelfSubjectAccessReview", {}),
        post("own both", own, "SelfSubjectAccessReview", {"resourceAttributes": pods, "nonResourceAttributes": {"path": "/", "verb": "get"}}),
        post("other", any_, "SubjectAccessReview", {"user": "jane", "resourceAttributes": pods}),
        post("other path", any_, "SubjectAccessReview", {"user": "jane", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
        post("nobody", any_, "SubjectAccessReview", {"resourceAttributes": pods}),
        post("local", local, "LocalSubjectAccessReview", {"user": "jane", "resourceAttributes": pods}),
        post("local elsewhere", local, "LocalSubjectAccessReview", {"user": "jane", "resourceAttributes": {**pods, "namespace": "other"}}),
        post("rules as jane", f"{_REVIEWS}/selfsubjectrulesreviews", "SelfSubjectRulesReview", {"namespace": "access"}, headers=_JANE),
        post("who as jane", who, "SelfSubjectReview", {}, headers=(*_JANE, ("Impersonate-Group", "g"))),
        post("wrong token", "/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview", {"token": "x"}),
        Call("reviews are not read", "GET", own),
    ]  # fmt: skip


def _refusals() -> list[Call]:
    maps = core("access", "configmaps")
    roles = group("access", "rbac.authorization.k8s.io/v1", "roles")
    bindings = group("access", "rbac.authorization.k8s.io/v1", "rolebindings")
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]}
    ]

    def as_jane(call: Call) -> Call:
        return call._replace(headers=_JANE)

    return [
        as_jane(maps.list("list")),
        as_jane(maps.get("get", "a")),
        as_jane(maps.post("create", configmap("a"))),
        as_jane(maps.delete("delete", "a")),
        as_jane(maps.patch("patch", "a", {})),
        as_jane(maps.watch("watch")),
        as_jane(Call("cluster scope", "GET", "/api/v1/nodes")),
        as_jane(Call("all namespaces", "GET", "/apis/apps/v1/deployments")),
        as_jane(Call("subresource", "GET", "/api/v1/namespaces/access/pods/p/log")),
        as_jane(Call("path", "GET", "/metrics")),
        as_jane(Call("discovery", "GET", "/apis/apps")),
        maps.post("map", configmap("a")),
        roles.post("role", {"metadata": {"name": "one"}, "rules": rules}),
        bindings.post("binding", {"metadata": {"name": "jane"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}, "subjects": [{"kind": "User", "name": "jane"}]}),
        as_jane(maps.get("allowed", "a"))._replace(until='"key"'),
        as_jane(maps.get("other name", "b")),
        as_jane(maps.list("list by name", fieldSelector="metadata.name=a")),
        as_jane(roles.post("escalate", {"metadata": {"name": "all"}, "rules": rules})),
        roles.post("empty rule", {"metadata": {"name": "empty"}, "rules": [{}]}),
        roles.post("mixed rule", {"metadata": {"name": "mixed"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
        bindings.post("no role", {"metadata": {"name": "x"}, "roleRef": {}}),
        bindings.post("wrong subject", {"metadata": {"name": "x"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}, "subjects": [{"kind": "Robot", "name": "r"}]}),
        bindings.patch("change role", "jane", {"roleRef": {"name": "two"}}),
        maps.list("impersonate group alone")._replace(headers=(("Impersonate-Group", "g"),)),
        maps.list("impersonate account")._replace(headers=(("Impersonate-User", "system:serviceaccount:access:bot"),)),
    ]  # fmt: skip
