"""The API server without HTTP: objects by resource, namespace and name on top of a store.

Controllers and the kubelet use it as their `Client`, as upstream's components use a loopback
client, and the HTTP side adds transport. The methods are implemented by `reader`, `writer` and
`deleter`.

The methods are coroutines because an HTTP client may take this one's place. They do not wait, so
nothing comes between reading an object and writing it, but for work on large ones (`writer`).
"""

from __future__ import annotations

import contextlib
import time
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.binding import Binding, bind
from hotmap.local.apiserver.deleter import ObjectDeleter
from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from hotmap.local.apiserver.reader import ObjectReader
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.apiserver.scale import rescaled
from hotmap.local.apiserver.status import conflict
from hotmap.local.apiserver.webhooks import Operation
from hotmap.local.apiserver.writer import ObjectWriter, is_unchanged
from hotmap.local.client import ObjectChange, ObjectList, PatchKind
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp
from hotmap.local.store import StaleRead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.lists import EncodedList
    from hotmap.local.apiserver.plugins.admission_policies import AdmissionPolicies
    from hotmap.local.apiserver.watches import RegistryWatch
    from hotmap.local.apiserver.webhooks import Webhooks
    from hotmap.local.scheme import Scheme
    from hotmap.local.store import Store

_Method = TypeVar("_Method", bound="Callable[..., Awaitable[Any]]")

# Ours: another API server that wins as often in a row is not an accident.
_STALE_ATTEMPTS = 10


def _decide_again(method: _Method) -> _Method:
    """Repeat a write that was based on a state which another writer has changed."""

    @wraps(method)
    async def repeated(*args: Any, **kwargs: Any) -> Any:
        for _ in range(_STALE_ATTEMPTS - 1):
            try:
                return await method(*args, **kwargs)
            except StaleRead:
                continue
        return await method(*args, **kwargs)

    return repeated  # type: ignore[return-value]


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
        #: Called before each write; None admits everything.
        self.webhooks: Webhooks | None = None
        #: Called before each connection to a pod; for writes they are a plugin.
        self.policies: AdmissionPolicies | None = None

    def now(self) -> float:
        """Return the time for timestamps of objects, in POSIX seconds."""
        return self._clock()

    def _path(
        self, resource: str, namespace: str | None, name: str = "", subresource: str = ""
    ) -> ResourcePath:
        return ResourcePath(self.scheme.resource(resource), namespace, name, subresource)

    async def _write(
        self,
        verb: Literal["CREATE", "UPDATE"],
        path: ResourcePath,
        options: WriteOptions,
        write: Callable[[WriteOptions], Awaitable[JsonObject]],
        *,
        is_request: bool = True,
    ) -> JsonObject:
        """Carry out a write; where webhooks have to be asked, ask them before.

        They are asked about a request that changes nothing, too, since a mutating webhook may
        change the object then.

        Raises:
            Conflict: the object was changed by others during each of several attempts.
        """
        webhooks = self.webhooks
        requested = path._replace(subresource=path.subresource or options.through)
        if webhooks is None or not webhooks.concern(path.kind, verb, requested.subresource):
            return await write(options)
        for _ in range(_STALE_ATTEMPTS):
            old = self.reader.get(path) if verb == "UPDATE" else None
            planned = await write(options._replace(dry_run=True))
            if not is_request and old is not None and is_unchanged(old, planned):
                return await write(options)
            operation = Operation.of_write(
                verb, requested, options.user, dry_run=options.dry_run, obj=planned, old=old
            )
            changed = await webhooks.mutate(operation)
            await webhooks.validate(operation._replace(obj=changed))
            if old is not None and self._version(path) != old["metadata"]["resourceVersion"]:
                continue
            # The webhooks have seen the generated name, so that name is used.
            if changed == operation.obj and (old is not None or path.name):
                return await write(options)
            assert changed is not None
            if options.through == "scale":
                changed = rescaled(path.kind, planned, changed)
            if old is not None:
                return await self.writer.update(path, changed, options)
            changed["metadata"].pop("resourceVersion", None)
            return await self.writer.create(path._replace(name=""), changed, options)
        raise conflict(path.kind, path.name)

    async def admit_connection(
        self, path: ResourcePath, options: JsonObject, user: UserInfo
    ) -> JsonObject:
        """Ask webhooks and policies about a connection to a pod; return its options.

        Raises:
            ApiError: it is refused (apiserver/pkg/endpoints/handlers/rest.go, ConnectResource).
        """
        operation = Operation("CONNECT", path, user, dry_run=False, obj=options, old=None)
        webhooks = self.webhooks
        asked = webhooks is not None and webhooks.concern(path.kind, "CONNECT", path.subresource)
        if webhooks is not None and asked:
            operation = operation._replace(obj=await webhooks.mutate(operation))
        if self.policies is not None:
            self.policies.check(operation, None)
        if webhooks is not None and asked:
            await webhooks.validate(operation)
        return operation.obj or options

    def _version(self, path: ResourcePath) -> str:
        """Give the resourceVersion of an object, "" where it does not exist."""
        entry = self.store.get(path.kind.key(path.namespace, path.name))
        return str(entry.mod_revision) if entry is not None else ""

    async def get(self, resource: str, namespace: str | None, name: str) -> JsonObject:
        return self.reader.get(self._path(resource, namespace, name))

    async def list(self, resource: str, namespace: str | None = None, **options: Any) -> ObjectList:
        return _decoded(self.reader.list(self._path(resource, namespace), ListOptions(**options)))

    def watch(self, resource: str, namespace: str | None = None, **options: Any) -> RegistryWatch:
        return self.reader.watch(self._path(resource, namespace), WatchOptions(**options))

    @_decide_again
    async def create(
        self, resource: str, namespace: str | None, obj: JsonObject, **options: Any
    ) -> JsonObject:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        path = self._path(resource, namespace, name if isinstance(name, str) else "")
        return await self._write(
            "CREATE", path, WriteOptions(**options), lambda o: self.writer.create(path, obj, o)
        )

    @_decide_again
    async def update(
        self, resource: str, namespace: str | None, name: str, obj: JsonObject, **options: Any
    ) -> JsonObject:
        path = self._path(resource, namespace, name, options.pop("subresource", ""))
        return await self._write(
            "UPDATE", path, WriteOptions(**options), lambda o: self.writer.update(path, obj, o)
        )

    @_decide_again
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
        is_new = kind == "apply" and not self.reader.exists(path)
        return await self._write(
            "CREATE" if is_new else "UPDATE",
            path,
            WriteOptions(**options),
            lambda o: self.writer.patch(path, kind, patch, o),
        )

    @_decide_again
    async def modify(
        self, resource: str, namespace: str | None, name: str, change: ObjectChange, **options: Any
    ) -> JsonObject:
        path = self._path(resource, namespace, name, options.pop("subresource", ""))
        wanted = WriteOptions(**options)
        # A controller that changes nothing would send no request.
        return await self._write(
            "UPDATE",
            path,
            wanted,
            lambda o: self.writer.modify(path, change, o),
            is_request=bool(wanted.through),
        )

    @_decide_again
    async def delete(
        self, resource: str, namespace: str | None, name: str, **options: Any
    ) -> JsonObject:
        path, wanted = self._path(resource, namespace, name), DeleteOptions(**options)
        if self.webhooks is not None and self.webhooks.concern(path.kind, "DELETE", ""):
            old = self.reader.get(path)
            await self.webhooks.validate(
                Operation("DELETE", path, wanted.user, dry_run=wanted.dry_run, obj=None, old=old)
            )
        return self.deleter.delete(path, wanted)

    @_decide_again
    async def delete_collection(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        selection: ListOptions,
        **options: Any,
    ) -> ObjectList:
        """Delete everything that a list with these options shows; return that list."""
        path = self._path(resource, namespace)
        if self.webhooks is not None and self.webhooks.concern(path.kind, "DELETE", ""):
            found = _decoded(self.reader.list(path, selection))
            for obj in found.items:
                metadata = obj["metadata"]
                with contextlib.suppress(NotFound):
                    await self.delete(
                        resource, metadata.get("namespace"), metadata["name"], **options
                    )
            return found
        return _decoded(self.deleter.delete_collection(path, selection, DeleteOptions(**options)))

    @_decide_again
    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None:
        path = self._path("pods", namespace, name, "binding")
        bind(self.store, self.reader, path, Binding(node, uid), now=timestamp(self._clock()))


def _decoded(page: EncodedList) -> ObjectList:
    return ObjectList([msgspec.json.decode(item) for item in page.items], *page[1:])
