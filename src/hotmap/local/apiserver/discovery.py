"""What the server tells about itself: version, groups, resources.

Kubernetes: apiserver/pkg/endpoints/discovery. Both the old documents (one per group version)
and the aggregated ones are served; kubectl asks for the latter and needs two requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.routes import GROUP_VERSIONS, subresources
from hotmap.local.scheme import KINDS
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind

JsonObject = dict[str, Any]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS = {
    "status": ["get", "patch", "update"],
    "scale": ["get", "patch", "update"],
    "finalize": ["update"],
    "log": ["get"],
    "exec": ["create", "get"],
    "binding": ["create"],
    "eviction": ["create"],
}
# Subresources that answer with another kind than their parent's.
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "exec": ("", "v1", "PodExecOptions"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
}


def document(path: str, *, aggregated: bool) -> JsonObject | None:
    """Give the discovery document at a path, or None where there is none."""
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            if aggregated:
                return _aggregated([""])
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = list(dict.fromkeys(group for group, _ in GROUP_VERSIONS if group))
            if aggregated:
                return _aggregated(groups)
            listed = [_group(group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["api", version] if ("", version) in GROUP_VERSIONS:
            return _resource_list("", version)
        case ["apis", group] if any(group == known for known, _ in GROUP_VERSIONS if known):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case ["apis", group, version] if (group, version) in GROUP_VERSIONS and group:
            return _resource_list(group, version)
    return None


def _verbs(kind: Kind) -> list[str]:
    """Nobody may delete all namespaces at once."""
    if kind.plural == "namespaces":
        return [verb for verb in _VERBS if verb != "deletecollection"]
    return _VERBS


def _group(group: str) -> JsonObject:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for known, version in GROUP_VERSIONS
        if known == group
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> JsonObject:
    resources: list[JsonObject] = []
    for kind in _kinds(group, version):
        resource: JsonObject = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _verbs(kind),
        }
        if kind.short_names:
            resource["shortNames"] = list(kind.short_names)
        if kind.categories:
            resource["categories"] = list(kind.categories)
        resources.append(resource)
        resources.extend(_subresource(kind, name) for name in subresources(kind))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def _subresource(kind: Kind, name: str) -> JsonObject:
    resource: JsonObject = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _SUBRESOURCE_VERBS[name],
    }
    if name in _SUBRESOURCE_KINDS:
        group, version, other = _SUBRESOURCE_KINDS[name]
        resource["kind"] = other
        if group:
            resource |= {"group": group, "version": version}
    return resource


def _aggregated(groups: list[str]) -> JsonObject:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_discovered_group(group) for group in groups],
    }


def _discovered_group(group: str) -> JsonObject:
    versions = [
        {
            "version": version,
            "resources": [_discovered(kind) for kind in _kinds(group, version)],
            "freshness": "Current",
        }
        for known, version in GROUP_VERSIONS
        if known == group
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _discovered(kind: Kind) -> JsonObject:
    found: JsonObject = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    below = [
        {
            "subresource": name,
            "responseKind": _response_kind(
                *_SUBRESOURCE_KINDS.get(name, (kind.group, kind.version, kind.kind))
            ),
            "verbs": _SUBRESOURCE_VERBS[name],
        }
        for name in subresources(kind)
    ]
    if below:
        found["subresources"] = below
    return found


def _response_kind(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


def _kinds(group: str, version: str) -> list[Kind]:
    return [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
