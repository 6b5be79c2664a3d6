"""Takes the snapshot of one consumer: everything that a decision needs, at this moment.

Reads the stores, the records and the state that this controller keeps between two decisions; sends
nothing and decides nothing. `reconcile`, `pod_checks` and the status start from the same snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from math import inf
from typing import NamedTuple

from hotmap.controller.storage.records import Records, immutable_objects
from hotmap.controller.watch.first_decisions import FirstDecisions
from hotmap.controller.watch.index import Index
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.immutable_uses import has_immutable_predecessor
from hotmap.core.decide.snapshot import SentNudge, Snapshot, take_snapshot
from hotmap.core.decide.source_changes import (
    SourceHistory,
    add_changes,
    replaces_immutable,
)
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.source import Source
from hotmap.core.model.state import Record, RolloutTimes, SourceRecord, records_by_source
from hotmap.core.policy.policy import ROLLABLE, Policy, followed_uses, unfollowed_sources
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.loop_clock import loop_time

__all__ = ["FollowedSource", "Observer", "ObserverSettings", "TermKnowledge"]

#: Deleted consumers that are remembered; most are recreated within a minute.
_REPLACED = 1024

#: Sources in the record of a deleted workload that is kept: a tenant may create and delete many
#: workloads of a thousand sources each.
_MOST_SOURCES = 32

#: Seconds between two turns of matching the patterns of one consumer.
_MATCHING_PAUSE = 0.05


class ObserverSettings(NamedTuple):
    """The parts that all snapshots have in common."""

    #: Fingerprint keys, newest first.
    keys: Sequence[FingerprintKey]
    #: Rollouts in a window that the flap breaker allows; 0 allows any number.
    flap_limit: int = 0
    #: Whether to detect writes of others into pod templates.
    detects_conflicts: bool = True


class TermKnowledge(NamedTuple):
    """What other parts of a term know."""

    #: The sources for consumers without a record.
    first_decisions: FirstDecisions
    #: Returns the last nudge of a consumer's pods.
    sent_nudge: Callable[[ObjectKey], SentNudge | None] = lambda consumer: None
    #: Returns whether pods may go on using an immutable source that was deleted.
    may_be_kept: Callable[[ObjectKey], bool] = lambda source: False


class FollowedSource(NamedTuple):
    """A source that a consumer follows."""

    source: ObjectKey
    exists: bool
    #: False: it may exist and is not watched, or may not be read.
    visible: bool


class Observer:
    """Takes snapshots of consumers from the stores."""

    def __init__(
        self,
        *,
        index: Index,
        records: Records,
        settings: ObserverSettings,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = loop_time,
        knowledge: TermKnowledge | None = None,
    ) -> None:
        """`clock` returns POSIX seconds of the API server.

        `monotonic` measures how long a consumer has been waiting. `knowledge`: None for an
        observer without other parts.
        """
        self._index = index
        self._records = records
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._knowledge = knowledge or TermKnowledge(FirstDecisions(()))
        #: Since when a consumer's own rollout is waited for, in monotonic seconds (rule 6).
        self._waiting_since: dict[ObjectKey, float] = {}
        #: Records of replaced Jobs and Pods, for their successors with the same name: a successor
        #: has a new uid, so it has no record of its own.
        self._inherited: dict[ObjectKey, RolloutTimes] = {}
        #: Records of deleted workloads: one that is created under the name may adopt their pods.
        self._predecessors: dict[ObjectKey, Record] = {}

    def snapshot(self, key: ObjectKey) -> Snapshot | None:
        """Take the snapshot of a consumer. None: it is deleted, or patterns are not matched yet."""
        consumer = self._index.consumer(key)
        if consumer is None:
            return None
        policy = self._index.policies.of(consumer)
        record = self._records.get(consumer.uid)
        followed = self._followed(consumer, policy, record)
        if followed is None:
            return None
        uses, sources = followed
        snapshot = take_snapshot(
            consumer,
            policy,
            record,
            uses=uses,
            sources=sources,
            keys=self._settings.keys,
            now=self._clock(),
        )
        snapshot = self._with_changes(snapshot)
        return snapshot._replace(
            sent=self._knowledge.sent_nudge(key),
            waited=self._waited(key),
            unwatched_since=self._unwatched_since(key) if record is None else None,
            template=self._index.templates.last_change(key),
            flap_limit=self._settings.flap_limit
            if policy.flap_limit is None
            else policy.flap_limit,
            detects_conflicts=self._settings.detects_conflicts,
            inherited_rollouts=self._inherited.get(key),
            predecessor=self._predecessor(key) if snapshot.record is None else None,
            unfollowed=(*unfollowed_sources(consumer, uses), *self._hidden_sources(snapshot)),
        )

    def _unwatched_since(self, key: ObjectKey) -> float | None:
        """Return since when nothing has been watched, of a consumer that may be new since then."""
        since = self._knowledge.first_decisions.unwatched_since(key)
        return self._index.templates.unwatched_since(key) if since is None else since

    def followed_sources(self, consumer: Consumer) -> list[FollowedSource]:
        """List the sources of a consumer; a snapshot would cost many times as much.

        None are listed while its name patterns are not matched, see `retry_in`.
        """
        record = self._records.get(consumer.uid)
        followed = self._followed(consumer, self._index.policies.of(consumer), record)
        uses, sources = followed if followed is not None else ((), {})
        return [
            FollowedSource(
                name, exists=name in sources, visible=name in sources or self._is_visible(name)
            )
            for name in sorted({use.source for use in uses})
        ]

    def unrecorded_deletions(self, consumer: Consumer) -> list[ObjectKey]:
        """List the optional sources that a consumer follows now and did not, and that do not exist.

        The record has every source that was followed, even if it did not exist. So these sources
        were not followed, such as those annotated to be ignored, and were deleted since.
        """
        record = self._records.get(consumer.uid)
        if record is None or record.generation != consumer.generation:
            return []
        recorded = records_by_source(record)
        missing = {
            use.source
            for use in consumer.uses
            if use.optional
            and use.kind in (UseKind.FROZEN, UseKind.LIVE)
            and use.source.kind_and_name not in recorded
            and self._index.lacks(use.source)
        }
        if not missing:
            return []
        return [each.source for each in self.followed_sources(consumer) if each.source in missing]

    def _followed(
        self, consumer: Consumer, policy: Policy, record: Record | None
    ) -> tuple[tuple[Use, ...], dict[ObjectKey, Source]] | None:
        """Select the uses that count, with their sources as far as they exist; None: `retry_in`."""
        named = self._named_sources(consumer.key.namespace, record) if policy.named else ()
        resolved = self._resolve(consumer, policy, named)
        if resolved is None:
            return None
        uses = followed_uses(consumer, resolved, named, offered=self._index.is_offered)
        sources = self._index.sources_of(uses)
        if record is None and not policy.catch_up:  # which compares with the starts of the pods
            used = {use.source for use in uses}
            sources = self._knowledge.first_decisions.sources_at_start(consumer.key, used, sources)
        ignored = self._index.ignored(sources)
        return tuple(use for use in uses if use.source not in ignored), sources

    def retry_in(self, key: ObjectKey) -> float | None:
        """Return the seconds until a consumer has a snapshot again; None: it was deleted."""
        if self._index.consumer(key) is None:
            return None
        return self._index.matches.wait(key.namespace) + _MATCHING_PAUSE

    def exists(self, consumer: Consumer) -> bool:
        """Return whether a consumer was not deleted, nor recreated, as far as its watch tells."""
        known = self._index.consumer(consumer.key)
        return known is not None and known.uid == consumer.uid

    def remember(self, decision: Decision, record: Record | None) -> None:
        """Remember what the next decision on the consumer needs.

        `record` is the consumer's after the decision was carried out.
        """
        key = decision.snapshot.consumer.key
        if decision.plan.requeue_after is None:
            self._waiting_since.pop(key, None)
        else:
            self._waiting_since.setdefault(key, self._monotonic())
        if decision.snapshot.record is None:
            self._inherited.pop(key, None)
            if record is not None:
                self._predecessors.pop(key, None)
        if record is not None and decision.starts_new_pods and key.kind in ("Job", "Pod"):
            put_latest(self._inherited, key, record.rollouts, most=_REPLACED)

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        self._waiting_since.pop(key, None)

    def keep_record(self, key: ObjectKey, record: Record) -> None:
        """Keep the record of a deleted consumer for a workload that is created under its name."""
        self._predecessors.pop(key, None)
        kept = len(record.sources) + len(record.former) + len(record.immutable_uses)
        if key.kind in ROLLABLE and kept <= _MOST_SOURCES:
            put_latest(self._predecessors, key, record, most=_REPLACED)

    def _predecessor(self, key: ObjectKey) -> Record | None:
        """Return the record of a deleted workload, if it is comparable with what is there now."""
        record = self._predecessors.get(key)
        return record if record and record.key_id == self._settings.keys[0].id else None

    def _named_sources(self, namespace: str, record: Record | None) -> Sequence[ObjectKey]:
        """List the sources that name patterns are matched with: existing and former ones."""
        recorded = record.sources if record else ()
        known = [ObjectKey(source.kind, namespace, source.name) for source in recorded]
        return [*self._index.sources_in(namespace), *known]

    def _resolve(
        self, consumer: Consumer, policy: Policy, sources: Sequence[ObjectKey]
    ) -> Policy | None:
        """Replace the name patterns of a policy by names; None: that takes longer."""
        if not policy.named.expressions and not policy.excluded.expressions:
            return policy
        matches, namespace = self._index.matches, consumer.key.namespace
        named = matches.resolve(policy.named, namespace, sources)
        tried = [*sources, *sorted(consumer.uses.sources())]
        by_name = [ObjectKey(kind, namespace, name) for kind, name in sorted(policy.named.names)]
        excluded = matches.resolve(policy.excluded, namespace, [*tried, *by_name])
        if named is None or excluded is None:
            return None
        return policy._replace(named=named, excluded=excluded)

    def _with_changes(self, snapshot: Snapshot) -> Snapshot:
        """Add the observed changes of each source since the version that was last applied."""
        known = records_by_source(snapshot.record)
        sources = tuple(
            self._observe(source, known.get(source.source.kind_and_name), snapshot)
            for source in snapshot.sources
        )
        return snapshot._replace(sources=sources)

    def _observe(
        self, source: SourceSnapshot, recorded: SourceRecord | None, snapshot: Snapshot
    ) -> SourceSnapshot:
        """Return a source with what is known of its changes and of its predecessors."""
        history = self._index.history.of(source.source)
        if source.exists and source.source.kind == PROVIDER_CLASS:
            source = source._replace(mounts=self._index.provider_classes.mounts(source.source))
            # What was updated while no controller ran is seen from the statuses of pods.
            history = history._replace(gap=None)
        source = add_changes(source, recorded, history, is_known=snapshot.record is not None)
        unreadable = self._index.is_unreadable(source.source)
        template = self._index.templates.last_change(snapshot.consumer.key)
        source = source._replace(
            visible=source.exists or self._is_visible(source.source),
            unreadable=unreadable,
            replaces_immutable=replaces_immutable(history, template, recorded)
            or has_immutable_predecessor(snapshot.record, source.source.kind_and_name, source.uid),
        )
        if recorded is not None and recorded.uid:
            return source
        return self._with_replaced(source, history, snapshot)

    def _with_replaced(
        self, source: SourceSnapshot, history: SourceHistory, snapshot: Snapshot
    ) -> SourceSnapshot:
        """Add what is known of immutable sources that this one replaces, and no record of it has.

        Any pod makes kubelets serve such a source if a record has it: the record of a consumer, or
        of a deleted workload, whose pods may still run. Otherwise those from before its deletion
        do.
        """
        if not source.exists:
            return source._replace(pinned_before=history.immutable_until)
        served = self._records.served_instead(source.source, source.uid)
        served |= self._records.served_for_deleted(source.source, source.uid)
        served |= self._served_by_predecessor(source, snapshot)
        return source._replace(
            pinned_before=inf if served else history.immutable_until,
            kept_in_use=self._knowledge.may_be_kept(source.source),
            is_like_replaced=served <= {source.content}
            and self._index.is_like_deleted(source.source),
        )

    def _served_by_predecessor(self, source: SourceSnapshot, snapshot: Snapshot) -> Set[str]:
        """Return the content of an immutable source that pods of a deleted workload may have."""
        predecessor = self._predecessors.get(snapshot.consumer.key)
        if snapshot.record is not None or predecessor is None:
            return frozenset()
        return {
            served.content
            for key, served in immutable_objects(predecessor)
            if key == source.source and served.uid != source.uid
        }

    def _hidden_sources(self, snapshot: Snapshot) -> list[ObjectKey]:
        """List the sources that a selector flag may hide, so that their changes are not seen."""
        if not self._index.is_partial:
            return []
        return [
            source.source
            for source in snapshot.sources
            if not source.visible and not source.unreadable
        ]

    def _is_visible(self, source: ObjectKey) -> bool:
        """Return whether a source would be seen if it existed (RBAC, selectors)."""
        known = not self._index.is_partial and self._index.knows(source.kind, source.namespace)
        return known and not self._index.is_unreadable(source)

    def _waited(self, key: ObjectKey) -> float:
        since = self._waiting_since.get(key)
        return 0.0 if since is None else self._monotonic() - since
