"""Deletes the content of terminating namespaces, then removes their finalizer.

kubernetes: pkg/controller/namespace. The API server makes every namespace with the finalizer
`kubernetes` in its spec and refuses new content once it is terminating; this controller deletes
the content and removes the finalizer.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.conditions import find_condition
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.informer import Index, Informer, by_namespace
from hotmap.local.meta import MANAGER, Object, ObjectName, is_deleted, name_of, timestamp, uid_of
from hotmap.local.scheme import Kind

__all__ = ["NamespaceController", "deletion_conditions"]

_FINALIZER = "kubernetes"
# Type, reason and message of each condition while there is nothing to report.
_SUCCESSES = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)


class NamespaceController(Controller[ObjectName]):
    """Finalize namespaces."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "namespace")
        self._namespaces = self._informers["namespaces"]
        #: Resource → the kind's objects by namespace.
        self._content: dict[str, Index] = {}
        self._namespaces.subscribe(self._on_namespace)
        self._informers.follow_kinds(self._add_kind, self._remove_kind)

    def _add_kind(self, kind: Kind, informer: Informer) -> None:
        if kind.namespaced:
            self._content[kind.resource] = informer.index(by_namespace)
            informer.subscribe(self._on_content)

    def _remove_kind(self, kind: Kind) -> None:
        self._content.pop(kind.resource, None)

    async def sync(self, key: ObjectName) -> None:
        """Delete what a terminating namespace still holds, or finalize it when it is empty.

        Objects with a grace period or finalizers are deleted in their own time; each deletion
        causes another sync. Pods go first, before what they may need to stop; Events last, since
        they describe the other deletions. Conditions tell what keeps the namespace.
        """
        namespace = self._namespaces.objects.get(key)
        if namespace is None or not is_deleted(namespace):
            return
        name = namespace["metadata"]["name"]
        remaining = {resource: index.get(name) for resource, index in self._content.items()}
        events, pods = remaining.pop("events", []), remaining.pop("pods", [])
        if pods:
            await self._delete("pods", pods)
            remaining = {"pods": pods}
        elif any(remaining.values()):
            for resource, objects in remaining.items():
                await self._delete(resource, objects)
        elif events:
            await self._delete("events", events)
        else:
            await self._finalize(namespace)
            return
        await self._write_conditions(namespace, tuple(remaining))

    def _on_namespace(self, old: Object | None, new: Object | None) -> None:
        if new is not None and is_deleted(new):
            self._loop.add(name_of(new))

    def _on_content(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        key = ("", obj["metadata"]["namespace"])
        namespace = self._namespaces.objects.get(key)
        if namespace is not None and is_deleted(namespace):
            self._loop.add(key)

    async def _delete(self, resource: str, objects: list[Object]) -> None:
        for obj in objects:
            if is_deleted(obj):
                continue
            try:
                await self._client.delete(resource, *name_of(obj), uid=uid_of(obj))
            except (NotFound, Conflict):
                continue

    async def _write_conditions(self, namespace: Object, resources: Sequence[str]) -> None:
        """Report in the conditions which objects of some kinds remain after the deletion."""
        name = namespace["metadata"]["name"]
        left: dict[str, list[Object]] = {}
        for resource in resources:
            if self._content[resource].get(name):
                found = (await self._client.list(resource, name)).items
                left |= {resource: found} if found else {}
        if not left:
            return
        conditions = deletion_conditions(
            (namespace.get("status") or {}).get("conditions") or [], left, now=self._clock()
        )

        def change(obj: Object) -> Object | None:
            status = obj.get("status") or {}
            if uid_of(obj) != uid_of(namespace) or status.get("conditions") == conditions:
                return None
            return {**obj, "status": {**status, "conditions": conditions}}

        with contextlib.suppress(NotFound):
            await self._client.modify(
                "namespaces", None, name, change, subresource="status", manager=MANAGER
            )

    async def _finalize(self, namespace: Object) -> None:
        """Remove the finalizer; the cache may lag behind, so the API server is read first."""
        name = namespace["metadata"]["name"]
        for resource in tuple(self._content):
            left = await self._client.list(resource, name, limit=1)
            if left.items:
                self._loop.add(("", name))
                return

        def without_finalizer(obj: Object) -> Object | None:
            finalizers = obj.get("spec", {}).get("finalizers") or []
            if uid_of(obj) != uid_of(namespace) or _FINALIZER not in finalizers:
                return None
            kept = [finalizer for finalizer in finalizers if finalizer != _FINALIZER]
            return {**obj, "spec": {**obj["spec"], "finalizers": kept}}

        with contextlib.suppress(NotFound):
            await self._client.modify(
                "namespaces",
                None,
                name,
                without_finalizer,
                subresource="finalize",
                manager=MANAGER,
            )


def deletion_conditions(
    known: Sequence[Object], left: Mapping[str, Sequence[Object]], *, now: float
) -> list[Object]:
    """Describe the remaining objects of a namespace, by resource.

    kubernetes: pkg/controller/namespace/deletion/status_condition_utils.go.
    """
    counts = sorted(
        f"{resource if '.' in resource else resource + '.'} has {len(objects)} resource instances"
        for resource, objects in left.items()
    )
    finalizers = Counter(
        finalizer
        for objects in left.values()
        for obj in objects
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    kept = sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
    found = {kind: ("False", reason, text) for kind, reason, text in _SUCCESSES}
    text = f"Some resources are remaining: {', '.join(counts)}"
    found["NamespaceContentRemaining"] = ("True", "SomeResourcesRemain", text)
    if kept:
        text = f"Some content in the namespace has finalizers remaining: {', '.join(kept)}"
        found["NamespaceFinalizersRemaining"] = ("True", "SomeFinalizersRemain", text)
    conditions = []
    for kind, (status, reason, message) in found.items():
        before = find_condition(known, kind)
        is_same = before is not None and before["status"] == status
        since = before["lastTransitionTime"] if before and is_same else timestamp(now)
        conditions.append(
            {
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )
    return conditions
