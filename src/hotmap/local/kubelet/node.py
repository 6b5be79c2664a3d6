"""The Node object that a kubelet registers: the properties and resources of this machine.

kubernetes: pkg/kubelet/kubelet_node_status.go and pkg/kubelet/nodestatus. Pure, except that it
reads the properties of the machine.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from hotmap.local.kubelet.sources import TTL_ANNOTATION

#: kubernetes: pkg/kubelet/apis/config/v1beta1/defaults.go, maxPods.
MAX_PODS = 110
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def make_node(
    name: str,
    address: str,
    *,
    version: str,
    now: str,
    ttl: float | None,
    max_pods: int = MAX_PODS,
) -> dict[str, Any]:
    """Describe this machine as a ready Node.

    `version` is the kubelet's, as a Git tag; `now` is RFC 3339, `ttl` seconds (see `sources`).
    """
    resources = _resources(max_pods)
    machine = platform.uname()
    architecture = _ARCHITECTURES.get(machine.machine, machine.machine)
    annotations = {} if ttl is None else {TTL_ANNOTATION: f"{ttl:.0f}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture,
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": architecture,
            },
            "annotations": annotations,
        },
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": _conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": machine.release,
                "osImage": _os_image(),
                "containerRuntimeVersion": "hotmap://0.1.0",
                "kubeletVersion": version,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": architecture,
            },
        },
    }


def with_labels(node: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """Give a node the labels that it may not have from an earlier kubelet."""
    metadata = node["metadata"]
    return {
        **node,
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}},
    }


def _resources(max_pods: int) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs("/")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk.f_frsize * disk.f_blocks // 1024}Ki",
        "pods": str(max_pods),
    }


def _conditions(now: str) -> list[dict[str, str]]:
    pressures = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    described = [(type, "False", reason, text) for type, reason, text in pressures]
    described.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    return [
        {
            "type": type,
            "status": status,
            "reason": reason,
            "message": text,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for type, status, reason, text in described
    ]


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
