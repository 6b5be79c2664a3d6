"""Requests that admission webhooks may change or refuse: writes, and connections to pods.

`registry` makes them for clients in this process, `handlers` for those of the HTTP server.
"""

from __future__ import annotations

import contextlib
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.scale import rescaled
from hotmap.local.apiserver.status import conflict
from hotmap.local.apiserver.webhooks import Operation
from hotmap.local.apiserver.writer import ObjectWriter, is_unchanged
from hotmap.local.json_object import JsonObject
from hotmap.local.store import StaleRead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.deleter import ObjectDeleter
    from hotmap.local.apiserver.lists import EncodedList
    from hotmap.local.apiserver.options import DeleteOptions, ListOptions, WriteOptions
    from hotmap.local.apiserver.plugins.admission_policies import AdmissionPolicies
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.apiserver.webhooks import Webhooks
    from hotmap.local.client import ObjectChange, PatchKind
    from hotmap.local.store import Store

__all__ = ["AdmittedRequests", "decide_again"]

_Method = TypeVar("_Method", bound="Callable[..., Awaitable[Any]]")

# Ours: another API server that wins as often in a row is not an accident.
_STALE_ATTEMPTS = 10


def decide_again(method: _Method) -> _Method:
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


class AdmittedRequests:
    """Asks the webhooks of a request, if there are any, and carries it out."""

    def __init__(
        self, store: Store, reader: ObjectReader, writer: ObjectWriter, deleter: ObjectDeleter
    ) -> None:
        self._store = store
        self._reader = reader
        self._writer = writer
        self._deleter = deleter
        #: Called before each write; None admits everything.
        self.webhooks: Webhooks | None = None
        #: Called before each connection to a pod; for writes they are a plugin.
        self.policies: AdmissionPolicies | None = None

    @decide_again
    async def create(
        self, path: ResourcePath, obj: JsonObject, options: WriteOptions
    ) -> JsonObject:
        """Create an object, of the name in its metadata; return it as stored.

        Raises:
            ApiError: as `ObjectWriter.create`, or a webhook refuses it.
        """
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        path = path._replace(name=name if isinstance(name, str) else "")
        return await self._write(
            "CREATE", path, options, lambda o: self._writer.create(path, obj, o)
        )

    @decide_again
    async def update(
        self, path: ResourcePath, obj: JsonObject, options: WriteOptions
    ) -> JsonObject:
        """Replace an object; return it as stored.

        Raises:
            ApiError: as `ObjectWriter.update`, or a webhook refuses it.
        """
        return await self._write(
            "UPDATE", path, options, lambda o: self._writer.update(path, obj, o)
        )

    @decide_again
    async def patch(
        self, path: ResourcePath, kind: PatchKind, patch: object, options: WriteOptions
    ) -> JsonObject:
        """Apply a patch to an object; return it as stored.

        Raises:
            ApiError: as `ObjectWriter.patch`, or a webhook refuses it.
        """
        is_new = kind == "apply" and not self._reader.exists(path)
        return await self._write(
            "CREATE" if is_new else "UPDATE",
            path,
            options,
            lambda o: self._writer.patch(path, kind, patch, o),
        )

    @decide_again
    async def modify(
        self, path: ResourcePath, change: ObjectChange, options: WriteOptions
    ) -> JsonObject:
        """Write what `change` makes of an object; return it as stored.

        Raises:
            ApiError: as `ObjectWriter.modify`, or a webhook refuses it.
        """
        # A controller that changes nothing would send no request.
        return await self._write(
            "UPDATE",
            path,
            options,
            lambda o: self._writer.modify(path, change, o),
            is_request=bool(options.through),
        )

    @decide_again
    async def delete(self, path: ResourcePath, options: DeleteOptions) -> JsonObject:
        """Delete an object, or begin to: return a Status where it is gone, else the object.

        Raises:
            ApiError: as `ObjectDeleter.delete`, or a webhook refuses it.
        """
        if self.webhooks is not None and self.webhooks.concern(path.kind, "DELETE", ""):
            old = self._reader.get(path)
            await self.webhooks.validate(
                Operation("DELETE", path, options.user, dry_run=options.dry_run, obj=None, old=old)
            )
        return self._deleter.delete(path, options)

    async def delete_collection(
        self, path: ResourcePath, selection: ListOptions, options: DeleteOptions
    ) -> EncodedList:
        """Delete everything that a list with these options shows; return that list.

        Raises:
            ApiError: as `delete`; others may be deleted already.
        """
        found = self._reader.list(path, selection)
        for item in found.items:
            metadata = msgspec.json.decode(item)["metadata"]
            each = path._replace(namespace=metadata.get("namespace"), name=metadata["name"])
            with contextlib.suppress(NotFound):
                await self.delete(each, options)
        return found

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
            old = self._reader.get(path) if verb == "UPDATE" else None
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
                return await self._writer.update(path, changed, options)
            changed["metadata"].pop("resourceVersion", None)
            return await self._writer.create(path._replace(name=""), changed, options)
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
        """Return the resourceVersion of an object, "" where it does not exist."""
        entry = self._store.get(path.kind.key(path.namespace, path.name))
        return str(entry.mod_revision) if entry is not None else ""
