"""Pretended nodes: KWOK gives nodes and pods the status that a kubelet would.

Status only: no volumes, no environment, no logs. It measures a controller's scale, never what a
process in a pod sees. KWOK 0.8 has no built-in stages; `kwok-stages.yaml` has those we need.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import health
from tests.cluster.components import Component
from tests.cluster.layout import Layout

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

STAGES = Path(__file__).with_name("kwok-stages.yaml")
LABEL = "hotmap.test/node=pretended"
CAPACITY = {"cpu": "1000", "memory": "1Ti", "pods": "2000"}


def component(layout: Layout) -> Component:
    """Return how KWOK is run beside a control plane."""
    address = f"127.0.0.1:{layout.settings.port('kwok')}"
    command = (
        str(layout.programs.path("kwok")),
        f"--kubeconfig={layout.kubeconfig}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-ip=10.0.0.1",
        "--cidr=10.128.0.0/16",
        "--node-lease-duration-seconds=40",  # keeps its nodes Ready
        f"--server-address={address}",
        f"--config={STAGES}",
        "-v=WARN",  # else a line for each pod
    )
    return Component(
        "kwok", command, lambda: health.of_http(f"http://{address}/healthz"), listens=("kwok",)
    )


def make_nodes(cluster: "Cluster", count: int) -> None:
    """Create `count` pretended nodes that take 2000 pods each, and wait until they are Ready."""
    nodes = {"apiVersion": "v1", "kind": "List", "items": [_node(i) for i in range(1, count + 1)]}
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(nodes), seconds=120)
    cluster.kubectl(
        *("wait", "--for=condition=Ready", "node", "--selector", LABEL, "--timeout=60s"), seconds=70
    )


def _node(number: int) -> dict[str, object]:
    name = f"pretended-{number}"
    label, _, value = LABEL.partition("=")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                label: value,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "status": {"allocatable": CAPACITY, "capacity": CAPACITY},
    }
