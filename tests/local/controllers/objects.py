"""Builders of Deployments, ReplicaSets and pods as small as the decisions under test need them."""

from __future__ import annotations

from itertools import count
from typing import Any

Object = dict[str, Any]

_serial = count(1)


def replica_set(
    name: str,
    replicas: int,
    *,
    available: int | None = None,
    reported: int | None = None,
    created: str = "2026-01-01T00:00:00Z",
    annotations: dict[str, str] | None = None,
    **status: Any,
) -> Object:
    """A ReplicaSet of *replicas* pods, all reported and available unless told otherwise."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-of-{name}",
            "generation": 1,
            "creationTimestamp": created,
            "annotations": annotations or {},
        },
        "spec": {"replicas": replicas, "template": pod_template()},
        "status": {
            "replicas": replicas if reported is None else reported,
            "availableReplicas": replicas if available is None else available,
            "observedGeneration": 1,
            **status,
        },
    }


def deployment(replicas: int = 3, *, status: Object | None = None, **spec: Any) -> Object:
    """A Deployment named web with Kubernetes' defaults filled in."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "namespace": "default",
            "name": "web",
            "uid": "uid-of-web",
            "generation": 1,
            "annotations": {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod_template(),
            "strategy": rolling("25%", "25%"),
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
        "status": status or {},
    }


def rolling(max_surge: int | str, max_unavailable: int | str) -> Object:
    bounds = {"maxSurge": max_surge, "maxUnavailable": max_unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


def pod_template(image: str = "host", **metadata: Any) -> Object:
    return {
        "metadata": {"labels": {"app": "web"}, **metadata},
        "spec": {"containers": [{"name": "main", "image": image, "command": ["sleep", "1d"]}]},
    }


def pod(
    name: str = "",
    *,
    node: str = "local",
    phase: str = "Running",
    ready: str | None = "2026-01-01T00:00:00Z",
    created: str = "2026-01-01T00:00:00Z",
    cost: str | None = None,
    restarts: int = 0,
) -> Object:
    """A pod that is ready since *ready*, or not ready with None."""
    name = name or f"pod-{next(_serial)}"
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": ready}
    if ready is None:
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": created}
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-of-{name}",
            "creationTimestamp": created,
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {},
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [condition],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }
