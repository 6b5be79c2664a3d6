"""Adopting and releasing: which objects a controller may treat as its own.

Selected and without a controller: adopt. Controlled and no longer selected: release. Selected but
another's: leave alone (kubernetes: pkg/controller/controller_ref_manager.go). Used by the
Deployment controller for ReplicaSets and by the ReplicaSet controller for pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.client import Client
from hotmap.local.informer import Index, Informer
from hotmap.local.meta import (
    MANAGER,
    Object,
    controller_of,
    controller_reference,
    is_deleted,
    labels_of,
    name_of,
    owners_of,
    uid_of,
    with_metadata,
)
from hotmap.local.scheme import Kind
from hotmap.local.selectors import matches_label_selector

__all__ = ["Ownership", "by_controller", "is_selected", "orphans_of"]


def by_controller(obj: Object) -> list[Hashable]:
    """Index by the uid of the controller; objects without one by `orphans_of` their namespace."""
    owner = controller_of(obj)
    return [owner["uid"] if owner else orphans_of(obj["metadata"]["namespace"])]


def orphans_of(namespace: str) -> Hashable:
    """Return the value under which `by_controller` files a namespace's orphans."""
    return ("orphans of", namespace)


class Ownership:
    """What objects of one kind belong to owners of another, by selector and reference."""

    def __init__(
        self,
        client: Client,
        dependents: Informer,
        *,
        owner: Kind,
        dependent: Kind,
        finalizer: str = "",
        is_member: Callable[[Object, Object], bool] = lambda owner, dependent: True,
    ) -> None:
        """*is_member* returns whether an owner may have a selected object."""
        self._client = client
        self._dependents = dependents
        self._owner = owner
        self._dependent = dependent
        self._finalizer = finalizer
        self._is_member = is_member
        self._index: Index = dependents.index(by_controller)

    def owned_by(self, owner: Object) -> list[Object]:
        """Return what carries the owner's reference now, selected or not."""
        return self._index.get(uid_of(owner))

    def reference(self, owner: Object) -> Object:
        """Build the reference that a dependent of *owner* carries."""
        return controller_reference(owner, self._owner)

    def owner_name(self, dependent: Object | None) -> str | None:
        """Return the name of the controller of this kind that a dependent refers to."""
        owner = controller_of(dependent) if dependent is not None else None
        return owner["name"] if owner is not None and owner["kind"] == self._owner.kind else None

    async def claim(self, owner: Object) -> list[Object]:
        """Adopt and release until references agree with the selector; return what is owned.

        An owner that is being deleted adopts nothing and releases nothing.
        """
        if not is_deleted(owner):
            for dependent in self._selected_orphans(owner):
                await self._adopt(owner, dependent)
            for dependent in self.owned_by(owner):
                if not self._is_claimed(owner, dependent) and not is_deleted(dependent):
                    await self._release(owner, dependent)
        return [obj for obj in self.owned_by(owner) if self._is_claimed(owner, obj)]

    def _is_claimed(self, owner: Object, dependent: Object) -> bool:
        return is_selected(owner, dependent) and self._is_member(owner, dependent)

    def _selected_orphans(self, owner: Object) -> list[Object]:
        orphans = self._index.get(orphans_of(owner["metadata"]["namespace"]))
        return [obj for obj in orphans if self._is_claimed(owner, obj) and not is_deleted(obj)]

    async def _adopt(self, owner: Object, dependent: Object) -> None:
        # Read again: a deleted owner must not leave references behind (kubernetes
        # issue 42639).
        fresh = await self._client.get(self._owner.resource, *name_of(owner))
        if uid_of(fresh) != uid_of(owner) or is_deleted(fresh):
            raise Conflict(
                f"{self._owner.kind} {owner['metadata']['name']} is deleted or being deleted"
            )
        reference = self.reference(owner)

        def adopt(obj: Object) -> Object | None:
            if uid_of(obj) != uid_of(dependent) or controller_of(obj) or is_deleted(obj):
                return None
            adopted = with_metadata(obj, ownerReferences=[*owners_of(obj), reference])
            return self._with_finalizer(adopted, present=True)

        await self._change(dependent, adopt)

    async def _release(self, owner: Object, dependent: Object) -> None:
        def release(obj: Object) -> Object | None:
            kept = [ref for ref in owners_of(obj) if ref["uid"] != uid_of(owner)]
            released = with_metadata(obj, ownerReferences=kept or None)
            return self._with_finalizer(released, present=False)

        await self._change(dependent, release)

    def _with_finalizer(self, obj: Object, *, present: bool) -> Object:
        if not self._finalizer:
            return obj
        finalizers = obj["metadata"].get("finalizers") or []
        others = [finalizer for finalizer in finalizers if finalizer != self._finalizer]
        wanted = [*others, self._finalizer] if present else others
        return with_metadata(obj, finalizers=wanted or None)

    async def _change(self, dependent: Object, change: Callable[[Object], Object | None]) -> None:
        try:
            changed = await self._client.modify(
                self._dependent.resource, *name_of(dependent), change, manager=MANAGER
            )
        except NotFound:
            return
        await self._dependents.wait_for_version(changed["metadata"]["resourceVersion"])


def is_selected(owner: Object, dependent: Object) -> bool:
    """Return whether the owner's selector finds an object; an absent selector finds none.

    That of a ReplicationController is a plain map of labels.
    """
    selector = owner["spec"].get("selector")
    if not selector:
        return False
    if all(isinstance(value, str) for value in selector.values()):
        selector = {"matchLabels": selector}
    return matches_label_selector(selector, labels_of(dependent))
