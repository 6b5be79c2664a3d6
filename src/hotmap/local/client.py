"""The API client interface that controllers and the kubelet use.

The part of client-go's clients that upstream's components use. `apiserver.registry` is the one
implementation: a loopback without HTTP. Objects that come out belong to the caller, objects that
go in are copied. Failures are the ApiErrors of `core.errors`.

A resource is named like `configmaps` or `deployments.apps`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Literal, NamedTuple, Protocol, Self

from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import Scheme

__all__ = ["Client", "EventType", "ObjectList", "PatchKind", "Propagation", "Watch", "WatchEvent"]

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
PatchKind = Literal["json", "merge", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]
#: Edits or replaces an object in place; None leaves it as it is.
ObjectChange = Callable[[JsonObject], JsonObject | None]


class ObjectList(NamedTuple):
    """A page of objects in key order; `remaining` is None where upstream does not say it."""

    items: list[JsonObject]
    resource_version: str
    continue_token: str
    remaining: int | None


class WatchEvent(NamedTuple):
    """One line of a watch stream; a BOOKMARK's object has nothing but a resourceVersion."""

    type: EventType
    object: JsonObject


class Watch(Protocol):
    """A stream of WatchEvents; leaving its context closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def __aiter__(self) -> AsyncIterator[WatchEvent]: ...


class Client(Protocol):
    """Read and write objects of every served kind."""

    @property
    def scheme(self) -> Scheme:
        """The served kinds."""
        ...

    async def get(self, resource: str, namespace: str | None, name: str) -> JsonObject:
        """Get one object as it is now.

        Raises:
            NotFound: it does not exist.
        """
        ...

    async def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        field_selector: str = "",
        limit: int = 0,
    ) -> ObjectList:
        """List a namespace's objects, or those of all namespaces, in key order."""
        ...

    def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        since: str | None = None,
        field_selector: str = "",
    ) -> Watch:
        """Watch a kind from a resourceVersion on.

        Raises:
            Expired: `since` is compacted; list again.
        """
        ...

    async def create(
        self, resource: str, namespace: str | None, obj: JsonObject, *, manager: str
    ) -> JsonObject:
        """Create an object; return it as stored.

        Raises:
            AlreadyExists: the name is taken.
            Invalid: it breaks the rules of its kind.
            NotFound: the namespace does not exist.
            Forbidden: the namespace is being deleted.
        """
        ...

    async def update(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        obj: JsonObject,
        *,
        manager: str,
        subresource: str = "",
    ) -> JsonObject:
        """Replace an object, or a part of it; a resourceVersion in it is a precondition.

        Raises:
            NotFound: it does not exist, and its kind is not created by an update.
            Conflict: the resourceVersion or the uid is not the current one.
            Invalid: it breaks the rules of its kind.
        """
        ...

    async def modify(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        change: ObjectChange,
        *,
        manager: str,
        subresource: str = "",
    ) -> JsonObject:
        """Read an object, let `change` edit or replace it, and write what it returns.

        None from `change` leaves the object as it is. Nothing comes between the read and the
        write, so there is no conflict to retry.

        Raises:
            NotFound: the object does not exist.
            Invalid: the result breaks the rules of its kind.
        """
        ...

    async def delete(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        grace_period: int | None = None,
        uid: str | None = None,
        propagation: Propagation | None = None,
    ) -> JsonObject:
        """Delete an object, or begin to: return a Status where it is gone, else the object.

        Raises:
            NotFound: it does not exist.
            Conflict: it has another uid.
        """
        ...

    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None:
        """Assign a pod to a node.

        Raises:
            NotFound: the pod does not exist.
            Conflict: it is bound already, is being deleted, or has another uid.
        """
        ...
