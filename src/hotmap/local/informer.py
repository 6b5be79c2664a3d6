"""A cache of one kind's objects inside the process, kept up to date by a watch.

What upstream's controllers and kubelet get from client-go's informers (client-go: tools/cache): the
objects by name, indexes over them, listeners that get (old, new), and waiting until the cache has
seen a write of one's own. The HTTP side of the same idea is `kube/reflector.py`; this one uses no
HTTP and has no broken connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from hotmap.core.errors import Expired
from hotmap.local.client import Client
from hotmap.local.meta import Object, ObjectName, name_of
from hotmap.local.scheme import Kind

_log = logging.getLogger(__name__)

__all__ = ["Index", "Informer", "InformerStatistics", "Informers", "by_namespace"]

Listener = Callable[[Object | None, Object | None], None]

# Seconds before a watch that ended at once is opened again, so that a store that is shutting down
# is not called in a tight loop. A watch that served anything is resumed without a pause.
_RESUME_PAUSE = 0.05


class InformerStatistics(NamedTuple):
    #: objects in the cache
    objects: int
    #: lists since the start; more than one means that watches expired
    lists: int
    #: watches since the start
    watches: int


class Index:
    """The objects of an informer by a value that a function reads from each of them."""

    def __init__(self, values_of: Callable[[Object], Iterable[Hashable]]) -> None:
        self._values_of = values_of
        #: No empty members: a value that no object has is absent.
        self._members: dict[Hashable, dict[ObjectName, Object]] = {}

    def get(self, value: Hashable) -> list[Object]:
        """Return the objects with a value, in the order in which they got it."""
        return list(self._members.get(value, {}).values())

    def count(self, value: Hashable) -> int:
        """Return how many objects have a value."""
        return len(self._members.get(value, ()))

    def replace(self, name: ObjectName, old: Object | None, new: Object | None) -> None:
        """Apply a change; only the informer calls this."""
        before = set(self._read_values(name, old))
        after = self._read_values(name, new)
        for value in before.difference(after):
            members = self._members[value]
            del members[name]
            if not members:
                del self._members[value]
        for value in after:
            assert new is not None
            self._members.setdefault(value, {})[name] = new

    def _read_values(self, name: ObjectName, obj: Object | None) -> list[Hashable]:
        """Read the values of an object; none if the function fails on it, a defect of ours."""
        if obj is None:
            return []
        try:
            return list(self._values_of(obj))
        except Exception:
            _log.exception("%s: internal error; it is not indexed", "/".join(name))
            return []


class Informer:
    """Keep all objects of a kind, of one namespace or with some field, as the API server has them.

    Objects are shared by all who read them and are replaced, never changed: copy before you change
    one. Indexes and listeners are added before `run`; listeners are called synchronously after the
    cache and its indexes have applied the change, with None for an object that did not exist or was
    deleted. An object that was recreated between two lists is reported as deleted and as added.
    """

    def __init__(
        self,
        client: Client,
        resource: str,
        namespace: str | None = None,
        *,
        field_selector: str = "",
    ) -> None:
        #: (namespace, name) → object; the namespace is "" for cluster-scoped kinds.
        self.objects: dict[ObjectName, Object] = {}
        #: Everything up to this revision is in the cache.
        self.resource_version = 0
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._field_selector = field_selector
        self._indexes: list[Index] = []
        self._listeners: list[Listener] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._lists = self._watches = 0

    def subscribe(self, listener: Listener) -> None:
        """Call *listener* with (old, new) after each change from now on."""
        self._listeners.append(listener)

    def index(self, values_of: Callable[[Object], Iterable[Hashable]]) -> Index:
        """Index the objects by what a function reads from them, also those already there."""
        index = Index(values_of)
        for name, obj in self.objects.items():
            index.replace(name, None, obj)
        self._indexes.append(index)
        return index

    def statistics(self) -> InformerStatistics:
        return InformerStatistics(len(self.objects), self._lists, self._watches)

    async def wait_for_sync(self) -> None:
        """Wait until the cache holds what existed when `run` began."""
        await self.until(lambda: self._lists > 0)

    async def wait_for_version(self, resource_version: str) -> None:
        """Wait until the cache has seen a write that returned this resourceVersion.

        So that the next decision is based on it; upstream's controllers use expectations for this.
        Not for an informer with a field selector, which does not see writes outside of it.
        """
        wanted = int(resource_version)
        await self.until(lambda: self.resource_version >= wanted)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Wait until *predicate*, evaluated after each change, is true for the cache."""
        while not predicate():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def run(self) -> None:
        """List and watch until cancelled; list again when a watch expires."""
        await self._list()
        while True:
            before = self.resource_version
            try:
                await self._follow()
            except Expired:
                await self._list()
            if self.resource_version == before:
                await asyncio.sleep(_RESUME_PAUSE)

    async def _list(self) -> None:
        found = await self._client.list(
            self._resource, self._namespace, field_selector=self._field_selector
        )
        self._lists += 1
        present = {name_of(obj): obj for obj in found.items}
        for name in self.objects.keys() - present.keys():
            self._apply(name, None)
        for name, obj in present.items():
            self._update_cache(name, obj)
        self._advance(int(found.resource_version))

    async def _follow(self) -> None:
        self._watches += 1
        with self._client.watch(
            self._resource,
            self._namespace,
            since=str(self.resource_version),
            field_selector=self._field_selector,
        ) as watch:
            async for change, obj in watch:
                if change == "DELETED":
                    self._apply(name_of(obj), None)
                elif change != "BOOKMARK":
                    self._update_cache(name_of(obj), obj)
                self._advance(int(obj["metadata"]["resourceVersion"]))

    def _update_cache(self, name: ObjectName, obj: Object) -> None:
        old = self.objects.get(name)
        if old is not None and old["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._apply(name, None)
        elif old == obj:
            return
        self._apply(name, obj)

    def _apply(self, name: ObjectName, new: Object | None) -> None:
        old = self.objects.pop(name, None)
        if new is not None:
            self.objects[name] = new
        for index in self._indexes:
            index.replace(name, old, new)
        for listener in self._listeners:
            try:
                listener(old, new)
            except Exception:
                # One object on which a listener fails must not stop all controllers (upstream
                # recovers from panics in the same way, apimachinery: util/runtime, HandleCrash).
                _log.exception("%s %s: internal error", self._resource, "/".join(name))

    def _advance(self, resource_version: int) -> None:
        self.resource_version = resource_version
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Informers:
    """One informer per kind, shared by all users (client-go: SharedInformerFactory).

    An informer that is first requested while `run` runs is started at once. That of a kind which
    is no longer served is stopped.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[str, Informer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: None unless running.
        self._group: asyncio.TaskGroup | None = None
        client.scheme.subscribe(self._on_kind)

    def __getitem__(self, resource: str) -> Informer:
        """Return the informer of a kind over all namespaces.

        Raises:
            KeyError: the kind is not served.
        """
        resource = self._client.scheme.resource(resource).resource
        if resource not in self._informers:
            self._informers[resource] = Informer(self._client, resource)
            self._start(resource)
        return self._informers[resource]

    def __iter__(self) -> Iterator[Informer]:
        return iter(tuple(self._informers.values()))

    def follow_kinds(
        self, added: Callable[[Kind, Informer], None], removed: Callable[[Kind], None]
    ) -> None:
        """Call *added* for each kind, now and when it is registered; *removed* when it ends."""

        def listen(kind: Kind, served: bool) -> None:
            if served:
                added(kind, self[kind.resource])
            else:
                removed(kind)

        scheme = self._client.scheme
        for kind in scheme:
            listen(kind, True)
        scheme.subscribe(listen)

    async def wait_for_sync(self) -> None:
        """Wait until every cache is filled."""
        for informer in self:
            await informer.wait_for_sync()

    async def run(self) -> None:
        """Run all informers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for resource in tuple(self._informers):
                    self._start(resource)
        finally:
            self._group = None
            self._tasks.clear()

    def _start(self, resource: str) -> None:
        if self._group is not None:
            self._tasks[resource] = self._group.create_task(self._informers[resource].run())

    def _on_kind(self, kind: Kind, served: bool) -> None:
        if not served and self._informers.pop(kind.resource, None) is not None:
            task = self._tasks.pop(kind.resource, None)
            if task is not None:
                task.cancel()


def by_namespace(obj: Object) -> list[Hashable]:
    """Index by namespace."""
    return [obj["metadata"]["namespace"]]
