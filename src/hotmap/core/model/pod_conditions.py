"""What the status of a Pod says of it as a whole."""

from __future__ import annotations

from hotmap.core.model.objects import Pod

__all__ = ["FINISHED", "is_ready"]

#: Phases of pods whose containers run no more and are not restarted.
FINISHED = ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    """Return whether all containers are ready, and the pod's readiness gates too."""
    statuses = pod.status.container_statuses or ()
    conditions = [each.status for each in pod.status.conditions or () if each.type == "Ready"]
    return (
        bool(statuses)
        and all(status.ready for status in statuses)
        and all(status == "True" for status in conditions)
    )
