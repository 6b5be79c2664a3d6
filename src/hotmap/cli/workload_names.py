"""Names of workloads on the command line: `web`, `sts/db`, `shop/web`, `sts/shop/db`."""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.errors import SettingsError

__all__ = ["WORKLOAD_KINDS", "WorkloadName", "parse_workload_name"]

#: kubectl's names for each kind: singular, plural and short (kubernetes: kubectl api-resources).
_KINDS = {
    "Deployment": ("deployment", "deployments", "deploy"),
    "StatefulSet": ("statefulset", "statefulsets", "sts"),
    "DaemonSet": ("daemonset", "daemonsets", "ds"),
    "ReplicaSet": ("replicaset", "replicasets", "rs"),
    "CronJob": ("cronjob", "cronjobs", "cj"),
    "Job": ("job", "jobs"),
    "Pod": ("pod", "pods", "po"),
    "Rollout": ("rollout", "rollouts", "ro"),
}

#: Every kind of workload, the most frequent first.
WORKLOAD_KINDS = tuple(_KINDS)

_KIND_BY_NAME = {word: kind for kind, words in _KINDS.items() for word in words}


class WorkloadName(NamedTuple):
    """The name of one workload."""

    #: "" for any kind.
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as the parameter `consumer` of the status document."""
        return "/".join(part for part in self if part)


def parse_workload_name(text: str, namespace: str) -> WorkloadName:
    """Parse [KIND/]NAME or [KIND/]NAMESPACE/NAME; `namespace` applies where none is named.

    A first part that names a kind is a kind; write all three parts where a namespace has the name
    of a kind.

    Raises:
        SettingsError: too many parts, an empty part, or an unknown kind.
    """
    parts = text.split("/")
    if not all(parts) or len(parts) > 3:
        raise SettingsError(
            f'invalid workload name "{text}": expected [KIND/]NAME or [KIND/]NAMESPACE/NAME'
        )
    if len(parts) == 1:
        return WorkloadName("", namespace, text)
    kind = _KIND_BY_NAME.get(parts[0].lower().partition(".")[0], "")
    if len(parts) == 2:
        return (
            WorkloadName(kind, namespace, parts[1])
            if kind
            else WorkloadName("", parts[0], parts[1])
        )
    if not kind:
        known = ", ".join(words[0] for words in _KINDS.values())
        raise SettingsError(f'unknown kind "{parts[0]}" in "{text}": expected one of {known}')
    return WorkloadName(kind, parts[1], parts[2])
