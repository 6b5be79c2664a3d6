"""Keyed, short, publishable identity of a source's content.

    fingerprint = HMAC-SHA-256(key, encoding)[:8], written as base64url without padding

The encoding is unambiguous: every field is length-prefixed, `data` and `binaryData` are
distinguished, values are bytes. It starts with the scheme and the object's kind, namespace and
name, so guesses of a Secret's value cannot be tested by writing a ConfigMap elsewhere. It requires
the key, so guesses cannot be tested offline. Hashes without a key are called digests.

A data key has a *mark* (its own fingerprint). What a consumer uses of a source is a fingerprint
over the marks it selects, so content never has to be kept. A source that does not exist, and one
that has none of the used data keys, are one value: ABSENT. A consumer gets the same in both cases.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode

from hotmap.core.value import Value

__all__ = [
    "ABSENT",
    "MARK_LENGTH",
    "SCHEME",
    "FingerprintKey",
    "combine",
    "digest",
    "fingerprint_key",
    "mark",
    "mark_all",
    "selection",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class FingerprintKey(Value):
    """A secret HMAC key, and its id in texts."""

    id: str
    secret: bytes


#: Version of the encoding. Another version gives other fingerprints for the same content.
SCHEME = "1"

#: The fingerprint of an absent source, or one with none of the used data keys.
ABSENT = "-"

#: 8 bytes: 2**64 values, and only equality with the one before matters.
MARK_LENGTH = 8


def fingerprint_key(secret: bytes) -> FingerprintKey:
    """Build a fingerprint key with an id of 4 characters, which texts can show."""
    name = hmac.digest(secret, b"hotmap key id", "sha256")[:3]
    return FingerprintKey(urlsafe_b64encode(name).decode(), secret)


def mark(
    key: FingerprintKey,
    *,
    kind: str,
    namespace: str,
    name: str,
    data_key: str,
    binary: bool,
    value: bytes,
) -> bytes:
    """Fingerprint one data key of one source: MARK_LENGTH bytes.

    `value` is what a process would read: a Secret's value is decoded first. `binary` means that it
    is in `binaryData`.
    """
    (marks,) = mark_all(
        key, ((data_key, binary, value),), kind=kind, namespace=namespace, name=name
    )
    return marks


def mark_all(
    key: FingerprintKey,
    values: Iterable[tuple[str, bool, bytes]],
    *,
    kind: str,
    namespace: str,
    name: str,
) -> list[bytes]:
    """Fingerprint each (data key, binary, value) of one source, as `mark` does, in their order."""
    place = [b"mark", *(field.encode() for field in (SCHEME, kind, namespace, name))]
    common, encoded, marks = _encode(place), _encoded, []
    # A copy takes half as long as a new one, and it has read what all have in common.
    copy = hmac.new(key.secret, common, "sha256").copy
    for data_key, binary, value in values:
        each = copy()
        field = _BINARY_DATA if binary else _DATA
        each.update(field + encoded(data_key.encode()) + encoded(value))
        marks.append(each.digest()[:MARK_LENGTH])
    return marks


def selection(
    key: FingerprintKey,
    *,
    kind: str,
    namespace: str,
    name: str,
    marks: Iterable[tuple[str, bool, bytes]],
) -> str:
    """Fingerprint the marks (data key, binary, mark) of the used data keys of one source.

    Order does not matter; no marks give ABSENT. A used data key that is missing is simply not
    among the marks, and since each mark carries its data key, that is a value of its own.
    """
    chosen = sorted(marks)
    if not chosen:
        return ABSENT
    encoded = _encoded
    parts = [_SELECTION, *(encoded(field.encode()) for field in (kind, namespace, name))]
    parts += [
        encoded(data_key.encode()) + (_BINARY_MARK if binary else _TEXT_MARK) + value
        for data_key, binary, value in chosen
    ]
    return _text(hmac.digest(key.secret, b"".join(parts), "sha256")[:MARK_LENGTH])


def combine(key: FingerprintKey, parts: Iterable[str], *, uid: str) -> str:
    """Fingerprint several texts together, bound to the uid of their consumer."""
    fields = [b"combined", uid.encode(), *(part.encode() for part in parts)]
    return _text(hmac.digest(key.secret, _encode(fields), "sha256")[:MARK_LENGTH])


def digest(parts: Iterable[str]) -> str:
    """Digest texts that are not secret (such as the used data keys): 8 bytes, not keyed."""
    return _text(hashlib.sha256(_encode([part.encode() for part in parts])).digest()[:MARK_LENGTH])


def _encode(fields: Iterable[bytes]) -> bytes:
    """Join fields so that no two different lists give the same bytes."""
    return b"".join([_encoded(field) for field in fields])


#: The first lengths as they are encoded: a source may have thousands of data keys.
_LENGTHS = [length.to_bytes(8, "big") for length in range(256)]


def _encoded(field: bytes) -> bytes:
    length = len(field)
    return (_LENGTHS[length] if length < 256 else length.to_bytes(8, "big")) + field


#: How the encoding of a selection begins, and what is between a data key and its mark.
_SELECTION = _encode([b"selection", SCHEME.encode()])
_TEXT_MARK = _encoded(b"d") + _LENGTHS[MARK_LENGTH]
_BINARY_MARK = _encoded(b"b") + _LENGTHS[MARK_LENGTH]
_DATA, _BINARY_DATA = _encoded(b"data"), _encoded(b"binaryData")


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
