"""The status of a DaemonSet (kubernetes: daemon_controller.go, updateDaemonSetStatus)."""

from __future__ import annotations

from hotmap.local.controllers.daemonset.plan import DaemonSetView
from hotmap.local.controllers.pods import is_ready
from hotmap.local.meta import Object

__all__ = ["daemon_set_status"]

_ALWAYS_WRITTEN = (
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberMisscheduled",
    "numberReady",
)


def daemon_set_status(view: DaemonSetView) -> Object:
    """Count nodes by the oldest pod of each; other fields are kept, zeros left out as by Go."""
    owner, pods = view.owner, view.pods_by_node()
    placements = view.placements()
    wanted = [name for name, placement in placements.items() if placement == "run"]
    scheduled = [pods[name][0] for name in wanted if name in pods]
    ready = [pod for pod in scheduled if is_ready(pod)]
    available = sum(map(view.is_available, ready))
    counts = {
        "currentNumberScheduled": len(scheduled),
        "numberMisscheduled": sum(
            name in pods for name, placement in placements.items() if placement != "run"
        ),
        "desiredNumberScheduled": len(wanted),
        "numberReady": len(ready),
        "observedGeneration": owner["metadata"].get("generation", 0),
        "updatedNumberScheduled": sum(map(view.is_updated, scheduled)),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
    others = {
        field: value for field, value in (owner.get("status") or {}).items() if field not in counts
    }
    written = {field: count for field, count in counts.items() if count or field in _ALWAYS_WRITTEN}
    return {**written, **others}
