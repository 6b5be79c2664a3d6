"""The snapshot of one consumer: all inputs of a decision as one value, taken at one moment.

The fingerprint key itself is not part of a snapshot, but what is computed with it is, so a snapshot
can be stored and replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf
from typing import NamedTuple

from hotmap.core.decide.evidence import latest_time
from hotmap.core.decide.revisions import (
    desired_target,
    is_all_frozen,
    name_content,
    recorded_revision,
    recorded_target,
    revision_of,
)
from hotmap.core.decide.source_snapshot import SourceSnapshot, mark_uncovered, take_snapshots
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Use
from hotmap.core.model.source import Source
from hotmap.core.model.state import Record, RolloutTimes, SourceRecord, records_by_source
from hotmap.core.policy.policy import Policy, live_change_needs_rollout
from hotmap.core.reloader.annotations import Writing
from hotmap.core.target import Target
from hotmap.core.text import parse_number

__all__ = [
    "ANSWER_DELAY",
    "SentNudge",
    "Snapshot",
    "TemplateChange",
    "changed_before",
    "changed_before_template",
    "take_snapshot",
]

#: Seconds by which the answer to a write may be later than its time in managedFields, and than the
#: pods that it creates.
ANSWER_DELAY = 1.0

#: Kinds whose rollouts always mark the template, where Reloader's strategies do.
_MARKED = ("Deployment", "StatefulSet", "DaemonSet")


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
    #: When watching had stopped before it was first seen, POSIX seconds; None: it had not, nothing
    #: was watched before, or something was recorded of it.
    unwatched_since: float | None = None
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
    #: A workload of which nothing was recorded: the record of another one of its name that was
    #: deleted, perhaps without its pods.
    predecessor: Record | None = None
    #: Sources that its template uses, and that annotations or flags exclude, ignore or hide. Only
    #: hidden ones are among the `sources`, since what was applied of them is still known.
    unfollowed: tuple[ObjectKey, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """The resourceVersions of the sources."""
        return tuple(source.resource_version for source in self.sources)

    @property
    def applied_at(self) -> float:
        """When the last rollout, by us, wrote the current content into the template; else 0.

        It may have written other content, or have been undone.
        """
        if self.policy.writing is Writing.REVISION or self.record is None:
            return 0.0  # templates name their content
        content = name_content(self.sources, live_needs_rollout=self.live_needs_rollout)
        rollouts = self.record.rollouts
        if not rollouts.times or rollouts.contents[-1:] != (content,) or self._is_undone:
            return 0.0
        return rollouts.times[-1]

    @property
    def _is_undone(self) -> bool:
        """Whether another client has changed the marks of our last rollout since."""
        consumer, record = self.consumer, self.record
        # Others are not patched, or a Rollout may have been restarted. What is deleted has no mark.
        is_marked = any(source.stamp for source in self.sources)
        if consumer.key.kind not in _MARKED or record is None or not is_marked:
            return False
        at = consumer.written_at
        return at is None or at < floor(record.rollouts.times[-1]) - ANSWER_DELAY

    @property
    def template_at(self) -> float:
        """When its pod template last changed, or it was created, as far as observed; else 0."""
        return self.template.at if self.template else 0.0

    @property
    def changed_keys(self) -> dict[ObjectKey, frozenset[str]]:
        """The data keys that were observed to change, by source."""
        return {source.source: source.changes.keys for source in self.sources}

    @property
    def earliest_change(self) -> float | None:
        """When the change happened, at the earliest; None: unknown."""
        known = [source.changes.first for source in self.sources]
        return min((first for first in known if first is not None), default=None)

    @property
    def first_observed(self) -> float | None:
        """When the change was first observed; None: it was not."""
        return None if self.has_unobserved_write else self.earliest_change

    @property
    def has_unobserved_write(self) -> bool:
        """Whether a source was written unobserved, perhaps with the same content."""
        return any(source.changes.unobserved_by is not None for source in self.sources)

    @property
    def has_returned(self) -> bool:
        """Whether a source had other content since it was applied, or may have had.

        One that was deleted and is back counts, too: a kubelet that has synced a pod in between has
        emptied the files of an optional source, or still has what was there before the deletion.
        """
        return any(source.changes.window is not None for source, _ in self.recorded_sources())

    @property
    def returned_at(self) -> float:
        """By when the files of such sources had the applied content again; -inf: there are none.

        POSIX seconds. Kubelets may have written the other content into pods until then.
        """
        ends = (
            source.changes.window.end
            for source, _ in self.recorded_sources()
            if source.live and source.changes.window
        )
        return max(ends, default=-inf)

    @property
    def files_changed_at(self) -> float | None:
        """By when the files that kubelets update last changed, POSIX seconds; None: unknown."""
        return latest_time(source.changed_at for source in self.sources if source.live)

    @property
    def has_windows(self) -> bool:
        """Whether an edit and its revert are known that were not examined yet (rule 3)."""
        recorded = self.record.windows if self.record else ()
        return bool(recorded) or any(source.changes.window for source in self.sources)

    @property
    def missing_sources(self) -> tuple[ObjectKey, ...]:
        """The sources that some container requires and that do not exist."""
        return tuple(
            source.source
            for source in self.sources
            if source.required and not source.exists and source.visible
        )

    def is_behind(self, *, gone_count: bool) -> bool:
        """Return whether sources differ from what was last applied, or have differed since.

        `gone_count`: also if required ones are gone. Once that was decided on, nothing follows.
        """
        differs = self.recorded_target != self.target or self.has_returned
        return differs and (gone_count or not self.missing_sources)

    def recorded_sources(self) -> Iterator[tuple[SourceSnapshot, SourceRecord]]:
        """Iterate over the sources in the record."""
        known = records_by_source(self.record)
        for source in self.sources:
            if (recorded := known.get(source.source.kind_and_name)) is not None:
                yield source, recorded


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
    snapshots = mark_uncovered(take_snapshots(uses, sources, key), record)
    revision = revision_of(snapshots, key, uid=uid, live_needs_rollout=live_needs_rollout)
    recorded = recorded_content = ""
    if record is not None:
        recorded = recorded_content = recorded_revision(
            record, key, namespace=namespace, uid=uid, live_needs_rollout=live_needs_rollout
        )
        if not live_needs_rollout and not is_all_frozen(record.sources):
            recorded_content = recorded_revision(
                record, key, namespace=namespace, uid=uid, live_needs_rollout=True
            )
    return Snapshot(
        consumer,
        policy,
        record,
        key.id,
        snapshots,
        revision=revision,
        content=revision
        if live_needs_rollout or is_all_frozen(snapshots)
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


def changed_before(template: TemplateChange, source: SourceSnapshot) -> bool:
    """Return whether the last change of a source was observed and came before a template change.

    Two watches may deliver in another order than the writes were made in, so resourceVersions have
    to agree. They are revisions of one etcd. This is ours: Kubernetes orders only the versions of
    one kind (KEP-5504). If they are not numbers, the order of observation alone counts.
    """
    return (
        source.changes.last is not None
        and source.changes.last < template.at
        and _may_precede(source.resource_version, template.resource_version)
    )


def changed_before_template(snapshot: Snapshot, source: SourceSnapshot) -> bool:
    """Return whether a source was observed to change before the pod template did (rule 6).

    A template of the generation in the record is our own write.
    """
    template, record = snapshot.template, snapshot.record
    if template is None or record is None or template.generation <= record.generation:
        return False
    return changed_before(template, source)


def _may_precede(version: str, other: str) -> bool:
    earlier, later = parse_number(version), parse_number(other)
    return earlier is None or later is None or earlier < later
