"""The pods that wait until a node has room, first come first served.

kubernetes: pkg/scheduler/backend/queue, unschedulablePods, by node instead of by plugin.
"""

from __future__ import annotations

from collections.abc import Iterable

from hotmap.local.meta import ObjectName

__all__ = ["WaitingPods"]


class WaitingPods:
    """Names of pods by the nodes that refused them; each operation costs O(nodes)."""

    def __init__(self) -> None:
        #: Dicts for their order; no empty ones.
        self._by_node: dict[str, dict[ObjectName, None]] = {}

    def nodes(self) -> list[str]:
        """Return the nodes for which pods wait."""
        return list(self._by_node)

    def add(self, pod: ObjectName, nodes: Iterable[str]) -> None:
        """Let a pod wait for room on any of some nodes; its place among others is kept."""
        for node in nodes:
            self._by_node.setdefault(node, {})[pod] = None

    def remove(self, pod: ObjectName) -> None:
        """Forget a pod that was bound or deleted."""
        for node, pods in list(self._by_node.items()):
            if pods.pop(pod, "absent") is None and not pods:
                del self._by_node[node]

    def take(self, node: str) -> ObjectName | None:
        """Remove and return the pod that has waited longest for a node."""
        pods = self._by_node.get(node)
        if not pods:
            return None
        pod = next(iter(pods))
        self.remove(pod)
        return pod
