"""PodDisruptionBudgets (pkg/apis/policy/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.kinds.workload import bound_errors, share_errors
from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import FieldError, invalid_value, unsupported
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator


def budget_errors(budget: JsonObject) -> Iterator[FieldError]:
    """Check a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield invalid_value("spec", shown, why)
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from bound_errors(spec[field], f"spec.{field}")
            yield from share_errors(spec[field], f"spec.{field}")
    yield from selector_errors(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    known = ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in known:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, known)
