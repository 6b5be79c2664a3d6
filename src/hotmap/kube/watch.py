"""Framing and decoding of a watch stream: bytes in, watch events out.

No socket and no clock: `reflector` reads the stream and acts on the events.
The format is kubernetes: apimachinery/pkg/apis/meta/v1/watch.go, one JSON object per line.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from hotmap.core.errors import ApiError, Unavailable
from hotmap.core.model.objects import CommonMeta
from hotmap.kube.decoding import (
    ObjectTooLarge,
    check_size,
    decode,
    decoding_problem,
    without_deep_values,
)
from hotmap.kube.status import status_error

__all__ = [
    "Added",
    "Bookmark",
    "Deleted",
    "Failure",
    "HasMetadata",
    "Modified",
    "ObjectEvent",
    "Unreadable",
    "WatchDecoder",
    "WatchEvent",
    "decode_metadata",
]

#: Marks the bookmark that ends the initial part of a stream (KEP-3157).
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

#: Maximum bytes of a line. etcd takes objects of 1.5 MiB at most,
#: and JSON with managedFields does not grow that tenfold.
LONGEST_LINE: Final = 16 << 20


class HasMetadata(Protocol):
    """Every Struct of `core.model.objects` that is a whole object."""

    @property
    def metadata(self) -> CommonMeta: ...


T = TypeVar("T", bound=HasMetadata)


class Added(NamedTuple, Generic[T]):
    """An object that is new to this watch."""

    object: T

    @property
    def metadata(self) -> CommonMeta:
        return self.object.metadata


class Modified(NamedTuple, Generic[T]):
    """An object after a change."""

    object: T

    @property
    def metadata(self) -> CommonMeta:
        return self.object.metadata


class Deleted(NamedTuple, Generic[T]):
    """The last state of an object, with the resourceVersion of its deletion."""

    object: T

    @property
    def metadata(self) -> CommonMeta:
        return self.object.metadata


class Bookmark(NamedTuple):
    """Everything up to `resource_version` has been sent."""

    resource_version: str
    initial_events_end: bool


class Unreadable(NamedTuple):
    """An object that cannot be decoded as its kind; the stream continues after it."""

    metadata: CommonMeta
    problem: str
    #: True if it was sent as the last state of a deleted object.
    deleted: bool = False


class Failure(NamedTuple):
    """The server ends the watch with an error; nothing follows."""

    error: ApiError


#: A watch event about one object.
ObjectEvent: TypeAlias = Added[T] | Modified[T] | Deleted[T] | Unreadable
WatchEvent: TypeAlias = ObjectEvent[T] | Bookmark | Failure


class _Line(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _Head(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bare(msgspec.Struct):
    metadata: CommonMeta


_head_decoder = msgspec.json.Decoder(_Head)
_bare_decoder = msgspec.json.Decoder(_Bare)
_begun_decoder = msgspec.json.Decoder(_Line[_Bare])

_MANAGED_FIELDS: Final = b'"managedFields":'


class WatchDecoder(Generic[T]):
    """Cuts one stream into lines and decodes each into a typed watch event.

    Chunks may be cut anywhere. Every byte is copied at most twice however long its line is.
    """

    def __init__(self, item_type: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[_Line[T]] = msgspec.json.Decoder(
            _Line[item_type]  # type: ignore[valid-type]
        )
        #: The pieces of a line that has not ended yet, and their bytes.
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, chunk: bytes) -> list[WatchEvent[T]]:
        """Add the next bytes and return the watch events that they complete, in order."""
        first, *rest = chunk.split(b"\n")
        self._pending.append(first)
        self._pending_bytes += len(first)
        if not rest:
            return self._fail_too_long() if self._pending_bytes > LONGEST_LINE else []
        lines = [b"".join(self._pending), *rest]
        last = lines.pop()
        self._pending = [last]
        self._pending_bytes = len(last)
        return [self._decode(line) for line in lines if line and not line.isspace()]

    def close(self) -> int:
        """End the stream: drop half a line, and return how many bytes it had."""
        dropped = self._pending_bytes
        self._pending, self._pending_bytes = [], 0
        return dropped

    def _fail_too_long(self) -> list[WatchEvent[T]]:
        self.close()
        text = f"the server sent a line of more than {LONGEST_LINE >> 20} MiB"
        return [Failure(Unavailable(text, code=502, reason="BadGateway"))]

    def _decode(self, line: bytes) -> WatchEvent[T]:
        # One step with the type of the object: a third faster than decoding the event type first.
        try:
            check_size(line)
            decoded = decode(self._decoder, line)
        except Exception as error:  # any error concerns this object only
            return _decode_other(line, error)
        match decoded.type:
            case "ADDED":
                return Added(decoded.object)
            case "MODIFIED":
                return Modified(decoded.object)
            case "DELETED":
                return Deleted(decoded.object)
            case "BOOKMARK":
                return _bookmark(decoded.object.metadata)
            # A Status has no field that contradicts a ConfigMap, so ERROR comes here too.
            case _:
                return _decode_other(line, None)


def decode_metadata(raw: msgspec.Raw) -> CommonMeta:
    """Decode the metadata of an object that may be invalid otherwise; raises as `decode`."""
    return decode(_bare_decoder, raw).metadata


def _decode_other(line: bytes, error: Exception | None) -> WatchEvent[T]:
    """Decode everything else: ERROR, a bookmark, an invalid object."""
    try:
        if isinstance(error, ObjectTooLarge) and (begun := _decode_begin(line)) is not None:
            return Unreadable(begun.object.metadata, str(error), begun.type == "DELETED")
        head = _decode_head(line)
        if head.type == "ERROR":
            return Failure(status_error(head.object))
        metadata = decode_metadata(head.object)
    except Exception as problem:
        text = f"the server sent an invalid watch event: {decoding_problem(problem)}"
        return Failure(Unavailable(text, code=502, reason="BadGateway"))
    if head.type == "BOOKMARK":
        return _bookmark(metadata)
    if error is None:
        return Unreadable(metadata, f"unknown event type {head.type!r}")
    return Unreadable(metadata, decoding_problem(error), deleted=head.type == "DELETED")


def _decode_head(line: bytes) -> _Head:
    try:
        return decode(_head_decoder, line)
    except ObjectTooLarge:  # it is deep elsewhere than in managedFields, which no API server sends
        return _head_decoder.decode(without_deep_values(line))


def _decode_begin(line: bytes) -> _Line[_Bare] | None:
    """Decode the metadata of an object up to its managedFields; None if that is not all of it.

    They are the last of the metadata of built-in kinds (kubernetes: ObjectMeta, in the order of its
    fields), but custom resources have sorted fields. A quotation mark within a string is escaped,
    so the first match is the field.
    """
    begin, found, _ = line.partition(_MANAGED_FIELDS)
    try:
        begun = _begun_decoder.decode(begin.rstrip(b",") + b"}}}") if found else None
    except (msgspec.DecodeError, RecursionError):
        return None
    if begun is None or not (begun.object.metadata.name and begun.object.metadata.uid):
        return None
    return begun


def _bookmark(metadata: CommonMeta) -> Bookmark:
    marker = (metadata.annotations or {}).get(INITIAL_EVENTS_END)
    return Bookmark(metadata.resource_version, marker == "true")
