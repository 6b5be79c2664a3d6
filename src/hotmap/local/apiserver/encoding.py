"""Objects as the store keeps them: JSON without its resourceVersion.

The revision of a write is the resourceVersion, so it cannot be part of what is written. Kind,
apiVersion and metadata always come first, which lets the revision be put in on the way out
without decoding anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.scheme import Kind
    from hotmap.local.store import Entry

_HEAD = ("kind", "apiVersion", "metadata")


def arrange_fields(kind: Kind, obj: JsonObject, metadata: JsonObject) -> JsonObject:
    """Return an object of a kind in the order in which upstream writes one."""
    body = {field: value for field, value in obj.items() if field not in _HEAD}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **body}


def encode(obj: JsonObject, kind: Kind | None = None) -> bytes:
    """Write an object as it is stored; its fields must be `arrange_fields`."""
    metadata = {field: v for field, v in obj["metadata"].items() if field != "resourceVersion"}
    stored = {**obj, "metadata": metadata}
    if kind is not None and kind.conversion is not None:
        stored = kind.conversion.to_stored(stored)
    elif kind is not None and kind.stored_version:
        stored["apiVersion"] = kind.stored_api_version
    return msgspec.json.encode(stored)


def in_version(kind: Kind, value: bytes) -> bytes:
    """Return a stored value in the version of a kind, which may have several."""
    if kind.conversion is not None:
        obj = kind.conversion.from_stored(msgspec.json.decode(value))
        return msgspec.json.encode(arrange_fields(kind, obj, obj["metadata"]))
    if kind.strategy.defaults_on_read:
        obj = msgspec.json.decode(value)
        kind.strategy.drop_nulls(obj)
        kind.strategy.default(obj)
        return msgspec.json.encode(arrange_fields(kind, obj, obj["metadata"]))
    if len(kind.versions) == 1 and not kind.stored_version:
        return value
    head = b'{"kind":"%s","apiVersion":"' % kind.kind.encode()
    rest = value[value.index(b'"', len(head)) :]
    return head + kind.api_version.encode() + rest


def at_revision(value: bytes, revision: int) -> bytes:
    """Put the resourceVersion into a stored value."""
    return value.replace(b'"metadata":{', b'"metadata":{"resourceVersion":"%d",' % revision, 1)


def encoded(entry: Entry, kind: Kind | None = None) -> bytes:
    """Return a stored object as JSON, in the version of a kind or in that in which it is stored."""
    value = at_revision(entry.value or b"", entry.mod_revision)
    return value if kind is None else in_version(kind, value)


def decode(entry: Entry, kind: Kind | None = None) -> JsonObject:
    """Return a stored object as a dict of the caller's own."""
    obj: JsonObject = msgspec.json.decode(encoded(entry, kind))
    return obj
