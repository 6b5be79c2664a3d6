"""Lists: which revision is meant, and how a page is cut (apiserver/pkg/storage/etcd3/store.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hotmap.core.errors import BadRequest, Expired
from hotmap.kube.loop_slices import SHORT_SLICE, share_loop
from hotmap.local.apiserver.continuation import encode_token
from hotmap.local.apiserver.decode_errors import unsigned_error
from hotmap.local.apiserver.encoding import encoded
from hotmap.local.apiserver.status import invalid_options
from hotmap.local.field_errors import FieldError, forbidden_field
from hotmap.local.selectors import EVERYTHING, Selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.scheme import Kind
    from hotmap.local.store import Entry, Reading


class EncodedList(NamedTuple):
    """A page of objects as JSON, for callers that only pass them on."""

    items: list[bytes]
    resource_version: str
    continue_token: str
    remaining: int | None


def parse_resource_version(text: str) -> int:
    """Read a resourceVersion.

    Raises:
        BadRequest: it is not an unsigned number.
    """
    why = unsigned_error(text)
    if why:
        raise BadRequest(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}'
        )
    return int(text)


def select(kind: Kind, entry: Entry, selector: Selector) -> bytes | None:
    """Return a stored object as JSON, None where it is not selected."""
    item = encoded(entry, kind)
    if selector is EVERYTHING or selector.matches(msgspec.json.decode(item)):
        return item
    return None


class Found(NamedTuple):
    """What a list has found, before its page is cut: at most `limit` objects, 0 for all of them.

    `prefix` is the part of the keys that the continue token leaves out.
    """

    kind: Kind
    reading: Reading
    selector: Selector
    limit: int
    prefix: str

    def page(self) -> EncodedList:
        """Cut the page at once."""
        cut = _Cut(self)
        for _ in cut.steps():
            pass
        return cut.page()

    async def page_in_slices(self) -> EncodedList:
        """Cut the page, and let others run meanwhile; it is of one revision all the same."""
        cut = _Cut(self)
        with self.reading:
            for _ in cut.steps():
                await share_loop(SHORT_SLICE)
        return cut.page()


class _Cut:
    """A page while it is being cut.

    The token goes on behind the last object. How many remain is only known where nothing is
    selected, as upstream.
    """

    def __init__(self, found: Found) -> None:
        self._found = found
        self._items: list[bytes] = []
        self._last = ""
        self._is_full = False
        self._selects = bool(found.selector.labels or found.selector.fields)
        self._seen = 0

    def steps(self) -> Iterator[None]:
        """Cut the page, one entry for each step."""
        for entries in self._found.reading:
            self._seen += len(entries)
            for entry in entries:
                self._add(entry)
                if self._is_full:
                    break
                yield
            if self._is_full and self._selects:
                return
            yield

    def _add(self, entry: Entry) -> None:
        item = select(self._found.kind, entry, self._found.selector)
        if item is None:
            return
        if self._found.limit and len(self._items) == self._found.limit:
            self._is_full = True
            return
        self._items.append(item)
        self._last = entry.key

    def page(self) -> EncodedList:
        revision = self._found.reading.revision
        after = self._last.removeprefix(self._found.prefix)
        token = encode_token(revision, after) if self._is_full else ""
        remaining = None if self._selects else self._seen - len(self._items)
        return EncodedList(self._items, str(revision), token, remaining or None)


def continuation_expired(after: str) -> Expired:
    """Make the 410 of a page whose revision is compacted; its token goes on inconsistently.

    apiserver/pkg/storage/etcd3/errors.go: handleCompactedErrorForPaging.
    """
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter, or use the continue token in "
        "this response to retrieve the remainder of the results. Continuing with the provided "
        "token results in an inconsistent list - objects that were created, modified, or "
        "deleted between the time the first chunk was returned and now may show up in the list.",
        details={"continue": encode_token(-1, after)},
    )


def check_list_options(resource_version: str, match: str, continue_token: str) -> None:
    """Refuse parameters of a list that exclude each other.

    apimachinery/pkg/apis/meta/internalversion/validation/validation.go.

    Raises:
        Invalid: resourceVersionMatch does not fit the rest.
        BadRequest: a continue token comes with a resourceVersion.
    """
    path = "resourceVersionMatch"
    if match and match not in ("Exact", "NotOlderThan"):
        error = FieldError(
            "FieldValueNotSupported",
            path,
            f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""',
        )
        raise invalid_options("ListOptions", [error])
    if match and continue_token:
        why = "resourceVersionMatch is forbidden when continue is provided"
        raise invalid_options("ListOptions", [forbidden_field(path, why)])
    if match and not resource_version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("ListOptions", [forbidden_field(path, why)])
    if match == "Exact" and resource_version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise invalid_options("ListOptions", [forbidden_field(path, why)])
    if continue_token and resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
