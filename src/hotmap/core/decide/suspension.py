"""Holds all actions of a workload that a user has suspended, such as during an incident.

The change stays unrecorded, so what is true when the suspension ends is applied then.
"""

from __future__ import annotations

from hotmap.core.decide.plan import ActionType, Plan

__all__ = ["suspend"]


def suspend(plan: Plan, suspended_by: str) -> Plan:
    """Remove the actions of a plan while its workload is suspended; Events are still written.

    `suspended_by` is the annotation that suspends it, "" for none.
    """
    acts = any(action.type is not ActionType.NOTIFY for action in plan.actions)
    if not suspended_by or not acts:
        return plan
    reason = f"{plan.cause or plan.reason}: suspended by {suspended_by}"
    return plan._replace(actions=(), reason=reason, settles=False, warning=True, requeue_after=None)
