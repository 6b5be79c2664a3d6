"""Keeps a store equal to the server: detects silent watches, limits retries.

client-go: tools/cache/reflector.go; where this differs, a comment has the reason. `client` provides
bytes, `watch` decodes them; the caller's transform chooses what to keep of an object.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from hotmap.core.errors import (
    ApiError,
    BadRequest,
    Expired,
    Forbidden,
    HotmapError,
    Invalid,
    NotFound,
    Unreachable,
)
from hotmap.core.model.objects import ObjectKey, ObjectMeta
from hotmap.kube.client import Client
from hotmap.kube.decoding import decode, decoding_problem
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.resources import Resource
from hotmap.kube.retry import Backoff
from hotmap.kube.status import is_too_large_resource_version
from hotmap.kube.store import Store
from hotmap.kube.watch import (
    Added,
    Bookmark,
    Deleted,
    Failure,
    HasMetadata,
    Modified,
    ObjectEvent,
    Unreadable,
    WatchDecoder,
    WatchEvent,
)

__all__ = [
    "DEFAULT_TIMING",
    "Reflector",
    "ReflectorStatistics",
    "Timing",
    "pause_after",
    "silent_at",
]

T = TypeVar("T", bound=HasMetadata)
S = TypeVar("S")

#: Objects per page of a list (client-go: tools/pager, defaultPageSize).
PAGE: Final = 500

#: Bytes of one page after which the next ones get half the objects.
LARGEST_PAGE: Final = 8 << 20

#: The kind of a failure that affects all watches of a server.
_GONE: Final = "unreachable"

_log = logging.getLogger(__name__)


class Timing(NamedTuple):
    """Every duration of a reflector, in seconds."""

    #: the longest silence of a watch. The server sends a bookmark about once a minute
    #: (apiserver: pkg/storage/cacher, defaultBookmarkFrequency), so more means a dead connection.
    #: Not near the requested end: see `silent_at`
    silence: float = 75.0
    #: the longest silence before the initial objects of a stream are complete
    initial_silence: float = 30.0
    #: the server is requested to end a watch after a random time between these, so that the load
    #: of many clients spreads over its replicas (client-go: minWatchTimeout, 5 to 10 min)
    watch_shortest: float = 300.0
    watch_longest: float = 600.0
    #: the first and the longest pause between attempts (client-go: 0.8 s to 30 s)
    pause_first: float = 0.8
    pause_last: float = 30.0
    #: an attempt that lasted this long was healthy, and the backoff is reset (client-go: 2 min)
    healthy_after: float = 120.0
    #: the longest Retry-After that is honoured
    patience: float = 300.0


DEFAULT_TIMING: Final = Timing()


class ReflectorStatistics(NamedTuple):
    #: plural name of the resource
    resource: str
    #: True once the store is complete
    synced: bool
    #: True while a watch is open
    connected: bool
    #: seconds since the server last sent a byte, or since the start before the first one
    last_byte_age: float
    #: lists begun, not counting pages
    lists: int
    #: watch requests, including those for the initial objects
    watches: int
    #: watch events that carried an object
    events: int
    #: bookmarks received
    bookmarks: int
    #: watches that sent nothing for too long although the server responded
    silences: int
    #: attempts that ended with an error
    errors: int
    #: objects that cannot be decoded or transformed now, and so are not in the store
    unreadable: int
    #: True while access to the resource is denied, or the server does not have it
    refused: bool
    #: the last error; "" after a watch has received data again
    last_error: str


def silent_at(last: float, deadline: float, silence: float) -> float:
    """Return when a watch that last sent something at `last` counts as silent.

    `deadline` is when the server ends it, by timeoutSeconds. The server sends its last
    bookmark 2 s before that and may leave out the one before (apiserver: pkg/storage/cacher,
    bookmarkFrequency and the watch's deadline; gaps of 75 to 99 s were seen on 1.36.3). So where
    half a limit or less would be left then, wait for the end and a fifth of the limit more.
    """
    at = last + silence
    return max(at, deadline + silence / 5) if at > deadline - silence / 2 else at


def pause_after(
    lasted: float,
    error: HotmapError | None,
    *,
    backoff: Backoff,
    timing: Timing,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds between the end of an attempt and the start of the next.

    `lasted` is how long the attempt took, `error` what ended it, None for a proper end.

    A pause counts from the start of the attempt before it, so a stream that a proxy ends every
    minute is resumed at once, while one that ends at once is not: there are never more attempts
    than pauses of `backoff`. After a failure there is a short pause all the same, so that the
    clients of a failed server do not reconnect at the same instant. Ours; client-go waits a full
    pause in every case.
    """
    if lasted >= timing.healthy_after:
        backoff.reset()
    least = 0.0
    if error is not None and not isinstance(error, Expired):
        least = uniform(timing.pause_first, 3 * timing.pause_first)
    asked = 0.0
    if isinstance(error, ApiError) and error.retry_after:
        asked = min(error.retry_after, timing.patience)
    return max(backoff.next() - lasted, least, asked)


class _NoMarker(Exception):
    """The server streams, but does not mark the end of the initial objects."""


class Reflector(Generic[T, S]):
    """Fills `store` with the transformed objects, and keeps it up to date.

    `transform` may return None: such an object is not kept. `namespace` None watches all.
    Only one reflector may write to a store, or one for each namespace.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        type: type[T],
        transform: Callable[[T], S | None],
        store: Store[S],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        key_of: Callable[[S], ObjectKey] | None = None,
        transform_known: Callable[[T, S], S | None] | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        """`key_of` reads the object key from values that contain it, so that it is stored once.

        `transform_known` is `transform` for an object with a stored value, which it gets too, so
        that it can reuse unchanged parts.
        """
        self._client = client
        self._resource = resource
        self._title = f"{resource.plural} in {namespace}" if namespace else resource.plural
        self._type = type
        self._decoder = msgspec.json.Decoder(type)
        self._transform = transform
        self._key_of = key_of
        self._transform_known = transform_known
        self._store = store
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._timing = timing
        self._backoff = Backoff(timing.pause_first, timing.pause_last)
        #: Set once this reflector has all objects, or access was denied.
        self.answered = asyncio.Event()
        self._refused = False
        #: The resourceVersion to resume from; "" if a list is needed.
        self._position = ""
        #: False permanently once the server turned out not to stream initial objects.
        self._streams_initial = True
        #: 0 after a continue token expired: pages that take longer than the server keeps the
        #: snapshot would expire again and again (client-go: tools/pager, FullListIfExpired).
        self._page = PAGE
        #: The same for the next list: smaller where objects are large.
        self._most_listed = PAGE
        self._connected = False
        self._last_byte = loop_time()
        self._lists = self._watches = self._events = self._bookmarks = 0
        self._silences = self._errors = 0
        #: Objects that cannot be read, and why.
        self._unreadable: dict[ObjectKey, str] = {}
        self._last_error = ""

    def statistics(self) -> ReflectorStatistics:
        """Return the state of the store and the counts."""
        return ReflectorStatistics(
            resource=self._resource.plural,
            synced=self._store.synced.is_set(),
            connected=self._connected,
            last_byte_age=loop_time() - self._last_byte,
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            bookmarks=self._bookmarks,
            silences=self._silences,
            errors=self._errors,
            unreadable=len(self._unreadable),
            refused=self._refused,
            last_error=self._last_error,
        )

    async def run(self) -> NoReturn:
        """Keep the store equal to the server until cancelled; retry failures of the server.

        Any other exception is an internal error: a supervisor restarts it, and it lists again.
        Cancelling leaves the store correct up to its `resource_version`.
        """
        self._last_byte = loop_time()
        while True:
            started = loop_time()
            error: HotmapError | None = None
            try:
                await self._attempt()
            except HotmapError as caught:
                error = caught
                self._judge(error)
            except Exception:
                self._position = ""  # a restart must not fail in the same place
                raise
            finally:
                self._connected = False
            lasted = loop_time() - started
            pause = pause_after(lasted, error, backoff=self._backoff, timing=self._timing)
            if error is not None:
                _log.debug("%s: next try in %.1f s", self._resource.plural, pause)
            elif pause > 0:
                self._last_error = f"{self._client.server} ended a watch after {lasted:.1f} s"
            await asyncio.sleep(pause)

    # -- one attempt ---------------------------------------------------------------------------

    async def _attempt(self) -> None:
        """List if there is nothing to resume from, then watch."""
        if not self._position and self._streams_initial:
            try:
                await self._stream_initial()
                return
            except (BadRequest, Invalid, _NoMarker) as error:
                self._streams_initial = False
                _log.info("%s: lists instead of streams: %s", self._resource.plural, error)
        if not self._position:
            await self._list()
        await self._follow()

    async def _stream_initial(self) -> None:
        """Get objects and changes in one stream (KEP-3157, WatchList).

        Objects are stored as they arrive; objects not mentioned before the marker were deleted. A
        stream without the marker (a bookmark without it, silence, a clean end) comes from a server
        without WatchList.

        Raises:
            _NoMarker: the stream has no marker.
        """
        seen: set[ObjectKey] = set()
        complete = False

        def take(event: WatchEvent[T]) -> None:
            nonlocal complete
            if complete:
                self._apply(event)
            elif isinstance(event, Bookmark):
                if not event.initial_events_end:
                    raise _NoMarker("a bookmark came before the initial objects were complete")
                complete = True
                self._bookmarks += 1
                self._complete(seen, event.resource_version)
                seen.clear()  # the stream goes on for minutes
                self._forgive()
            elif isinstance(event, Failure):
                raise event.error
            else:
                seen.add(self._apply_object(event))

        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._read(params, take, first_silence=self._timing.initial_silence)
        except TimeoutError as error:
            if complete:
                await self._check_silence()
                return
            raise _NoMarker("the stream fell silent before it was complete") from error
        if not complete:
            raise _NoMarker("the stream ended before it was complete")

    async def _list(self) -> None:
        """Get all objects in pages; objects on none of them were deleted."""
        self._lists += 1
        seen: set[ObjectKey] = set()
        token = ""
        while True:
            try:
                page = await self._client.list_page(
                    self._resource,
                    self._namespace,
                    type=msgspec.Raw,
                    limit=self._page,
                    continue_token=token,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    attempts=1,
                )
            except Expired:
                if token:
                    self._page = 0
                raise
            self._hear()
            if page.size > LARGEST_PAGE and self._page > 1:
                self._page = self._most_listed = max(1, min(self._page, len(page.items)) // 2)
                _log.debug("%s: %d MiB in one page", self._title, page.size >> 20)
            seen.update(self._take_listed(raw) for raw in page.items)
            token = page.continue_token
            if not token:
                break
        self._page = self._most_listed
        self._complete(seen, page.resource_version)

    def _take_listed(self, raw: msgspec.Raw) -> ObjectKey:
        # One by one, so that each decoded object is freed before the next: half the memory of a
        # page (measured).
        try:
            item = decode(self._decoder, raw)
        except Exception as error:  # any error concerns this object only
            return self._skip(decode(_bare_decoder, raw).metadata, decoding_problem(error))
        return self._keep(item)

    async def _follow(self) -> None:
        """Apply changes after the position until the stream ends."""
        events, bookmarks = self._events, self._bookmarks
        try:
            await self._read(
                {"resourceVersion": self._position},
                self._apply,
                first_silence=self._timing.silence,
            )
        except TimeoutError as error:
            if (events, bookmarks) == (self._events, self._bookmarks):
                # No line at all: a dead connection, or a resourceVersion that this server has not
                # reached (restored from a backup), which it does not report.
                self._position = ""
                raise self._silent() from error
            await self._check_silence()

    async def _check_silence(self) -> None:
        """List one object, to tell a silent watch from an unreachable server.

        If that succeeds, the watch is resumed where it stopped, and gets what it missed.

        Raises:
            HotmapError: the server is unreachable.
        """
        _log.debug("%s: silent for %g s, checking the server", self._title, self._timing.silence)
        self._silences += 1
        try:
            await self._client.list_page(
                self._resource, self._namespace, type=msgspec.Raw, limit=1, attempts=1
            )
        except Unreachable as error:
            raise self._silent() from error
        self._hear()

    async def _read(
        self,
        params: dict[str, str],
        take: Callable[[WatchEvent[T]], None],
        *,
        first_silence: float,
    ) -> None:
        """Open a watch and pass each of its events to `take` until the stream ends.

        Raises:
            TimeoutError: nothing arrived within the silence limit.
            HotmapError: the stream broke, or `take` raised.
        """
        self._watches += 1
        decoder = WatchDecoder(self._type)
        sent = self._watch_params(params)
        deadline = loop_time() + float(sent["timeoutSeconds"])
        async with (
            asyncio.timeout(first_silence) as limit,
            self._client.open_watch(self._resource, self._namespace, params=sent) as stream,
        ):
            self._hear()
            self._connected = True
            async for chunk in stream.chunks():
                self._hear()
                for event in decoder.feed(chunk):
                    take(event)
                # After the events: the one that completes the initial objects changes the limit.
                if self._position:
                    limit.reschedule(silent_at(loop_time(), deadline, self._timing.silence))
                else:
                    limit.reschedule(loop_time() + first_silence)
        dropped = decoder.close()
        if dropped:
            _log.debug("%s: half a line dropped, %d bytes", self._resource.plural, dropped)

    def _watch_params(self, params: dict[str, str]) -> dict[str, str]:
        timing = self._timing
        seconds = round(random.uniform(timing.watch_shortest, timing.watch_longest))
        selectors = {
            "labelSelector": self._label_selector,
            "fieldSelector": self._field_selector,
        }
        return {
            **params,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, seconds)),
            **{name: value for name, value in selectors.items() if value},
        }

    # -- results of an attempt ----------------------------------------------------------------

    def _judge(self, error: HotmapError) -> None:
        """Record an error, and drop the resourceVersion if it is the cause."""
        if isinstance(error, Expired) or (
            isinstance(error, ApiError) and is_too_large_resource_version(error)
        ):
            self._position = ""
        self._errors += 1
        if isinstance(error, Forbidden | NotFound):
            self._hear()  # a response: the connection works, and a restart would not help
            self._refused = True
            self.answered.set()
        self._last_error = str(error)
        # An unreachable server affects all watches: only the first one logs it.
        kind = _GONE if isinstance(error, Unreachable) else self._title
        complaints = self._client.complaints
        news = complaints.is_news(kind, self._last_error, now=loop_time())
        level = logging.WARNING if news else logging.DEBUG
        _log.log(level, "%s: %s", self._title, self._last_error)

    def _forgive(self) -> None:
        """Clear the error: a watch has received data again."""
        self._last_error = ""
        self._client.complaints.over(self._title)
        if self._client.complaints.over(_GONE):
            _log.info("%s answers again", self._client.server)

    def _silent(self) -> Unreachable:
        return Unreachable(
            f"{self._client.server} sent nothing on a watch for {self._timing.silence:g} s"
        )

    # -- into the store ------------------------------------------------------------------------

    def _hear(self) -> None:
        self._last_byte = loop_time()

    def _complete(self, seen: set[ObjectKey], resource_version: str) -> None:
        self._position = resource_version
        for key in self._unreadable.keys() - seen:
            del self._unreadable[key]
        self._store.retain(seen, resource_version=resource_version, namespace=self._namespace)
        self._refused = False
        self.answered.set()

    def _apply(self, event: WatchEvent[T]) -> None:
        """Apply one watch event and advance the resourceVersion."""
        if isinstance(event, Failure):
            raise event.error
        if isinstance(event, Bookmark):
            self._bookmarks += 1
            resource_version = event.resource_version
        else:
            self._apply_object(event)
            resource_version = event.metadata.resource_version
        if resource_version:
            self._position = self._store.resource_version = resource_version
        if self._last_error:
            self._forgive()

    def _apply_object(self, event: ObjectEvent[T]) -> ObjectKey:
        self._events += 1
        match event:
            case Unreadable(metadata, problem, deleted=False):
                return self._skip(metadata, problem)
            case Deleted() | Unreadable():
                key = self._key(event.metadata)
                self._unreadable.pop(key, None)
                self._store.remove(key)
                return key
            case Added(item) | Modified(item):
                return self._keep(item)

    def _keep(self, item: T) -> ObjectKey:
        # One bad object must not stop the watch of all others.
        try:
            value = self._transformed(item)
            if value is None:
                key = self._key(item.metadata)
                self._store.remove(key)
            else:
                key = self._key_of(value) if self._key_of else self._key(item.metadata)
                self._store.put(key, value)
        except Exception as error:
            return self._skip(item.metadata, decoding_problem(error))
        self._unreadable.pop(key, None)
        return key

    def _transformed(self, item: T) -> S | None:
        if self._transform_known is not None:
            known = self._store.get(self._key(item.metadata))
            if known is not None:
                return self._transform_known(item, known)
        return self._transform(item)

    def _skip(self, metadata: ObjectMeta, problem: str) -> ObjectKey:
        """Leave an object out, and log it once as long as the problem is the same."""
        key = self._key(metadata)
        if self._unreadable.get(key) != problem:
            _log.warning("%s cannot be read and is ignored: %s", key, problem)
        self._unreadable[key] = problem
        self._store.remove(key)
        return key

    def _key(self, metadata: ObjectMeta) -> ObjectKey:
        return ObjectKey(self._resource.kind, sys.intern(metadata.namespace), metadata.name)


class _Bare(msgspec.Struct):
    metadata: ObjectMeta


_bare_decoder = msgspec.json.Decoder(_Bare)
