"""One request, and short ways to write it."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class Call(NamedTuple):
    """A request; `name` is unique in its subject.

    In the path and the body, `${NAME:a.b}` stands for field b of field a of the answer to the
    earlier request NAME. A body that is text is sent as it is, any other as JSON.
    """

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    #: Sent again for some seconds until the answer contains this text.
    until: str = ""


class Resource(NamedTuple):
    """The path of one kind in one namespace, and requests to it."""

    path: str

    def list(self, name: str, accept: str = "application/json", **query: str) -> Call:
        return Call(name, "GET", self.url("", query), accept=accept)

    def get(self, name: str, target: str, accept: str = "application/json", **query: str) -> Call:
        return Call(name, "GET", self.url(target, query), accept=accept)

    def post(self, name: str, body: Any, target: str = "", **query: str) -> Call:
        return Call(name, "POST", self.url(target, query), body)

    def put(self, name: str, target: str, body: Any, **query: str) -> Call:
        return Call(name, "PUT", self.url(target, query), body)

    def patch(self, name: str, target: str, body: Any, kind: str = MERGE, **query: str) -> Call:
        return Call(name, "PATCH", self.url(target, query), body, content_type=kind)

    def apply(self, name: str, target: str, body: Any, manager: str = "", **query: str) -> Call:
        query = {"fieldManager": manager or "one", **query}
        return self.patch(name, target, body, APPLY, **query)

    def delete(self, name: str, target: str = "", body: Any = None, **query: str) -> Call:
        return Call(name, "DELETE", self.url(target, query), body)

    def watch(self, name: str, accept: str = "application/json", **query: str) -> Call:
        return self.list(name, accept, **{"watch": "1", "timeoutSeconds": "1", **query})

    def url(self, target: str, query: dict[str, str]) -> str:
        path = f"{self.path}/{target}" if target else self.path
        return f"{path}?{urlencode(query, safe='${}:,=')}" if query else path


def core(namespace: str, plural: str) -> Resource:
    """Return a kind of the core group in a namespace."""
    return Resource(f"/api/v1/namespaces/{namespace}/{plural}")


def group(namespace: str, group_version: str, plural: str) -> Resource:
    """Return a kind of another group, e.g. "apps/v1", in a namespace."""
    return Resource(f"/apis/{group_version}/namespaces/{namespace}/{plural}")


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"key": "value"} if data is None else data,
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Pod with one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}], **spec},
    }


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Deployment whose pods have one container."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {**workload_spec(name), **spec},
    }


def workload_spec(name: str) -> dict[str, Any]:
    """Return selector and template."""
    return {"selector": {"matchLabels": {"app": name}}, "template": template(name)}


def template(name: str) -> dict[str, Any]:
    """Return a pod template."""
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
