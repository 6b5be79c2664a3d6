"""How people name workloads on the command line: `web`, `sts/db`, `shop/web`, `sts/shop/db`."""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.errors import SettingsError

__all__ = ["Name", "read_name"]

#: kubectl's words for each kind: singular, plural and short (kubernetes: kubectl api-resources).
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
_BY_WORD = {word: kind for kind, words in _KINDS.items() for word in words}


class Name(NamedTuple):
    """One workload that a person means."""

    #: "" for any kind.
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as the status is asked for it."""
        return "/".join(part for part in self if part)


def read_name(text: str, namespace: str) -> Name:
    """Read [KIND/]NAME, [KIND/]NAMESPACE/NAME; `namespace` is meant where none is named.

    A first part that is a kind's name is taken as that; say all three where a namespace is called
    like a kind.

    Raises:
        SettingsError: it has too many parts, an empty one, or names no kind that is known.
    """
    parts = text.split("/")
    if not all(parts) or len(parts) > 3:
        raise SettingsError(f"{text!r} is not [KIND/]NAME or [KIND/]NAMESPACE/NAME")
    if len(parts) == 1:
        return Name("", namespace, text)
    kind = _BY_WORD.get(parts[0].lower().partition(".")[0], "")
    if len(parts) == 2:
        return Name(kind, namespace, parts[1]) if kind else Name("", parts[0], parts[1])
    if not kind:
        known = ", ".join(words[0] for words in _KINDS.values())
        raise SettingsError(f"{text!r}: {parts[0]!r} is no kind; known are {known}")
    return Name(kind, parts[1], parts[2])
