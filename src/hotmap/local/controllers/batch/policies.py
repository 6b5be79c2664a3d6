"""What a failed pod means to its Job, and when enough indexes have succeeded.

kubernetes: pkg/controller/job/pod_failure_policy.go, success_policy.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hotmap.local.controllers.batch.indexes import parse_indexes
from hotmap.local.meta import Object

__all__ = ["FailureMatch", "match_failure_policy", "match_success_policy"]


class FailureMatch(NamedTuple):
    """The action of the first rule that matches; "" for none."""

    action: str
    #: Whether the failure counts towards the backoff limits.
    counts: bool
    #: Why the Job fails; "" unless it does.
    message: str


_NO_MATCH = FailureMatch("", True, "")


def match_failure_policy(policy: Object | None, pod: Object) -> FailureMatch:
    """Return what `spec.podFailurePolicy` says of a failed pod."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        reason = _reason(rule, pod)
        if reason:
            action = rule["action"]
            message = f"{reason} matching {action} rule at index {number}"
            return FailureMatch(action, action != "Ignore", message * (action == "FailJob"))
    return _NO_MATCH


def _reason(rule: Object, pod: Object) -> str:
    """Return what of a pod a rule matches; "" for nothing."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    if rule.get("onExitCodes"):
        for field in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(field) or ():
                code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
                if code and _matches_code(rule["onExitCodes"], container["name"], code):
                    return (
                        f"Container {container['name']} for pod {name} failed with exit code {code}"
                    )
        return ""
    patterns = {(p["type"], p.get("status", "True")) for p in rule.get("onPodConditions") or ()}
    for condition in status.get("conditions") or ():
        if (condition["type"], condition["status"]) in patterns:
            return f"Pod {name} has condition {condition['type']}"
    return ""


def _matches_code(requirement: Object, container: str, code: int) -> bool:
    if requirement.get("containerName", container) != container:
        return False
    is_listed = code in requirement["values"]
    return is_listed if requirement["operator"] == "In" else not is_listed


def match_success_policy(policy: Object | None, completions: int, succeeded: Iterable[int]) -> str:
    """Return which rule of `spec.successPolicy` the succeeded indexes meet; "" for none."""
    present = set(succeeded)
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        if not present:
            break
        wanted, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        if wanted is not None:
            required = parse_indexes(wanted, completions)
            matched = len(present & required)
            is_met = bool(required) and (
                matched == len(required) or (count is not None and matched >= count)
            )
        else:
            is_met = count is not None and len(present) >= count
        if is_met:
            return f"Matched rules at index {number}"
    return ""
