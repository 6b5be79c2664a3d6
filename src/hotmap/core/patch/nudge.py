"""The annotation by which a nudge announces the desired content to a pod.

    hotmap.dev/target: <sequence>/<live fingerprint>/<frozen fingerprint>[/<payload digest>[.…]
                       [/<live fingerprint before>/<frozen fingerprint before>]]

`sequence` increases with every nudge, since an equal value would cause no sync. Whether a pod needs
one depends on its last nudge, so a reverted edit is nudged again. Payload digests
(`config_volumes`) are for an agent in the pod; they are not used here. The fingerprints before are
for it too, in the first nudge of a pod: they name the content that the pod started with.
"""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.model.consumer import FIELD_MANAGER
from hotmap.core.model.objects import Pod
from hotmap.core.model.source import parse_time
from hotmap.core.text import parse_number

__all__ = ["TARGET", "Target", "can_be_nudged", "nudge_time", "read_target"]

TARGET = "hotmap.dev/target"


class Target(NamedTuple):
    """The content that is announced to a pod."""

    sequence: int
    live: str
    frozen: str
    #: One for each of the pod's volumes that consists of ConfigMaps only.
    payloads: tuple[str, ...] = ()
    #: What a pod counted as told that had never been told anything; "" otherwise.
    live_before: str = ""
    frozen_before: str = ""

    def __str__(self) -> str:
        text = f"{self.sequence}/{self.live}/{self.frozen}"
        if self.payloads or self.live_before:
            text += f"/{'.'.join(self.payloads)}"
        return f"{text}/{self.live_before}/{self.frozen_before}" if self.live_before else text

    def names_same_content(self, other: Target) -> bool:
        """Return whether two targets name the same content."""
        return (self.live, self.frozen) == (other.live, other.frozen)


def read_target(pod: Pod) -> Target | None:
    """Read the target of a pod's last nudge; None if absent or invalid."""
    parts = (pod.metadata.annotations or {}).get(TARGET, "").split("/")
    sequence = parse_number(parts[0])
    if len(parts) < 3 or sequence is None:
        return None
    before = parts[4:6] if len(parts) >= 6 else ("", "")
    return Target(sequence, parts[1], parts[2], (), *before)


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
