"""Objects as an API server sends them: with all that hotmap has to read past.

Deterministic: the same arguments give the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ["FOLLOW", "Object", "claim", "deployment", "deployment_as_json"]

Object = dict[str, Any]

#: Annotations of who opts in.
FOLLOW = {"hotmap.dev/follow": "auto"}


def deployment_as_json(count: int) -> Iterator[bytes]:
    """Make Deployments of about 4.9 KB with six references each, as an API server writes them.

    What real ones are made of: two containers with probes and resources, environment from
    ConfigMaps and Secrets, three volumes, conditions, and managedFields of three managers.
    """
    dice = random.Random(1)
    for number in range(count):
        yield json.dumps(_served(number, dice), separators=(",", ":")).encode()


def _served(number: int, dice: random.Random) -> Object:
    made = deployment(f"{dice.choice(_TEAMS)}-{dice.choice(_PARTS)}-{number}", dice)
    metadata = made["metadata"]
    metadata["namespace"] = f"team-{number % 200:03}"
    metadata["resourceVersion"] = str(1_000_000 + number)
    metadata["annotations"] = {
        **(FOLLOW if number % 3 == 0 else {}),
        **metadata["annotations"],
        "meta.helm.sh/release-namespace": metadata["namespace"],
    }
    return made


def deployment(name: str, dice: random.Random) -> Object:
    """Make one Deployment that has not opted in."""
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
            "namespace": "default",
            "uid": _uid(dice),
            "resourceVersion": "1",
            "generation": generation,
            "creationTimestamp": "2026-03-02T09:14:51Z",
            "labels": labels,
            "annotations": {
                "deployment.kubernetes.io/revision": str(generation // 2 + 1),
                "meta.helm.sh/release-name": name,
                "meta.helm.sh/release-namespace": "default",
            },
            "managedFields": [
                claim("helm", "Update", "", _HELM_FIELDS),
                claim("kube-controller-manager", "Update", "status", _STATUS_FIELDS),
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


def claim(manager: str, operation: str, subresource: str, fields: Object) -> Object:
    """Make one entry of managedFields."""
    made = {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": "2026-03-02T09:14:51Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**made, "subresource": subresource} if subresource else made


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
