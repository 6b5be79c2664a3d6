"""Keeps the status of PodDisruptionBudgets: how many of their pods may be disrupted now.

kubernetes: pkg/controller/disruption. Evictions are not counted, since the local API server asks no
budgets; pods without a controller are expected as they are.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.conditions import find_condition, without_condition
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.pods import is_ready
from hotmap.local.controllers.rolling import spec_replicas
from hotmap.local.informer import by_namespace
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    controller_of,
    is_deleted,
    labels_of,
    name_of,
    timestamp,
)
from hotmap.local.selectors import matches_label_selector

__all__ = ["DisruptionController"]

_BUDGETS = "poddisruptionbudgets"


class DisruptionController(Controller[ObjectName]):
    """Write down how many pods of each budget are healthy, and how many may be disrupted."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "disruption")
        self._budgets = self._informers[_BUDGETS]
        self._budgets_in_namespace = self._budgets.index(by_namespace)
        self._pods = self._informers["pods"]
        self._pods_in_namespace = self._pods.index(by_namespace)
        self._owners = {
            "ReplicaSet": self._informers["replicasets"],
            "Deployment": self._informers["deployments"],
            "StatefulSet": self._informers["statefulsets"],
        }
        self._budgets.subscribe(self._add_changed)
        self._pods.subscribe(self._on_pod)
        for informer in self._owners.values():
            informer.subscribe(self._on_owner)

    async def sync(self, key: ObjectName) -> None:
        """Bring the status of one budget up to date."""
        budget = self._budgets.objects.get(key)
        if budget is None or is_deleted(budget):
            return
        pods = [pod for pod in self._pods_in_namespace.get(key[0]) if _selects(budget, pod)]
        expected, required = self._requirement(budget, pods)
        healthy = sum(is_ready(pod) and not is_deleted(pod) for pod in pods)
        status = _status(
            budget,
            expected=expected,
            required=required,
            healthy=healthy,
            now=timestamp(self._clock()),
        )
        if status == budget.get("status"):
            return
        changed = {**budget, "status": status}
        with contextlib.suppress(NotFound, Conflict):  # the informer shows it soon, and it is next
            await self._client.update(
                _BUDGETS, *name_of(budget), changed, subresource="status", manager=MANAGER
            )

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        for pod in filter(None, (old, new)):
            for budget in self._budgets_in_namespace.get(pod["metadata"]["namespace"]):
                if _selects(budget, pod):
                    self._loop.add(name_of(budget))

    def _on_owner(self, old: Object | None, new: Object | None) -> None:
        owner = new or old
        if owner is not None:
            for budget in self._budgets_in_namespace.get(owner["metadata"]["namespace"]):
                self._loop.add(name_of(budget))

    def _requirement(self, budget: Object, pods: Sequence[Object]) -> tuple[int, int]:
        """Return how many pods are expected, and how many have to be healthy."""
        spec = budget.get("spec") or {}
        if spec.get("maxUnavailable") is not None:
            expected = self._expected_scale(pods)
            return expected, max(0, expected - _scaled(spec["maxUnavailable"], expected))
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, int):
            return len(pods), minimum
        expected = self._expected_scale(pods)
        return expected, _scaled(minimum, expected)

    def _expected_scale(self, pods: Sequence[Object]) -> int:
        """Add up the replicas of the controllers of pods; each counts once."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner, found = controller_of(pod), None
            if owner is not None:
                found = self._find_owner(pod, owner)
            if found is not None and (parent := controller_of(found)) is not None:
                found = self._find_owner(found, parent) or found
            uid = (found or pod)["metadata"]["uid"]
            scales[uid] = spec_replicas(found) if found is not None else 1
        return sum(scales.values())

    def _find_owner(self, obj: Object, reference: Object) -> Object | None:
        informer = self._owners.get(reference["kind"])
        if informer is None:
            return None
        found = informer.objects.get((obj["metadata"]["namespace"], reference["name"]))
        return found if found and found["metadata"]["uid"] == reference["uid"] else None


def _selects(budget: Object, pod: Object) -> bool:
    """Return whether a budget selects a pod; an absent selector selects none, an empty one all."""
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and matches_label_selector(selector, labels_of(pod))


def _scaled(value: int | str, total: int) -> int:
    """Resolve an int-or-percent, rounded up (intstr.GetScaledValueFromIntOrPercent)."""
    if isinstance(value, int):
        return value
    return math.ceil(int(value.rstrip("%")) * total / 100)


def _status(budget: Object, *, expected: int, required: int, healthy: int, now: str) -> Object:
    allowed = max(0, healthy - required) if expected > 0 else 0
    before = budget.get("status") or {}
    generation = budget["metadata"].get("generation", 0)
    status = {
        **before,
        "currentHealthy": healthy,
        "desiredHealthy": required,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
    }
    condition = {
        "type": "DisruptionAllowed",
        "observedGeneration": generation,
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "lastTransitionTime": now,
    }
    conditions = before.get("conditions") or []
    present = find_condition(conditions, condition["type"])
    if present is not None and present["status"] == condition["status"]:
        condition["lastTransitionTime"] = present["lastTransitionTime"]
    # Not `set_condition`, which keeps an older generation (apimachinery: SetStatusCondition).
    return status | {"conditions": [*without_condition(conditions, condition["type"]), condition]}
