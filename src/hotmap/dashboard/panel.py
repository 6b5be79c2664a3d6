"""Decides what the panel shows of the selected workload or source, in the words of `hotmap why`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hotmap.core.duration import format_age
from hotmap.core.status.status_document import (
    DecisionSummary,
    PodSummary,
    SourceSummary,
    StatusDocument,
    WorkloadSummary,
)
from hotmap.dashboard.map import find_users, order_of, source_id, tone_of, workload_id

__all__ = ["source_panel", "workload_panel"]

#: Pods, and workloads of a source, that are listed; the command shows all.
_MOST_LISTED = 100

#: Decisions that are listed.
_MOST_DECISIONS = 8

#: The tone of each state of a pod (docs/reference/status.md).
_POD_TONES: Mapping[str, str] = {
    "current": "good",
    "told": "calm",
    "delivered": "calm",
    "waiting": "busy",
    "settling": "busy",
    "checking": "busy",
    "loading": "busy",
    "restarting": "busy",
    "refused": "bad",
    "failed": "bad",
}


def workload_panel(
    document: StatusDocument, workload: WorkloadSummary, flags: Sequence[str]
) -> dict[str, Any]:
    """Describe one workload with its sources, its pods and the latest decisions.

    `flags` select the cluster in the commands that are shown.
    """
    name = f"{workload.kind.lower()}/{workload.name}"
    pods = sorted(workload.pods, key=lambda pod: (pod.state == "current", pod.name))
    more = max(workload.pod_count, len(pods)) - len(pods[:_MOST_LISTED])
    return {
        "title": name,
        "namespace": workload.namespace,
        "state": workload.state,
        "verdict": workload.state + ("; action required" if workload.action_required else ""),
        "tone": tone_of(workload.state),
        "reason": workload.reason,
        "note": f"{workload.policy}; strategy {workload.strategy}" if workload.strategy else "",
        "commands": [
            _command("status", name, workload.namespace, flags),
            _command("why", name, workload.namespace, flags),
        ],
        "sources": [
            {
                "id": source_id(workload.namespace, source),
                "name": f"{source.kind.lower()}/{source.name}",
                "text": _describe_source(source, document.time),
            }
            for source in workload.sources
        ]
        + [
            {"id": "", "name": f"{each.kind.lower()}/{each.name}", "text": "not followed"}
            for each in workload.unfollowed
        ],
        "pods": [_describe_pod(pod) for pod in pods[:_MOST_LISTED]],
        "podsNote": _describe_number(workload, more),
        "decisions": [_describe_decision(each) for each in workload.decisions[:_MOST_DECISIONS]],
    }


def _describe_source(source: SourceSummary, now: float) -> str:
    if not source.exists:
        return "does not exist" if source.visible else "not visible to hotmap"
    words = {"start": "at start", "files": "as files"}
    read = ", ".join(words.get(way, way) for way in source.read)
    parts = [f"read {read}"] if read else []
    if source.changed_at is not None:
        parts.append(f"changed {format_age(max(0.0, now - source.changed_at))} ago")
    return "; ".join(parts)


def _describe_pod(pod: PodSummary) -> dict[str, Any]:
    confidence = pod.loaded.confidence
    verdict = pod.state if confidence == pod.state else f"{pod.state} ({confidence})"
    return {
        "name": pod.name,
        "state": pod.state,
        "tone": _POD_TONES.get(pod.state, "warn"),
        "text": f"{verdict}: {pod.loaded.reason}",
    }


def _describe_number(workload: WorkloadSummary, more: int) -> str:
    if workload.pods_error:
        return f"cannot list pods: {workload.pods_error}"
    if not workload.pods:
        return "no pods"
    return f"and {more:,} more" if more > 0 else ""


def _describe_decision(decision: DecisionSummary) -> dict[str, Any]:
    reason = decision.reason
    if decision.outcome != "done":
        reason += f"; {decision.outcome}"
    if decision.count > 1:
        reason += f" ({decision.count} times)"
    actions = ", ".join(decision.actions) or ("held" if decision.held else "none")
    return {"at": decision.at, "actions": actions, "reason": reason}


def source_panel(
    document: StatusDocument, selected: str, flags: Sequence[str]
) -> dict[str, Any] | None:
    """Describe one source with the workloads that use it; None: no followed workload does."""
    users = find_users(document.workloads).get(selected)
    if users is None:
        return None
    source = users[0][1]
    workloads = sorted((workload for workload, _ in users), key=order_of)
    namespace, name = workloads[0].namespace, f"{source.kind.lower()}/{source.name}"
    current = sum(workload.state == "current" for workload in workloads)
    count, verb = f"{current:,} of {len(workloads):,}", "is" if current == 1 else "are"
    more = len(workloads) - _MOST_LISTED
    return {
        "title": name,
        "namespace": namespace,
        "state": "",
        "tone": tone_of(workloads[0].state),
        "reason": f"{count} followed workloads that use it {verb} current",
        "note": "" if source.exists else _describe_source(source, document.time),
        "commands": [
            _command("status", name, namespace, flags),
            _command("preview", name, namespace, flags),
        ],
        "users": [
            {
                "id": workload_id(workload),
                "name": f"{workload.kind.lower()}/{workload.name}",
                "state": workload.state,
                "tone": tone_of(workload.state),
            }
            for workload in workloads[:_MOST_LISTED]
        ],
        "usersNote": f"and {more:,} more" if more > 0 else "",
    }


def _command(verb: str, name: str, namespace: str, flags: Sequence[str]) -> str:
    return shlex.join(["hotmap", verb, name, "-n", namespace, *flags])
