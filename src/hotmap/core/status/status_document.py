"""The parts of the status document that people are shown (docs/reference/status.md)."""

from __future__ import annotations

import msgspec

__all__ = [
    "EditPreview",
    "PodSummary",
    "PreviewDocument",
    "PreviewedWorkload",
    "SourceSummary",
    "StatusDocument",
    "WorkloadSummary",
]


class _Part(msgspec.Struct, rename="camel"):
    """Fields that are not named here are skipped."""


class StageSummary(_Part):
    confidence: str
    reason: str
    revision: str | None = None


class PodSummary(_Part):
    name: str
    ready: bool
    loaded: StageSummary
    projected: StageSummary | None = None
    state: str = "unknown"


class SourceSummary(_Part):
    kind: str
    name: str
    exists: bool
    read: list[str] = []
    changed_at: float | None = None
    visible: bool = True


class UnfollowedSource(_Part):
    kind: str
    name: str


class DecisionSummary(_Part):
    at: float
    verdict: str
    reason: str
    actions: list[str]
    outcome: str
    held: bool = False
    count: int = 1
    first_at: float = 0.0


class WorkloadSummary(_Part):
    kind: str
    namespace: str
    name: str
    state: str
    reason: str
    behind: int = 0
    action_required: bool = False
    strategy: str = ""
    policy: str = ""
    revision: str = ""
    desired: str | None = None
    sources: list[SourceSummary] = []
    unfollowed: list[UnfollowedSource] = []
    pod_count: int = 0
    pods: list[PodSummary] = []
    pods_error: str = ""
    decisions: list[DecisionSummary] = []


class StatusDocument(_Part):
    workloads: list[WorkloadSummary]
    counts: dict[str, int]
    behind: int
    #: POSIX seconds of the API server, as are all other times.
    time: float
    #: The API server that the controller serves.
    server: str = ""


class PreviewedWorkload(_Part):
    kind: str
    namespace: str
    name: str
    followed: bool
    actions: list[str]
    held: bool
    reason: str
    verdict: str = ""


class PreviewDocument(_Part):
    workloads: list[PreviewedWorkload]
    max_concurrent_rollouts: int = 0


class EditPreview(_Part):
    kind: str
    namespace: str
    name: str
    creates: bool
    removed: list[str]
    workloads: list[PreviewedWorkload]
    #: None: every data key.
    changed: list[str] | None = None
    #: How many of the workloads are rolled out at a time; 0: any number.
    max_concurrent_rollouts: int = 0
