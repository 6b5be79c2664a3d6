"""Authenticates users of the status endpoint and authorizes them per namespace.

A client sends a bearer token. The API server authenticates it (TokenReview) and decides whether
the user may `get` the resource `workloads.hotmap.dev` in a namespace (SubjectAccessReview). No
objects of that resource exist: it only names the permission, which the ClusterRole `view` includes
(deploy/base).

Results are cached for some seconds, tokens as digests only. docs/decisions/0019 explains why the
token is sent in a separate header.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from hotmap.core.errors import Forbidden
from hotmap.core.text import printable
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time

__all__ = ["TOKEN_HEADER", "StatusAccess", "User"]

#: The header with the token, `Bearer …`: the API server's proxy removes Authorization.
TOKEN_HEADER = "Hotmap-Authorization"

#: The required permission.
GROUP, RESOURCE, VERB = "hotmap.dev", "workloads", "get"

#: Seconds for which a result is cached, and the maximum number of cached results.
_KEPT_FOR, _KEPT = 10.0, 4096

#: Concurrent reviews, so that clients of hotmap cannot overload the API server.
_MAX_REVIEWS = 8

#: Namespaces that are reviewed for a request without a namespace.
_MAX_NAMESPACES = 200

#: Characters of a token.
_LONGEST_TOKEN = 16384

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

K = TypeVar("K")
V = TypeVar("V")


class User(NamedTuple):
    """A user, as returned by a TokenReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class StatusAccess:
    """Sends reviews to the API server and caches the results."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = loop_time) -> None:
        self._client = client
        self._limit = asyncio.Semaphore(_MAX_REVIEWS)
        self._users: _Kept[bytes, User | None] = _Kept(clock)
        self._allowed: _Kept[tuple[User, str], bool] = _Kept(clock)

    async def authenticate(self, header: str) -> User:
        """Return the user of a header's token.

        Raises:
            Forbidden: there is no token, or the API server does not accept it.
            ApiError, Unreachable: the API server does not answer, or forbids the review.
        """
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Forbidden(f"no token: send one as '{TOKEN_HEADER}: Bearer TOKEN'")
        user = None
        if len(token) <= _LONGEST_TOKEN:
            mark = hashlib.sha256(token.encode()).digest()
            known = self._users.get(mark)
            user = known[0] if known else self._users.put(mark, await self._review(token))
        if user is None:
            raise Forbidden("the API server does not accept the token")
        return user

    async def readable(
        self, user: User, named: str, namespaces: Iterable[str]
    ) -> frozenset[str] | None:
        """Return the namespaces that a user may read; None: all.

        `named` is the namespace in the request. If it is "", the first 200 of `namespaces` are
        reviewed.

        Raises:
            Forbidden: the user may not read the named namespace, or not any namespace.
            ApiError, Unreachable: the API server does not answer, or forbids the review.
        """
        if await self.may_read(user, named):
            return frozenset((named,)) if named else None
        if named:
            raise _refusal(user, named)
        asked = sorted(set(namespaces))[:_MAX_NAMESPACES]
        answers = await asyncio.gather(*(self.may_read(user, namespace) for namespace in asked))
        allowed = frozenset(item for item, may in zip(asked, answers, strict=True) if may)
        if not allowed:
            raise _refusal(user, "")
        return allowed

    async def may_read(self, user: User, namespace: str) -> bool:
        """Return whether a user may read the status of a namespace; "" means all of them."""
        known = self._allowed.get((user, namespace))
        if known is not None:
            return known[0]
        attributes = {"verb": VERB, "group": GROUP, "resource": RESOURCE, "namespace": namespace}
        spec: dict[str, Any] = {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": dict(user.extra),
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        answer = await self._post(_ACCESS_REVIEWS, {**body, "spec": spec})
        review = msgspec.json.decode(answer, type=_AccessReview)
        return self._allowed.put((user, namespace), review.status.allowed)

    async def _review(self, token: str) -> User | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        answer = await self._post(_REVIEWS, {**body, "spec": {"token": token}})
        status = msgspec.json.decode(answer, type=_TokenReview).status
        if not status.authenticated or not status.user.username:
            return None
        info = status.user
        extra = tuple((name, tuple(values)) for name, values in sorted(info.extra.items()))
        return User(info.username, info.uid, tuple(info.groups), extra)

    async def _post(self, path: str, body: dict[str, Any]) -> bytes:
        async with self._limit:
            return await self._client.request("POST", path, body=msgspec.json.encode(body))


def _refusal(user: User, namespace: str) -> Forbidden:
    """Return the error that names the missing permission and the namespace."""
    where = (
        f"in namespace {printable(namespace, 80)}"
        if namespace
        else "in any namespace with followed workloads"
    )
    return Forbidden(
        f"{printable(user.name, 200)} may not {VERB} {RESOURCE}.{GROUP} {where}; the ClusterRole "
        "view, bound there, permits it"
    )


class _Kept(Generic[K, V]):
    """Values that are kept for some seconds, a bounded number of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._values: dict[K, tuple[V, float]] = {}

    def get(self, key: K) -> tuple[V] | None:
        found = self._values.get(key)
        return (found[0],) if found is not None and self._clock() < found[1] else None

    def put(self, key: K, value: V) -> V:
        put_latest(self._values, key, (value, self._clock() + _KEPT_FOR), most=_KEPT)
        return value
