"""Assigns pods to nodes, by the few rules that apply on one machine.

Filters only, no scores: the node is ready, takes pods, has the labels that `nodeSelector` asks
for and no taint that the pod does not tolerate (kubernetes: pkg/scheduler/framework/plugins:
nodeunschedulable, nodeaffinity, tainttoleration). Affinity terms, resources, ports and
priorities are not looked at; among several fitting nodes the one with the fewest pods wins.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.conditions import find_condition, without_condition
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.pods import is_finished
from hotmap.local.meta import (
    Object,
    ObjectName,
    is_deleted,
    labels_of,
    name_of,
    timestamp,
    uid_of,
)

__all__ = ["Scheduler", "find_unfit_reason"]

_NAME = "default-scheduler"
_MANAGER = "kube-scheduler"

# Every reason for which a node may be refused, in upstream's words, most general first.
_UNSCHEDULABLE = "node(s) were unschedulable"
_UNTOLERATED = "node(s) had untolerated taint(s)"
_SELECTOR = "node(s) didn't match Pod's node affinity/selector"

_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Scheduler(Controller[ObjectName]):
    """Bind pods that name this scheduler, or none."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "scheduler", component=_NAME)
        self._pods = self._informers["pods"]
        self._by_node = self._pods.index(lambda pod: [pod["spec"].get("nodeName") or ""])
        self._nodes = self._informers["nodes"]
        self._pods.subscribe(self._on_pod)
        self._nodes.subscribe(self._on_node)

    async def sync(self, key: ObjectName) -> None:
        """Bind one waiting pod, or report why it has to wait; a node change enqueues it again."""
        pod = self._pods.objects.get(key)
        if pod is None or not _is_unscheduled(pod):
            return
        refusals = {
            name_of(node)[1]: find_unfit_reason(pod, node) for node in self._nodes.objects.values()
        }
        fitting = [name for name, reason in refusals.items() if reason is None]
        if not fitting:
            await self._report_unschedulable(
                pod, _summary(reason for reason in refusals.values() if reason)
            )
            return
        node = min(fitting, key=lambda name: (len(self._by_node.get(name)), name))
        # Someone else bound it, deleted it, or made another of that name: nothing to do here.
        with contextlib.suppress(Conflict, NotFound):
            await self._client.bind(*key, node, uid=uid_of(pod))
            text = f"Successfully assigned {'/'.join(key)} to {node}"
            self._recorder.event(pod, "Normal", "Scheduled", text)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        # Changes of status are ignored: most are this scheduler's own.
        is_news = old is None or (new is not None and old["spec"] != new["spec"])
        if new is not None and is_news and _is_unscheduled(new):
            self._loop.add(name_of(new))

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None or (old is not None and _scheduling_fields(old) == _scheduling_fields(new)):
            return
        for pod in self._by_node.get(""):
            self._on_pod(None, pod)

    async def _report_unschedulable(self, pod: Object, message: str) -> None:
        condition = {
            "type": "PodScheduled",
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


def find_unfit_reason(pod: Object, node: Object) -> str | None:
    """Return why a pod does not fit a node, in upstream's words; None if it fits."""
    if node["spec"].get("unschedulable") and not _tolerates(pod, _UNSCHEDULABLE_TAINT):
        return _UNSCHEDULABLE
    wanted = pod["spec"].get("nodeSelector") or {}
    if not wanted.items() <= labels_of(node).items():
        return _SELECTOR
    taints = list(node["spec"].get("taints") or [])
    if not _is_ready(node):
        # Ours: upstream's node lifecycle controller writes this taint onto the node.
        taints.append(_NOT_READY_TAINT)
    if any(not _tolerates(pod, taint) for taint in taints):
        return _UNTOLERATED
    return None


def _summary(reasons: Iterable[str]) -> str:
    """Summarize why nodes were refused, with counts (kubernetes: framework.FitError)."""
    counts = Counter(reasons)
    if not counts:
        return "no nodes available to schedule pods"
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{counts.total()} nodes are available: {listed}."


def _is_unscheduled(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName", _NAME) == _NAME
        and not is_deleted(pod)
        and not is_finished(pod)
    )


def _scheduling_fields(node: Object) -> tuple[object, ...]:
    """Return what scheduling reads of a node, so that heartbeats cause no sync."""
    return node["spec"], labels_of(node), _is_ready(node)


def _is_ready(node: Object) -> bool:
    ready = find_condition(node.get("status", {}).get("conditions") or [], "Ready")
    return ready is not None and ready["status"] == "True"


def _tolerates(pod: Object, taint: Object) -> bool:
    """kubernetes: api/core/v1/toleration.go, ToleratesTaint; PreferNoSchedule excludes no pod."""
    if taint.get("effect") == "PreferNoSchedule":
        return True
    return any(_matches(toleration, taint) for toleration in pod["spec"].get("tolerations") or [])


def _matches(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
