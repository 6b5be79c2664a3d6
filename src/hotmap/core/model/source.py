"""A source as hotmap keeps it: identity, change bounds and marks, never a value.

Created from a decoded ConfigMap or Secret in one step, so that values are in memory only during the
decode. `fingerprint_of` fingerprints what a consumer uses of it.
"""

from __future__ import annotations

import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from hotmap.core.fingerprint import ABSENT, MARK_LENGTH, FingerprintKey, mark_all, selection
from hotmap.core.model.annotations import known_annotations
from hotmap.core.model.limits import check_data_keys
from hotmap.core.model.objects import ConfigMap, ObjectKey, ObjectMeta, Secret
from hotmap.core.model.references import Keys, merge_keys
from hotmap.core.reloader.annotations import DEFAULT_SETTINGS, DialectSettings, Writing
from hotmap.core.reloader.patch import digest_of
from hotmap.core.text import printable

__all__ = [
    "LONGEST_MANAGER",
    "Mark",
    "Marks",
    "Source",
    "binary_keys",
    "changed_keys",
    "count_data_keys",
    "fingerprint_of",
    "has_removed_keys",
    "make_marks",
    "missing_keys",
    "parse_time",
    "source_from_config_map",
    "source_from_secret",
    "text_keys",
]


#: Characters of a field manager's name (kubernetes: apimachinery FieldManagerMaxLength).
LONGEST_MANAGER = 128


class Mark(NamedTuple):
    """The keyed identity of one data key's value."""

    data_key: str
    binary: bool
    value: bytes


class Marks(msgspec.Struct, eq=False, gc=False):
    """The marks of all data keys of one source under one fingerprint key, sorted.

    Never changes for its readers.

    Packed: as objects of their own they are half of what is kept of a source, and of a ConfigMap
    with 100,000 data keys without values they would be fifteen times its size (measured).
    """

    key_id: str
    #: The data keys, each ended by _TEXT or _BINARY; one string for all sources with the same ones.
    names: str
    #: The values, one after the other.
    values: bytes
    #: The fingerprint of all of them, made when it is first needed; it says nothing about equality.
    #: All consumers of the source need it, and share the text.
    fingerprint: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Marks):
            return NotImplemented
        return self.values == other.values and (self.key_id, self.names) == (
            other.key_id,
            other.names,
        )

    def __hash__(self) -> int:
        return hash((self.key_id, self.names, self.values))

    def __iter__(self) -> Iterator[Mark]:
        for name, value in self.pairs():
            yield Mark(name[:-1], name[-1] == _BINARY, value)

    def pairs(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the data keys as they are in `names`, each with its value."""
        values = (
            self.values[start : start + MARK_LENGTH]
            for start in range(0, len(self.values), MARK_LENGTH)
        )
        return zip(_NAMES.findall(self.names), values, strict=True)

    def numbers(self) -> Sequence[int]:
        """Return the values as numbers, which are compared sooner."""
        return memoryview(self.values).cast("Q")

    def numbered(self) -> Iterator[tuple[str, int]]:
        """Iterate over the data keys as they are in `names`, each with the number of its value."""
        return zip(_NAMES.findall(self.names), self.numbers(), strict=True)

    def named(self, data_keys: Collection[str]) -> Iterable[Mark]:
        """Return the marks of some data keys, and of others where that takes less time."""
        if len(data_keys) * _LOOKUP * MARK_LENGTH > len(self.values):
            return self
        return [mark for name in data_keys if (mark := self._find(name)) is not None]

    def _find(self, data_key: str) -> Mark | None:
        """Return the mark of a data key; it is in `data` or in `binaryData`, never in both."""
        if _ENDS.search(data_key):
            return None
        ends = (_TEXT, _BINARY) if _BINARY in self.names else (_TEXT,)
        for end in ends:
            name = data_key + end
            begins = [self.names.find(before + name) + 1 for before in ends]
            if any(begins) or self.names.startswith(name):
                place = sum(self.names.count(each, 0, max(begins)) for each in ends)
                value = self.values[place * MARK_LENGTH : (place + 1) * MARK_LENGTH]
                return Mark(data_key, end == _BINARY, value)
        return None


#: Neither can be in a data key (kubernetes: validation.IsConfigMapKey).
_TEXT, _BINARY = "\n", "\r"
_ENDS = re.compile("[\n\r]")
_NAMES = re.compile("[^\n\r]*[\n\r]")

#: Data keys that are read in the time in which one is looked up among many.
_LOOKUP = 16

#: Maximum characters of names that are shared between sources.
_SHARED_AT_MOST = 1024


def _pack_names(names: Iterable[tuple[str, bool]]) -> str:
    packed = "".join(data_key + (_BINARY if binary else _TEXT) for data_key, binary in names)
    return _shared(packed) if len(packed) <= _SHARED_AT_MOST else packed


@lru_cache(maxsize=4096)
def _shared(names: str) -> str:
    """Return a shared equal value: most sources have the same few data keys."""
    return names


class Source(msgspec.Struct, frozen=True, gc=False):
    """The known state of one ConfigMap or Secret."""

    key: ObjectKey
    uid: str
    resource_version: str
    immutable: bool
    #: Upper bound of the last data change, POSIX seconds of the API server's clock; None: unknown.
    changed_at: float | None
    #: Per fingerprint key, newest first.
    marks: tuple[Marks, ...]
    #: Annotations that hotmap reads, or None.
    annotations: dict[str, str] | None = None
    #: The mark of this content in pod templates while rollouts are written as Reloader does; else
    #: "". Not used in decisions.
    stamp: str = ""
    #: The field manager that last wrote any part of it; "" if unknown.
    writer: str = ""
    #: When it was created, if it is immutable, POSIX seconds of the API server's clock.
    created_at: float | None = None
    #: Whether it was written after the second of its creation.
    modified: bool = False


def source_from_config_map(
    item: ConfigMap,
    keys: Sequence[FingerprintKey],
    dialect: DialectSettings = DEFAULT_SETTINGS,
    *,
    known: Source | None = None,
) -> Source:
    """Reduce a ConfigMap to marks under each of `keys` (newest first, at least one).

    `known` is the earlier value; unchanged parts are shared.

    Raises:
        LimitExceeded: it has too many data keys.
    """
    check_data_keys(len(item.data or ()) + len(item.binary_data or ()))
    values = [(name, False, text.encode()) for name, text in (item.data or {}).items()]
    values += [(name, True, b64decode(text)) for name, text in (item.binary_data or {}).items()]
    return _source("ConfigMap", item, values, keys, dialect=dialect, known=known)


def source_from_secret(
    item: Secret,
    keys: Sequence[FingerprintKey],
    dialect: DialectSettings = DEFAULT_SETTINGS,
    *,
    known: Source | None = None,
) -> Source:
    """Reduce a Secret to marks of its decoded values, as `source_from_config_map` does.

    Raises:
        LimitExceeded: it has too many data keys.
    """
    check_data_keys(len(item.data or ()))
    values = [(name, False, b64decode(text or "")) for name, text in (item.data or {}).items()]
    return _source("Secret", item, values, keys, dialect=dialect, known=known)


def make_marks(
    source: ObjectKey, values: Sequence[tuple[str, bool, bytes]], keys: Sequence[FingerprintKey]
) -> tuple[Marks, ...]:
    """Mark each (data key, binary, value) of a source under each of `keys`; sorted by data key."""
    kind, namespace, name = source
    named = {"kind": kind, "namespace": namespace, "name": name}
    names = _pack_names((data_key, binary) for data_key, binary, _ in values)
    return tuple(Marks(key.id, names, b"".join(mark_all(key, values, **named))) for key in keys)


def _source(
    kind: str,
    item: ConfigMap | Secret,
    values: Iterable[tuple[str, bool, bytes]],
    keys: Sequence[FingerprintKey],
    *,
    dialect: DialectSettings,
    known: Source | None,
) -> Source:
    metadata, values = item.metadata, sorted(values)
    written_at, writer = _last_write(metadata)
    created_at = parse_time(metadata.creation_timestamp)
    namespace = sys.intern(metadata.namespace)  # thousands of objects have the same
    object_key = known.key if known else ObjectKey(kind, namespace, metadata.name)
    return Source(
        key=object_key,
        uid=known.uid if known and known.uid == metadata.uid else metadata.uid,
        resource_version=metadata.resource_version,
        immutable=bool(item.immutable),
        changed_at=written_at,
        marks=make_marks(object_key, values, keys),
        annotations=known_annotations(metadata.annotations, dialect.names) or None,
        stamp="" if dialect.writing is Writing.REVISION else _stamp(values),
        writer=writer,
        created_at=created_at if item.immutable else None,
        modified=written_at is not None and created_at is not None and written_at > created_at,
    )


def _stamp(values: Iterable[tuple[str, bool, bytes]]) -> str:
    return digest_of(
        (data_key.encode(), b64encode(value) if binary else value)
        for data_key, binary, value in values
    )


def _last_write(metadata: ObjectMeta) -> tuple[float | None, str]:
    """Bound the last data change from above by the newest managedFields time, and name its manager.

    Over all entries without a subresource, not only those that own data: a deletion by another
    manager, `stringData` and cleared managedFields all escape the narrower reading (seen on
    1.36.3). None means unknown, which counts as "just now".
    """
    writes = [
        (at, sys.intern(printable(entry.manager, LONGEST_MANAGER)))
        for entry in metadata.managed_fields or ()
        if not entry.subresource and (at := parse_time(entry.time)) is not None
    ]
    return max(writes) if writes else (None, "")


_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?Z", re.ASCII)


def parse_time(text: str | None) -> float | None:
    """Read a Kubernetes timestamp (RFC 3339 in UTC) as POSIX seconds, cut to whole ones.

    None for anything else, such as an invalid month in an annotation.
    """
    return _parse_time(text) if text and len(text) <= _LONGEST_TIME else None


#: With nanoseconds.
_LONGEST_TIME = len("2026-11-21T20:00:00.123456789Z")


# Objects that one tool has written have few different times: parsed once, and shared.
@lru_cache(maxsize=4096)
def _parse_time(text: str) -> float | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def fingerprint_of(source: Source | None, keys: Iterable[Keys], key: FingerprintKey) -> str:
    """Fingerprint what a set of uses selects of a source, under one fingerprint key.

    ABSENT when the source does not exist or has none of the selected data keys.

    Raises:
        KeyError: the source was reduced without this fingerprint key, so its fingerprint is
        unknown; treating it as absent would be a change.
    """
    if source is None:
        return ABSENT
    marks, wanted = _marks_under(source, key), merge_keys(keys)
    if any(_selects_all(entry, marks) for entry in wanted):
        return _fingerprint_all(source, marks, key)
    chosen = [
        found
        for found in _find_named(marks, wanted)
        if any(entry.select(found.data_key, binary=found.binary) for entry in wanted)
    ]
    if chosen and len(chosen) * MARK_LENGTH == len(marks.values):
        return _fingerprint_all(source, marks, key)
    return _fingerprint(source, chosen, key)


def _fingerprint_all(source: Source, marks: Marks, key: FingerprintKey) -> str:
    if not marks.fingerprint:
        marks.fingerprint = _fingerprint(source, marks, key)
    return marks.fingerprint


def _fingerprint(source: Source, marks: Iterable[Mark], key: FingerprintKey) -> str:
    kind, namespace, name = source.key
    return selection(key, kind=kind, namespace=namespace, name=name, marks=marks)


def _selects_all(entry: Keys, marks: Marks) -> bool:
    """Return whether a use is known to read all data keys."""
    if entry.names is not None or not (entry.binary or _BINARY not in marks.names):
        return False
    if not entry.hidden:
        return True
    return all(mark.data_key not in entry.hidden for mark in marks.named(entry.hidden))


def _find_named(marks: Marks, wanted: Sequence[Keys]) -> Iterable[Mark]:
    """Return the marks that some uses may read."""
    if any(entry.names is None for entry in wanted):
        return marks
    return marks.named(frozenset().union(*(entry.names or () for entry in wanted)))


def _marks_under(source: Source, key: FingerprintKey) -> Marks:
    for marks in source.marks:
        if marks.key_id == key.id:
            return marks
    raise KeyError(key.id)


def text_keys(source: Source) -> Iterator[str]:
    """Iterate over the data keys that environments read: all but those of `binaryData`."""
    names = _NAMES.findall(source.marks[0].names) if source.marks else ()
    return (name[:-1] for name in names if name[-1] == _TEXT)


def binary_keys(source: Source) -> Iterator[str]:
    """Iterate over the data keys of `binaryData`."""
    names = _NAMES.findall(source.marks[0].names) if source.marks else ()
    return (name[:-1] for name in names if name[-1] == _BINARY)


def count_data_keys(source: Source) -> int:
    """Return how many data keys a source has."""
    return len(source.marks[0].values) // MARK_LENGTH if source.marks else 0


def missing_keys(source: Source, keys: Keys) -> tuple[str, ...]:
    """Return the data keys that a use names and the source does not have."""
    if keys.names is None:
        return ()
    held = source.marks[0].named(keys.names) if source.marks else ()
    existing = {mark.data_key for mark in held if keys.binary or not mark.binary}
    return tuple(sorted(keys.names - existing))


def changed_keys(old: Source | None, new: Source | None) -> frozenset[str]:
    """Return the data keys whose value differs between two states of a source.

    Empty if the two were reduced under different fingerprint keys: then it is unknown.
    """
    before, after = _comparable_marks(old, new)
    if before == after:
        return frozenset()
    if before is not None and after is not None and before.names == after.names:
        values = zip(_NAMES.findall(after.names), before.numbers(), after.numbers(), strict=True)
        return frozenset(name[:-1] for name, old, new in values if old != new)
    if before is None or after is None:
        some = before or after
        return frozenset(_ENDS.split(some.names)[:-1] if some else ())
    earlier, later = dict(before.numbered()), dict(after.numbered())
    changed = [name for name, value in later.items() if earlier.get(name) != value]
    return frozenset(name[:-1] for name in (*changed, *(earlier.keys() - later.keys())))


def has_removed_keys(old: Source | None, new: Source | None) -> bool:
    """Return whether a data key of one state of a source is not in the next."""
    before, after = (item.marks[0].names if item and item.marks else "" for item in (old, new))
    return before != after and not {*_ENDS.split(before)} <= {*_ENDS.split(after)}


def _comparable_marks(old: Source | None, new: Source | None) -> tuple[Marks | None, Marks | None]:
    """Choose marks of both made with the same key, the newest such key of the new state."""
    if old is None or new is None:
        return (
            old.marks[0] if old and old.marks else None,
            new.marks[0] if new and new.marks else None,
        )
    before = {marks.key_id: marks for marks in old.marks}
    for after in new.marks:
        if after.key_id in before:
            return before[after.key_id], after
    return None, None
