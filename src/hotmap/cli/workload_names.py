"""Names on the command line.

Of workloads: `web`, `sts/db`, `shop/web`, `sts/shop/db`; of sources: `cm/app`, `secret/shop/db`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hotmap.core.errors import SettingsError

__all__ = [
    "KIND_WORDS",
    "WORKLOAD_KINDS",
    "SourceName",
    "WorkloadName",
    "closest",
    "find_owner",
    "is_kind",
    "parse_source_name",
    "parse_workload_name",
]

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

#: The same for sources, whose kind is always named.
_SOURCE_KINDS = {
    "ConfigMap": ("configmap", "configmaps", "cm"),
    "Secret": ("secret", "secrets"),
    "SecretProviderClass": ("secretproviderclass", "secretproviderclasses"),
}

_SOURCE_KIND_BY_NAME = {word: kind for kind, words in _SOURCE_KINDS.items() for word in words}

_KIND_BY_NAME = {word: kind for kind, words in _KINDS.items() for word in words}

#: The long names of kinds, which can be mistyped.
KIND_WORDS = tuple(word for words in _KINDS.values() for word in words[:2])


class WorkloadName(NamedTuple):
    """The name of one workload."""

    #: "" for any kind.
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as the parameter `workload` of /v1/status."""
        return "/".join(part for part in self if part)


class SourceName(NamedTuple):
    """The name of one source."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as the parameter `source` of /v1/status."""
        return "/".join(self)


def closest(word: str, known: Iterable[str]) -> str:
    """Return what a mistyped word probably means; "" for nothing."""
    from difflib import get_close_matches  # with `re`, and only for an error

    return next(iter(get_close_matches(word, list(known), n=1)), "")


def find_owner(name: str, workloads: Iterable[str]) -> str:
    """Return the workload that a pod or ReplicaSet such as `web-7d4b9-x2k4j` is of; "" for none.

    Their names begin with its name.
    """
    return max((each for each in workloads if name.startswith(f"{each}-")), key=len, default="")


def is_kind(word: str) -> bool:
    """Return whether a word is kubectl's name of a kind of workload or source, such as `deploy`."""
    return bool(_find_kind(_KIND_BY_NAME, word) or _find_kind(_SOURCE_KIND_BY_NAME, word))


def parse_source_name(text: str, namespace: str) -> SourceName | None:
    """Parse KIND/NAME or KIND/NAMESPACE/NAME of a source; None where no source is named.

    A first part that names a kind is a kind, as for workloads.
    """
    parts = text.split("/")
    kind = _find_kind(_SOURCE_KIND_BY_NAME, parts[0])
    if not kind or not all(parts) or len(parts) not in (2, 3):
        return None
    return SourceName(kind, *(parts[1:] if len(parts) == 3 else (namespace, parts[1])))


def _find_kind(kinds: Mapping[str, str], word: str) -> str:
    """Find a kind by a name of it, also with its group (`deployments.apps`); "" for none."""
    return kinds.get(word.lower().partition(".")[0], "")


def parse_workload_name(text: str, namespace: str) -> WorkloadName:
    """Parse [KIND/]NAME or [KIND/]NAMESPACE/NAME; `namespace` applies where none is named.

    A first part that names a kind is a kind; write all three parts where a namespace has the name
    of a kind.

    Raises:
        SettingsError: too many parts, an empty part, an unknown kind, or the name of a source.
    """
    if source := parse_source_name(text, namespace):
        raise SettingsError(
            f"\"{text}\" is a {source.kind}: expected a workload; 'hotmap status {text}' shows the "
            "workloads that use it"
        )
    parts = text.split("/")
    if not all(parts) or len(parts) > 3 or not text.isascii():
        raise SettingsError(
            f'invalid workload name "{text}": expected [KIND/]NAME or [KIND/]NAMESPACE/NAME'
        )
    if len(parts) == 1:
        return WorkloadName("", namespace, text)
    kind = _find_kind(_KIND_BY_NAME, parts[0])
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
