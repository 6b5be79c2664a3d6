"""The objects that the benchmarks measure with, as a cluster would hold them.

Deterministic: the same arguments give the same bytes.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "NAMESPACE",
    "config_map",
    "consumer",
    "file_consumer",
    "pod",
    "pod_elsewhere",
    "pod_with_agent",
    "rereading_workload",
    "secret",
    "workload_with_agent",
]

Object = dict[str, Any]

#: Where everything that a benchmark makes lies.
NAMESPACE = "default"

_FOLLOW = {"hotmap.dev/follow": "auto"}
_REREADS = {**_FOLLOW, "hotmap.dev/rereads": "true"}


def config_map(name: str, **data: str) -> Object:
    """Make a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Object:
    """Make a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def consumer(name: str, source: str) -> Object:
    """Make a DaemonSet that reads LEVEL of a ConfigMap into its environment.

    Where there is no node, or no controller of DaemonSets (`processes.local_plane`), it never has a
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
    annotations = _REREADS if follow else {}
    body = _workload("Deployment", name, spec, annotations=annotations)
    body["spec"]["replicas"] = 1
    return body


def workload_with_agent(name: str, source: str, port: int) -> Object:
    """Make a DaemonSet whose pods mount a ConfigMap and have an agent.

    No controller makes pods of it (`processes.local_plane`), so that a benchmark can.
    """
    body = _mounting_workload(name, source, annotations=_FOLLOW)
    template = body["spec"]["template"]["metadata"]
    template["annotations"] = {"hotmap.dev/agent": f"port={port};restart=none"}
    return body


def rereading_workload(name: str, source: str) -> Object:
    """Make a DaemonSet whose pods mount a ConfigMap and re-read its files by themselves."""
    return _mounting_workload(name, source, annotations=_REREADS)


def pod_elsewhere(name: str, workload: str) -> Object:
    """Make a pod of a workload, on a node that is not there."""
    made = pod(name)
    made["spec"]["nodeName"] = "elsewhere"
    made["metadata"]["labels"] = {"app": workload}
    return made


def pod_with_agent(name: str, workload: str, port: int) -> Object:
    """Make a pod of a workload with an agent, on a node that is not there."""
    made = pod_elsewhere(name, workload)
    made["metadata"]["annotations"] = {"hotmap.dev/agent": f"port={port};restart=none"}
    return made


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


def _mounting_workload(name: str, source: str, *, annotations: dict[str, str]) -> Object:
    spec = {
        "volumes": [{"name": "files", "configMap": {"name": source}}],
        "containers": [
            {
                "name": "main",
                "image": "host",
                "volumeMounts": [{"name": "files", "mountPath": "/etc/files"}],
            }
        ],
    }
    return _workload("DaemonSet", name, spec, annotations=annotations)


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
