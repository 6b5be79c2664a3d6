"""Lists of status conditions: finding, setting and dropping one type.

The rules of when times move are those of Deployments and ReplicaSets (kubernetes:
pkg/controller/deployment/util/deployment_util.go, SetDeploymentCondition).
"""

from __future__ import annotations

from collections.abc import Iterable

from hotmap.local.meta import Object

__all__ = ["find_condition", "set_condition", "without_condition"]


def find_condition(conditions: Iterable[Object], kind: str) -> Object | None:
    return next((condition for condition in conditions if condition["type"] == kind), None)


def without_condition(conditions: Iterable[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition["type"] != kind]


def set_condition(conditions: list[Object], condition: Object) -> list[Object]:
    """Return the list with *condition* in place of the one of its type.

    Same status and reason: the old one stays as it is, message and times included. Same status
    only: lastTransitionTime is kept, since it moves with the status alone.
    """
    present = find_condition(conditions, condition["type"])
    if present is not None and present["status"] == condition["status"]:
        if present.get("reason") == condition.get("reason"):
            return conditions
        condition = {**condition, "lastTransitionTime": present["lastTransitionTime"]}
    return [*without_condition(conditions, condition["type"]), condition]
