"""Reading objects from the store: get, list, watch.

kubernetes: apiserver/pkg/registry/generic/registry/store.go and apiserver/pkg/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import Expired, api_error
from hotmap.local.apiserver.continuation import decode_token
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.lists import (
    EncodedList,
    Found,
    check_list_options,
    continuation_expired,
    parse_resource_version,
    select,
)
from hotmap.local.apiserver.status import not_found
from hotmap.local.apiserver.watches import Changes, Frame, RegistryWatch, bookmark
from hotmap.local.json_object import JsonObject
from hotmap.local.selectors import Selector, parse_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.apiserver.options import ListOptions, WatchOptions
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.scheme import Kind, Scheme
    from hotmap.local.store import Entry, Store


class ObjectReader:
    """Read objects of every kind of a scheme."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self.scheme = scheme
        self._store = store
        self._changes = Changes()

    def entry(self, kind: Kind, namespace: str | None, name: str) -> Entry:
        """Get an object as it is stored.

        Raises:
            NotFound: it does not exist.
        """
        entry = self._store.get(kind.key(namespace, name))
        if entry is None:
            raise not_found(kind, name)
        return entry

    def exists(self, path: ResourcePath) -> bool:
        """Return whether an object exists now."""
        return self._store.get(path.kind.key(path.namespace, path.name)) is not None

    def get(self, path: ResourcePath) -> JsonObject:
        """Get one object as it is now.

        Raises:
            NotFound: it does not exist.
        """
        return decode(self.entry(path.kind, path.namespace, path.name), path.kind)

    def list(self, path: ResourcePath, options: ListOptions) -> EncodedList:
        """List at once what `find` finds."""
        return self.find(path, options).page()

    def find(self, path: ResourcePath, options: ListOptions) -> Found:
        """Find a namespace's objects, or those of all namespaces, in key order.

        Raises:
            BadRequest: a selector, the continue token or the resourceVersion is malformed.
            Expired: the page's or the exact revision is compacted; list again.
        """
        kind, namespace = path.kind, path.namespace
        selector = parse_selector(kind, options.label_selector, options.field_selector)
        prefix = kind.prefix(namespace)
        revision = self._revision_to_list(options)
        after = ""
        if options.continue_token:
            token = decode_token(options.continue_token)
            after = prefix + token.after
            revision = None if token.revision < 0 else token.revision
            # A token of an earlier run of the server may be ahead of this one.
            self.check_not_too_large(token.revision)
        try:
            reading = self._store.read(
                _selection_prefix(kind, namespace, selector), after=after, revision=revision
            )
        except Expired:
            if not options.continue_token:
                raise Expired("The resourceVersion for the provided list is too old.") from None
            raise continuation_expired(after.removeprefix(prefix)) from None
        return Found(kind, reading, selector, _page_limit(options), prefix)

    def _revision_to_list(self, options: ListOptions) -> int | None:
        resource_version, match = options.resource_version, options.resource_version_match
        check_list_options(resource_version, match, options.continue_token)
        if not resource_version or resource_version == "0":
            return None
        wanted = parse_resource_version(resource_version)
        self.check_not_too_large(wanted)
        exact = match == "Exact" or (not match and options.limit > 0)
        return wanted if exact else None

    def check_not_too_large(self, wanted: int) -> None:
        """Refuse a resourceVersion that no write has reached yet, with upstream's 504."""
        if wanted > self._store.revision:
            raise api_error(
                504,
                f"Timeout: Too large resource version: {wanted}, current: {self._store.revision}",
                reason="Timeout",
                details={
                    "causes": [
                        {
                            "reason": "ResourceVersionTooLarge",
                            "message": "Too large resource version",
                        }
                    ]
                },
                retry_after=1,
            )

    def watch(self, path: ResourcePath, options: WatchOptions) -> RegistryWatch:
        """Watch a kind; the result must be closed.

        Without `since` (or with "0") the present objects come first, as ADDED, unless
        `send_initial_events=False`. With a resourceVersion only what follows it, unless
        `send_initial_events=True` asks for the present objects. With `bookmarks=True`, a BOOKMARK
        with the annotation `k8s.io/initial-events-end` follows them (KEP-3157).

        The stream ends by itself when its reader falls too far behind, or at the end of the
        server: watch again from the last resourceVersion.

        Raises:
            Expired: `since` is compacted; list, or watch without `since`.
            BadRequest: a selector is malformed.
        """
        kind, since = path.kind, options.since
        selector = parse_selector(kind, options.label_selector, options.field_selector)
        prefix = _selection_prefix(kind, path.namespace, selector)
        wanted = parse_resource_version(since) if since else 0
        starts = options.send_initial_events
        if starts is None:
            # apimachinery: pkg/apis/meta/internalversion/defaults.go
            starts = not wanted
        if not starts:
            events = self._store.watch(prefix, since=wanted or self._store.revision)
            return RegistryWatch(kind, selector, events, self._changes, [])
        self.check_not_too_large(wanted)
        found = self._store.range(prefix)
        events = self._store.watch(prefix, since=found.revision)

        def initial() -> Iterator[Frame | None]:
            for entry in found.entries:
                item = select(kind, entry, selector)
                yield None if item is None else ("ADDED", item)
            # A client that allows no bookmarks gets none here either, as upstream.
            if options.bookmarks:
                yield "BOOKMARK", bookmark(kind, found.revision, initial_events_end=True)

        return RegistryWatch(kind, selector, events, self._changes, initial())


def _page_limit(options: ListOptions) -> int:
    # Upstream answers "0" from its cache, which cuts no pages (cacher: GetList).
    cached = options.resource_version == "0" and not options.continue_token
    return 0 if cached else options.limit


def _selection_prefix(kind: Kind, namespace: str | None, selector: Selector) -> str:
    """Return the shortest range that a selector can reach: one key where it names the object."""
    name = selector.field_value(("metadata", "name"))
    within = namespace or selector.field_value(("metadata", "namespace"))
    if name and (within or not kind.namespaced):
        return kind.key(within, name)
    return kind.prefix(namespace)
