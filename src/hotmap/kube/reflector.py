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
from typing import Final, Generic, NoReturn, TypeVar

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
from hotmap.core.model.objects import CommonMeta, ObjectKey
from hotmap.core.resource_version import is_newer
from hotmap.core.text import parse_number
from hotmap.kube.client import Client, Page
from hotmap.kube.decoding import check_size, decode, decoding_problem
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.loop_slices import share_loop
from hotmap.kube.paging import ListPager
from hotmap.kube.reflector_statistics import ReflectorStatistics
from hotmap.kube.reflector_timing import DEFAULT_TIMING, Timing, pause_after, silent_at
from hotmap.kube.resources import Selection
from hotmap.kube.retry import Backoff
from hotmap.kube.status import is_too_large_resource_version
from hotmap.kube.store_writer import StoreWriter
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
    decode_metadata,
)

__all__ = ["Reflector"]

T = TypeVar("T", bound=HasMetadata)
S = TypeVar("S")

#: Seconds without data, or before a bookmark that does not move the position, after which a watch
#: that was resumed has delivered what it had missed.
CAUGHT_UP_AFTER: Final = 2.0

#: Bytes that arrive at once from which on the server probably has more: a connection gives 64 KiB
#: at most.
MANY_AT_ONCE: Final = 1 << 15

#: The kind of a failure that affects all watches of a server.
_UNREACHABLE: Final = "unreachable"

_log = logging.getLogger(__name__)


class _NoMarker(Exception):
    """The server streams, but does not mark the end of the initial objects."""


class Reflector(Generic[T, S]):
    """Keeps a store up to date with the selected objects, through `writer`.

    Only one reflector may write to a store, or one for each namespace.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection,
        *,
        type: type[T],
        writer: StoreWriter[T, S],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._client = client
        self._selection = selection
        self._title = str(selection)
        self._type = type
        self._decoder = msgspec.json.Decoder(type)
        self._writer = writer
        self._store = writer.store
        self._progress = writer.store.progress
        self._timing = timing
        self._backoff = Backoff(timing.pause_first, timing.pause_last)
        #: Set once this reflector has all objects, or access was denied.
        self.answered = asyncio.Event()
        #: Whether more watch events have probably arrived than were read.
        self.is_behind = False
        self._refused = False
        #: The resourceVersion to resume from; "" if a list is needed.
        self._position = ""
        #: The outages before the server was last known to have reached the position.
        self._outages = 0
        #: False permanently once the server turned out not to stream initial objects.
        self._streams_initial = True
        self._pager = ListPager(client, selection)
        self._connected = False
        self._last_byte = self._watching_since = self._listed_at = loop_time()
        self._lists = self._watches = self._events = self._bookmarks = 0
        self._silences = self._errors = 0
        self._last_error = ""

    def statistics(self) -> ReflectorStatistics:
        """Return the state of the store and the counts."""
        return ReflectorStatistics(
            resource=self._selection.resource.plural,
            synced=self._store.synced.is_set(),
            connected=self._connected,
            last_byte_age=loop_time() - self._last_byte,
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            bookmarks=self._bookmarks,
            silences=self._silences,
            errors=self._errors,
            unreadable=len(self._store.unreadable),
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
                self._record_error(error)
            except Exception:
                self._position = ""  # a restart must not fail in the same place
                raise
            finally:
                self._connected = self.is_behind = False
            ended = loop_time()
            lasted, listed = ended - started, ended - self._listed_at
            pause = pause_after(
                lasted, error, listed=listed, backoff=self._backoff, timing=self._timing
            )
            if error is not None:
                _log.debug("%s: retrying in %.1fs", self._selection.resource.plural, pause)
            elif pause > 0:
                self._last_error = f"{self._client.server} ended a watch after {lasted:.1f} s"
            if self._position:
                first = self._timing.pause_first
                await self._client.outage.pause(pause, least=random.uniform(first, 3 * first))
            else:  # the server may have failed because of lists
                await asyncio.sleep(pause)

    async def reread(self, key: ObjectKey) -> None:
        """Read one object consistently and store it, or its absence.

        For when the store may lag behind the server for longer than a watch does. What the watch
        delivers while the object is read may be newer than the response: then that is kept. A list
        of one object, so that the verb get is not needed.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        selection, store, changed = self._selection, self._store, False

        def note_change(other: ObjectKey, old: S | None, new: S | None) -> None:
            nonlocal changed
            changed |= other == key

        unsubscribe = store.subscribe(note_change)
        try:
            page = await self._client.list_page(
                selection.resource,
                key.namespace,
                type=msgspec.Raw,
                label_selector=selection.label_selector,
                field_selector=f"metadata.name={key.name}",
            )
        finally:
            unsubscribe()
        read = page.resource_version
        for raw in page.items:
            read = decode_metadata(raw).resource_version
        if changed and not is_newer(read, getattr(store.get(key), "resource_version", "")):
            return
        for raw in page.items:
            self._take_listed(raw)
        if not page.items:
            store.remove(key)

    @property
    def refusal(self) -> str:
        """Why access is denied now, so that changes are not seen; "" while it is not."""
        return self._last_error if self._refused else ""

    def selects(self, kind: str, namespace: str) -> bool:
        """Return whether objects of a kind and namespace are those of this reflector."""
        selection = self._selection
        return kind == selection.resource.kind and selection.namespace in (None, namespace)

    def has_delivered(self, resource_version: str) -> bool:
        """Return whether everything up to a resourceVersion has certainly been received.

        Nothing is certain while there is no position, as after an error.
        """
        position, version = parse_number(self._position), parse_number(resource_version)
        return position is not None and version is not None and version <= position

    # -- one attempt ---------------------------------------------------------------------------

    async def _attempt(self) -> None:
        """List if there is nothing to resume from, then watch."""
        outages = self._client.outage.count
        if self._position and outages != self._outages:
            await self._check_position()
        self._outages = outages
        if not self._position and self._streams_initial:
            try:
                await self._stream_initial()
                return
            except (BadRequest, Invalid, _NoMarker) as error:
                self._streams_initial = False
                # The server has no WatchList, or it is off. That is not a problem, so no INFO.
                _log.debug("%s: no streaming lists, using plain lists: %s", self._title, error)
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
        asked_at = self._listed_at = loop_time()
        self._progress.record_interruption(self._selection.namespace, listed=True)

        def take(event: WatchEvent[T]) -> None:
            nonlocal complete
            if complete:
                self._apply(event)
            elif isinstance(event, Bookmark):
                if not event.initial_events_end:
                    raise _NoMarker("a bookmark came before the initial objects were complete")
                complete = True
                self._bookmarks += 1
                self._complete(seen, event.resource_version, as_of=asked_at)
                seen.clear()  # the stream goes on for minutes
                self._clear_error()
            elif isinstance(event, Failure):
                raise event.error
            else:
                seen.add(self._apply_object(event, listed=True))

        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._read(params, take, first_silence=self._timing.initial_silence)
        except TimeoutError as error:
            if complete:
                await self._check_silence()
                return
            raise _NoMarker("no more data before the initial objects were complete") from error
        if not complete:
            raise _NoMarker("the stream ended before the initial objects were complete")

    async def _list(self) -> None:
        """Get all objects in pages; objects on none of them were deleted."""
        self._lists += 1
        asked_at = self._listed_at = loop_time()
        self._progress.record_interruption(self._selection.namespace, listed=True)
        seen: set[ObjectKey] = set()
        resource_version = ""
        async for page in self._pager.pages():
            self._record_activity()
            for raw in page.items:
                await share_loop()
                seen.add(self._take_listed(raw))
            resource_version = page.resource_version
        self._complete(seen, resource_version, as_of=asked_at)

    def _take_listed(self, raw: msgspec.Raw) -> ObjectKey:
        # One by one, so that each decoded object is freed before the next: half the memory of a
        # page (measured).
        try:
            check_size(raw)
            item = decode(self._decoder, raw)
        except Exception as error:  # any error concerns this object only
            metadata = decode_metadata(raw)
            return self._writer.skip(self._key(metadata), decoding_problem(error), uid=metadata.uid)
        return self._writer.put(self._key(item.metadata), item, uid=item.metadata.uid, listed=True)

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
                raise self._silence_error() from error
            await self._check_silence()

    async def _check_position(self) -> None:
        """List one object, and drop a position that the server has not reached.

        It was restored from a backup then: a watch would send nothing until it has reached the
        position, and leave out what was changed before.
        """
        page = await self._list_one()
        if is_newer(self._position, page.resource_version):
            _log.warning("%s: %s has older versions now", self._title, self._client.server)
            self._position = ""

    async def _list_one(self) -> Page[msgspec.Raw]:
        return await self._client.list_page(
            self._selection.resource,
            self._selection.namespace,
            type=msgspec.Raw,
            limit=1,
            attempts=1,
        )

    async def _check_silence(self) -> None:
        """List one object, to distinguish a silent watch from an unreachable server.

        If that succeeds, the watch is resumed where it stopped, and gets what it missed.

        Raises:
            HotmapError: the server is unreachable.
        """
        _log.debug("%s: no data for %gs, checking the server", self._title, self._timing.silence)
        self._silences += 1
        try:
            await self._list_one()
        except Unreachable as error:
            raise self._silence_error() from error
        self._record_activity()

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
            self._client.open_watch(
                self._selection.resource, self._selection.namespace, params=sent
            ) as stream,
        ):
            self._record_activity()
            self._connected, self._refused = True, False
            if self._position:
                self._progress.record_interruption(self._selection.namespace, listed=False)
            waiting_since = self._watching_since = loop_time()
            async for chunk in stream.chunks():
                self._record_activity()
                self.is_behind = len(chunk) >= MANY_AT_ONCE
                if self._position:
                    self._note_progress(pause=loop_time() - waiting_since)
                for event in decoder.feed(chunk):
                    await share_loop()
                    take(event)
                # After the events: the one that completes the initial objects changes the limit.
                if self._position:
                    limit.reschedule(silent_at(loop_time(), deadline, self._timing.silence))
                else:
                    limit.reschedule(loop_time() + first_silence)
                waiting_since = loop_time()
            if self._position:
                self._note_progress(pause=loop_time() - waiting_since)  # it ended properly
        dropped = decoder.close()
        if dropped:
            _log.debug(
                "%s: dropped an incomplete line of %d bytes",
                self._selection.resource.plural,
                dropped,
            )

    def _watch_params(self, params: dict[str, str]) -> dict[str, str]:
        timing = self._timing
        seconds = round(random.uniform(timing.watch_shortest, timing.watch_longest))
        selectors = {
            "labelSelector": self._selection.label_selector,
            "fieldSelector": self._selection.field_selector,
        }
        return {
            **params,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, seconds)),
            **{name: value for name, value in selectors.items() if value},
        }

    # -- results of an attempt ----------------------------------------------------------------

    def _record_error(self, error: HotmapError) -> None:
        """Record an error, and drop the resourceVersion if it is the cause."""
        if isinstance(error, Expired) or (
            isinstance(error, ApiError) and is_too_large_resource_version(error)
        ):
            self._position = ""
        self._errors += 1
        if isinstance(error, Forbidden | NotFound):
            self._record_activity()  # a response: the connection works
            self._refused = True
            self.answered.set()
        self._last_error = str(error)
        # An unreachable server affects all watches: only the first one logs it.
        kind = _UNREACHABLE if isinstance(error, Unreachable) else self._title
        throttle = self._client.log_throttle
        news = throttle.should_log(kind, self._last_error, now=loop_time())
        level = logging.WARNING if news else logging.DEBUG
        _log.log(level, "%s: %s", self._title, self._last_error)

    def _clear_error(self) -> None:
        """Clear the error: a watch has received data again."""
        self._last_error = ""
        self._client.log_throttle.end(self._title)
        if self._client.log_throttle.end(_UNREACHABLE):
            _log.info("%s is reachable again", self._client.server)

    def _silence_error(self) -> Unreachable:
        return Unreachable(
            f"{self._client.server} sent nothing on a watch for {self._timing.silence:g} s"
        )

    # -- into the store ------------------------------------------------------------------------

    def _record_activity(self) -> None:
        self._last_byte = loop_time()

    def _note_progress(self, *, pause: float) -> None:
        """Record that data or the end arrived, `pause` seconds after the data before was taken."""
        if pause >= CAUGHT_UP_AFTER:
            self._progress.record_caught_up(self._selection.namespace, loop_time())
        else:
            self._progress.record_received(self._selection.namespace, loop_time())

    def _complete(self, seen: set[ObjectKey], resource_version: str, *, as_of: float) -> None:
        self._position = resource_version
        namespace = self._selection.namespace
        self._store.retain(seen, resource_version=resource_version, namespace=namespace)
        self._progress.record_caught_up(namespace, as_of)
        self._progress.record_interruption(namespace, listed=False)  # what came while it was listed
        self.answered.set()

    def _apply(self, event: WatchEvent[T]) -> None:
        """Apply one watch event and advance the resourceVersion."""
        if isinstance(event, Failure):
            raise event.error
        if isinstance(event, Bookmark):
            self._bookmarks += 1
            resource_version = event.resource_version
            resumed = loop_time() - self._watching_since < CAUGHT_UP_AFTER
            if resource_version != self._position or not resumed:
                self._progress.record_caught_up(self._selection.namespace, loop_time())
        else:
            self._apply_object(event)
            resource_version = event.metadata.resource_version
        if resource_version:
            self._position = self._store.resource_version = resource_version
        if self._last_error:
            self._clear_error()

    def _apply_object(self, event: ObjectEvent[T], *, listed: bool = False) -> ObjectKey:
        self._events += 1
        match event:
            case Unreadable(metadata, problem, deleted=False):
                return self._writer.skip(self._key(metadata), problem, uid=metadata.uid)
            case Deleted() | Unreadable():
                key = self._key(event.metadata)
                self._store.remove(key)
                return key
            case Added(item) | Modified(item):
                return self._writer.put(
                    self._key(item.metadata), item, uid=item.metadata.uid, listed=listed
                )

    def _key(self, metadata: CommonMeta) -> ObjectKey:
        return ObjectKey(
            self._selection.resource.kind, sys.intern(metadata.namespace), metadata.name
        )
