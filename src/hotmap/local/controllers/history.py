"""The ControllerRevisions of StatefulSets and DaemonSets: what their templates were.

A revision holds a strategic merge patch that puts its template back. `kubectl rollout history`
and `undo` read nothing else (kubernetes: pkg/controller/history).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from hotmap.core.errors import AlreadyExists, NotFound
from hotmap.local.client import Client
from hotmap.local.controllers.ownership import Ownership
from hotmap.local.controllers.template import equal_ignoring_hash, safe_encode
from hotmap.local.informer import Informer
from hotmap.local.meta import (
    MANAGER,
    Object,
    created_at,
    is_deleted,
    labels_of,
    name_of,
    uid_of,
    with_metadata,
)
from hotmap.local.scheme import Kind

__all__ = [
    "REVISION_LABEL",
    "ControllerHistory",
    "find_equal",
    "next_number",
    "revision_name",
    "revision_number",
    "sorted_revisions",
    "surplus_revisions",
    "template_hash",
    "template_of",
    "template_patch",
]

#: On pods, and on revisions of DaemonSets: which revision a pod was made of.
REVISION_LABEL = "controller-revision-hash"

_RESOURCE = "controllerrevisions"
# Characters of an owner's name in that of a revision (ControllerRevisionName).
_MAX_PREFIX = 223

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
# What Go's encoding/json escapes besides what JSON requires.
_GO_ESCAPES = str.maketrans(
    {char: f"\\u{ord(char):04x}" for char in ("<", ">", "&", "\u2028", "\u2029")}
)


def template_patch(template: Object) -> Object:
    """Return the patch that makes *template* the template of its owner again.

    Members are in the order of their names, as Go writes a map: kubectl compares the bytes.
    """
    patch = {"spec": {"template": {**template, "$patch": "replace"}}}
    sorted_patch: Object = _sorted(patch)
    return sorted_patch


def template_of(revision: Object) -> Object:
    """Return the template that a revision holds; empty where its data are something else."""
    template: Any = revision
    for field in ("data", "spec", "template"):
        template = template.get(field)
        if not isinstance(template, dict):
            return {}
    return {field: value for field, value in template.items() if field != "$patch"}


def template_hash(template: Object, collision_count: int) -> str:
    """Name a template as a StatefulSet's revision does, equal to Kubernetes' own name.

    FNV-1 over the patch as Go writes it and the count of collisions in decimal, written in decimal
    and put through Kubernetes' alphabet (HashControllerRevision).
    """
    text = json.dumps(template_patch(template), separators=(",", ":"), ensure_ascii=False)
    content = text.translate(_GO_ESCAPES).encode() + str(collision_count).encode()
    return safe_encode(str(_fnv1(content)))


def revision_name(owner: Object, hash_text: str) -> str:
    """Return the name of an owner's revision with a hash."""
    return f"{owner['metadata']['name'][:_MAX_PREFIX]}-{hash_text}"


def sorted_revisions(revisions: Iterable[Object]) -> list[Object]:
    """Sort revisions, the latest last: by number, then age, then name."""
    return sorted(revisions, key=lambda rev: (revision_number(rev), created_at(rev), name_of(rev)))


def revision_number(revision: Object) -> int:
    """Return the number of a revision; 0 where it has none."""
    return revision.get("revision") or 0


def next_number(revisions: Iterable[Object]) -> int:
    return max(map(revision_number, revisions), default=0) + 1


def find_equal(revisions: Sequence[Object], template: Object) -> list[Object]:
    """Return the revisions with a template, in the given order.

    Equal as for ReplicaSets: absent, null and empty are one. Upstream compares bytes, and where
    they differ what they mean (StatefulSetSemanticRevisionComparison).
    """
    return [rev for rev in revisions if equal_ignoring_hash(template, template_of(rev))]


def surplus_revisions(
    revisions: Iterable[Object], live: Iterable[str], limit: int | None
) -> list[Object]:
    """Choose what to delete of old revisions so that *limit* of them remain; None keeps all.

    The lowest numbers go first. Those whose names are *live* stay and are not counted.
    """
    names = set(live)
    old = [rev for rev in sorted_revisions(revisions) if rev["metadata"]["name"] not in names]
    return old[: max(0, len(old) - limit)] if limit is not None and limit >= 0 else []


class ControllerHistory:
    """Reads and writes the ControllerRevisions of owners of one kind.

    The cache has seen all that was written before a method returns.
    """

    def __init__(self, client: Client, revisions: Informer, owner: Kind) -> None:
        self._client = client
        self._revisions = revisions
        self.ownership = Ownership(
            client, revisions, owner=owner, dependent=client.scheme.resource(_RESOURCE)
        )

    async def claim(self, owner: Object) -> list[Object]:
        """Adopt and release by the selector; return what is the owner's, the latest last."""
        return sorted_revisions(await self.ownership.claim(owner))

    async def create(self, owner: Object, revision: Object) -> Object:
        """Create a revision, or return the one of that name if it has the same template.

        Raises:
            AlreadyExists: the name is taken by something else.
        """
        namespace, name = owner["metadata"]["namespace"], revision["metadata"]["name"]
        try:
            created = await self._client.create(_RESOURCE, namespace, revision, manager=MANAGER)
        except AlreadyExists:
            present = await self._client.get(_RESOURCE, namespace, name)
            if not find_equal([present], template_of(revision)):
                raise
            return present
        await self._revisions.wait_for_version(created["metadata"]["resourceVersion"])
        return created

    async def renumber(self, revision: Object, number: int) -> Object:
        """Give a revision another number, which makes it the latest."""
        return await self._update({**revision, "revision": number})

    async def set_label(self, revision: Object, label: str, value: str) -> Object:
        """Add a label to a revision."""
        labels = {**labels_of(revision), label: value}
        return await self._update(with_metadata(revision, labels=labels))

    async def delete(self, revisions: Iterable[Object]) -> None:
        """Delete revisions, and return when the cache does not have them any more."""
        for revision in revisions:
            name = name_of(revision)
            try:
                await self._client.delete(_RESOURCE, *name, uid=uid_of(revision))
            except NotFound:
                continue
            await self._revisions.until(partial(self._is_gone, revision))

    async def _update(self, revision: Object) -> Object:
        written = await self._client.update(
            _RESOURCE, *name_of(revision), revision, manager=MANAGER
        )
        await self._revisions.wait_for_version(written["metadata"]["resourceVersion"])
        return written

    def _is_gone(self, revision: Object) -> bool:
        """Return whether a revision is deleted; one with a finalizer stays for a while."""
        present = self._revisions.objects.get(name_of(revision))
        return present is None or uid_of(present) != uid_of(revision) or is_deleted(present)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _fnv1(content: bytes) -> int:
    """FNV-1, 32 bits: multiplies first, unlike the FNV-1a of pod-template-hash."""
    digest = _FNV_OFFSET
    for byte in content:
        digest = ((digest * _FNV_PRIME) & 0xFFFFFFFF) ^ byte
    return digest
