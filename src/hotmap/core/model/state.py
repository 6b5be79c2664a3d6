"""Records of what hotmap last applied to each consumer, and their text format.

Records are stored in a few small Secrets of the controller's namespace, never on the consumers: an
annotation there is copied to ReplicaSets, brought back by `kubectl rollout undo` and shown as drift
by GitOps tools. Losing records costs evidence, never an action.

The text of a shard is a header line with the scheme, then one JSON array a consumer:

    hotmap-state/1
    ["6f0c…","kH3x",4,[["ConfigMap","app","Zk…","9d1…","1042","uY3…","-",false]],[],[],0]

The latest observed changes of followed sources are stored with them, so that an edit which is
reverted is still known after a crash; these are JSON objects, one line each, which a reader of
records skips:

    {"source":["ConfigMap","shop","app"],"sightings":[[1789.5,"1042",["LEVEL"]]]}

The first shard also has the time until which sources were watched, so that the next controller
knows since when it may have missed a change:

    {"watchedUntil":1789.5}

A shard in another scheme reads as empty: unknown is a state of its own, not an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from hotmap.core.model.objects import ObjectKey

__all__ = [
    "HEADER",
    "SHARDS",
    "UNVOUCHED",
    "ForeignWrites",
    "ImmutableUse",
    "ObservedChange",
    "PodCheck",
    "Record",
    "RetiredRevision",
    "RolloutTimes",
    "SourceChanges",
    "SourceRecord",
    "StartRecord",
    "Window",
    "changes_line",
    "join_lines",
    "read_changes",
    "read_shard",
    "read_watched_until",
    "record_line",
    "records_by_source",
    "shard_of",
    "shards_for",
]

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

HEADER = "hotmap-state/1"

#: A generation that no object has: the pods' start decides whether a change is theirs.
UNVOUCHED = -1

#: 40,000 consumers of 250 bytes in 32 shards are 312 KB each: a third of a Secret's 1 MiB.
SHARDS = 32

#: Records per shard, 64 KB, from which on there are twice as many shards. A burst of changes writes
#: all shards, so there should be few; each change writes a whole shard, so it should be small.
_CROWDED = 256


class StartRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """When the data keys in frozen use last changed, as in SourceRecord for all of them."""

    changed_by: float | None
    edited: bool = False
    estimated: bool = False


class SourceRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What was last applied of one source."""

    kind: str
    name: str
    #: Digest of the consumer's uses of it; if it differs, the record does not apply.
    uses: str
    uid: str
    resource_version: str
    #: Fingerprints over the data keys in frozen use and in live use; "" without such a use.
    frozen: str
    live: str
    immutable: bool
    #: Fingerprint over all its data keys, to compare if it is used differently now: what every pod
    #: has been started with, or later content. "" in an older record without it.
    content: str = ""
    #: By when its last change had happened, POSIX seconds of the API server; None: unknown.
    changed_by: float | None = None
    #: Whether that change replaced content that pods may have, as this installation knows.
    edited: bool = False
    #: Whether it replaced an immutable source with the same content, which kubelets may go on to
    #: serve after the next edit.
    pinned: bool = False
    #: Whether `changed_by` is from managedFields alone: the removal of a data key updates no time
    #: there.
    estimated: bool = False
    #: When other pods were last seen to use an immutable source in place of which this one came,
    #: POSIX seconds of the API server; 0: never.
    shared_at: float = 0.0
    #: The resourceVersion with which it was adopted as it was, so that pods with older content stay
    #: as they are; "" if it was not, or has changed since.
    adopted: str = ""
    #: The last change of the data keys in frozen use, if it differs from that of all; None: equal.
    start: StartRecord | None = None
    #: Until when containers have started of pods that are older than the adopted version. Only the
    #: first check shows that, since each write of a pod gives it a newer version. POSIX seconds of
    #: the API server; 0: there are none.
    older_starts_until: float = 0.0


class Window(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A time in which a source had other content than was applied to its consumer.

    POSIX seconds. A container that started in it may have the other content.
    """

    start: float
    end: float


class ObservedChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One observed change of a source's data."""

    #: POSIX seconds of the API server.
    at: float
    #: The source's resourceVersion after it; "" for a deletion.
    resource_version: str
    #: The data keys that changed; empty if unknown.
    keys: frozenset[str]
    #: When managedFields say that it was written, if that is when it happened: not if a data key
    #: was removed, which updates no time. POSIX seconds of the API server, cut to whole ones.
    written: float | None = None
    #: Whether it was the first that was ever observed of the source: no pod has other content.
    created: bool = False
    #: After when it happened, if that is clearly before `at`: it arrived late. POSIX seconds.
    since: float | None = None
    #: Whether the data is what it was: it was written, with unknown data, while it was not watched.
    same: bool = False
    #: Whether it stands for several changes, the first of them at `since`, the last at `at`.
    several: bool = False

    @property
    def began(self) -> float:
        """After when it happened, or the first of several."""
        return self.at if self.since is None else self.since


class SourceChanges(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"changes": "sightings"},  # as earlier versions wrote it
):
    """The recent observed changes of a source, oldest first."""

    source: ObjectKey
    changes: tuple[ObservedChange, ...]


class _Watched(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """By when every change of a source had been observed, POSIX seconds of the API server."""

    watched_until: float


class RetiredRevision(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A revision that was applied earlier, and when its content was replaced."""

    revision: str
    at: float
    #: Whether that was observed, so that pods that started before have its content.
    observed: bool = False
    #: Whether the pod template had no revision then, since hotmap had not rolled it out before, and
    #: all of its pods were found to have the content.
    unmarked: bool = False


class RolloutTimes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The recent rollouts of a consumer, for the flap breaker."""

    #: POSIX seconds, newest last; at most four times the limit.
    times: tuple[float, ...] = ()
    #: How often it was rolled out right after a suppression.
    held: int = 0
    #: What the last of them rolled to, newest last, and before these what was there at first.
    contents: tuple[str, ...] = ()
    #: Names the last request for a release that was followed; "" for none.
    release: str = ""


class PodCheck(enum.IntEnum):
    """The result of the pod check of a consumer since its adoption or rollout."""

    #: Not checked yet, or not all pods were ready.
    NOT_YET = 0
    #: All pods have the current content.
    CURRENT = 1
    #: Some may have older content, which is only reported, once.
    LATENT = 2
    #: All pods have the current files, and nothing shows whether their processes have read them.
    DELIVERED = 3


class ForeignWrites(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The known writes of others into a consumer's pod template."""

    #: When Reloader had last written it at first sight, POSIX seconds of the API server; 0: never.
    reloaded_at: float = 0.0
    #: Identifies the write that was last reported.
    reported: str = ""


class ImmutableUse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An immutable source that came into use."""

    kind: str
    name: str
    uid: str


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What hotmap last applied to one consumer."""

    uid: str
    #: Id of the fingerprint key that all fingerprints here were made with.
    key_id: str
    #: The consumer's generation whose pods have this content, or UNVOUCHED.
    generation: int
    sources: tuple[SourceRecord, ...] = ()
    #: Windows that have not been examined against the pods yet.
    windows: tuple[Window, ...] = ()
    #: The revisions applied before, newest last, at most three.
    retired: tuple[RetiredRevision, ...] = ()
    #: How often content was applied again under another name (`<revision>.<n>`).
    serial: int = 0
    rollouts: RolloutTimes = RolloutTimes()
    #: The revision in the pod template when this was written, ours or adopted.
    revision: str = ""
    pods_checked: PodCheck = PodCheck.NOT_YET
    #: The consumer's; "" in an older record without it.
    namespace: str = ""
    #: None: no such writes.
    foreign_writes: ForeignWrites | None = None
    #: Pods that were created in or after this second have the recorded content, since a template
    #: change after the last change made them. POSIX seconds of the API server; 0: unknown.
    proven_since: float = 0.0
    #: The revision for which pods with older content were replaced, which is done once.
    healed: str = ""
    #: Immutable sources that are not followed now and that kubelets may serve: the template has
    #: ceased to use them while its older pods run on, or they are ignored.
    former: tuple[SourceRecord, ...] = ()
    #: Immutable sources that came into use and were not applied yet: kubelets may serve them.
    immutable_uses: tuple[ImmutableUse, ...] = ()
    #: Whether files counted as read at start, since nothing re-reads them; None: there are none, or
    #: it is not known.
    files_at_start: bool | None = None
    #: The content was replaced and has come back: pods with the template's revision that started
    #: before it was replaced have it. POSIX seconds of the API server; 0: not so, or not known.
    replaced_at: float = 0.0


def records_by_source(record: Record | None) -> dict[tuple[str, str], SourceRecord]:
    """Return what was last applied of each source, by its kind and name."""
    if record is None:
        return {}
    return {(source.kind, source.name): source for source in (*record.former, *record.sources)}


def shard_of(uid: str, shards: int = SHARDS) -> int:
    """Return the shard of a consumer's record, or of a source's changes.

    The number is a power of two, so with twice as many a record stays or moves `shards` further.
    """
    return crc32(uid.encode()) % shards


def shards_for(records: int, *, least: int) -> int:
    """Return the number of shards for some records, at least `least`: a power of two."""
    shards = 1
    while shards < SHARDS and (shards < least or shards * _CROWDED < records):
        shards *= 2
    return shards


#: Types of the values that records share; no value of one equals a value of another.
_SHARED_TYPES = frozenset({str, float, RolloutTimes})

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Record)
_changes_decoder = msgspec.json.Decoder(SourceChanges)
_watched_decoder = msgspec.json.Decoder(_Watched)


def join_lines(lines: Iterable[bytes], *, watched_until: float | None) -> bytes:
    """Write a shard of the lines of its records and of observed changes, in this order."""
    last = [] if watched_until is None else [_encoder.encode(_Watched(watched_until))]
    return b"\n".join([HEADER.encode(), *lines, *last, b""])


def record_line(record: Record) -> bytes:
    """Encode a record as its line in a shard, without the line feed."""
    return _encoder.encode(record)


def changes_line(changes: SourceChanges) -> bytes:
    """Encode the observed changes of a source as their line in a shard, without the line feed."""
    return _encoder.encode(changes)


def read_changes(text: str) -> dict[ObjectKey, SourceChanges]:
    """Read the observed changes of sources from a shard; skip what cannot be read."""
    found = {}
    for line in _lines(text):
        try:
            changes = _changes_decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        found[changes.source] = changes
    return found


def read_watched_until(text: str) -> float | None:
    """Read until when sources were watched; None: the shard does not have it."""
    for line in reversed(_lines(text)):
        try:
            return _watched_decoder.decode(line).watched_until
        except (msgspec.DecodeError, RecursionError):
            continue
    return None


def _lines(text: str) -> list[str]:
    header, _, body = text.partition("\n")
    # Not splitlines(): it also cuts at U+2028 and the like, which JSON leaves as they are.
    return body.split("\n") if header == HEADER else []


def read_shard(text: str, known: dict[object, Any] | None = None) -> dict[str, Record]:
    """Read the records of one shard by uid; skip what cannot be read.

    With another scheme, a cut line or invalid content the affected consumers are adopted again,
    which is safe: lost state costs a pod check, never an action.

    Values that `known` has are taken from it, and the others are added. Records that are read with
    the same dictionary share equal values: 24 of 220 MB of a controller beside 100,000 objects.
    """
    known = {} if known is None else known
    records = {}
    for line in _lines(text):
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        sources = tuple(_with_known_values(source, known) for source in record.sources)
        record = msgspec.structs.replace(record, sources=sources)
        records[record.uid] = _with_known_values(record, known)
    return records


def _with_known_values(struct: _Struct, known: dict[object, Any]) -> _Struct:
    return type(struct)(
        *(
            known.setdefault(value, value) if type(value) in _SHARED_TYPES else value
            for value in msgspec.structs.astuple(struct)
        )
    )
