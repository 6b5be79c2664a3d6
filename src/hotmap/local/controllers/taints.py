"""Which taints of nodes a pod tolerates (kubernetes: api/core/v1/toleration.go, ToleratesTaint)."""

from __future__ import annotations

from collections.abc import Iterable

from hotmap.local.meta import Object

__all__ = ["tolerates"]


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Return whether a pod may be on a node in spite of a taint; PreferNoSchedule excludes none."""
    if taint.get("effect") == "PreferNoSchedule":
        return True
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
