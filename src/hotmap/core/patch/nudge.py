"""Nudges: how a pod is told which content it should have, by its annotation `hotmap.dev/target`.

The sequence in it increases with every nudge (`decide.nudge_sequence`), since an equal value would
cause no sync. Whether a pod needs one depends on its last nudge, so a reverted edit is nudged
again. Payload digests (`config_volumes`) are for an agent in the pod; they are not used here. The
fingerprints before are for it too: they name the content that the pod started with.
"""

from __future__ import annotations

from math import floor, inf

from hotmap.core.model.consumer import FIELD_MANAGER
from hotmap.core.model.objects import Pod
from hotmap.core.model.source import parse_time
from hotmap.core.target import TARGET, Target, parse_target

__all__ = [
    "SECOND_NUDGE",
    "can_be_nudged",
    "is_before",
    "is_starting",
    "needs_repetition",
    "nudge_time",
    "read_target",
]

#: Seconds after which a pod is nudged again, since its kubelet may not have seen the change at the
#: first nudge.
SECOND_NUDGE = 2.0

#: Times of managedFields are cut to whole seconds.
_SECOND = 1.0


def read_target(pod: Pod) -> Target | None:
    """Read the target of a pod's last nudge; None if absent or invalid."""
    return parse_target((pod.metadata.annotations or {}).get(TARGET, ""))


def nudge_time(pod: Pod) -> float | None:
    """Return when a pod was last nudged, POSIX seconds of the API server; None: unknown.

    Nudges are all that our field manager writes into pods.
    """
    times = [
        parse_time(entry.time)
        for entry in pod.metadata.managed_fields or ()
        if entry.manager == FIELD_MANAGER and not entry.subresource
    ]
    return max((at for at in times if at is not None), default=None)


def is_before(nudged: float | None, changed: float | None) -> bool:
    """Return whether a nudge was certainly sent before a change, POSIX seconds; None: unknown.

    It may name the desired content all the same, where that has come back since.
    """
    return nudged is not None and changed is not None and nudged + _SECOND < changed


def needs_repetition(nudged: float | None, changed: float | None) -> bool:
    """Return whether a nudge came so soon after a change that a kubelet may not have seen that.

    POSIX seconds, cut to whole ones as in managedFields. None: unknown; -inf: nothing changed.
    """
    if nudged is None or changed is None or changed == -inf:
        return False
    return nudged < floor(changed) + SECOND_NUDGE


#: The phases of pods that run or have run.
_STARTED_PHASES = ("Running", "Succeeded", "Failed")

_MIRROR = "kubernetes.io/config.mirror"


def can_be_nudged(pod: Pod) -> bool:
    """Return whether a nudge can have an effect on a pod.

    Not for mirror pods (their kubelet does not read the API object), terminating and finished
    ones, and those that have not started: they mount the current content at their start.
    """
    return (
        pod.metadata.deletion_timestamp is None
        and pod.status.phase == "Running"
        and _MIRROR not in (pod.metadata.annotations or {})
    )


def is_starting(pod: Pod) -> bool:
    """Return whether a pod may have mounted content and cannot be nudged yet."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in _STARTED_PHASES
