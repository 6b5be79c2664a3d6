"""On which nodes a DaemonSet has a pod.

kubernetes: pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod. A node that is not
ready, or not schedulable, has one too: it is tainted, and daemon pods tolerate these taints.
"""

from __future__ import annotations

from typing import Literal

from hotmap.local.controllers.daemonset.pods import daemon_tolerations
from hotmap.local.controllers.node_affinity import matches_node_affinity
from hotmap.local.controllers.taints import tolerates
from hotmap.local.meta import Object

__all__ = ["Placement", "place"]

#: A pod is created; one that is there stays; none is there.
Placement = Literal["run", "stay", "none"]


def place(owner: Object, node: Object) -> Placement:
    """Return whether a DaemonSet runs on a node."""
    spec = owner["spec"]["template"]["spec"]
    name = spec.get("nodeName")
    if name and name != node["metadata"]["name"]:
        return "none"
    if not matches_node_affinity(spec, node):
        return "none"
    tolerations = daemon_tolerations(spec)
    taints = node.get("spec", {}).get("taints") or []
    untolerated = {taint.get("effect") for taint in taints if not tolerates(tolerations, taint)}
    if "NoExecute" in untolerated:
        return "none"
    return "stay" if "NoSchedule" in untolerated else "run"
