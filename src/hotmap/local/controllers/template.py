"""Equality of pod templates, and the label that distinguishes their ReplicaSets.

The label never finds a ReplicaSet again: Kubernetes computes it from a dump of Go structs that
differs between releases. The new ReplicaSet is the oldest one whose template is equal when the
label is left out (kubernetes: pkg/controller/deployment/util/deployment_util.go, FindNewReplicaSet,
EqualIgnoreHash). So any stable value in Kubernetes' alphabet is compatible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hotmap.local.meta import Object, created_at, name_of

__all__ = [
    "HASH_LABEL",
    "equal_ignoring_hash",
    "find_new_replica_set",
    "pod_template_hash",
    "safe_encode",
    "without_hash",
]

#: Set by the Deployment controller on its ReplicaSets, their selectors and their pods.
HASH_LABEL = "pod-template-hash"

# kubernetes: apimachinery/pkg/util/rand, SafeEncodeString. No vowels, no 0, 1, 3: no bad words.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

# Plain bool fields of Go's pod types, whose false is the same as absent; the others are pointers,
# where absent may mean true (automountServiceAccountToken).
_FALSE_IS_ABSENT = frozenset(
    ("hostIPC", "hostNetwork", "hostPID", "readOnly", "stdin", "stdinOnce", "tty")
)

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def pod_template_hash(template: Object, collision_count: int | None) -> str:
    """Name a pod template in at most 10 characters that are safe in a label and in a name.

    FNV-1a over canonical JSON and, once names have collided, the count of collisions as eight
    little-endian bytes; written in decimal and each digit put through Kubernetes' alphabet, so
    only `4 5 6 7 8 9 b c d f` occur (kubernetes: pkg/controller/controller_utils.go, ComputeHash).
    """
    text = json.dumps(_pruned(without_hash(template)), sort_keys=True, separators=(",", ":"))
    content = text.encode()
    if collision_count is not None:
        content += collision_count.to_bytes(8, "little")
    return safe_encode(str(_fnv1a(content)))


def safe_encode(text: str) -> str:
    """Write a text in Kubernetes' alphabet, so that it is safe in a label and in a name."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def equal_ignoring_hash(template: Object, other: Object) -> bool:
    """Return whether two templates make the same pods, apart from the pod-template-hash label.

    Absent, null and empty are one, as they are for apiequality.Semantic.DeepEqual and after a
    trip through a client that writes `creationTimestamp: null`.
    """
    return bool(_pruned(without_hash(template)) == _pruned(without_hash(other)))


def find_new_replica_set(template: Object, replica_sets: Iterable[Object]) -> Object | None:
    """Return the oldest ReplicaSet that makes the pods of *template*, or None.

    The oldest, so that two with equal templates (one adopted, or made by another release) give
    the same answer at every sync. Equal ages are ordered by name.
    """
    for replica_set in sorted(replica_sets, key=lambda rs: (created_at(rs), name_of(rs))):
        if equal_ignoring_hash(template, replica_set["spec"]["template"]):
            return replica_set
    return None


def without_hash(template: Object) -> Object:
    """Return the template without the label that this controller adds; nothing else is copied."""
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if HASH_LABEL not in labels:
        return template
    kept = {key: value for key, value in labels.items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": kept}}


def _pruned(value: Any) -> Any:
    """Drop what JSON may or may not spell out: members that are null, {}, [] or plainly false."""
    if isinstance(value, dict):
        members = ((key, _pruned(member)) for key, member in value.items())
        return {key: member for key, member in members if not _is_absent(key, member)}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value


def _is_absent(key: str, member: Any) -> bool:
    if member is None or member is False:
        return member is None or key in _FALSE_IS_ABSENT
    return isinstance(member, dict | list) and not member


def _fnv1a(content: bytes) -> int:
    digest = _FNV_OFFSET
    for byte in content:
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return digest
