"""Discovery documents: version, groups, resources.

Kubernetes: apiserver/pkg/endpoints/discovery. Both the old documents (one per group version)
and the aggregated ones are served; kubectl asks for the latter and needs two requests.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from hotmap.local.apiserver.health import health_paths
from hotmap.local.group_version_kind import GroupVersionKind, version_order
from hotmap.local.json_object import JsonObject
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

from hotmap.local.scheme import Kind, Scheme, Subresource

# In upstream's order (customresource_discovery_controller.go).
_CUSTOM_VERBS = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)

#: By falling priority (cmd/kube-apiserver/app and pkg/controlplane/apiserver, aggregator.go).
_GROUPS = (
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)


def document(
    scheme: Scheme, path: str, *, aggregated: bool, address: str = ""
) -> JsonObject | None:
    """Return the discovery document at a path, or None where there is none.

    `address` is the server's own, as host and port.
    """
    served = scheme.group_versions()
    match path.strip("/").split("/"):
        case [""]:
            return {"paths": _paths(served)}
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            if aggregated:
                return _aggregated(scheme, [""])
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
                ],
            }
        case ["apis"]:
            groups = sorted({group for group, _ in served if group}, key=_group_order)
            if aggregated:
                return _aggregated(scheme, groups)
            listed = [_group(scheme, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["api", version] if ("", version) in served:
            return _resource_list(scheme, "", version)
        case ["apis", group] if any(group == known for known, _ in served if known):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(scheme, group)}
        case ["apis", group, version] if (group, version) in served and group:
            return _resource_list(scheme, group, version)
    return None


def _paths(served: Iterable[tuple[str, str]]) -> list[str]:
    """List the paths that are served, as the root does (apiserver/pkg/server/routes/index.go)."""
    groups = {group for group, _ in served if group}
    return sorted(
        {
            *("/.well-known/openid-configuration", "/api", "/apis", "/apis/", "/openapi/v2"),
            *("/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/version"),
            *("/flagz", "/metrics", "/metrics/slis", "/statusz"),
            *health_paths(),
            *(f"/apis/{group}" for group in groups),
            *(f"/apis/{group}/{version}" if group else f"/api/{version}"
              for group, version in served),
        }
    )  # fmt: skip


def _group(scheme: Scheme, group: str) -> JsonObject:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in _versions(scheme, group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _versions(scheme: Scheme, group: str) -> list[str]:
    found = {version for known, version in scheme.group_versions() if known == group}
    return sorted(found, key=version_order)


def _kinds(scheme: Scheme, group: str, version: str) -> list[Kind]:
    found = [kind for kind in scheme if kind.group == group and version in kind.versions]
    return sorted(found, key=lambda kind: kind.plural)


def _group_order(group: str) -> tuple[int, str]:
    """Order groups as upstream does: built-in ones by priority, then others by name."""
    known = group in _GROUPS
    return (_GROUPS.index(group) if known else len(_GROUPS), group)


def _resource_list(scheme: Scheme, group: str, version: str) -> JsonObject:
    resources: list[JsonObject] = []
    for kind in _kinds(scheme, group, version):
        resource = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _verbs(kind),
        }
        resource = _with_aliases(resource, kind)
        if kind.verbs != ("create",):
            resource["storageVersionHash"] = _storage_version_hash(kind)
        resources.append(resource)
        resources.extend(_subresource(kind, part) for part in _subresources(kind))
    listed = {"groupVersion": f"{group}/{version}" if group else version, "resources": resources}
    # Upstream's list of the core group does not say what it is in.
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    return {**head, **listed}


def _verbs(kind: Kind) -> list[str]:
    return list(_CUSTOM_VERBS if kind.strategy.is_custom else kind.verbs)


def _storage_version_hash(kind: Kind) -> str:
    """Return in which version objects are stored (discovery.StorageVersionHash)."""
    version = kind.stored_version or kind.version
    digest = hashlib.sha256(f"{kind.group}/{version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresources(kind: Kind) -> list[Subresource]:
    if kind.strategy.is_custom:
        return list(kind.subresources)
    return sorted(kind.subresources, key=lambda part: part.name)


def _subresource(kind: Kind, part: Subresource) -> JsonObject:
    resource: JsonObject = {
        "name": f"{kind.plural}/{part.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(part.verbs),
    }
    if part.response is not None:
        resource["kind"] = part.response.kind
        if part.response.group:
            resource |= {"group": part.response.group, "version": part.response.version}
    return resource


def _aggregated(scheme: Scheme, groups: list[str]) -> JsonObject:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_discovered_group(scheme, group) for group in groups],
    }


def _discovered_group(scheme: Scheme, group: str) -> JsonObject:
    versions = [
        {
            "version": version,
            "resources": [_discovered(kind, version) for kind in _kinds(scheme, group, version)],
            "freshness": "Current",
        }
        for version in _versions(scheme, group)
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _discovered(kind: Kind, version: str) -> JsonObject:
    own = GroupVersionKind(kind.group, version, kind.kind)
    found: JsonObject = {
        "resource": kind.plural,
        "responseKind": own._asdict(),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    _with_aliases(found, kind)
    if kind.subresources:
        found["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": (part.response or own)._asdict(),
                "verbs": list(part.verbs),
            }
            for part in _subresources(kind)
        ]
    return found


def _with_aliases(resource: JsonObject, kind: Kind) -> JsonObject:
    """Add short names and categories, in place, where a kind has any."""
    if kind.names.short_names:
        resource["shortNames"] = list(kind.names.short_names)
    if kind.names.categories:
        resource["categories"] = list(kind.names.categories)
    return resource
