"""Calls to one API server: typed responses and errors, bounded retries, raw watch streams.

Returns bytes and Structs, and raises the exceptions of `core.errors`. `transport` sends requests,
`reflector` decides when to list or watch, `watch` decodes watch streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from hotmap.core.errors import (
    ApiError,
    HotmapError,
    Throttled,
    Unavailable,
    Unreachable,
)
from hotmap.kube.config import ClusterConfig
from hotmap.kube.decoding import decode, without_deep_values
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.partial_metadata import ACCEPT_METADATA, PartialObjectMetadata
from hotmap.kube.resources import Resource
from hotmap.kube.retry import Backoff, Outage
from hotmap.kube.transport import Request, Transport, WatchStream, is_certificate_error

__all__ = ["DEFAULT_LIMITS", "Client", "ClientStatistics", "Limits", "Page"]

T = TypeVar("T")

#: Lists at once, of which each takes up to 1 MiB, and up to some 30.
_SHORT_LISTS, _LONG_LISTS = 16, 2

MERGE_PATCH: Final = "application/merge-patch+json"


class Limits(NamedTuple):
    """Time limits and attempts of one call; all times in seconds."""

    #: until a connection is established, including TLS
    connect: float = 10.0
    #: for one whole attempt; the server itself gives up after 60
    #: (apiserver: --request-timeout), the rest is for a large response on a slow connection
    attempt: float = 90.0
    #: attempts of a call that may be repeated
    attempts: int = 4
    #: the first and the longest pause between attempts
    pause_first: float = 0.5
    pause_last: float = 8.0
    #: the longest Retry-After that is waited for; with a longer one the error is raised
    max_retry_after: float = 30.0


DEFAULT_LIMITS: Final = Limits()


class Page(NamedTuple, Generic[T]):
    """One page of a list, and the token of the next."""

    items: list[T]
    resource_version: str
    #: "" when this is the last page
    continue_token: str
    #: bytes of the response
    size: int = 0


class ClientStatistics(NamedTuple):
    #: (method, HTTP status as text) → responses; "unreachable" counts attempts without a response
    answers: Mapping[tuple[str, str], int]
    #: attempts that repeated an earlier one
    retries: int


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class Client:
    """A client of the API server of `config`; an async context manager.

    With `PartialObjectMetadata` as type, the server is asked for the object's metadata alone.

    After a write was cancelled it is unknown whether the server did it, so every write of hotmap
    has a precondition or can be repeated safely.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "hotmap",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._transport = Transport(config, user_agent=user_agent, connect_timeout=limits.connect)
        #: Which failures of this server were logged, shared by all watches: an outage is logged
        #: once.
        self.log_throttle = LogThrottle()
        #: Who may read a list now, by namespace: see `kube.paging`.
        self.short_lists, self.long_lists = FairSlots(_SHORT_LISTS), FairSlots(_LONG_LISTS)
        self._retries = 0

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._transport.close()

    @property
    def server(self) -> str:
        """The server's URL, for messages."""
        return self._transport.config.server

    @property
    def outage(self) -> Outage:
        """Whether the server cannot be reached now."""
        return self._transport.outage

    @property
    def impersonates(self) -> bool:
        """Whether requests are made as another user than the one of the credentials."""
        return bool(self._transport.config.impersonate)

    async def authorization(self) -> str:
        """Return the Authorization header of requests, "" without a token.

        Raises:
            SettingsError: there are no credentials.
        """
        credentials = self._transport.config.credentials
        await credentials.prepare()
        return credentials.authorization()

    @property
    def namespace(self) -> str:
        """The default namespace."""
        return self._transport.config.namespace

    def server_time(self) -> float:
        """Return POSIX seconds on the server's clock, as far as its responses show it."""
        return self._transport.clock.now()

    def statistics(self) -> ClientStatistics:
        """Return counts of responses by kind, and of repeated attempts."""
        answers = dict(self._transport.answers)
        return ClientStatistics(answers, self._retries)

    # -- typed calls ---------------------------------------------------------------------------

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, type: type[T]
    ) -> T:
        """Read one object.

        Raises:
            NotFound: it does not exist.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace, name)
        body = await self.request(
            "GET", path, headers=_accept(type), attempts=self._limits.attempts
        )
        return self.decode(body, type, path)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        type: type[T],
        limit: int = 500,
        continue_token: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        attempts: int | None = None,
        at_most: int | None = None,
    ) -> Page[T]:
        """Read one page of a list; `namespace` None lists all, `limit` 0 gives one big page.

        `msgspec.Raw` as type leaves the items undecoded. `attempts` None is the client's own.
        `at_most` is the largest response in bytes; None takes any.

        Raises:
            ResponseTooLarge: there are more bytes; ask for fewer objects.
            Expired: the continue token is too old; start a new list.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace)
        params = {
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version or "",
            "resourceVersionMatch": resource_version_match or "",
        }
        body = await self.request(
            "GET",
            path,
            params={name: value for name, value in params.items() if value},
            attempts=self._limits.attempts if attempts is None else attempts,
            at_most=at_most,
        )
        page: _List[T] = await self._decode_list(
            body,
            _List[type],  # type: ignore[valid-type]
            path,
        )
        metadata = page.metadata
        return Page(page.items or [], metadata.resource_version, metadata.continue_token, len(body))

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Mapping[str, Any] | bytes,
        *,
        type: type[T],
        subresource: tuple[str, str] | None = None,
        field_manager: str = "hotmap",
        dry_run: bool = False,
        idempotent: bool = False,
        attempts: int | None = None,
    ) -> T:
        """Create an object and return it as the server keeps it.

        `subresource` names an object and one of its subresources, such as an eviction, which is
        what is created then. `dry_run` does everything but the last step. `idempotent` means that a
        repetition is safe: the name is fixed, and the caller treats AlreadyExists as success.
        `attempts` None is the client's own.

        Raises:
            AlreadyExists: the name is taken.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace, *(subresource or ()))
        answer = await self.request(
            "POST",
            path,
            params={"fieldManager": field_manager, **({"dryRun": "All"} if dry_run else {})},
            body=_encode(body),
            headers=_accept(type),
            attempts=self._limits.attempts if attempts is None else attempts,
            idempotent=idempotent,
        )
        return self.decode(answer, type, path)

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any] | bytes,
        *,
        type: type[T],
        field_manager: str = "hotmap",
        subresource: str | None = None,
        idempotent: bool = False,
    ) -> T:
        """Replace an object; a `metadata.resourceVersion` in the body is a precondition.

        Raises:
            Conflict: the object is not the one that the body was made from.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace, name, subresource)
        return await self._write(
            "PUT",
            path,
            body,
            type=type,
            headers={},
            field_manager=field_manager,
            attempts=self._limits.attempts,
            idempotent=idempotent,
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        *,
        type: type[T],
        content_type: str = MERGE_PATCH,
        field_manager: str = "hotmap",
        subresource: str | None = None,
        idempotent: bool = False,
        attempts: int | None = None,
    ) -> T:
        """Patch an object; a `metadata.resourceVersion` in the body is a precondition.

        It is retried after a lost response only with such a precondition or if `idempotent`; if the
        first attempt had succeeded, the retry gets Conflict. `attempts` None is the client's own.

        Raises:
            Conflict: the object changed, or was deleted and recreated.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace, name, subresource)
        return await self._write(
            "PATCH",
            path,
            body,
            type=type,
            headers={"Content-Type": content_type},
            field_manager=field_manager,
            attempts=self._limits.attempts if attempts is None else attempts,
            idempotent=idempotent,
        )

    async def _write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        *,
        type: type[T],
        headers: Mapping[str, str],
        field_manager: str,
        attempts: int,
        idempotent: bool,
    ) -> T:
        answer = await self.request(
            method,
            path,
            params={"fieldManager": field_manager},
            body=_encode(body),
            headers={**_accept(type), **headers},
            attempts=attempts,
            idempotent=idempotent or _has_precondition(body),
        )
        return self.decode(answer, type, path)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_period: int | None = None,
        attempts: int | None = None,
    ) -> None:
        """Delete an object; `uid` and `resource_version` are preconditions.

        `propagation` is Background, Foreground or Orphan, `grace_period` in seconds; None
        leaves both to the kind's default. With a precondition it is retried after a lost response;
        if the first attempt had succeeded, the retry gets NotFound or Conflict. `attempts` None is
        the client's own.

        Raises:
            NotFound: it is gone already.
            Conflict: a precondition does not hold.
            ApiError, Unreachable: see `request`.
        """
        preconditions = {
            name: value
            for name, value in (("uid", uid), ("resourceVersion", resource_version))
            if value
        }
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        await self.request(
            "DELETE",
            resource.path(namespace, name),
            body=_encode(options),
            attempts=self._limits.attempts if attempts is None else attempts,
            idempotent=bool(preconditions),
        )

    # -- raw calls -----------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        attempts: int = 1,
        idempotent: bool | None = None,
        at_most: int | None = None,
    ) -> bytes:
        """Make one call and return the body of its response.

        Up to `attempts` tries with growing pauses, not shorter than the server's Retry-After: after
        429 always, since the server has not begun such a call (kubernetes: apiserver/pkg/server/
        filters), after 5xx or no response only if `idempotent` (None: for GET and HEAD). `at_most`
        is the largest body in bytes; None takes any.

        Raises:
            ResponseTooLarge: the body is larger.
            Unauthorized: the credentials were refused, even after they were read again.
            ApiError: the server returned another failure.
            Unreachable: no response, or not the expected server, or no credentials any more.
            SettingsError: there have never been usable credentials.
        """
        if idempotent is None:
            idempotent = method in ("GET", "HEAD")
        request = Request(method, path, params, body, headers)
        backoff = Backoff(self._limits.pause_first, self._limits.pause_last)
        for attempt in range(attempts):
            try:
                return await self._transport.read(
                    request, timeout=self._limits.attempt, at_most=at_most
                )
            except HotmapError as error:
                last = attempt + 1 >= attempts
                if last or not self._may_repeat(error, idempotent=idempotent):
                    raise
                retry_after = getattr(error, "retry_after", None) or 0.0
                self._retries += 1
                await asyncio.sleep(max(backoff.next(), retry_after))
        raise ValueError("attempts must be at least 1")

    def _may_repeat(self, error: HotmapError, *, idempotent: bool) -> bool:
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        if (retry_after or 0.0) > self._limits.max_retry_after:
            return False
        if is_certificate_error(error):
            return False  # waiting does not help
        if isinstance(error, Throttled):
            return True
        return idempotent and isinstance(error, Unavailable | Unreachable)

    @asynccontextmanager
    async def open_watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        params: Mapping[str, str],
    ) -> AsyncIterator[WatchStream]:
        """Open a watch stream; leaving the context closes its connection.

        `params` as in Kubernetes' API (resourceVersion, timeoutSeconds, …); `watch` is added.
        One attempt; only connecting has a time limit: see WatchStream.

        Raises:
            Expired: the resourceVersion is too old, reported by the HTTP status.
            ApiError, Unreachable, SettingsError: as `request`.
        """
        request = Request("GET", resource.path(namespace), {"watch": "true", **params})
        async with self._transport.stream(request) as stream:
            yield stream

    async def _decode_list(self, body: bytes, type: type[T], path: str) -> T:
        """Decode a list; where one object nests too deeply, the others do not wait for it."""
        try:
            decoded: T = _decoder(type).decode(body)
        except RecursionError:
            body = await asyncio.to_thread(without_deep_values, body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # again, for its message
        else:
            return decoded
        return self.decode(body, type, path)

    def decode(self, body: bytes, type: type[T], path: str) -> T:
        """Decode the answer to a request for a path.

        Raises:
            Unavailable: it is not JSON in UTF-8, or does not match the type.
        """
        try:
            decoded: T = decode(_decoder(type), body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            is_html = body.lstrip()[:1] == b"<"
            problem = "HTML, as of a proxy or a login page, and not JSON" if is_html else error
            raise Unavailable(
                f"{self.server} returned an invalid response to {path}: {problem}",
                code=502,
                reason="BadGateway",
            ) from error
        return decoded


def _accept(type: object) -> dict[str, str]:
    return {"Accept": ACCEPT_METADATA} if type is PartialObjectMetadata else {}


def _encode(body: Mapping[str, Any] | Sequence[Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _has_precondition(body: object) -> bool:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return isinstance(metadata, Mapping) and bool(metadata.get("resourceVersion"))


# msgspec builds a decoder for a type once; looking it up costs less than a tenth of that.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = msgspec.json.Decoder(type)
    return decoder
