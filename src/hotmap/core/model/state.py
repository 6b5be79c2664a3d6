"""What hotmap last asked of each consumer, as records, and the text that keeps them.

Records lie in a fixed number of small Secrets of the controller's namespace, never on the
consumers: an annotation there is copied to ReplicaSets, brought back by `kubectl rollout undo`
and shown as drift by GitOps tools. Losing records costs evidence, never an action.

The text of a shard is a header line with the scheme, then one JSON array a consumer:

    hotmap-state/1
    ["6f0c…","kH3x",4,[["ConfigMap","app","Zk…","9d1…","1042","uY3…","-",false]],[],[],0]

Beside them lie the latest changes that were seen of sources that somebody follows, so that an edit
which is taken back is still known after a crash; these are JSON objects, one line each, which a
reader of records skips:

    {"source":["ConfigMap","shop","app"],"sightings":[[1789.5,"1042",["LEVEL"]]]}

A shard in another scheme reads as empty: unknown is a state of its own, not an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from sys import intern
from zlib import crc32

import msgspec

from hotmap.core.model.objects import ObjectKey

__all__ = [
    "HEADER",
    "SHARDS",
    "UNVOUCHED",
    "ForeignWrites",
    "PodCheck",
    "Record",
    "RetiredRevision",
    "RolloutTimes",
    "SeenSource",
    "Sighting",
    "SourceRecord",
    "Window",
    "read_shard",
    "read_sightings",
    "record_size",
    "records_by_source",
    "seen_size",
    "shard_of",
    "shards_for",
    "write_shard",
]

HEADER = "hotmap-state/1"

#: A generation that no object has: the pods' start decides whether a change is theirs.
UNVOUCHED = -1

#: 40,000 consumers of 250 bytes in 32 shards are 312 KB each: a third of a Secret's 1 MiB.
SHARDS = 32

#: Records per shard until there are twice as many shards: a burst of changes touches them all, so
#: few; and one change writes a whole one, so 64 KB each rather than one large.
_CROWDED = 256


class SourceRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What was last asked for of one source."""

    kind: str
    name: str
    #: Digest of the consumer's uses of it; another one means that nothing is known.
    uses: str
    uid: str
    resource_version: str
    #: Fingerprints over the data keys in frozen use and in live use; "" without such a use.
    frozen: str
    live: str
    immutable: bool
    #: Fingerprint over all its data keys, to compare where it is used differently now; "" in a
    #: record that was written before it was kept.
    content: str = ""
    #: By when its last change had happened, POSIX seconds of the API server; None: unknown.
    changed_by: float | None = None


class Window(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A time in which a source held something else than what its consumer was asked to load.

    POSIX seconds. A container that started in it may hold the other content.
    """

    start: float
    end: float


class Sighting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One change of a source's data, as it was seen."""

    #: POSIX seconds of the API server.
    at: float
    #: The source's resourceVersion after it; "" for a deletion.
    resource_version: str
    #: The data keys that changed; none where nobody saw which.
    keys: frozenset[str]


class SeenSource(msgspec.Struct, frozen=True, gc=False):
    """What was seen of a source's changes lately, oldest first."""

    source: ObjectKey
    sightings: tuple[Sighting, ...]


class RetiredRevision(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A revision that was asked for once, and when its content went away."""

    revision: str
    at: float


class RolloutTimes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """When a consumer was rolled lately, for the flap breaker."""

    #: POSIX seconds, newest last, at most `budget.LIMIT`.
    times: tuple[float, ...] = ()
    #: How often it was rolled right after it had been held back.
    held: int = 0


class PodCheck(enum.IntEnum):
    """What a look at a consumer's pods has shown since it was adopted or asked for something."""

    #: Nobody has looked, or they were not all there yet.
    NOT_YET = 0
    #: All of them hold what is present.
    CURRENT = 1
    #: Some may hold older content, and nobody acts on that; it is reported once.
    LATENT = 2


class ForeignWrites(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is known of others who write a consumer's pod template."""

    #: When Reloader had last written it at first sight, POSIX seconds of the API server; 0: never.
    reloaded_at: float = 0.0
    #: Names the write that was told of last.
    told: str = ""


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What hotmap last asked of one consumer."""

    uid: str
    #: Id of the fingerprint key that all fingerprints here were made with.
    key_id: str
    #: The consumer's generation that this vouches for, or UNVOUCHED.
    generation: int
    sources: tuple[SourceRecord, ...] = ()
    #: Windows that have not been examined against the pods yet.
    windows: tuple[Window, ...] = ()
    #: The revisions asked for before, newest last, at most three.
    left: tuple[RetiredRevision, ...] = ()
    #: How often content had to be asked for again under a name of its own (`<revision>.<n>`).
    serial: int = 0
    rolls: RolloutTimes = RolloutTimes()
    #: What the pod template carried when this was written, by us or adopted.
    revision: str = ""
    pods_checked: PodCheck = PodCheck.NOT_YET
    #: The consumer's; "" in a record that was written before it was kept.
    namespace: str = ""
    #: None: nobody ever did.
    others: ForeignWrites | None = None


def records_by_source(record: Record | None) -> dict[tuple[str, str], SourceRecord]:
    """Return what was last asked for of each source, by its kind and name."""
    return {(source.kind, source.name): source for source in record.sources} if record else {}


def shard_of(uid: str, shards: int = SHARDS) -> int:
    """Tell in which of so many shards a consumer's record, or a source's sightings, lies by name.

    The number is a power of two, so with twice as many a record stays or moves `shards` further.
    """
    return crc32(uid.encode()) % shards


def shards_for(records: int, *, least: int = 1) -> int:
    """Choose how many shards so many records want, at least `least`: a power of two."""
    shards = 1
    while shards < SHARDS and (shards < least or shards * _CROWDED < records):
        shards *= 2
    return shards


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Record)
_seen_decoder = msgspec.json.Decoder(SeenSource)


def write_shard(records: Iterable[Record], seen: Iterable[SeenSource] = ()) -> str:
    """Write records as the text of one shard, sorted by uid so that equal states are equal.

    What was `seen` of sources follows, sorted by name.
    """
    lines = [_encoder.encode(record).decode() for record in sorted(records, key=_uid)]
    lines += [_encoder.encode(one).decode() for one in sorted(seen, key=_source)]
    return "\n".join([HEADER, *lines]) + "\n"


def record_size(record: Record) -> int:
    """Measure a record's line in a shard, in bytes."""
    return len(_encoder.encode(record)) + 1


def seen_size(seen: SeenSource) -> int:
    """Measure the line of what was seen of a source, in bytes."""
    return len(_encoder.encode(seen)) + 1


def _uid(record: Record) -> str:
    return record.uid


def _source(seen: SeenSource) -> ObjectKey:
    return seen.source


def read_sightings(text: str) -> dict[ObjectKey, SeenSource]:
    """Read what a shard says of the changes of sources; what cannot be read was not seen."""
    found = {}
    for line in _lines(text):
        try:
            seen = _seen_decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        found[seen.source] = seen
    return found


def _lines(text: str) -> list[str]:
    header, _, body = text.partition("\n")
    # Not splitlines(): it also cuts at U+2028 and the like, which JSON leaves as they are.
    return body.split("\n") if header == HEADER else []


def read_shard(text: str) -> dict[str, Record]:
    """Read the records of one shard by uid; what cannot be read is simply not known.

    Another scheme, a cut line and foreign content all mean that the consumers concerned are
    adopted anew, which is safe: a lost state costs a look at the pods, never an action.
    """
    records = {}
    for line in _lines(text):
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        records[record.uid] = msgspec.structs.replace(
            record,
            sources=tuple(map(_thrifty, record.sources)),
            namespace=intern(record.namespace),
        )
    return records


def _thrifty(source: SourceRecord) -> SourceRecord:
    """Keep once what nearly all records have in common."""
    return msgspec.structs.replace(source, kind=intern(source.kind), uses=intern(source.uses))
