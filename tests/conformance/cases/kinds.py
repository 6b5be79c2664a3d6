"""The same requests to many kinds: defaults, errors, columns, managed fields."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from tests.conformance.cases.call import (
    JSON_PATCH,
    MERGE,
    PARTIAL,
    PARTIAL_LIST,
    STRATEGIC,
    TABLE,
    Call,
    Resource,
    core,
    group,
    template,
    workload_spec,
)


class Kind(NamedTuple):
    """A kind, an object of it without a name, and a change to it."""

    group_version: str
    plural: str
    manifest: dict[str, Any]
    change: dict[str, Any]
    namespaced: bool = True


def _kind(
    group_version: str, kind: str, plural: str, change: dict[str, Any], **content: Any
) -> Kind:
    return Kind(
        group_version, plural, {"apiVersion": group_version, "kind": kind, **content}, change
    )


_JOB = {
    "template": template("app") | {"spec": {**template("app")["spec"], "restartPolicy": "Never"}}
}
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]

#: Kinds that get every request.
FULL = [
    _kind("v1", "ConfigMap", "configmaps", {"data": {"b": "2"}}, data={"a": "1"}),
    _kind("v1", "Secret", "secrets", {"data": {"b": "Mg=="}}, stringData={"a": "1"}),
    _kind(
        "apps/v1", "Deployment", "deployments", {"spec": {"replicas": 3}}, spec=workload_spec("app")
    ),
    _kind(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"replicas": 3}},
        spec={**workload_spec("app"), "serviceName": "app"},
    ),
    _kind(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        {"spec": {"minReadySeconds": 3}},
        spec=workload_spec("app"),
    ),
    _kind(
        "v1",
        "Pod",
        "pods",
        {"spec": {"activeDeadlineSeconds": 30}},
        spec={"containers": [{"name": "main", "image": "nginx"}]},
    ),
]

#: Kinds that get those that show their defaults and columns.
SHORT = [
    _kind(
        "apps/v1", "ReplicaSet", "replicasets", {"spec": {"replicas": 3}}, spec=workload_spec("app")
    ),
    _kind("batch/v1", "Job", "jobs", {"spec": {"suspend": True}}, spec=_JOB),
    _kind(
        "batch/v1",
        "CronJob",
        "cronjobs",
        {"spec": {"suspend": True}},
        spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": _JOB}},
    ),
    _kind("v1", "ServiceAccount", "serviceaccounts", {"automountServiceAccountToken": False}),
    _kind(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        {"metadata": {"annotations": {"a": "b"}}},
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    ),
    _kind(
        "v1", "ResourceQuota", "resourcequotas", {"spec": {"hard": {"pods": "9"}}},
        spec={"hard": {"secrets": "100"}},
    ),
    _kind(
        "coordination.k8s.io/v1",
        "Lease",
        "leases",
        {"spec": {"leaseTransitions": 1}},
        spec={"holderIdentity": "a", "leaseDurationSeconds": 15},
    ),
    _kind(
        "rbac.authorization.k8s.io/v1",
        "Role",
        "roles",
        {"rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}]},
        rules=_RULES,
    ),
    _kind(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        {"subjects": [{"kind": "Group", "name": "g"}]},
        roleRef={"kind": "Role", "name": "r"},
        subjects=[{"kind": "User", "name": "jane"}],
    ),
    _kind(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        {"spec": {"ingressClassName": "nginx"}},
        spec={"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    ),
    _kind(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        {"spec": {"policyTypes": ["Egress"]}},
        spec={"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
    ),
    _kind(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {"spec": {"minAvailable": "50%"}},
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "app"}}},
    ),
    _kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        {"spec": {"maxReplicas": 9}},
        spec={
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"},
        },
    ),
    _kind(
        "v1",
        "Event",
        "events",
        {"count": 2},
        involvedObject={"kind": "Pod", "name": "p", "namespace": "event"},
        reason="Tested",
        message="a message",
        type="Normal",
        source={"component": "test"},
    ),
    _kind(
        "v1",
        "Endpoints",
        "endpoints",
        {"metadata": {"annotations": {"a": "b"}}},
        subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
    ),
    _kind(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        {"ports": [{"port": 81}]},
        addressType="IPv4",
        endpoints=[{"addresses": ["10.0.0.1"]}],
        ports=[{"port": 80}],
    ),
    _kind("v1", "PodTemplate", "podtemplates", {"metadata": {"labels": {"x": "y"}}},
          template=template("app")),
    _kind("apps/v1", "ControllerRevision", "controllerrevisions", {"revision": 2},
          revision=1, data={"a": 1}),
    _kind(
        "v1",
        "LimitRange",
        "limitranges",
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "8"}}]}},
        spec={"limits": [{"type": "Container", "max": {"cpu": "4"}}]},
    ),
    _kind(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        {"spec": {"replicas": 2}},
        spec={"template": template("app")},
    ),
]  # fmt: skip


def subjects() -> dict[str, list[Call]]:
    """Return one subject per kind."""
    found = {}
    for kind, calls in [*((each, _all) for each in FULL), *((each, _some) for each in SHORT)]:
        subject = str(kind.manifest["kind"]).lower()
        found[subject] = calls(kind, _resource(kind, subject))
    return found


def _resource(kind: Kind, namespace: str) -> Resource:
    make = group if "/" in kind.group_version else None
    if make is None:
        return core(namespace, kind.plural)
    return make(namespace, kind.group_version, kind.plural)


def _named(kind: Kind, name: str, **metadata: Any) -> dict[str, Any]:
    made = copy.deepcopy(kind.manifest)
    made["metadata"] = {"name": name, **metadata} if name else metadata
    return made


def _merged(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in other.items():
        mine = merged.get(key)
        merged[key] = (
            _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
        )
    return merged


def _some(kind: Kind, resource: Resource) -> list[Call]:
    labels = {"metadata": {"labels": {"tier": "front"}}}
    return [
        resource.post("create", _named(kind, "a")),
        resource.post("unknown field", {**_named(kind, "b"), "wrong": 1}, fieldValidation="Strict"),
        resource.get("table", "a", TABLE),
        resource.patch("merge patch", "a", kind.change),
        resource.put("replace", "a", _merged(_named(kind, "a", labels={"x": "y"}), kind.change)),
        resource.apply("apply", "a", _merged(_named(kind, "a"), labels), force="true"),
        resource.delete("delete", "a"),
    ]


def _all(kind: Kind, resource: Resource) -> list[Call]:
    labels = {"metadata": {"labels": {"tier": "front"}}}
    return [
        resource.post("dry run", _named(kind, "a"), dryRun="All"),
        resource.get("not stored", "a"),
        resource.post("create", _named(kind, "a")),
        resource.post("exists", _named(kind, "a")),
        resource.post("strict", {**_named(kind, "b"), "wrong": 1}, fieldValidation="Strict"),
        resource.post("warn", {**_named(kind, "b"), "wrong": 1}, fieldValidation="Warn"),
        resource.post("ignore", {**_named(kind, "c"), "wrong": 1}, fieldValidation="Ignore"),
        resource.post("wrong validation", _named(kind, "d"), fieldValidation="Maybe"),
        resource.post("wrong kind", {**_named(kind, "d"), "kind": "Other"}),
        resource.post("wrong version", {**_named(kind, "d"), "apiVersion": "example.com/v1"}),
        resource.post("wrong name", _named(kind, "Wrong_Name")),
        resource.post("wrong label", _named(kind, "d", labels={"a b": "-"})),
        resource.post("wrong namespace", _named(kind, "d", namespace="other")),
        resource.post("no name", _named(kind, "")),
        resource.post("generated name", _named(kind, "", generateName="made-")),
        resource.post("version on create", _named(kind, "d", resourceVersion="1")),
        resource.get("get", "a"),
        resource.get("missing", "none"),
        resource.get("table", "a", TABLE),
        resource.get("metadata alone", "a", PARTIAL),
        resource.list("list", fieldSelector="metadata.name=a"),
        resource.list("metadata list", PARTIAL_LIST, fieldSelector="metadata.name=a"),
        resource.list("table list", TABLE, fieldSelector="metadata.name=a", includeObject="None"),
        resource.patch("merge patch", "a", labels),
        resource.patch("merge again", "a", labels),
        resource.patch("strategic patch", "a", kind.change, STRATEGIC),
        resource.patch(
            "json patch", "a", [{"op": "remove", "path": "/metadata/labels/tier"}], JSON_PATCH
        ),
        resource.patch(
            "failed test", "a", [{"op": "test", "path": "/kind", "value": "X"}], JSON_PATCH
        ),
        resource.patch("patch missing", "none", labels, MERGE),
        resource.patch("patch strict", "a", {"wrong": 1}, MERGE, fieldValidation="Strict"),
        resource.patch("patch warn", "a", {"wrong": 1}, MERGE, fieldValidation="Warn"),
        resource.put("replace", "a", _merged(_named(kind, "a", labels={"x": "y"}), kind.change)),
        resource.put("stale", "a", _named(kind, "a", resourceVersion="1")),
        resource.put("replace missing", "none", _named(kind, "none")),
        resource.put("name differs", "a", _named(kind, "z")),
        resource.put("other uid", "a", _named(kind, "a", uid="0-0")),
        resource.apply("apply", "a", _merged(_named(kind, "a"), labels), force="true"),
        resource.apply(
            "conflict", "a", _named(kind, "a", labels={"tier": "back"}), "two"
        ),
        resource.apply("apply new", "e", _named(kind, "e"), "two"),
        resource.patch("apply without manager", "e", _named(kind, "e"), "application/apply-patch+yaml"),
        resource.delete("precondition", "a", {"preconditions": {"uid": "x"}}),
        resource.delete("delete dry run", "a", dryRun="All"),
        resource.delete("delete", "a"),
        resource.delete("delete again", "a"),
        resource.delete("delete collection", labelSelector="no=such"),
    ]  # fmt: skip
