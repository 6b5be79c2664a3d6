"""The snapshot of one consumer: all inputs of a decision as one value, taken at one moment.

Fingerprints are made per consumer and source, over the data keys in frozen and in live use, so that
unused data keys never count as a difference. The fingerprint key itself is not part of a snapshot,
but the combined fingerprints are, so a snapshot can be stored and replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from sys import intern
from typing import NamedTuple

from hotmap.core.fingerprint import FingerprintKey, combine, digest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS, ClassMounts
from hotmap.core.model.references import EVERY_KEY, Keys, Use, UseKind, merge_keys
from hotmap.core.model.source import (
    Source,
    count_data_keys,
    fingerprint_of,
    missing_keys,
    text_keys,
)
from hotmap.core.model.state import Record, RolloutTimes, SourceRecord, Window, records_by_source
from hotmap.core.policy.policy import Policy, live_change_needs_rollout
from hotmap.core.reloader.annotations import Writing
from hotmap.core.target import Target

__all__ = [
    "ChangeSummary",
    "SentNudge",
    "Snapshot",
    "SourceSnapshot",
    "StartBound",
    "TemplateChange",
    "changed_before",
    "content_of",
    "desired_target",
    "name_content",
    "name_recorded_content",
    "recorded_revision",
    "recorded_target",
    "revision_of",
    "take_snapshot",
    "take_snapshots",
    "uses_digest",
]


#: Characters of a name that is compared with the names of a few other contents only.
_CONTENT_NAME = 6

#: Data keys of all sources that are compared to leave out some, such as those that a later envFrom
#: of the same environment replaces; of one consumer.
_COMPARED_AT_MOST = 10_000


class StartBound(NamedTuple):
    """What a SourceSnapshot says of its last change, for the data keys in frozen use alone."""

    changed_at: float | None
    changed_after: float | None
    edited: bool
    estimated: bool


class SourceSnapshot(NamedTuple):
    """The current state of one source as a consumer uses it."""

    source: ObjectKey
    #: Without data keys that sources of the same environment replace now.
    uses: tuple[Use, ...]
    exists: bool
    uid: str
    resource_version: str
    immutable: bool
    changed_at: float | None
    #: Digest of the uses, whatever is replaced.
    digest: str
    #: Fingerprints over what is in frozen and in live use; "" without such a use.
    frozen: str
    live: str
    #: Whether some use requires the source.
    required: bool
    #: Required data keys that do not exist.
    missing: tuple[str, ...]
    #: The mark of this content in templates, with Reloader's strategies.
    stamp: str = ""
    #: The field manager that wrote the source last; "" if unknown.
    writer: str = ""
    #: Fingerprint over all its data keys.
    content: str = ""
    #: Whether hotmap could see it if it existed: no permission is missing, no selector hides it.
    visible: bool = True
    #: Whether `changed_at` is from managedFields and the change was not observed: the removal of a
    #: data key updates no time there.
    estimated: bool = False
    #: Whether it exists and could not be decoded; then it is not visible either.
    unreadable: bool = False
    #: After when its last change happened, where that is less than `changed_at`; None: that.
    changed_after: float | None = None
    #: Whether its last change replaced content that pods may hold, as far as is known.
    edited: bool = False
    #: A SecretProviderClass: what pods have mounted of it.
    mounts: ClassMounts | None = None
    #: Whether an immutable source of this name was deleted since the pod template last changed.
    replaces_immutable: bool = False
    #: Other pods that were created before that (POSIX seconds) make kubelets serve an immutable
    #: source that it replaces, to new pods too; inf: any pod does. None: as far as is known, none.
    pinned_before: float | None = None
    #: Whether other sources of the same environment replace some of its data keys now.
    overridden: bool = False
    #: Whether it is what the record has, and more of it is used only since a source that replaced
    #: data keys of it does not exist, or is not visible or not followed. That is no change: running
    #: containers keep what they read of a source that was deleted.
    uncovered: bool = False
    #: When it was created, if it is immutable, POSIX seconds of the API server's clock.
    created_at: float | None = None
    #: Whether it was written after the second of its creation, if nothing else is known of its last
    #: change.
    modified: bool = False
    #: The last change of what is in frozen use, where that of files is another; None: the same.
    start: StartBound | None = None

    @property
    def at_start(self) -> SourceSnapshot:
        """The source as far as it is read at the start of containers."""
        if self.start is None:
            return self
        uses = tuple(use for use in self.uses if use.kind is UseKind.FROZEN)
        return self._replace(uses=uses, modified=False, **self.start._asdict())

    @property
    def is_unknown(self) -> bool:
        """Whether it is a SecretProviderClass, and nothing shows its current versions."""
        return self.mounts is not None and not self.mounts.is_known

    @property
    def is_mounted(self) -> bool:
        """Whether any of it is read from files of a volume, by subPath too."""
        return any(use.reads_files for use in self.uses)

    @property
    def changed_since(self) -> float | None:
        """After when its last change certainly happened; None: unknown."""
        return self.changed_at if self.changed_after is None else self.changed_after


class ChangeSummary(NamedTuple):
    """What is known of one source's changes since the last applied version."""

    #: The data keys that changed.
    keys: frozenset[str] = frozenset()
    #: When a data key that the consumer uses first and last changed, POSIX seconds of the API
    #: server; None: not observed.
    first: float | None = None
    last: float | None = None
    #: The time in which the source had other content than before and now, if it had.
    window: Window | None = None
    #: When a data key that the consumer uses was last observed to change, regardless of the record.
    latest: float | None = None
    #: By when it had changed if that was not observed; None: that is unknown too.
    unobserved_by: float | None = None
    #: Whether its last observed change was not its creation.
    edited: bool = False


class TemplateChange(NamedTuple):
    """An observed change of a consumer's pod template, or its creation."""

    #: POSIX seconds of the API server.
    at: float
    #: The consumer's generation by then.
    generation: int
    #: The consumer's resourceVersion by then.
    resource_version: str = ""
    #: Whether the consumer was created with it.
    created: bool = False


class SentNudge(NamedTuple):
    """The last nudge of a consumer's pods by this controller."""

    target: Target
    #: Whether some of them are due for a second nudge.
    due: bool = False
    #: When that was determined, in seconds of the event loop's clock.
    as_of: float = -inf


class Snapshot(NamedTuple):
    """One consumer and its sources; times are the API server's."""

    consumer: Consumer
    policy: Policy
    #: None: there is none, or it was made with a fingerprint key that is lost.
    record: Record | None
    #: Id of the key that `sources` are fingerprinted with: the record's, else the newest.
    key_id: str
    sources: tuple[SourceSnapshot, ...]
    #: The observed changes of each of the `sources`, in their order.
    changes: tuple[ChangeSummary, ...]
    #: The desired revision of the pod template, and that of all used content.
    revision: str
    content: str
    #: The same of the last applied content; "" if unknown.
    recorded_revision: str
    recorded_content: str
    #: The target of a nudge; and the target according to the record.
    target: Target
    recorded_target: Target | None
    #: POSIX seconds.
    now: float
    #: Nothing in the pods applies a live change, so it needs new pods as a frozen one does.
    live_needs_rollout: bool = False
    #: The last nudge; None: none by this controller.
    sent: SentNudge | None = None
    #: Seconds since when a decision on this consumer has to wait.
    waited: float = 0.0
    #: The last observed change of its pod template, or its creation.
    template: TemplateChange | None = None
    #: The sources fingerprinted with the newest key, if `key_id` is an older one.
    newest_sources: tuple[SourceSnapshot, ...] = ()
    newest_key_id: str = ""
    #: Ids of all fingerprint keys that are ours.
    own_key_ids: frozenset[str] = frozenset()
    #: Sources that a consistent read has confirmed to be older than the applied version.
    confirmed: frozenset[ObjectKey] = frozenset()
    #: Rollouts in a window that the flap breaker allows; 0 allows any number.
    flap_limit: int = 0
    #: Whether to detect writes of others into the pod template.
    detects_conflicts: bool = True
    #: A Job or Pod: when its predecessor of the same name was replaced.
    inherited_rollouts: RolloutTimes | None = None
    #: Sources that its template uses, and that annotations or flags exclude or ignore.
    unfollowed: tuple[ObjectKey, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """The resourceVersions of the sources."""
        return tuple(source.resource_version for source in self.sources)

    @property
    def applied_at(self) -> float:
        """When the last rollout, by us, wrote the current content; 0: it wrote another one."""
        if self.policy.writing is Writing.REVISION or self.record is None:
            return 0.0  # templates name their content
        content = name_content(self.sources, live_needs_rollout=self.live_needs_rollout)
        rollouts = self.record.rollouts
        is_applied = bool(rollouts.times) and rollouts.contents[-1:] == (content,)
        return rollouts.times[-1] if is_applied else 0.0

    @property
    def changed_keys(self) -> dict[ObjectKey, frozenset[str]]:
        """The data keys that were observed to change, by source."""
        return {
            source.source: changes.keys
            for source, changes in zip(self.sources, self.changes, strict=True)
        }

    @property
    def earliest_change(self) -> float | None:
        """When the change happened, at the earliest; None: unknown."""
        return min(
            (changes.first for changes in self.changes if changes.first is not None), default=None
        )

    @property
    def first_observed(self) -> float | None:
        """When the change was first observed; None: it was not."""
        return (
            None if any(changes.unobserved_by for changes in self.changes) else self.earliest_change
        )

    @property
    def returned(self) -> frozenset[ObjectKey]:
        """The sources that had other content since they were applied, or may have had.

        Pods are not told at once that a source was deleted, which may last a moment only.
        """
        corrects = self.sent is not None and self.sent.target != self.target
        return frozenset(
            source.source
            for source, changes, recorded in self.recorded_sources()
            if changes.window is not None
            and (recorded.uid == source.uid or changes.unobserved_by is not None or corrects)
        )

    def recorded_sources(self) -> Iterator[tuple[SourceSnapshot, ChangeSummary, SourceRecord]]:
        """Iterate over the sources in the record."""
        known = records_by_source(self.record)
        for source, changes in zip(self.sources, self.changes, strict=True):
            if (recorded := known.get(source.source.kind_and_name)) is not None:
                yield source, changes, recorded


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
    """Build the part of a snapshot that follows from a consumer, its record and its sources alone.

    `keys` are the fingerprint keys, newest first; a record that was made with none of them is
    ignored. Observed changes, nudges and waits are added by the caller.
    """
    known = {key.id: key for key in keys}
    key = known.get(record.key_id) if record else None
    if key is None:
        record, key = None, keys[0]
    uid, namespace = consumer.uid, consumer.key.namespace
    live_needs_rollout = live_change_needs_rollout(consumer, policy)
    snapshots = _mark_uncovered(take_snapshots(uses, sources, key), record)
    revision = revision_of(snapshots, key, uid=uid, live_needs_rollout=live_needs_rollout)
    recorded = recorded_content = ""
    if record is not None:
        recorded = recorded_content = recorded_revision(
            record, key, namespace=namespace, uid=uid, live_needs_rollout=live_needs_rollout
        )
        if not live_needs_rollout and not _is_all_frozen(record.sources):
            recorded_content = recorded_revision(
                record, key, namespace=namespace, uid=uid, live_needs_rollout=True
            )
    return Snapshot(
        consumer,
        policy,
        record,
        key.id,
        snapshots,
        changes=(ChangeSummary(),) * len(snapshots),
        revision=revision,
        content=revision
        if live_needs_rollout or _is_all_frozen(snapshots)
        else revision_of(snapshots, key, uid=uid, live_needs_rollout=True),
        recorded_revision=recorded,
        recorded_content=recorded_content,
        target=desired_target(snapshots, key, uid=uid),
        recorded_target=recorded_target(record, snapshots, key, uid=uid),
        now=now,
        live_needs_rollout=live_needs_rollout,
        newest_sources=() if key is keys[0] else take_snapshots(uses, sources, keys[0]),
        newest_key_id=keys[0].id,
        own_key_ids=frozenset(known),
    )


def take_snapshots(
    uses: Iterable[Use], sources: Mapping[ObjectKey, Source], key: FingerprintKey
) -> tuple[SourceSnapshot, ...]:
    """Group uses by source and fingerprint their content, sorted by source.

    Credentials and foreign content are left out: no process takes them from a source. Only sources
    that are in `uses` replace data keys of others, since a change of what they have is noticed.
    """
    grouped: dict[ObjectKey, list[Use]] = {}
    for use in uses:
        if use.kind in (UseKind.FROZEN, UseKind.LIVE):
            grouped.setdefault(use.source, []).append(use)
    followed = {name: source for name in grouped if (source := sources.get(name)) is not None}
    partial = sum(_is_partial(use) for used in grouped.values() for use in used)
    most = _COMPARED_AT_MOST // max(partial, 1)
    return tuple(
        _take_source_snapshot(name, tuple(grouped[name]), followed, key, most_compared=most)
        for name in sorted(grouped)
    )


def _is_partial(use: Use) -> bool:
    """Return whether a use reads all data keys but some."""
    return use.keys.names is None and (use.keys != EVERY_KEY or bool(use.overrides))


def _without_replaced(
    use: Use, source: Source, followed: Mapping[ObjectKey, Source], *, most: int
) -> Use:
    """Leave out the data keys of a use that other sources of its environment or volume replace.

    Nothing is left out if these have more than `most` data keys together with the source. One that
    has more by itself counts as used as a whole.
    """
    if not _is_partial(use):
        return use
    if count_data_keys(source) > most:
        return use._replace(keys=EVERY_KEY)
    others = [
        (override, other)
        for override in use.overrides
        if (other := followed.get(override.source)) is not None
    ]
    if not others or sum(map(count_data_keys, (source, *(o for _, o in others)))) > most:
        return use
    held = frozenset(text_keys(source))
    replaced = {
        name
        for override, other in others
        for name in held.intersection(map(override.replaces, text_keys(other)))
        if use.keys.reads(name)
    }
    if not replaced:
        return use
    return use._replace(keys=use.keys._replace(hidden=use.keys.hidden | replaced))


def _mark_uncovered(
    snapshots: tuple[SourceSnapshot, ...], record: Record | None
) -> tuple[SourceSnapshot, ...]:
    """Mark the sources whose used data keys differ from the record's only by absent sources."""
    if record is None or not any(use.overrides for item in snapshots for use in item.uses):
        return snapshots
    known = records_by_source(record)
    existing = {item.source for item in snapshots if item.exists}

    def is_uncovered(current: SourceSnapshot) -> bool:
        recorded = known.get(current.source.kind_and_name)
        return (
            recorded is not None
            and current.exists
            and (recorded.uses, recorded.uid) == (current.digest, current.uid)
            and recorded.content == current.content
            and (recorded.frozen, recorded.live) != (current.frozen, current.live)
            and any(each.source not in existing for use in current.uses for each in use.overrides)
        )

    return tuple(
        item._replace(uncovered=True) if is_uncovered(item) else item for item in snapshots
    )


def _take_source_snapshot(
    name: ObjectKey,
    used: tuple[Use, ...],
    followed: Mapping[ObjectKey, Source],
    key: FingerprintKey,
    *,
    most_compared: int,
) -> SourceSnapshot:
    source = followed.get(name)
    uses = used
    if source is not None and any(map(_is_partial, used)):
        uses = tuple(_without_replaced(use, source, followed, most=most_compared) for use in used)

    def fingerprint(kind: UseKind) -> str:
        selected = [use.keys for use in uses if use.kind is kind]
        return fingerprint_of(source, selected, key) if selected else ""

    missing: set[str] = set()
    if source is not None:
        for keys in merge_keys(_required_keys(uses)):
            missing.update(missing_keys(source, keys))
    return SourceSnapshot(
        source=source.key if source else name,  # shares the existing one
        uses=uses,
        exists=source is not None,
        uid=source.uid if source else "",
        resource_version=source.resource_version if source else "",
        immutable=bool(source and source.immutable),
        changed_at=source.changed_at if source else None,
        digest=uses_digest(used),
        frozen=fingerprint(UseKind.FROZEN),
        live=fingerprint(UseKind.LIVE),
        required=any(not use.optional for use in uses),
        missing=tuple(sorted(missing)),
        stamp=source.stamp if source else "",
        writer=source.writer if source else "",
        content=fingerprint_of(source, [EVERY_KEY], key),
        overridden=uses != used,
        created_at=source.created_at if source else None,
        modified=bool(source and source.modified),
    )


def _required_keys(uses: Iterable[Use]) -> Iterator[Keys]:
    """List the data keys without which a container does not start, read or replaced."""
    for use in uses:
        if not use.optional and use.keys.names is not None:
            yield use.keys._replace(hidden=frozenset())


def changed_before(template: TemplateChange, snapshot: Snapshot) -> frozenset[ObjectKey]:
    """Return the sources whose last change was observed, and was made before a template change.

    Two watches may deliver in another order than that of the writes, so resourceVersions have to
    agree. They are revisions of one etcd: ours, since Kubernetes orders those of one kind only
    (KEP-5504), and where they say nothing the order of observation counts alone.
    """
    return frozenset(
        source.source
        for source, changes in zip(snapshot.sources, snapshot.changes, strict=True)
        if changes.last is not None
        and changes.last < template.at
        and _may_precede(source.resource_version, template.resource_version)
    )


def _may_precede(version: str, other: str) -> bool:
    if not (version.isdecimal() and other.isdecimal()):
        return True
    return int(version) < int(other)


def uses_digest(uses: Sequence[Use]) -> str:
    """Digest how a source is used: kinds of use and data keys, not the places.

    A container that is renamed or a mount that moves uses the same content in the same way.
    """
    parts = set()
    for use in uses:
        names = "*" if use.keys.names is None else ",".join(sorted(use.keys.names))
        hidden = ",".join(sorted(use.keys.hidden))
        text = f"{use.kind.value}|{names}|{hidden}|{use.keys.binary}|{use.optional}"
        parts.add("|".join((text, *(f"{o.source}|{o.strip}|{o.add}" for o in use.overrides))))
    return intern(digest(sorted(parts)))  # kept for every consumer and source, and mostly equal


def revision_of(
    snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str, live_needs_rollout: bool
) -> str:
    """Return the revision of a consumer's desired content: `<key id>.<fingerprint>`.

    Equal content gives the same revision, so a revert returns to the earlier ReplicaSet. Content in
    live use counts only if a live change needs a rollout (`live_needs_rollout`).
    """
    parts = [
        f"{current.source}|{current.frozen}|{current.live if live_needs_rollout else ''}"
        for current in snapshots
        if current.frozen or live_needs_rollout
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def _is_all_frozen(sources: Iterable[SourceSnapshot | SourceRecord]) -> bool:
    """Return whether nothing is in live use, so that live changes make no difference."""
    return all(source.frozen and not source.live for source in sources)


def recorded_revision(
    record: Record, key: FingerprintKey, *, namespace: str, uid: str, live_needs_rollout: bool
) -> str:
    """Return the revision of the last applied content, as `revision_of` does of the current one."""
    parts = [
        f"{ObjectKey(source.kind, namespace, source.name)}|{source.frozen}|"
        f"{source.live if live_needs_rollout else ''}"
        for source in record.sources
        if source.frozen or live_needs_rollout
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def name_content(snapshots: Sequence[SourceSnapshot], *, live_needs_rollout: bool) -> str:
    """Name the content that new pods would have.

    Independent of the consumer's uid, since a recreated Job has a new one.
    """
    return digest(
        f"{current.source.kind}/{current.source.name}|{current.frozen}|"
        f"{current.live if live_needs_rollout else ''}"
        for current in snapshots
    )[:_CONTENT_NAME]


def name_recorded_content(record: Record, *, live_needs_rollout: bool) -> str:
    """Name the last applied content, as `name_content` names the current one."""
    sources = sorted(record.sources, key=lambda source: (source.kind, source.name))
    return digest(
        f"{source.kind}/{source.name}|{source.frozen}|{source.live if live_needs_rollout else ''}"
        for source in sources
    )[:_CONTENT_NAME]


def content_of(revision: str) -> str:
    """Remove the number from `<key id>.<fingerprint>[.<n>]`: equal texts mean equal content."""
    return ".".join(revision.split(".")[:2])


def desired_target(snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str) -> Target:
    """Build the target of the current content of one consumer; sequence 0."""
    announced = [p for p in snapshots if _is_announced(p)]
    live = [(str(p.source), p.live) for p in announced if p.live]
    frozen = [(str(p.source), p.frozen) for p in announced if p.frozen]
    return Target(0, _combined(live, key, uid), _combined(frozen, key, uid))


def _is_announced(current: SourceSnapshot) -> bool:
    """Return whether agents act on a source: their kubelet does not write what a driver mounts."""
    return current.source.kind != PROVIDER_CLASS


def recorded_target(
    record: Record | None, snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str
) -> Target | None:
    """Build the target of the last applied content of the used sources; None: unknown."""
    known = records_by_source(record)
    live: list[tuple[str, str]] = []
    frozen: list[tuple[str, str]] = []
    for current in filter(_is_announced, snapshots):
        recorded = known.get(current.source.kind_and_name)
        if recorded is None or recorded.uses != current.digest:
            return None
        if recorded.live:
            live.append((str(current.source), recorded.live))
        if recorded.frozen:
            frozen.append((str(current.source), recorded.frozen))
    return Target(0, _combined(live, key, uid), _combined(frozen, key, uid))


def _combined(parts: Sequence[tuple[str, str]], key: FingerprintKey, uid: str) -> str:
    return combine(key, chain.from_iterable(parts), uid=uid) if parts else "-"
