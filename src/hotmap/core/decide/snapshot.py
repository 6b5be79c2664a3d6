"""All that a decision on one consumer needs, as one value taken at one moment.

Fingerprints are made per consumer and source, over the data keys in frozen and in live use, so
that what a consumer does not use never counts as a difference. The fingerprint key itself is not
part of a snapshot: what it combines is, so a snapshot can be written down and replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from sys import intern
from typing import NamedTuple

from hotmap.core.fingerprint import FingerprintKey, combine, digest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import EVERY_KEY, Use, UseKind
from hotmap.core.model.source import Source, fingerprint_of, missing_keys
from hotmap.core.model.state import Record, RolloutTimes, SourceRecord, Window, records_by_source
from hotmap.core.patch.nudge import Target
from hotmap.core.policy.policy import Policy, live_change_rolls

__all__ = [
    "SeenChanges",
    "SentNudge",
    "Snapshot",
    "SourceSnapshot",
    "TemplateSighting",
    "bound_change",
    "content_of",
    "desired_target",
    "recorded_revision",
    "recorded_target",
    "revision_of",
    "take_snapshot",
    "take_snapshots",
    "uses_digest",
]


#: Seconds between a write and the watch event of it, at most, for both to be the same.
_SAME_WRITE = 2.0


class SourceSnapshot(NamedTuple):
    """One source as a consumer uses it, now."""

    source: ObjectKey
    uses: tuple[Use, ...]
    exists: bool
    uid: str
    resource_version: str
    immutable: bool
    changed_at: float | None
    #: Digest of the uses.
    digest: str
    #: Fingerprints over what is in frozen and in live use; "" without such a use.
    frozen: str
    live: str
    #: Whether some use insists on the source.
    required: bool
    #: Data keys that some use insists on and that are not there.
    missing: tuple[str, ...]
    #: What templates are marked with for this content, in Reloader's way of writing.
    stamp: str = ""
    #: The field manager that wrote the source last; "" when none is named.
    writer: str = ""
    #: Fingerprint over all its data keys.
    content: str = ""
    #: Whether hotmap could see it if it existed: no right is missing, no selector hides it.
    visible: bool = True
    #: Whether `changed_at` is what its managedFields tell and nobody saw the change: the removal
    #: of a data key moves no time there.
    estimated: bool = False


class SeenChanges(NamedTuple):
    """What this controller saw of one source since the version that was last asked for."""

    #: The data keys that changed.
    keys: frozenset[str] = frozenset()
    #: When a data key that the consumer uses first and last changed, POSIX seconds of the API
    #: server; None: not seen.
    first: float | None = None
    last: float | None = None
    #: The time in which the source held other content than before and than now, if it did.
    window: Window | None = None
    #: When a data key that the consumer uses was last seen to change, whatever was asked for since.
    latest: float | None = None


class TemplateSighting(NamedTuple):
    """A change of a consumer's pod template, as this controller saw it."""

    #: POSIX seconds of the API server.
    at: float
    #: The consumer's generation by then.
    generation: int


class SentNudge(NamedTuple):
    """What the pods of a consumer were last told by this controller."""

    target: Target
    #: Whether some of them are due to be told a second time.
    due: bool = False
    #: When that was asked, in seconds of the event loop's clock.
    as_of: float = -inf


class Snapshot(NamedTuple):
    """One consumer, its sources, and what is known of both; times are the API server's."""

    consumer: Consumer
    policy: Policy
    #: None: nothing is known, or it was made with a fingerprint key that is lost.
    record: Record | None
    #: Id of the key that `sources` are fingerprinted with: the record's, else the newest.
    key_id: str
    sources: tuple[SourceSnapshot, ...]
    #: What was seen of each of the `sources`, in their order.
    seen: tuple[SeenChanges, ...]
    #: Names what the pod template is to be asked for, and all content that is in use.
    revision: str
    content: str
    #: The same of what was last asked for; "" when nothing is known.
    recorded_revision: str
    recorded_content: str
    #: What a nudge tells the pods; and what the record says that they were asked to hold.
    target: Target
    recorded_target: Target | None
    #: POSIX seconds.
    now: float
    #: Nobody in the pods takes a live change, so it needs new pods as a frozen one does.
    live_rolls: bool = False
    #: What pods were told; None: nothing, by this controller.
    sent: SentNudge | None = None
    #: Seconds since a decision on this consumer first had to wait.
    waited: float = 0.0
    #: The last change of its pod template that was seen.
    template: TemplateSighting | None = None
    #: The sources once more with the newest key, where `key_id` is an older one.
    newest_sources: tuple[SourceSnapshot, ...] = ()
    newest_key_id: str = ""
    #: Ids of all fingerprint keys that are ours.
    own_key_ids: frozenset[str] = frozenset()
    #: Sources that a consistent read has confirmed to be older than what was asked for.
    confirmed: frozenset[ObjectKey] = frozenset()
    #: Rollouts in a window that the flap breaker allows; 0 allows any number.
    flap_limit: int = 0
    #: Whether writes of others into the pod template are looked for.
    detects_conflicts: bool = True
    #: A Job or Pod: when the one that had its name before was replaced.
    inherited_rolls: RolloutTimes | None = None

    @property
    def versions(self) -> tuple[str, ...]:
        """The resourceVersions of the sources."""
        return tuple(source.resource_version for source in self.sources)

    @property
    def changed_keys(self) -> dict[ObjectKey, frozenset[str]]:
        """The data keys that were seen to change, by source."""
        return {
            source.source: seen.keys for source, seen in zip(self.sources, self.seen, strict=True)
        }

    @property
    def first_seen(self) -> float | None:
        """When what is decided on was first seen to change; None: nobody saw it."""
        return min((seen.first for seen in self.seen if seen.first is not None), default=None)

    def recorded(self) -> Iterator[tuple[SourceSnapshot, SeenChanges, SourceRecord]]:
        """Walk over the sources that the record knows."""
        known = records_by_source(self.record)
        for source, seen in zip(self.sources, self.seen, strict=True):
            if (asked := known.get(source.source.kind_and_name)) is not None:
                yield source, seen, asked


def take_snapshot(
    consumer: Consumer,
    policy: Policy,
    record: Record | None,
    *,
    uses: Sequence[Use],
    sources: Mapping[ObjectKey, Source],
    keys: Sequence[FingerprintKey],
    now: float,
) -> Snapshot:
    """Put together what follows from a consumer, its record and its sources alone.

    `keys` are the fingerprint keys, newest first; a record that was made with none of them is not
    known. Nothing is seen, sent or waited for in it: that is added by who remembers it.
    """
    known = {key.id: key for key in keys}
    key = known.get(record.key_id) if record else None
    if key is None:
        record, key = None, keys[0]
    uid, namespace = consumer.uid, consumer.key.namespace
    live_rolls = live_change_rolls(consumer, policy)
    snapshots = take_snapshots(uses, sources, key)
    recorded = {
        rolls: recorded_revision(record, key, namespace=namespace, uid=uid, live_rolls=rolls)
        if record
        else ""
        for rolls in {live_rolls, True}
    }
    revision = revision_of(snapshots, key, uid=uid, live_rolls=live_rolls)
    return Snapshot(
        consumer,
        policy,
        record,
        key.id,
        snapshots,
        seen=(SeenChanges(),) * len(snapshots),
        revision=revision,
        content=revision if live_rolls else revision_of(snapshots, key, uid=uid, live_rolls=True),
        recorded_revision=recorded[live_rolls],
        recorded_content=recorded[True],
        target=desired_target(snapshots, key, uid=uid),
        recorded_target=recorded_target(record, snapshots, key, uid=uid),
        now=now,
        live_rolls=live_rolls,
        newest_sources=() if key is keys[0] else take_snapshots(uses, sources, keys[0]),
        newest_key_id=keys[0].id,
        own_key_ids=frozenset(known),
    )


def bound_change(
    source: SourceSnapshot, asked: SourceRecord | None, seen: SeenChanges
) -> SourceSnapshot:
    """Set by when the last change of a source had happened.

    A change that this controller saw is bounded by when it saw it, one that it recorded by what
    the record says. Otherwise managedFields tell the newest write; but the removal of a data key,
    by any manager, moves no time there (seen on Kubernetes 1.36). So a source that moved without
    a newer time, and of which a data key that is used may have been removed, has no bound.
    """
    written = source.changed_at
    if not source.exists:
        return source
    if seen.latest is not None:
        if written is not None and 0 <= seen.latest - written < _SAME_WRITE:
            return source  # the write that was seen, by the API server's own clock
        return source._replace(changed_at=seen.latest)
    same = asked is not None and (asked.content, asked.uid) == (source.content, source.uid)
    if asked is not None and same and asked.changed_by is not None:
        return source._replace(changed_at=asked.changed_by)
    if not _may_lack_keys(source.uses, source.missing):
        return source
    moved = asked is not None and not same and asked.changed_by is not None
    if moved and asked is not None and written is not None and asked.changed_by is not None:
        return source if written > asked.changed_by else source._replace(changed_at=None)
    return source._replace(estimated=True)


def _may_lack_keys(uses: Sequence[Use], missing: Sequence[str]) -> bool:
    """Return whether a data key that is used may have been removed without anybody missing it."""
    return bool(missing) or any(use.keys.names is None or use.optional for use in uses)


def take_snapshots(
    uses: Iterable[Use], sources: Mapping[ObjectKey, Source], key: FingerprintKey
) -> tuple[SourceSnapshot, ...]:
    """Group uses by source and fingerprint what they select, sorted by source.

    Credentials and foreign content are left out: no process takes them from a source.
    """
    grouped: dict[ObjectKey, list[Use]] = {}
    for use in uses:
        if use.kind in (UseKind.FROZEN, UseKind.LIVE):
            grouped.setdefault(use.source, []).append(use)
    return tuple(
        _present(name, tuple(grouped[name]), sources.get(name), key) for name in sorted(grouped)
    )


def _present(
    name: ObjectKey, uses: tuple[Use, ...], source: Source | None, key: FingerprintKey
) -> SourceSnapshot:
    frozen = [use.keys for use in uses if use.kind is UseKind.FROZEN]
    live = [use.keys for use in uses if use.kind is UseKind.LIVE]
    missing: set[str] = set()
    if source is not None:
        for use in uses:
            if not use.optional:
                missing.update(missing_keys(source, use.keys))
    return SourceSnapshot(
        source=source.key if source else name,  # the one that is kept anyway
        uses=uses,
        exists=source is not None,
        uid=source.uid if source else "",
        resource_version=source.resource_version if source else "",
        immutable=bool(source and source.immutable),
        changed_at=source.changed_at if source else None,
        digest=uses_digest(uses),
        frozen=fingerprint_of(source, frozen, key) if frozen else "",
        live=fingerprint_of(source, live, key) if live else "",
        required=any(not use.optional for use in uses),
        missing=tuple(sorted(missing)),
        stamp=source.stamp if source else "",
        writer=source.writer if source else "",
        content=fingerprint_of(source, [EVERY_KEY], key),
    )


def uses_digest(uses: Sequence[Use]) -> str:
    """Digest how a source is used: kinds of use and data keys, not the places.

    A container that is renamed or a mount that moves uses the same content in the same way.
    """
    parts = set()
    for use in uses:
        names = "*" if use.keys.names is None else ",".join(sorted(use.keys.names))
        hidden = ",".join(sorted(use.keys.hidden))
        parts.add(f"{use.kind.value}|{names}|{hidden}|{use.keys.binary}|{use.optional}")
    return intern(digest(sorted(parts)))  # kept of every consumer and source, and mostly the same


def revision_of(
    snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str, live_rolls: bool
) -> str:
    """Name the content that a consumer's pods are to run with: `<key id>.<fingerprint>`.

    The same content gives the same name, so a revert returns to the earlier ReplicaSet. What is
    in live use counts only where a live change rolls too (`live_rolls`).
    """
    parts = [
        f"{present.source}|{present.frozen}|{present.live if live_rolls else ''}"
        for present in snapshots
        if present.frozen or live_rolls
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def recorded_revision(
    record: Record, key: FingerprintKey, *, namespace: str, uid: str, live_rolls: bool
) -> str:
    """Name the content that was last asked for, as `revision_of` names what is present."""
    parts = [
        f"{ObjectKey(one.kind, namespace, one.name)}|{one.frozen}|{one.live if live_rolls else ''}"
        for one in record.sources
        if one.frozen or live_rolls
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def content_of(revision: str) -> str:
    """Take the number off `<key id>.<fingerprint>[.<n>]`: equal texts mean equal content."""
    return ".".join(revision.split(".")[:2])


def desired_target(snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str) -> Target:
    """Combine what is there now for one consumer; sequence 0."""
    live = [(str(p.source), p.live) for p in snapshots if p.live]
    frozen = [(str(p.source), p.frozen) for p in snapshots if p.frozen]
    return _target(live, frozen, key, uid)


def recorded_target(
    record: Record | None, snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str
) -> Target | None:
    """Combine what was last asked for, of the sources that are in use now; None: not known."""
    known = records_by_source(record)
    live: list[tuple[str, str]] = []
    frozen: list[tuple[str, str]] = []
    for present in snapshots:
        asked = known.get(present.source.kind_and_name)
        if asked is None or asked.uses != present.digest:
            return None
        if asked.live:
            live.append((str(present.source), asked.live))
        if asked.frozen:
            frozen.append((str(present.source), asked.frozen))
    return _target(live, frozen, key, uid)


def _target(
    live: Sequence[tuple[str, str]],
    frozen: Sequence[tuple[str, str]],
    key: FingerprintKey,
    uid: str,
) -> Target:
    def text(parts: Sequence[tuple[str, str]]) -> str:
        return combine(key, [piece for part in parts for piece in part], uid=uid) if parts else "-"

    return Target(0, text(live), text(frozen))
