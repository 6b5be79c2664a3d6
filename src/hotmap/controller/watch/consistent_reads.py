"""Brings the stores up to date by consistent reads, for queries that must not lag behind an edit.

A watch delivers an edit some milliseconds after the API server has accepted it, and a broken one
much later. `hotmap status` right after `kubectl apply` must not report on the content before.
So versions are compared, which costs metadata alone, and what differs is read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable

from hotmap.controller.watch.index import Index
from hotmap.controller.watch.reflectors import Reflectors
from hotmap.controller.watch.transforms import LEFT_OUT_BY_CONTENT, is_left_out
from hotmap.core.errors import NotFound, Unavailable
from hotmap.core.model.objects import ObjectKey, ObjectMeta
from hotmap.kube.client import Client
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.metadata import ObjectVersion, list_versions
from hotmap.kube.resources import BY_KIND

__all__ = ["ConsistentReader"]

#: Requests at once, over all queries. Namespaces take turns: those for one with thousands of
#: objects delay no query of another.
_MAX_REQUESTS = 8

#: The number of objects of one kind and namespace that are read one by one; and the number of
#: objects of a namespace for which one LIST costs about as much as one such read.
_MAX_SINGLE_READS = 8
_OBJECTS_PER_READ = 50

#: Objects that may differ in one namespace; with more of them the watch is broken.
_MAX_DIFFERENT = 200


class ConsistentReader:
    """Reads those objects into the stores that have another version there."""

    def __init__(self, client: Client, index: Index, reflectors: Reflectors) -> None:
        self._client = client
        self._index = index
        self._reflectors = reflectors
        self._slots = FairSlots(_MAX_REQUESTS)

    async def read_objects(self, keys: Iterable[ObjectKey]) -> None:
        """Bring some sources and consumers up to date.

        One small LIST for each; many of one kind in a namespace by one LIST of that, if it is not
        much larger.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        names: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for key in keys:
            names[key.kind, key.namespace].add(key.name)
        reads: list[Awaitable[None]] = []
        for (kind, namespace), wanted in names.items():
            objects = len(self._known(kind, namespace))
            if len(wanted) > _MAX_SINGLE_READS and objects <= _OBJECTS_PER_READ * len(wanted):
                reads.append(self._read(kind, namespace, frozenset(wanted)))
            else:
                reads += (self._read(kind, namespace, frozenset((name,))) for name in wanted)
        await asyncio.gather(*reads)

    async def read_sources(self, namespace: str) -> None:
        """Bring all sources of a namespace up to date.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        await self._read_kinds(self._index.sources, namespace)

    async def read_namespace(self, namespace: str) -> None:
        """Bring all sources and consumers of a namespace up to date; "" means all namespaces.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        await self._read_kinds((*self._index.sources, *self._index.consumers), namespace)

    async def _read_kinds(self, kinds: Iterable[str], namespace: str) -> None:
        scopes = self._reflectors.namespaces
        if namespace:
            scopes = (namespace,) if scopes == (None,) or namespace in scopes else ()
        await asyncio.gather(*(self._read(kind, scope) for kind in kinds for scope in scopes))

    async def _read(
        self, kind: str, namespace: str | None, names: frozenset[str] = frozenset()
    ) -> None:
        """Bring objects of a kind up to date: the named ones, or all."""
        selection = self._reflectors.selection(kind, namespace)
        if selection is None:
            return
        fields = [selection.field_selector]
        if len(names) == 1:
            fields += (f"metadata.name={name}" for name in names)
        try:
            async with self._slots.use(namespace or ""):
                versions = await list_versions(
                    self._client,
                    BY_KIND[kind],
                    namespace,
                    label_selector=selection.label_selector,
                    field_selector=",".join(filter(None, fields)),
                )
        except NotFound:
            # The kind was uninstalled a moment ago; what has none of its objects is not concerned.
            if self._known(kind, namespace):
                raise
            return
        listed = {
            ObjectKey(kind, version.namespace, version.name): version
            for version in versions
            if not names or version.name in names
        }
        known = self._known(kind, namespace, names)
        different = [key for key, item in listed.items() if self._differs(key, item)]
        different += [key for key in known if key not in listed]
        if len(different) > _MAX_DIFFERENT:
            what = f"{len(different)} {BY_KIND[kind].plural} differ from what the watch delivered"
            raise Unavailable(what, code=503, reason="ServiceUnavailable")
        for key in different:
            async with self._slots.use(namespace or ""):
                await self._reflectors.reread(key)

    def _known(
        self, kind: str, namespace: str | None, names: frozenset[str] = frozenset()
    ) -> list[ObjectKey]:
        """List the requested objects that the store has."""
        store = self._index.store(kind)
        if names:
            keys = (ObjectKey(kind, namespace or "", name) for name in sorted(names))
            return [key for key in keys if key in store]
        return store.keys(namespace)

    def _differs(self, key: ObjectKey, listed: ObjectVersion) -> bool:
        stored = self._index.store(key.kind).get(key)
        if stored is not None:
            return (stored.uid, stored.resource_version) != (listed.uid, listed.resource_version)
        return not (self._index.is_unreadable(key) or self._is_left_out(key, listed))

    def _is_left_out(self, key: ObjectKey, listed: ObjectVersion) -> bool:
        """Return whether the store certainly leaves an object out.

        Its metadata shows it, or the watch has delivered this version and nothing was stored, as of
        a finished Job. A store of sources has whatever was delivered, so there that proves nothing.
        """
        if key.kind in LEFT_OUT_BY_CONTENT and self._reflectors.has_delivered(
            key, listed.resource_version
        ):
            return True
        metadata = ObjectMeta(
            deletion_timestamp=listed.deletion_timestamp, owner_references=listed.owner_references
        )
        return key.kind in self._index.consumers and is_left_out(key.kind, metadata)
