"""The objects that the benchmarks measure with, as a cluster would hold them.

Deterministic: the same arguments give the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = [
    "NAMESPACE",
    "config_map",
    "consumer",
    "deployment_as_json",
    "file_consumer",
    "pod",
    "secret",
]

Object = dict[str, Any]

#: Where everything that a benchmark makes lies.
NAMESPACE = "default"

_FOLLOW = {"hotmap.dev/follow": "auto"}


def config_map(name: str, **data: str) -> Object:
    """Make a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Object:
    """Make a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def consumer(name: str, source: str) -> Object:
    """Make a DaemonSet that reads LEVEL of a ConfigMap into its environment.

    Where there is no node (or no controller for the kind, as on the local plane) it never has a
    pod, so that what is measured is hotmap's write and not a cluster that replaces pods. A
    Deployment with `replicas: 0` would not do: hotmap rolls nothing that wants no pods.
    """
    reference = {"configMapKeyRef": {"name": source, "key": "LEVEL"}}
    container = {
        "name": "main",
        "image": "host",
        "command": ["sleep", "3600"],
        "env": [{"name": "LEVEL", "valueFrom": reference}],
    }
    return _workload("DaemonSet", name, {"containers": [container]}, annotations=_FOLLOW)


def file_consumer(name: str, source: str, *, image: str, follow: bool) -> Object:
    """Make a Deployment of one pod that mounts a ConfigMap and re-reads its files by itself."""
    spec = {
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "files", "configMap": {"name": source}}],
        "containers": [
            {
                "name": "main",
                "image": image,
                "command": ["sleep", "36000"],
                "volumeMounts": [{"name": "files", "mountPath": "/etc/files"}],
            }
        ],
    }
    annotations = {**_FOLLOW, "hotmap.dev/rereads": "true"} if follow else {}
    body = _workload("Deployment", name, spec, annotations=annotations)
    body["spec"]["replicas"] = 1
    return body


def pod(name: str) -> Object:
    """Make a pod of one container that does nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "3600"]}],
        },
    }


def _workload(kind: str, name: str, spec: Object, *, annotations: dict[str, str]) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


# -- Deployments as an API server sends them ---------------------------------------------------


def deployment_as_json(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """Make Deployments of about 4.9 KB with six references each, as an API server writes them.

    What real ones are made of: two containers with probes and resources, environment from
    ConfigMaps and Secrets, three volumes, conditions, and managedFields of three managers.
    """
    dice = random.Random(seed)
    for number in range(count):
        yield json.dumps(_served(number, dice), separators=(",", ":")).encode()


def _served(number: int, dice: random.Random) -> Object:
    name = f"{dice.choice(_TEAMS)}-{dice.choice(_PARTS)}-{number}"
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": f"{name}-production",
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"{dice.choice(_PARTS)}-{dice.randint(1, 9)}.{dice.randint(0, 40)}.0",
    }
    replicas = dice.randint(1, 12)
    generation = dice.randint(1, 200)
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 200:03}",
            "uid": _uid(dice),
            "resourceVersion": str(1_000_000 + number),
            "generation": generation,
            "creationTimestamp": "2026-03-02T09:14:51Z",
            "labels": labels,
            "annotations": {
                **(_FOLLOW if number % 3 == 0 else {}),
                "deployment.kubernetes.io/revision": str(generation // 2 + 1),
                "meta.helm.sh/release-name": name,
                "meta.helm.sh/release-namespace": f"team-{number % 200:03}",
            },
            "managedFields": [
                _claim("helm", "Update", "", _HELM_FIELDS),
                _claim("kube-controller-manager", "Update", "status", _STATUS_FIELDS),
            ],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {
                    "creationTimestamp": None,
                    "labels": labels,
                    "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9102"},
                },
                "spec": _pod_spec(name, dice),
            },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": _status(replicas, generation),
    }


_TEAMS = ("billing", "search", "catalog", "identity", "shipping", "payments", "media", "edge")
_PARTS = ("api", "worker", "frontend", "gateway", "indexer", "scheduler", "exporter", "proxy")


def _pod_spec(name: str, dice: random.Random) -> Object:
    """Make a pod spec whose six references are of every common sort."""
    return {
        "volumes": [
            {"name": "settings", "configMap": {"name": f"{name}-settings", "defaultMode": 420}},
            {
                "name": "certificate",
                "secret": {
                    "secretName": f"{name}-tls",
                    "items": [{"key": "tls.crt", "path": "server.pem"}],
                    "defaultMode": 420,
                },
            },
            {
                "name": "identity",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "company-roots", "optional": True}},
                    ],
                    "defaultMode": 420,
                },
            },
            {"name": "scratch", "emptyDir": {}},
        ],
        "containers": [_main_container(name, dice), _side_container(dice)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": name,
        "serviceAccount": name,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
        "schedulerName": "default-scheduler",
    }


def _main_container(name: str, dice: random.Random) -> Object:
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "name": "main",
        "image": f"registry.example.com/{name}:{dice.randint(1, 9)}.{dice.randint(0, 99)}.0",
        "args": ["--listen=:8080", "--level=$(LOG_LEVEL)"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "envFrom": [{"configMapRef": {"name": f"{name}-env"}}],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "LOG_LEVEL", "valueFrom": _data_key("configMapKeyRef", "logging", "level")},
            {
                "name": "DATABASE_PASSWORD",
                "valueFrom": _data_key("secretKeyRef", f"{name}-database", "password"),
            },
            {"name": "GOMAXPROCS", "value": str(dice.randint(1, 8))},
        ],
        "resources": {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": "250m", "memory": "256Mi"},
        },
        "volumeMounts": [
            {"name": "settings", "readOnly": True, "mountPath": "/etc/settings"},
            {"name": "certificate", "readOnly": True, "mountPath": "/etc/tls"},
            {"name": "identity", "readOnly": True, "mountPath": "/var/run/identity"},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    }


def _side_container(dice: random.Random) -> Object:
    return {
        "name": "metrics",
        "image": f"registry.example.com/exporter:2.{dice.randint(0, 30)}.1",
        "ports": [{"name": "metrics", "containerPort": 9102, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _data_key(kind: str, name: str, key: str) -> Object:
    return {kind: {"name": name, "key": key}}


def _status(replicas: int, generation: int) -> Object:
    return {
        "observedGeneration": generation,
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "lastUpdateTime": "2026-03-02T09:15:20Z",
                "lastTransitionTime": "2026-03-02T09:15:20Z",
                "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.",
            }
        ],
    }


def _claim(manager: str, operation: str, subresource: str, fields: Object) -> Object:
    claim = {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": "2026-03-02T09:14:51Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**claim, "subresource": subresource} if subresource else claim


def _fields(*paths: str) -> Object:
    """Write dotted paths as a set of managed fields."""
    tree: Object = {}
    for path in paths:
        branch = tree
        for part in path.split("."):
            branch = branch.setdefault(f"f:{part}", {})
    return tree


_HELM_FIELDS = _fields(
    *(f"metadata.labels.{name}" for name in ("chart", "instance", "managed-by", "name")),
    *(f"spec.{name}" for name in ("replicas", "selector", "revisionHistoryLimit")),
    "spec.strategy.rollingUpdate.maxSurge",
    "spec.strategy.rollingUpdate.maxUnavailable",
    *(f"spec.template.spec.{name}" for name in ("dnsPolicy", "restartPolicy", "volumes")),
    *(
        f"spec.template.spec.containers.main.{name}"
        for name in ("args", "env", "envFrom", "image", "livenessProbe", "ports", "volumeMounts")
    ),
)
_STATUS_FIELDS = _fields(
    *(f"status.{name}" for name in ("availableReplicas", "observedGeneration", "replicas")),
    "status.conditions.Available.message",
    "status.conditions.Available.reason",
)


def _uid(dice: random.Random) -> str:
    digits = f"{dice.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
