"""The annotation by which a nudge tells a pod what it should come to hold.

    hotmap.dev/target: <seq>/<live fingerprint>/<frozen fingerprint>[/<payload digest>[.…]]

`seq` rises with every send, since an equal value would be no change and so no sync. Which pods
need one is decided per pod by what it was last told, so an edit that is taken back is nudged back.
Payload digests (`config_volumes`) are for an agent in the pod; nothing is decided by them here.
"""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.model.objects import Pod
from hotmap.core.text import parse_number

__all__ = ["TARGET", "Target", "can_be_nudged", "read_target"]

TARGET = "hotmap.dev/target"


class Target(NamedTuple):
    """What a pod is told."""

    sequence: int
    live: str
    frozen: str
    #: One for each of the pod's volumes that is made of ConfigMaps alone.
    payloads: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.sequence}/{self.live}/{self.frozen}"
        return f"{text}/{'.'.join(self.payloads)}" if self.payloads else text


def read_target(pod: Pod) -> Target | None:
    """Read what a pod was last told; None when it was told nothing that can be read."""
    parts = (pod.metadata.annotations or {}).get(TARGET, "").split("/")
    sequence = parse_number(parts[0])
    if len(parts) < 3 or sequence is None:
        return None
    return Target(sequence, parts[1], parts[2])


_MIRROR = "kubernetes.io/config.mirror"


def can_be_nudged(pod: Pod) -> bool:
    """Return whether a nudge can do anything for a pod.

    Not for mirror pods (their kubelet does not read the API object), terminating and finished
    ones, and those that have not started: they mount what is there when they do.
    """
    return (
        pod.metadata.deletion_timestamp is None
        and pod.status.phase == "Running"
        and _MIRROR not in (pod.metadata.annotations or {})
    )
