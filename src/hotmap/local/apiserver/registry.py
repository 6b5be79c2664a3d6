"""The API server without HTTP: objects by resource, namespace and name on top of a store.

Controllers and the kubelet use it as their `Client`, as upstream's components use a loopback
client. The HTTP side (`handlers`) uses what implements the methods: `reader` and
`admitted_requests`, which asks webhooks before `writer` and `deleter`.

The methods are coroutines because an HTTP client may take this one's place. They do not wait, so
nothing comes between reading an object and writing it, but for work on large ones (`writer`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.apiserver.admitted_requests import AdmittedRequests, decide_again
from hotmap.local.apiserver.binding import Binding, bind
from hotmap.local.apiserver.deleter import ObjectDeleter
from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from hotmap.local.apiserver.reader import ObjectReader
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.apiserver.writer import ObjectWriter
from hotmap.local.client import ObjectChange, ObjectList, PatchKind
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.apiserver.lists import EncodedList
    from hotmap.local.apiserver.watches import RegistryWatch
    from hotmap.local.scheme import Scheme
    from hotmap.local.store import Store


class Registry:
    """Serve every kind of a scheme, by default the built-in ones, from one store.

    Implements `local.client.Client`, where the methods are described. Their keyword arguments
    are the fields of WriteOptions (and `subresource`), ListOptions, WatchOptions and DeleteOptions.
    `resource` is what `Scheme.resource` takes.
    """

    def __init__(
        self,
        store: Store,
        *,
        scheme: Scheme | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.scheme = built_in_scheme() if scheme is None else scheme
        self._clock = clock
        self.reader = ObjectReader(store, self.scheme)
        self.writer = ObjectWriter(store, self.reader, clock)
        self.deleter = ObjectDeleter(store, self.reader, clock)
        self.admitted = AdmittedRequests(store, self.reader, self.writer, self.deleter)

    def now(self) -> float:
        """Return the time for timestamps of objects, in POSIX seconds."""
        return self._clock()

    def _path(
        self, resource: str, namespace: str | None, name: str = "", subresource: str = ""
    ) -> ResourcePath:
        return ResourcePath(self.scheme.resource(resource), namespace, name, subresource)

    async def get(self, resource: str, namespace: str | None, name: str) -> JsonObject:
        return self.reader.get(self._path(resource, namespace, name))

    async def list(self, resource: str, namespace: str | None = None, **options: Any) -> ObjectList:
        return _decoded(self.reader.list(self._path(resource, namespace), ListOptions(**options)))

    def watch(self, resource: str, namespace: str | None = None, **options: Any) -> RegistryWatch:
        return self.reader.watch(self._path(resource, namespace), WatchOptions(**options))

    async def create(
        self, resource: str, namespace: str | None, obj: JsonObject, **options: Any
    ) -> JsonObject:
        path = self._path(resource, namespace)
        return await self.admitted.create(path, obj, WriteOptions(**options))

    async def update(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        obj: JsonObject,
        *,
        subresource: str = "",
        **options: Any,
    ) -> JsonObject:
        path = self._path(resource, namespace, name, subresource)
        return await self.admitted.update(path, obj, WriteOptions(**options))

    async def patch(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        patch: object,
        *,
        kind: PatchKind,
        subresource: str = "",
        **options: Any,
    ) -> JsonObject:
        path = self._path(resource, namespace, name, subresource)
        return await self.admitted.patch(path, kind, patch, WriteOptions(**options))

    async def modify(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        change: ObjectChange,
        *,
        subresource: str = "",
        **options: Any,
    ) -> JsonObject:
        path = self._path(resource, namespace, name, subresource)
        return await self.admitted.modify(path, change, WriteOptions(**options))

    async def delete(
        self, resource: str, namespace: str | None, name: str, **options: Any
    ) -> JsonObject:
        path = self._path(resource, namespace, name)
        return await self.admitted.delete(path, DeleteOptions(**options))

    @decide_again
    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None:
        path = self._path("pods", namespace, name, "binding")
        bind(self.store, self.reader, path, Binding(node, uid), now=timestamp(self._clock()))


def _decoded(page: EncodedList) -> ObjectList:
    return ObjectList([msgspec.json.decode(item) for item in page.items], *page[1:])
