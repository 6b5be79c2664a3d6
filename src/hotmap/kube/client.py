"""Calls to one API server: typed answers, typed errors, bounded retries, raw watch streams.

The library underneath (aiohttp) stops here: what leaves this module is bytes, Structs and the
exceptions of `core.errors`. When to list or watch is decided in `reflector`, what a watch
stream says in `watch`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, NoReturn, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from hotmap.core.errors import (
    ApiError,
    HotmapError,
    SettingsError,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
    api_error,
)
from hotmap.kube.complaints import Complaints
from hotmap.kube.config import ClusterConfig
from hotmap.kube.decoding import decode
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.resources import Resource
from hotmap.kube.retry import Backoff
from hotmap.kube.server_clock import ServerClock
from hotmap.kube.status import read_status, retry_after

__all__ = ["DEFAULT_LIMITS", "Client", "ClientStatistics", "Limits", "Page", "WatchStream"]

T = TypeVar("T")

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"

#: Seconds after which the CA file is read again, as a token file is.
CA_PERIOD: Final = 60.0

#: Bytes of an error answer that are looked at; a Status is far smaller.
_ERROR_BODY = 1 << 16


_log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """How long and how often one call is tried; all times in seconds."""

    #: until a connection stands, TLS included
    connect: float = 10.0
    #: for one whole attempt; the server itself gives up after 60
    #: (apiserver: --request-timeout), the rest is for a big answer on a slow line
    attempt: float = 90.0
    #: attempts of a call that may be repeated
    attempts: int = 4
    #: the first and the longest pause between attempts
    pause_first: float = 0.5
    pause_last: float = 8.0
    #: the longest Retry-After that is waited for; a longer one goes to the caller as the error
    patience: float = 30.0


DEFAULT_LIMITS: Final = Limits()


class Page(NamedTuple, Generic[T]):
    """A part of a list, and how to get the next."""

    items: list[T]
    resource_version: str
    #: "" when this is the last page
    continue_token: str
    #: bytes of the answer
    size: int = 0


class ClientStatistics(NamedTuple):
    #: (method, HTTP status as text) → answers; "unreachable" counts attempts without an answer
    answers: Mapping[tuple[str, str], int]
    #: attempts that repeated an earlier one
    retries: int
    #: watch streams open now
    open_watches: int
    #: seconds since the server answered anything, None before the first answer
    last_answer_age: float | None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class WatchStream:
    """A watch response while it is open."""

    def __init__(self, client: Client, response: aiohttp.ClientResponse) -> None:
        self._client = client
        self._response = response

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over bytes as they arrive, cut anywhere, until the server ends the stream.

        Waits for ever: the silence limit is the caller's.

        Raises:
            Unreachable: the stream broke instead of ending.
        """
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                f"the watch on {self._client.server} broke: {_describe(error)}"
            ) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


class Client:
    """Speaks to the API server of `config` for as long as it is entered.

    Cancelling a call leaves nothing behind but, for a write, the doubt whether the server did
    it; so every write of hotmap carries a precondition or bears repetition.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "hotmap",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._config = config
        self._limits = limits
        self._headers = [("User-Agent", user_agent), ("Accept", JSON), *config.impersonate]
        self._server_hostname = config.tls.server_name or None
        self._session: aiohttp.ClientSession | None = None
        self._ssl: ssl.SSLContext | bool = True
        self._ca_read_at = 0.0
        self._answers: Counter[tuple[str, str]] = Counter()
        #: What was said of this server's failures, by all who watch it: that it is gone is one.
        self.complaints = Complaints()
        self._retries = 0
        self._open_watches = 0
        self._last_answer: float | None = None
        self._clock = ServerClock(wall_clock=time.time)

    async def __aenter__(self) -> Self:
        context = self._config.ssl_context()
        self._ssl = context if context is not None else True
        self._ca_read_at = loop_time()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._ssl,
                # Watches hold a connection each; the default of 100 would let them starve calls.
                limit=0,
            ),
            # 256 KiB: fewer wake-ups on bursts, and still bounded.
            read_bufsize=1 << 18,
            # Proxies are taken from the kubeconfig alone, so that a shell cannot redirect a pod.
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def server(self) -> str:
        """The server's URL, for texts."""
        return self._config.server

    @property
    def namespace(self) -> str:
        """The namespace to use where none is named."""
        return self._config.namespace

    def server_time(self) -> float:
        """Tell POSIX seconds on the server's clock, as far as its answers show it."""
        return self._clock.now()

    def statistics(self) -> ClientStatistics:
        """Count answers by kind, and say how long the last one is ago."""
        age = None if self._last_answer is None else loop_time() - self._last_answer
        return ClientStatistics(dict(self._answers), self._retries, self._open_watches, age)

    # -- typed calls ---------------------------------------------------------------------------

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, type: type[T]
    ) -> T:
        """Read one object.

        Raises:
            NotFound: there is none; a fact.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace, name)
        body = await self.request("GET", path, attempts=self._limits.attempts)
        return self._decode(body, type, path)

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
    ) -> Page[T]:
        """Read one page of a list; `namespace` None lists all, `limit` 0 gives one big page.

        `msgspec.Raw` as type leaves the items undecoded. `attempts` None is the client's own.

        Raises:
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
        )
        page: _List[T] = self._decode(body, _List[type], path)  # type: ignore[valid-type]
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
        what is created then. `dry_run` goes all the way but the last step. `idempotent` says that
        a repetition does no harm: the name is fixed, and AlreadyExists means success to the
        caller. `attempts` None is the client's own.

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
            attempts=self._limits.attempts if attempts is None else attempts,
            idempotent=idempotent,
        )
        return self._decode(answer, type, path)

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
        answer = await self.request(
            "PUT",
            path,
            params={"fieldManager": field_manager},
            body=_encode(body),
            attempts=self._limits.attempts,
            idempotent=idempotent or _has_precondition(body),
        )
        return self._decode(answer, type, path)

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

        It is tried again after a lost answer only with such a precondition or when the caller
        says `idempotent`; a repetition of what was done all the same then meets Conflict.
        `attempts` None is the client's own.

        Raises:
            Conflict: the object changed, or was deleted and made anew.
            ApiError, Unreachable: see `request`.
        """
        path = resource.path(namespace, name, subresource)
        answer = await self.request(
            "PATCH",
            path,
            params={"fieldManager": field_manager},
            body=_encode(body),
            headers={"Content-Type": content_type},
            attempts=self._limits.attempts if attempts is None else attempts,
            idempotent=idempotent or _has_precondition(body),
        )
        return self._decode(answer, type, path)

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
    ) -> None:
        """Delete an object; `uid` and `resource_version` are preconditions.

        `propagation` is Background, Foreground or Orphan, `grace_period` in seconds; None
        leaves both to the kind's default.

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
            attempts=self._limits.attempts,
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
    ) -> bytes:
        """Make one call and return the body of its answer.

        Up to `attempts` tries with growing pauses, not shorter than the server's Retry-After:
        after 429 always, since such a call was never begun (kubernetes: apiserver/pkg/server/
        filters), after 5xx or no answer only when `idempotent` (None: for GET and HEAD).

        Raises:
            Unauthorized: the credentials were refused, also after they were read again.
            ApiError: the server answered with another failure.
            Unreachable: no answer, or not the server that was expected.
            SettingsError: there are no usable credentials.
        """
        if idempotent is None:
            idempotent = method in ("GET", "HEAD")
        backoff = Backoff(self._limits.pause_first, self._limits.pause_last)
        for attempt in range(attempts):
            try:
                return await self._attempt(method, path, params, body, headers)
            except HotmapError as error:
                last = attempt + 1 >= attempts
                if last or not self._may_repeat(error, idempotent=idempotent):
                    raise
                asked = getattr(error, "retry_after", None) or 0.0
                self._retries += 1
                await asyncio.sleep(max(backoff.next(), asked))
        raise ValueError("attempts must be at least 1")

    def _may_repeat(self, error: HotmapError, *, idempotent: bool) -> bool:
        if isinstance(error, ApiError) and (error.retry_after or 0.0) > self._limits.patience:
            return False
        if isinstance(error.__cause__, aiohttp.ClientSSLError):
            return False  # a certificate is not mended by waiting for seconds
        if isinstance(error, Throttled):
            return True
        return idempotent and isinstance(error, Unavailable | Unreachable)

    @asynccontextmanager
    async def open_watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str] | None = None,
    ) -> AsyncIterator[WatchStream]:
        """Open a watch stream; leaving the context closes its connection.

        `params` as in Kubernetes' API (resourceVersion, timeoutSeconds, …); `watch` is added.
        Tried once, and bounded in time only up to the connection: see WatchStream.

        Raises:
            Expired: the resourceVersion is too old, told by the HTTP status.
            ApiError, Unreachable, SettingsError: as `request`.
        """
        path = resource.path(namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect)
        response = await self._send(
            "GET", path, {"watch": "true", **(params or {})}, None, None, timeout
        )
        self._open_watches += 1
        try:
            yield WatchStream(self, response)
        finally:
            self._open_watches -= 1
            response.close()

    async def _attempt(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(
            total=self._limits.attempt, sock_connect=self._limits.connect
        )
        response = await self._send(method, path, params, body, headers, timeout)
        try:
            async with response:
                return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            self._unreachable(method, path, error)

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send once, or twice when the credentials were refused and there are newer ones."""
        credentials = self._config.credentials
        authorization = credentials.authorization()
        try:
            return await self._send_once(
                method, path, params, body, headers, timeout, authorization
            )
        except Unauthorized:
            if not credentials.refresh(authorization):
                raise
        return await self._send_once(
            method, path, params, body, headers, timeout, credentials.authorization()
        )

    async def _send_once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
        authorization: str,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with`")
        sent = loop_time()
        if sent - self._ca_read_at >= CA_PERIOD:
            self._refresh_ca()
        try:
            response = await self._session.request(
                method,
                URL(self._config.server + path, encoded=True).with_query(params),
                data=body,
                headers=self._request_headers(headers, authorization, has_body=body is not None),
                timeout=timeout,
                allow_redirects=False,
                proxy=self._config.proxy or None,
                server_hostname=self._server_hostname,
                ssl=self._ssl,
            )
        except (aiohttp.ClientError, OSError) as error:
            self._unreachable(method, path, error)
        self._last_answer = loop_time()
        self._clock.learn(response.headers.get("Date", ""), waited=self._last_answer - sent)
        self._answers[method, str(response.status)] += 1
        if response.status >= 300:
            raise await self._failure(method, path, response)
        return response

    def _refresh_ca(self) -> None:
        """Trust what the CA file holds now; new connections alone are concerned."""
        self._ca_read_at = loop_time()
        try:
            config = self._config.refreshed()
            if config is not self._config:
                self._ssl = config.ssl_context() or True
                self._config = config
                _log.info("the certificate authority of %s was read again", self.server)
        except SettingsError as error:
            _log.warning("%s; the last one stays in use", error)

    def _request_headers(
        self, headers: Mapping[str, str] | None, authorization: str, *, has_body: bool
    ) -> list[tuple[str, str]]:
        sent = list(self._headers)
        if authorization:
            sent.append(("Authorization", authorization))
        if has_body and "Content-Type" not in (headers or {}):
            sent.append(("Content-Type", JSON))
        sent.extend((headers or {}).items())
        return sent

    # -- answers into errors -------------------------------------------------------------------

    async def _failure(self, method: str, path: str, response: aiohttp.ClientResponse) -> ApiError:
        try:
            async with response:
                body = await response.content.read(_ERROR_BODY)
        except (aiohttp.ClientError, OSError):
            body = b""
        status = read_status(body)
        message = status.message or (
            f"{self.server} answered {response.status} {response.reason or ''}".rstrip()
            + f" to {method} {path}"
        )
        if response.status == 401:
            message = (
                f"{self.server} refused the credentials (401 Unauthorized): they are wrong or"
                f" have expired; renew those of {self._config.origin}"
            )
        return api_error(
            response.status,
            message,
            reason=status.reason,
            details=status.details,
            retry_after=retry_after(status, header=response.headers.get("Retry-After", "")),
        )

    def _unreachable(self, method: str, path: str, error: Exception) -> NoReturn:
        self._answers[method, "unreachable"] += 1
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            self._refresh_ca()  # for the next attempt
            text = (
                f"cannot trust {self.server}: {_describe(error.certificate_error)}; check the"
                f" certificate authority and the server's name in {self._config.origin}"
            )
        elif isinstance(error, aiohttp.ClientConnectorError | TimeoutError):
            text = (
                f"cannot reach {self.server}: {_describe(error)}; is the cluster up, and is the"
                f" address in {self._config.origin} right?"
            )
        else:
            text = f"{self.server} broke off {method} {path}: {_describe(error)}"
        raise Unreachable(text) from error

    def _decode(self, body: bytes, type: type[T], path: str) -> T:
        try:
            decoded: T = decode(_decoder(type), body)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{self.server} answered {path} with something that Kubernetes does not send"
                f" there: {error}",
                code=502,
                reason="BadGateway",
            ) from error
        return decoded


def _describe(error: BaseException) -> str:
    """Say in a few words what went wrong on the wire."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or "its certificate does not verify"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its name {error.host!r} is not known"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _describe(error.os_error)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer is cut short"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {(error.reason or 'without a reason').replace('_', ' ').lower()}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()  # asyncio's own text repeats the address
    return str(error) or type(error).__name__


def _encode(body: Mapping[str, Any] | Sequence[Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _has_precondition(body: object) -> bool:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return isinstance(metadata, Mapping) and bool(metadata.get("resourceVersion"))


# msgspec builds a decoder for a type once; to look it up costs less than a tenth of that.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = msgspec.json.Decoder(type)
    return decoder
