"""Gates that keep a pod from being scheduled until all are removed (KEP-3521, KEP-3838).

pkg/registry/core/pod/strategy.go, applySchedulingGatedCondition; ValidatePodUpdate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.field_errors import FieldError, forbidden_field, invalid_value
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["gate_update_errors", "gated_condition", "gated_node_errors", "with_gated_changes"]


_GATES = "schedulingGates"


def gated_condition(now: str) -> JsonObject:
    """Make the condition of a new pod that has gates."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def gated_node_errors(spec: JsonObject) -> list[FieldError]:
    """Refuse a new pod that has a node and gates."""
    if not (spec.get(_GATES) and spec.get("nodeName")):
        return []
    why = "cannot be set until all schedulingGates have been cleared"
    return [forbidden_field("spec.nodeName", why)]


def gate_update_errors(before: JsonObject, after: JsonObject) -> Iterator[FieldError]:
    """Gates can be removed only; meanwhile `nodeSelector` may become narrower."""
    known = [gate["name"] for gate in before.get(_GATES) or ()]
    for index, gate in enumerate(after.get(_GATES) or ()):
        if gate["name"] not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield forbidden_field(f"spec.{_GATES}[{index}].name", why)
    old, new = before.get("nodeSelector") or {}, after.get("nodeSelector")
    if known and not old.items() <= (new or {}).items():
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", new, why)


def with_gated_changes(before: JsonObject, after: JsonObject) -> JsonObject:
    """Return the old spec with those changes that `gate_update_errors` has checked.

    Of the affinity only a first one; what upstream lets be added to one is refused.
    """
    taken = [_GATES]
    if before.get(_GATES):
        taken += ["nodeSelector", *(["affinity"] if "affinity" not in before else [])]
    changes = {field: after[field] for field in taken if field in after}
    return {**{field: value for field, value in before.items() if field not in taken}, **changes}
