"""Pods as they are observed, and what their stages are."""

from __future__ import annotations

from typing import Any

from tests.support.objects import ENV, ENV_AND_FILES, FILES, config_map, deployment, snapshot

from hotmap.core.decide.evidence import PodStart
from hotmap.core.policy.policy import Policy
from hotmap.core.status.desired import DesiredContent, desired_content
from hotmap.core.status.observed_pods import ObservedPod
from hotmap.core.status.pods import pod_proofs
from hotmap.core.status.stage import Stage
from hotmap.core.target import Target

#: When the sources last changed, and some moment soon after.
CHANGED, NOW = 1000.0, 1030.0


WEB = deployment(ENV)


SUB_PATH = FILES.replace("/etc/app}", "/etc/app/app.yaml, subPath: app.yaml}")


def desired(
    spec: str = ENV, *, live_needs_rollout: bool = False, changed_at: float | None = CHANGED
) -> DesiredContent:
    """What the pods of a consumer with this pod spec are to hold."""
    consumer = deployment(spec)
    source = config_map(data={"LEVEL": "info", "app.yaml": "a: 1"}, changed_at=changed_at)
    policy = Policy(opted_in=True, rereads=not live_needs_rollout)
    return desired_content(snapshot(consumer, source, policy=policy))


ENV_CONTENT, FILES_CONTENT, BOTH_CONTENT = desired(), desired(FILES), desired(ENV_AND_FILES)

FILES_AT_START = desired(FILES, live_needs_rollout=True)
#: What announces the files to a pod.
NUDGED = FILES_CONTENT.target._replace(sequence=7)


def with_start_change(content: DesiredContent, **fields: Any) -> DesiredContent:
    """The same, and more of the change of the source that is read at start."""
    ((source, change),) = content.start_changes
    return content._replace(start_changes=((source, change._replace(**fields)),))


def observed_pod(
    at: float | None,
    *,
    mounted_at: float | None = None,
    ready: bool = True,
    revision: str = "",
    nudged: Target | None = None,
    nudged_at: float | None = CHANGED + 2,
    waiting_reason: str = "",
) -> ObservedPod:
    """A pod whose containers started then, and whose volumes were mounted at the same time."""
    mounted = at if mounted_at is None else mounted_at
    start = PodStart("web-1", at, revision)
    return ObservedPod(start, mounted, ready, waiting_reason, "", nudged, nudged_at=nudged_at)


def stages_of(
    content: DesiredContent, pod: ObservedPod, *, now: float = NOW, **facts: Any
) -> tuple[Stage | None, Stage]:
    """The projected and the loaded stage of one pod."""
    (proof,) = pod_proofs(content, [pod], now=now, **facts)
    return proof.projected, proof.loaded
