"""Evictions: deletions of pods that their PodDisruptionBudgets allow.

pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import ApiError, api_error
from hotmap.local.apiserver.status import conflict
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp
from hotmap.local.selectors import matches_label_selector

if TYPE_CHECKING:
    from hotmap.local.apiserver.options import DeleteOptions
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath

__all__ = ["evict"]


_BUDGETS = "poddisruptionbudgets"
# Pods that a budget may be waiting for (MaxDisruptedPodSize).
_MAX_DISRUPTED = 2000
_MANAGER = "kube-apiserver"


async def evict(registry: Registry, path: ResourcePath, options: DeleteOptions) -> None:
    """Delete the pod of a path unless its budget does not allow that.

    Raises:
        NotFound: there is no such pod.
        ApiError: 429, its budget allows no disruption now; 500, it has several budgets.
    """
    pod = registry.reader.get(path)
    if not _can_ignore_budgets(pod):
        await _spend(registry, path.namespace, pod, options)
    if not options.dry_run:
        announced = await _announce(registry, path, options)
        if options.resource_version:
            version = announced["metadata"]["resourceVersion"]
            options = options._replace(resource_version=version)
    await registry.admitted.delete(path._replace(subresource=""), options)


def _can_ignore_budgets(pod: JsonObject) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


async def _spend(
    registry: Registry, namespace: str | None, pod: JsonObject, options: DeleteOptions
) -> None:
    """Take one disruption from the budget of a pod, if it has one."""
    labels = pod["metadata"].get("labels") or {}
    found = (await registry.list(_BUDGETS, namespace)).items
    budgets = [
        budget
        for budget in found
        if (selector := (budget.get("spec") or {}).get("selector")) is not None
        and matches_label_selector(selector, labels)
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
        raise api_error(500, text)
    budget = budgets[0]
    spec, status = budget["spec"], budget.get("status") or {}
    if not _is_ready(pod):
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy == "AlwaysAllow" or (healthy >= desired and desired > 0):
            return
    _check_allowance(budget)
    if options.dry_run:
        return
    now, name = timestamp(registry.now()), pod["metadata"]["name"]

    def change(obj: JsonObject) -> JsonObject:
        _check_allowance(obj)
        obj["status"]["disruptionsAllowed"] -= 1
        obj["status"].setdefault("disruptedPods", {})[name] = now
        return obj

    await registry.modify(
        _BUDGETS, namespace, budget["metadata"]["name"], change, subresource="status",
        manager=_MANAGER,
    )  # fmt: skip


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _check_allowance(budget: JsonObject) -> None:
    metadata, status = budget["metadata"], budget.get("status") or {}
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(text, 10)
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise api_error(403, f'poddisruptionbudget.policy "{name}" is forbidden: {why}')
    if status.get("disruptionsAllowed", 0) > 0:
        return
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        text = (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    else:
        text = f"The disruption budget {name} does not allow evicting pods currently"
    raise _too_many(text, 0)


def _too_many(text: str, after: int) -> ApiError:
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    error = api_error(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        reason="TooManyRequests",
        details=details,
    )
    if after:
        error.retry_after = after
    return error


async def _announce(registry: Registry, path: ResourcePath, options: DeleteOptions) -> JsonObject:
    """Report in the pod's status why it is deleted (addConditionAndDeletePod).

    Raises:
        Conflict: it is not the pod, or the version of it, that was decided on.
    """
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": timestamp(registry.now()),
    }

    def change(pod: JsonObject) -> JsonObject:
        metadata = pod["metadata"]
        stale = options.resource_version not in (None, "", metadata["resourceVersion"])
        if stale or options.uid not in (None, "", metadata["uid"]):
            raise conflict(path.kind, path.name)
        status = pod.setdefault("status", {})
        others = [c for c in status.get("conditions") or () if c.get("type") != condition["type"]]
        status["conditions"] = [*others, condition]
        return pod

    return await registry.modify(
        "pods", path.namespace, path.name, change, subresource="status", manager=_MANAGER
    )
