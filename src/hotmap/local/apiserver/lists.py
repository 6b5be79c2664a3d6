"""Lists: which revision is meant, and how a page is cut (apiserver/pkg/storage/etcd3/store.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hotmap.core.errors import BadRequest, Expired
from hotmap.local.apiserver.continuation import encode_token
from hotmap.local.apiserver.encoding import encoded
from hotmap.local.apiserver.status import invalid_options
from hotmap.local.field_errors import FieldError, forbidden_field
from hotmap.local.selectors import EVERYTHING, Selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.scheme import Kind
    from hotmap.local.store import Entry, Range


class EncodedList(NamedTuple):
    """A page of objects as JSON, for those who only pass them on."""

    items: list[bytes]
    resource_version: str
    continue_token: str
    remaining: int | None


def parse_resource_version(text: str) -> int:
    """Read a resourceVersion.

    Raises:
        BadRequest: it is not an unsigned number.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    raise BadRequest(
        f'invalid resource version: resourceVersion: Invalid value: "{text}": '
        f'strconv.ParseUint: parsing "{text}": invalid syntax'
    )


def selected(kind: Kind, entries: list[Entry], selector: Selector) -> Iterator[bytes]:
    """Return the selected ones among stored objects as JSON."""
    for entry in entries:
        item = encoded(entry, kind)
        if selector is EVERYTHING or selector.matches(msgspec.json.decode(item)):
            yield item


def cut_page(
    kind: Kind, found: Range, selector: Selector, *, limit: int, prefix: str
) -> EncodedList:
    """Cut the page of at most `limit` selected objects from a range, 0 for all of them.

    The token goes on behind the last object, relative to `prefix`. How many remain is only
    known where nothing is selected, as upstream.
    """
    items: list[bytes] = []
    last = ""
    more = found.remaining > 0
    for entry in found.entries:
        item = next(selected(kind, [entry], selector), None)
        if item is None:
            continue
        if limit and len(items) == limit:
            more = True
            break
        items.append(item)
        last = entry.key
    token = encode_token(found.revision, last.removeprefix(prefix)) if more else ""
    return EncodedList(items, str(found.revision), token, found.remaining or None)


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
