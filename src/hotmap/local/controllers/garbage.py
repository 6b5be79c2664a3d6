"""Deletes objects whose owners are gone, and carries out deletion propagation.

kubernetes: pkg/controller/garbagecollector. An owner reference counts by uid. Three policies:

* Background: the owner is gone at once, its dependents follow.
* Foreground: the owner stays, with the finalizer `foregroundDeletion`, until the dependents that
  block it are gone.
* Orphan: the owner stays, with the finalizer `orphan`, until its dependents no longer name it.

Owners of kinds that are not served count as existing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Literal, NamedTuple

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.informer import Index, Informer
from hotmap.local.meta import (
    MANAGER,
    Object,
    is_deleted,
    name_of,
    owners_of,
    uid_of,
    with_metadata,
)
from hotmap.local.scheme import Kind

__all__ = ["GarbageCollector"]

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"

#: Resource, namespace, name.
_Key = tuple[str, str, str]


class _Owners(NamedTuple):
    """An object's owner references, by the state of the owners."""

    solid: list[Object]
    #: Being deleted in the foreground: waiting for their dependents.
    waiting: list[Object]
    dangling: list[Object]


class GarbageCollector(Controller[_Key]):
    """Collect garbage of every served kind."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "garbage")
        self._caches: dict[str, Informer] = {}
        #: Resource → the kind's objects by the uid of each of their owners.
        self._dependents: dict[str, Index] = {}
        self._informers.follow_kinds(self._add_kind, self._remove_kind)

    def _add_kind(self, kind: Kind, informer: Informer) -> None:
        self._caches[kind.resource] = informer
        self._dependents[kind.resource] = informer.index(
            lambda obj: [owner["uid"] for owner in owners_of(obj)]
        )
        informer.subscribe(self._listener(kind.resource))

    def _remove_kind(self, kind: Kind) -> None:
        del self._caches[kind.resource], self._dependents[kind.resource]

    async def sync(self, key: _Key) -> None:
        """Continue an object's deletion, or delete it if none of its owners exists."""
        cache = self._caches.get(key[0])
        obj = cache.objects.get(key[1:]) if cache is not None else None
        if obj is None:
            return
        if not is_deleted(obj):
            await self._check_owners(key[0], obj)
        elif _ORPHAN in _finalizers(obj):
            await self._orphan_dependents(key[0], obj)
        elif _FOREGROUND in _finalizers(obj):
            await self._delete_dependents(key[0], obj)

    # -- events and caches -----------------------------------------------------------------------

    def _listener(self, resource: str) -> Callable[[Object | None, Object | None], None]:
        def listen(old: Object | None, new: Object | None) -> None:
            # Most objects have no owner, so nothing is to be looked up for them.
            is_new = old is None or new is None or _fields(old) != _fields(new)
            if new is not None and is_new and (owners_of(new) or is_deleted(new)):
                self._loop.add((resource, *name_of(new)))
            if old is not None and (new is None or owners_of(old) != owners_of(new)):
                self._add_owners(old)
            if old is not None and new is None:
                for dependent_resource, dependent in self._dependents_of(old):
                    self._loop.add((dependent_resource, *name_of(dependent)))

        return listen

    def _add_owners(self, obj: Object) -> None:
        """Sync owners that may have waited for this dependent."""
        for reference in owners_of(obj):
            kind = self._find_kind(reference)
            if kind is not None:
                namespace = obj["metadata"].get("namespace", "") if kind.namespaced else ""
                self._loop.add((kind.resource, namespace, reference["name"]))

    def _dependents_of(self, owner: Object) -> list[tuple[str, Object]]:
        uid = uid_of(owner)
        return [
            (resource, obj)
            for resource, index in self._dependents.items()
            for obj in index.get(uid)
        ]

    # -- an object with owners -----------------------------------------------------------------

    async def _check_owners(self, resource: str, obj: Object) -> None:
        """Delete an object whose owners are all gone; else drop references to those that are."""
        owners = await self._classify_owners(obj)
        gone = [*owners.waiting, *owners.dangling]
        if not gone:
            return
        if owners.solid:
            await self._drop_references(resource, obj, {owner["uid"] for owner in gone})
        elif owners.waiting and (dependents := self._dependents_of(obj)):
            if any(_is_waiting(dependent) for _, dependent in dependents):
                # Perhaps a circle of owners, each waiting for the next: this one lets its owners go
                # (garbagecollector.go, attemptToDeleteItem).
                await self._unblock_owners(resource, obj)
            await self._delete(resource, obj, "Foreground")
        else:
            await self._delete(resource, obj, _propagation_policy(obj))

    async def _classify_owners(self, obj: Object) -> _Owners:
        owners = _Owners([], [], [])
        for reference in owners_of(obj):
            owner = await self._find_owner(reference, obj["metadata"].get("namespace", ""))
            if owner is None:
                owners.dangling.append(reference)
            elif _is_waiting(owner):
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    async def _find_owner(self, reference: Object, namespace: str) -> Object | None:
        """Return the owner a reference means, None if there is none.

        The cache may not have a new owner yet, so the API server is read as well.
        """
        kind = self._find_kind(reference)
        if kind is None:
            return {"metadata": {}}
        name = (namespace if kind.namespaced else "", reference["name"])
        owner = self._caches[kind.resource].objects.get(name)
        if owner is not None and uid_of(owner) == reference["uid"]:
            return owner
        try:
            owner = await self._client.get(kind.resource, name[0] or None, name[1])
        except NotFound:
            return None
        return owner if uid_of(owner) == reference["uid"] else None

    def _find_kind(self, reference: Object) -> Kind | None:
        group = reference["apiVersion"].rpartition("/")[0]
        return self._client.scheme.find_kind(group, reference["kind"])

    # -- an object that is being deleted --------------------------------------------------------

    async def _orphan_dependents(self, resource: str, owner: Object) -> None:
        for dependent_resource, dependent in self._dependents_of(owner):
            await self._drop_references(dependent_resource, dependent, {uid_of(owner)})
        await self._drop_finalizer(resource, owner, _ORPHAN)

    async def _delete_dependents(self, resource: str, owner: Object) -> None:
        """Let a foreground deletion end when no dependent that blocks it is left.

        Each dependent is synced by itself, so that one with another existing owner stays.
        """
        blocked = False
        for dependent_resource, dependent in self._dependents_of(owner):
            self._loop.add((dependent_resource, *name_of(dependent)))
            blocked |= any(
                reference["uid"] == uid_of(owner) and reference.get("blockOwnerDeletion", False)
                for reference in owners_of(dependent)
            )
        if not blocked:
            await self._drop_finalizer(resource, owner, _FOREGROUND)

    # -- writing -------------------------------------------------------------------------------

    async def _delete(
        self, resource: str, obj: Object, propagation: Literal["Background", "Foreground", "Orphan"]
    ) -> None:
        namespace, name = name_of(obj)
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(
                resource, namespace or None, name, uid=uid_of(obj), propagation=propagation
            )

    async def _drop_references(self, resource: str, obj: Object, uids: set[str]) -> None:
        def drop(present: Object) -> Object:
            kept = [owner for owner in owners_of(present) if owner["uid"] not in uids]
            return with_metadata(present, ownerReferences=kept or None)

        await self._modify(resource, obj, drop)

    async def _unblock_owners(self, resource: str, obj: Object) -> None:
        def unblock(present: Object) -> Object:
            owners = [{**owner, "blockOwnerDeletion": False} for owner in owners_of(present)]
            return with_metadata(present, ownerReferences=owners)

        await self._modify(resource, obj, unblock)

    async def _drop_finalizer(self, resource: str, obj: Object, finalizer: str) -> None:
        def drop(present: Object) -> Object:
            kept = [other for other in _finalizers(present) if other != finalizer]
            return with_metadata(present, finalizers=kept or None)

        await self._modify(resource, obj, drop)

    async def _modify(self, resource: str, obj: Object, change: Callable[[Object], Object]) -> None:
        namespace, name = name_of(obj)
        with contextlib.suppress(NotFound):
            await self._client.modify(
                resource,
                namespace or None,
                name,
                lambda present: change(present) if uid_of(present) == uid_of(obj) else None,
                manager=MANAGER,
            )


def _fields(obj: Object) -> tuple[object, ...]:
    """Return what collecting reads of an object, so that changes of status cause no sync."""
    return owners_of(obj), is_deleted(obj), _finalizers(obj)


def _is_waiting(obj: Object) -> bool:
    """Return whether an object is being deleted in the foreground, after its dependents."""
    return is_deleted(obj) and _FOREGROUND in _finalizers(obj)


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _propagation_policy(obj: Object) -> Literal["Background", "Foreground", "Orphan"]:
    """Return how an object's finalizers ask for its dependents to be treated."""
    if _ORPHAN in _finalizers(obj):
        return "Orphan"
    return "Foreground" if _FOREGROUND in _finalizers(obj) else "Background"
