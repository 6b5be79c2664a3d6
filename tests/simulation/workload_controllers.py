"""The workload controllers of the simulated cluster: which pods they create and delete, and when.

Each step does one thing, as one pass of a controller's loop does. The rules are those of kubernetes
pkg/controller/deployment, statefulset (stateful_set_control.go) and daemon (update.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.pods import SimulatedPod

__all__ = ["CONTROLLERS", "WorkloadController"]

Object = dict[str, Any]


class WorkloadController:
    """What all kinds have in common."""

    kind = ""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def holds_back(self) -> bool:
        """Whether pods of an older template are left until a user acts."""
        return False

    def step(self) -> None:
        """Create or delete a pod."""
        raise NotImplementedError

    def spec(self) -> Object:
        """Return the fields of the spec that the kind has beside the template."""
        return {"replicas": self._cluster.replicas}

    def status(self) -> Object:
        """Return the fields of the status that count pods."""
        raise NotImplementedError

    def annotations(self) -> Object:
        return {}

    @property
    def alive(self) -> list[SimulatedPod]:
        return [pod for pod in self._cluster.pods if pod.ends is None]

    def _is_new(self, pod: SimulatedPod) -> bool:
        return pod.template == self._cluster.rolled[-1]


class DeploymentController(WorkloadController):
    """maxSurge 1, maxUnavailable 0."""

    kind = "Deployment"

    def step(self) -> None:
        cluster, alive = self._cluster, self.alive
        newest = cluster.rolled[-1]
        new = [pod for pod in alive if self._is_new(pod)]
        old = [pod for pod in alive if not self._is_new(pod)]
        if cluster.paused:
            if len(alive) < cluster.replicas:
                cluster.make_pod(old[0].template if len(old) > len(new) else newest)
            elif len(alive) > cluster.replicas:
                cluster.end_pod(alive[0])
            return
        if len(new) > cluster.replicas:
            cluster.end_pod(new[0])
        elif len(new) < cluster.replicas and len(alive) <= cluster.replicas:
            cluster.make_pod(newest)
        waiting = [pod for pod in old if pod.started is None]
        running = [pod for pod in alive if pod.started is not None]
        if waiting:
            cluster.end_pod(waiting[0])
        elif old and len(running) > cluster.replicas:
            cluster.end_pod(old[0])

    def spec(self) -> Object:
        return {**super().spec(), "paused": self._cluster.paused}

    def status(self) -> Object:
        updated = sum(pod.template == self._cluster.template for pod in self.alive)
        return {"replicas": len(self.alive), "updatedReplicas": updated}

    def annotations(self) -> Object:
        return {"deployment.kubernetes.io/revision": str(self._cluster.revisions)}


class StatefulSetController(WorkloadController):
    """Pods with numbers: created in order, replaced from the last one down."""

    kind = "StatefulSet"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        chance = cluster.chance
        self._is_ordered = chance.random() < 0.7
        self._on_delete = chance.random() < 0.2
        self._partition = 0 if self._on_delete else chance.choice((0, 0, 0, 1))
        #: The template that all pods had when the last update was complete.
        self._current = cluster.template

    @property
    def holds_back(self) -> bool:
        return self._on_delete or bool(self._partition)

    def step(self) -> None:
        cluster = self._cluster
        pods = {pod.number: pod for pod in cluster.pods}  # one that ends keeps its name
        for number in range(cluster.replicas):
            pod = pods.get(number)
            if pod is None:
                is_current = not self._on_delete and number < self._partition
                cluster.make_pod(self._current if is_current else cluster.rolled[-1], number=number)
                if self._is_ordered:
                    return
            elif self._is_ordered and (pod.ends is not None or pod.started is None):
                return
        condemned = [pod for pod in cluster.pods if pod.number >= cluster.replicas]
        for pod in sorted(condemned, key=lambda pod: -pod.number):
            if pod.ends is None:
                cluster.end_pod(pod)
            if self._is_ordered:
                return
        if not self._on_delete:
            self._update(pods)

    def _update(self, pods: dict[int, SimulatedPod]) -> None:
        for number in reversed(range(self._partition, self._cluster.replicas)):
            pod = pods.get(number)
            if pod is None or pod.ends is not None:
                return
            if not self._is_new(pod):
                self._cluster.end_pod(pod)
                return
            if pod.started is None:
                return
        if all(self._is_new(pod) for pod in pods.values()):
            self._current = self._cluster.rolled[-1]

    def spec(self) -> Object:
        update: Object = {"type": "OnDelete"}
        if not self._on_delete:
            update = {"type": "RollingUpdate", "rollingUpdate": {"partition": self._partition}}
        return {
            **super().spec(),
            "podManagementPolicy": "OrderedReady" if self._is_ordered else "Parallel",
            "updateStrategy": update,
        }

    def status(self) -> Object:
        return {
            "replicas": len(self._cluster.pods),
            "updatedReplicas": sum(self._is_new(pod) for pod in self.alive),
            "updateRevision": f"web-{crc32(repr(self._cluster.rolled[-1]).encode()):x}",
        }


class DaemonSetController(WorkloadController):
    """A pod on each node: `replicas` is the number of nodes, which is not part of the spec."""

    kind = "DaemonSet"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._on_delete = cluster.chance.random() < 0.2
        self._surges = not self._on_delete and cluster.chance.random() < 0.3

    @property
    def holds_back(self) -> bool:
        return self._on_delete

    def step(self) -> None:
        cluster = self._cluster
        for pod in self.alive:
            if pod.number >= cluster.replicas:
                cluster.end_pod(pod)
                return
        for number in range(cluster.replicas):
            if not self._on_node(number):
                cluster.make_pod(cluster.rolled[-1], number=number)
                return
        if not self._on_delete:
            self._update()

    def _update(self) -> None:
        """Replace the pod of one node, while those of all others are available."""
        nodes = [self._on_node(number) for number in range(self._cluster.replicas)]
        for pods in nodes:
            new = [pod for pod in pods if pod.ends is None and self._is_new(pod)]
            old = [pod for pod in pods if pod.ends is None and not self._is_new(pod)]
            if len(old) > 1:
                self._cluster.end_pod(old[1])
                return
            if new and old and (old[0].started is None or self._is_available(new)):
                self._cluster.end_pod(old[0])
                return
        if any(not self._is_available(pods) for pods in nodes):
            down = [pod for pods in nodes for pod in pods if pod.started is None]
            old_down = [pod for pod in down if pod.ends is None and not self._is_new(pod)]
            if old_down:  # pods that are not available cost nothing
                self._cluster.end_pod(old_down[0])
            return
        for pods in nodes:
            old = [pod for pod in pods if pod.ends is None and not self._is_new(pod)]
            if not old:
                continue
            if not self._surges:
                self._cluster.end_pod(old[0])
            elif len(pods) == 1:
                self._cluster.make_pod(self._cluster.rolled[-1], number=old[0].number)
            return

    @staticmethod
    def _is_available(pods: list[SimulatedPod]) -> bool:
        return any(pod.ends is None and pod.started is not None for pod in pods)

    def _on_node(self, number: int) -> list[SimulatedPod]:
        return [pod for pod in self._cluster.pods if pod.number == number]

    def spec(self) -> Object:
        update: Object = {"type": "OnDelete"}
        if not self._on_delete:
            bounds = {"maxSurge": 1, "maxUnavailable": 0} if self._surges else {"maxUnavailable": 1}
            update = {"type": "RollingUpdate", "rollingUpdate": bounds}
        return {"updateStrategy": update}

    def status(self) -> Object:
        nodes = [self._on_node(number) for number in range(self._cluster.replicas)]
        there = {pod.number for pod in self._cluster.pods}
        return {
            "desiredNumberScheduled": self._cluster.replicas,
            "currentNumberScheduled": sum(bool(pods) for pods in nodes),
            "numberMisscheduled": len([each for each in there if each >= self._cluster.replicas]),
            # The oldest pod of a node counts.
            "updatedNumberScheduled": sum(bool(pods) and self._is_new(pods[0]) for pods in nodes),
        }

    def annotations(self) -> Object:
        return {"deprecated.daemonset.template.generation": str(self._cluster.revisions)}


#: By kind.
CONTROLLERS: dict[str, type[WorkloadController]] = {
    each.kind: each for each in (DeploymentController, StatefulSetController, DaemonSetController)
}
