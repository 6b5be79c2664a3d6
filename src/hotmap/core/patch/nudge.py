"""The annotation by which a nudge tells a pod what it should come to hold.

    hotmap.dev/target: <seq>/<live fingerprint>/<frozen fingerprint>[/<payload digest>[.…]]

`seq` rises with every send, since an equal value would be no change and so no sync. Which pods
need one is decided per pod by what it was last told, so an edit that is taken back is nudged back.
Payload digests (`config_volumes`) are for an agent in the pod; nothing is decided by them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.decide.snapshot import SourceSnapshot
from hotmap.core.fingerprint import FingerprintKey, combine
from hotmap.core.model.objects import Pod
from hotmap.core.model.state import Record

__all__ = ["TARGET", "Target", "can_be_nudged", "desired_target", "read_target", "recorded_target"]

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


def desired_target(snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str) -> Target:
    """Combine what is there now for one consumer; sequence 0."""
    live = [(str(p.source), p.live) for p in snapshots if p.live]
    frozen = [(str(p.source), p.frozen) for p in snapshots if p.frozen]
    return _target(live, frozen, key, uid)


def recorded_target(
    record: Record | None, snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str
) -> Target | None:
    """Combine what was last asked for, of the sources that are in use now; None: not known."""
    known = {(s.kind, s.name): s for s in record.sources} if record else {}
    live: list[tuple[str, str]] = []
    frozen: list[tuple[str, str]] = []
    for present in snapshots:
        asked = known.get((present.source.kind, present.source.name))
        if asked is None or asked.uses != present.digest:
            return None
        if asked.live:
            live.append((str(present.source), asked.live))
        if asked.frozen:
            frozen.append((str(present.source), asked.frozen))
    return _target(live, frozen, key, uid)


def _target(
    live: Sequence[tuple[str, str]],
    frozen: Sequence[tuple[str, str]],
    key: FingerprintKey,
    uid: str,
) -> Target:
    def text(parts: Sequence[tuple[str, str]]) -> str:
        return combine(key, [piece for part in parts for piece in part], uid=uid) if parts else "-"

    return Target(0, text(live), text(frozen))


def read_target(pod: Pod) -> Target | None:
    """Read what a pod was last told; None when it was told nothing that can be read."""
    parts = (pod.metadata.annotations or {}).get(TARGET, "").split("/")
    if len(parts) < 3 or not parts[0].isdigit():
        return None
    return Target(int(parts[0]), parts[1], parts[2])


_MIRROR = "kubernetes.io/config.mirror"


def can_be_nudged(pod: Pod) -> bool:
    """Tell whether a nudge can do anything for a pod.

    Not for mirror pods (their kubelet does not read the API object), terminating and finished
    ones, and those that have not started: they mount what is there when they do.
    """
    return (
        pod.metadata.deletion_timestamp is None
        and pod.status.phase == "Running"
        and _MIRROR not in (pod.metadata.annotations or {})
    )
