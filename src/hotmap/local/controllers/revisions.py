"""Which revision of a Deployment a ReplicaSet holds, and which old ones are kept.

`kubectl rollout history` and `undo` read nothing but these annotations (kubernetes:
kubectl/pkg/polymorphichelpers/history.go; pkg/controller/deployment/util/deployment_util.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hotmap.local.controllers.rolling import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    spec_replicas,
    status_replicas,
)
from hotmap.local.meta import (
    Object,
    annotations_of,
    created_at,
    is_deleted,
    name_of,
)

__all__ = [
    "REVISION",
    "REVISION_HISTORY",
    "latest_revision",
    "outdated_replica_sets",
    "revision_annotations",
    "revision_number",
]

REVISION = "deployment.kubernetes.io/revision"
#: Earlier revisions that the same ReplicaSet has served, oldest first, separated by commas.
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"

# What a Deployment does not pass on to its ReplicaSets: what they note themselves, kubectl's own
# record, and the annotation of the removed rollback API.
_NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    )
)

# Characters; upstream's bound, so that endless undoing and redoing cannot fill the annotation.
_HISTORY_LIMIT = 2000


def revision_number(replica_set: Object) -> int:
    """Return the revision a ReplicaSet holds; 0 when it carries none, or no number."""
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def latest_revision(replica_sets: Iterable[Object]) -> int:
    return max(map(revision_number, replica_sets), default=0)


def revision_annotations(
    deployment: Object, present: Mapping[str, str], revision: int
) -> dict[str, str]:
    """Return the annotations the new ReplicaSet should carry, given those it has.

    The Deployment's are copied over, none is ever removed. The revision only rises: when old
    ReplicaSets are gone the next number may be smaller than the one already held. A ReplicaSet
    that is used again (an undo) gets the new number, and its earlier one joins its history.
    """
    copied = {key: v for key, v in annotations_of(deployment).items() if key not in _NOT_COPIED}
    annotations = {**present, **copied}
    held = present.get(REVISION, "")
    if held and not held.isdecimal():
        return annotations
    if int(held or 0) < revision:
        annotations[REVISION] = str(revision)
        if held:
            annotations[REVISION_HISTORY] = _extended(present.get(REVISION_HISTORY, ""), held)
    return annotations


def outdated_replica_sets(old: Sequence[Object], limit: int | None) -> list[Object]:
    """Choose which old ReplicaSets to delete so that *limit* of them remain.

    The lowest revisions go first. One that has or wants pods, or whose controller has not caught
    up with its spec, stays although it is in the count, so that more than *limit* may remain
    (kubernetes: sync.go, cleanupDeployment). No limit, no deletions.
    """
    if limit is None:
        return []
    kept = [rs for rs in old if not is_deleted(rs)]
    surplus = len(kept) - limit
    if surplus <= 0:
        return []
    kept.sort(key=lambda rs: (revision_number(rs), created_at(rs), name_of(rs)))
    return [rs for rs in kept[:surplus] if _is_idle(rs)]


def _extended(history: str, revision: str) -> str:
    revisions = [*history.split(","), revision] if history else [revision]
    while len(",".join(revisions)) > _HISTORY_LIMIT:
        revisions.pop(0)
    return ",".join(revisions)


def _is_idle(replica_set: Object) -> bool:
    observed = replica_set.get("status", {}).get("observedGeneration") or 0
    return (
        spec_replicas(replica_set) == 0
        and status_replicas(replica_set) == 0
        and replica_set["metadata"].get("generation", 0) <= observed
    )
