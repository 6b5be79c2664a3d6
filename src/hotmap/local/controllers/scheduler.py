"""Assigns pods to nodes, by the few rules that apply on one machine.

Filters only, no scores: the pod's claims are bound or wait for a node, the node is ready, takes
pods, is one that `nodeSelector` and required node affinity ask for, has no taint that the pod does
not tolerate, free host ports, fewer pods than it allows, and reaches the pod's volumes (kubernetes:
pkg/scheduler/framework/plugins: nodeunschedulable, nodeaffinity, tainttoleration, nodeports,
noderesources, volumebinding). Other affinities and resources and priorities are not looked at;
among several fitting nodes the one with the fewest pods wins.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.conditions import find_condition, without_condition
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.node_affinity import matches_node_affinity
from hotmap.local.controllers.pods import is_finished
from hotmap.local.controllers.taints import tolerates
from hotmap.local.controllers.volumes.matching import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_bound_to,
    reference_of,
)
from hotmap.local.controllers.volumes.pod_claims import PodClaims, find_claim_problem
from hotmap.local.controllers.waiting_pods import WaitingPods
from hotmap.local.host_ports import NO_FREE_PORTS, HostPort, collides, host_ports
from hotmap.local.meta import (
    Object,
    ObjectName,
    annotations_of,
    is_deleted,
    labels_of,
    name_of,
    timestamp,
    uid_of,
    with_metadata,
)
from hotmap.local.quantity import parse_quantity
from hotmap.local.volume_claims import claim_names

__all__ = ["Scheduler", "find_unfit_reason"]

_NAME = "default-scheduler"
_MANAGER = "kube-scheduler"

# Every reason for which a node may be refused, in upstream's words, most general first.
_UNSCHEDULABLE = "node(s) were unschedulable"
_UNTOLERATED = "node(s) had untolerated taint(s)"
_SELECTOR = "node(s) didn't match Pod's node affinity/selector"
_TOO_MANY_PODS = "Too many pods"

# What preemption says of a node where it removes nothing (kubernetes: framework/preemption).
_NO_VICTIMS = "No preemption victims found for incoming pod"
_PREEMPTION_HELPLESS = "Preemption is not helpful for scheduling"

_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Scheduler(Controller[ObjectName]):
    """Bind pods that name this scheduler, or none."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "scheduler", component=_NAME)
        self._pods = self._informers["pods"]
        self._by_node = self._pods.index(_node_of_unfinished)
        #: uid → pod with its node; the cache has not seen its binding yet (kubernetes: AssumePod).
        self._assumed: dict[str, tuple[Object, str]] = {}
        self._waiting = WaitingPods()
        self._waiting_for_ports = WaitingPods()
        self._nodes = self._informers["nodes"]
        self._pods.subscribe(self._on_pod)
        self._nodes.subscribe(self._on_node)
        claims, volumes, classes = (
            self._informers[resource]
            for resource in ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
        )
        self._claims = PodClaims(claims.objects, volumes.objects, classes.objects)
        claims.subscribe(self._on_claim)
        volumes.subscribe(self._on_volume)
        classes.subscribe(self._on_volume)

    async def sync(self, key: ObjectName) -> None:
        """Bind one waiting pod, or report why it has to wait; a node change enqueues it again."""
        pod = self._pods.objects.get(key)
        if pod is not None and _is_unscheduled(pod):
            await self._schedule(pod)
        # This pod may have left the room to another for which it was enqueued.
        for node in self._waiting.nodes():
            self._use_room(node)

    async def _schedule(self, pod: Object) -> None:
        key = name_of(pod)
        problem = find_claim_problem(pod, self._claims)
        if problem is not None:
            await self._report_unschedulable(pod, _claim_summary(problem, len(self._nodes.objects)))
            return
        counts = self._count_pods()
        refusals = {
            name: find_unfit_reason(
                pod, node, pods=counts[name], used_ports=self._used_ports(pod, name)
            )
            or self._claims.unfit_reason(pod, node)
            for (_, name), node in self._nodes.objects.items()
        }
        fitting = [name for name, reason in refusals.items() if reason is None]
        if not fitting:
            for waiting, reason in (
                (self._waiting, _TOO_MANY_PODS),
                (self._waiting_for_ports, NO_FREE_PORTS),
            ):
                waiting.add(key, [name for name, why in refusals.items() if why == reason])
            await self._report_unschedulable(
                pod, _summary(reason for reason in refusals.values() if reason)
            )
            return
        node = min(fitting, key=lambda name: (counts[name], name))
        unbound = self._claims.unbound(pod)
        if unbound:
            # The pod is enqueued again by each of them that is bound.
            for claim in unbound:
                await self._place_claim(claim, self._nodes.objects["", node])
            return
        self._assumed[uid_of(pod)] = pod, node
        # Someone else bound it, deleted it, or made another of that name: nothing to do here.
        with contextlib.suppress(Conflict, NotFound):
            try:
                await self._client.bind(*key, node, uid=uid_of(pod))
            except BaseException:
                self._assumed.pop(uid_of(pod), None)
                raise
            text = f"Successfully assigned {'/'.join(key)} to {node}"
            self._recorder.event(pod, "Normal", "Scheduled", text)

    async def _place_claim(self, claim: Object, node: Object) -> None:
        """Reserve a volume for a claim whose consumer gets a node, or ask for one on that node."""
        volume = self._claims.volume_on(claim, node)
        if volume is not None:

            def reserve(obj: Object) -> Object | None:
                if obj["spec"].get("claimRef"):
                    if not is_bound_to(obj, claim):
                        raise Conflict(f"volume {obj['metadata']['name']} was taken")
                    return None
                annotations = {**annotations_of(obj), BOUND_BY_CONTROLLER: "yes"}
                spec = {**obj["spec"], "claimRef": reference_of(claim)}
                return {**with_metadata(obj, annotations=annotations), "spec": spec}

            name = volume["metadata"]["name"]
            await self._client.modify("persistentvolumes", None, name, reserve, manager=_MANAGER)
            return

        def select(obj: Object) -> Object | None:
            present = annotations_of(obj)
            if SELECTED_NODE in present or uid_of(obj) != uid_of(claim):
                return None
            name = node["metadata"]["name"]
            return with_metadata(obj, annotations={**present, SELECTED_NODE: name})

        with contextlib.suppress(NotFound):
            await self._client.modify(
                "persistentvolumeclaims", *name_of(claim), select, manager=_MANAGER
            )

    def _used_ports(self, pod: Object, node: str) -> frozenset[HostPort]:
        """Return the ports that are taken on a node, where a pod asks for any."""
        if not host_ports(pod):
            return frozenset()
        others = [each for each, where in self._assumed.values() if where == node]
        others += self._by_node.get(node)
        return frozenset(
            port for other in others if uid_of(other) != uid_of(pod) for port in host_ports(other)
        )

    def _count_pods(self) -> Counter[str]:
        """Count the pods of each node, also those that were bound a moment ago."""
        counts = Counter(node for _, node in self._assumed.values())
        counts.update({name: self._by_node.count(name) for _, name in self._nodes.objects})
        return counts

    def _use_room(self, node: str) -> None:
        """Enqueue one pod that waits for room on a node if there is some.

        One at a time: its sync looks again, so that many waiting pods cost nothing while the node
        is full (kubernetes: the queueing hints of NodeResourcesFit).
        """
        known = self._nodes.objects.get(("", node))
        if known is not None and self._count_pods()[node] < _allowed_pods(known):
            key = self._waiting.take(node)
            if key is not None:
                self._loop.add(key)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None or new["spec"].get("nodeName"):
            self._on_bound_or_deleted(old, new)
            return
        # Changes of status are ignored: most are this scheduler's own.
        is_news = old is None or old["spec"] != new["spec"]
        if is_news and _is_unscheduled(new):
            self._loop.add(name_of(new))

    def _on_bound_or_deleted(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        self._assumed.pop(uid_of(pod), None)
        self._waiting.remove(name_of(pod))
        self._waiting_for_ports.remove(name_of(pod))
        if old is not None and _node_of_unfinished(old) and (new is None or is_finished(new)):
            node = old["spec"].get("nodeName") or ""
            self._use_room(node)
            while host_ports(old) and (key := self._waiting_for_ports.take(node)) is not None:
                self._loop.add(key)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None or (old is not None and _scheduling_fields(old) == _scheduling_fields(new)):
            return
        for pod in self._by_node.get(""):
            if _is_unscheduled(pod):
                self._loop.add(name_of(pod))

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        """Enqueue the waiting pods that use a claim, after any change of it."""
        claim = new or old
        assert claim is not None
        namespace, name = name_of(claim)
        for pod in self._by_node.get(""):
            if pod["metadata"]["namespace"] == namespace and name in claim_names(pod):
                self._loop.add(name_of(pod))

    def _on_volume(self, old: Object | None, new: Object | None) -> None:
        """Enqueue the waiting pods with claims: a volume or a class may be what they wait for."""
        for pod in self._by_node.get(""):
            if _is_unscheduled(pod) and any(claim_names(pod)):
                self._loop.add(name_of(pod))

    async def _report_unschedulable(self, pod: Object, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(self._clock()),
            "reason": "Unschedulable",
            "message": message,
        }

        def mark_unschedulable(obj: Object) -> Object | None:
            status = obj.get("status", {})
            present = find_condition(status.get("conditions") or [], "PodScheduled")
            if uid_of(obj) != uid_of(pod) or not _is_unscheduled(obj):
                return None
            if present is not None and present.get("message") == message:
                return None
            others = without_condition(status.get("conditions") or [], "PodScheduled")
            return {**obj, "status": {**status, "conditions": [*others, condition]}}

        self._recorder.event(pod, "Warning", "FailedScheduling", message)
        with contextlib.suppress(NotFound):
            await self._client.modify(
                "pods", *name_of(pod), mark_unschedulable, subresource="status", manager=_MANAGER
            )


def find_unfit_reason(
    pod: Object, node: Object, *, pods: int = 0, used_ports: Collection[HostPort] = ()
) -> str | None:
    """Return why a pod does not fit a node that has *pods*, in upstream's words; None if it fits.

    The number of pods comes last, as in upstream's filters: a pod that is refused for it waits for
    nothing else.
    """
    spec = node.get("spec", {})
    tolerations = pod["spec"].get("tolerations") or []
    if spec.get("unschedulable") and not tolerates(tolerations, _UNSCHEDULABLE_TAINT):
        return _UNSCHEDULABLE
    if not matches_node_affinity(pod["spec"], node):
        return _SELECTOR
    taints = list(spec.get("taints") or [])
    if not _is_ready(node):
        # Ours: upstream's node lifecycle controller writes this taint onto the node.
        taints.append(_NOT_READY_TAINT)
    if any(not tolerates(tolerations, taint) for taint in taints):
        return _UNTOLERATED
    if collides(host_ports(pod), used_ports):
        return NO_FREE_PORTS
    if pods >= _allowed_pods(node):
        return _TOO_MANY_PODS
    return None


def _summary(reasons: Iterable[str]) -> str:
    """Summarize why nodes were refused, with counts (kubernetes: framework.FitError)."""
    counts = Counter(reasons)
    if not counts:
        return "no nodes available to schedule pods"
    # Preemption is not built: it would only help among pods of several priorities.
    full = counts[_TOO_MANY_PODS] + counts[NO_FREE_PORTS]
    helpless = Counter({_NO_VICTIMS: full})
    helpless[_PREEMPTION_HELPLESS] = counts.total() - full
    total = counts.total()
    return (
        f"0/{total} nodes are available: {_histogram(counts)} no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {_histogram(helpless)}"
    )


def _claim_summary(problem: str, nodes: int) -> str:
    """Summarize a problem with a claim, which no node can solve; the end is upstream's."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    return f"0/{nodes} nodes are available: {problem}. not found"


def _histogram(reasons: Counter[str]) -> str:
    listed = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{', '.join(listed)}."


def _node_of_unfinished(pod: Object) -> list[Hashable]:
    """Index unfinished pods by their node, "" for none: finished ones take no room."""
    return [] if is_finished(pod) else [pod["spec"].get("nodeName") or ""]


def _allowed_pods(node: Object) -> float:
    """Return how many pods a node takes; one that does not state it, any number.

    Ours: upstream takes an absent number for 0, but kubelets always state it.
    """
    allocatable = node.get("status", {}).get("allocatable") or {}
    return float(parse_quantity(allocatable["pods"])) if "pods" in allocatable else math.inf


def _is_unscheduled(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", _NAME) == _NAME
        and not is_deleted(pod)
        and not is_finished(pod)
    )


def _scheduling_fields(node: Object) -> tuple[object, ...]:
    """Return what scheduling reads of a node, so that heartbeats cause no sync."""
    return node.get("spec"), labels_of(node), _is_ready(node), _allowed_pods(node)


def _is_ready(node: Object) -> bool:
    ready = find_condition(node.get("status", {}).get("conditions") or [], "Ready")
    return ready is not None and ready["status"] == "True"
