"""The parts of the documents of /v1/status, as JSON values; docs/reference/status.md explains them.

They contain names, times and fingerprints only; values are not kept anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hotmap.controller.report.decision_log import DecisionEntry
from hotmap.controller.watch.observation import FollowedSource
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.errors import HotmapError
from hotmap.core.status.consumer import State
from hotmap.core.status.pod_check import PodCheckResult
from hotmap.core.status.pods import PodProof
from hotmap.core.status.stage import Stage
from hotmap.core.text import printable

__all__ = [
    "LONGEST_REVISION",
    "counts_document",
    "decision_entry_document",
    "pods_document",
    "source_document",
    "source_name_document",
]

#: Pods in one document; more are counted and not shown.
_MAX_PODS = 1000

#: Characters of a revision: a pod template may have any other text in that annotation.
LONGEST_REVISION = 64


def source_name_document(source: FollowedSource | SourceSnapshot) -> dict[str, Any]:
    """Name a source, and say whether it is there."""
    return {
        "kind": source.source.kind,
        "name": source.source.name,
        "exists": source.exists,
        "visible": source.visible,
    }


def source_document(source: SourceSnapshot) -> dict[str, Any]:
    """Describe a source as the controller has it, which shows whether it has seen an edit."""
    return {
        **source_name_document(source),
        "resourceVersion": source.resource_version,
        "changedAt": source.changed_at,
        "read": [*(["start"] if source.frozen else []), *(["files"] if source.live else [])],
    }


def pods_document(result: PodCheckResult | HotmapError) -> dict[str, Any]:
    """Describe the pods of a consumer, or why they could not be listed."""
    if isinstance(result, HotmapError):
        return {"desired": None, "pods": [], "podsError": printable(str(result))}
    desired = result.desired.revision
    return {
        "desired": desired,
        "podCount": len(result.pods),
        "pods": [_pod_document(proof, desired) for proof in result.pods[:_MAX_PODS]],
    }


def _pod_document(proof: PodProof, desired: str) -> dict[str, Any]:
    pod = proof.pod
    return {
        "name": pod.start.name,
        "state": proof.state.value,
        "startedAt": pod.start.at,
        "ready": pod.ready,
        "waitingReason": pod.waiting_reason,
        "templateRevision": printable(pod.start.revision, LONGEST_REVISION),
        "desired": desired,
        "projected": _stage_document(proof.projected, desired) if proof.projected else None,
        "loaded": _stage_document(proof.loaded, desired),
    }


def _stage_document(stage: Stage, desired: str) -> dict[str, Any]:
    """Describe a stage; content that may be older has no revision."""
    revision = desired if stage.reached else None
    return {"revision": revision, "confidence": stage.confidence.value, "reason": stage.reason}


def decision_entry_document(entry: DecisionEntry) -> dict[str, Any]:
    """Describe one of the last decisions on a consumer."""
    return {
        "at": round(entry.at, 3),
        "verdict": entry.verdict,
        "reason": entry.reason,
        "actions": list(entry.actions),
        "held": entry.held,
        "revision": entry.revision,
        "outcome": entry.outcome,
        "count": entry.times,
        "firstAt": round(entry.first_at, 3),
    }


def counts_document(statuses: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Count consumers by state, and the pods that are behind, from pairs of both."""
    states: Counter[str] = Counter()
    behind = 0
    for state, pods in statuses:
        states[state] += 1
        behind += pods
    return {"counts": {state.value: states[state.value] for state in State}, "behind": behind}
