"""What follows for one consumer from what is true now: observe, judge, plan.

Reads the stores, the records, what was seen of the sources, and the consumer's pods where a rule
asks for them. Writes nothing: a Decision is a value that `reconcile` carries out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observation, Observer
from hotmap.controller.watch.pods import list_pods
from hotmap.core.decide.conflicts import (
    WriterConflict,
    defer_to,
    find_writer_conflict,
    is_reported,
)
from hotmap.core.decide.evidence import pod_starts
from hotmap.core.decide.flap_breaker import limit_flapping
from hotmap.core.decide.freshness import Assessment, Facts, Verdict, assess
from hotmap.core.decide.plan import Plan, make_plan
from hotmap.core.decide.snapshot import SourceSnapshot, revision_of
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Record, Window
from hotmap.core.policy.policy import Policy
from hotmap.core.reloader.annotations import Writing
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time

__all__ = ["Decider", "Decision"]


class Decision(NamedTuple):
    """What is true of one consumer now, and what follows from it."""

    consumer: Consumer
    policy: Policy
    record: Record | None
    #: The key that the comparison was made with.
    key: FingerprintKey
    snapshots: tuple[SourceSnapshot, ...]
    assessment: Assessment
    plan: Plan
    revision: str
    #: Whether the pods were looked at, so that what their starts decide is decided.
    pods_checked: bool
    #: What somebody else wrote into the pod template.
    writer_conflict: WriterConflict | None

    @property
    def versions(self) -> tuple[str, ...]:
        """The resourceVersions of the sources that it was made from."""
        return tuple(present.resource_version for present in self.snapshots)


class Decider:
    """Decides on consumers for as long as its stores are kept."""

    def __init__(
        self,
        client: Client,
        *,
        index: Index,
        observer: Observer,
        detects_conflicts: bool,
        flap_limit: int,
    ) -> None:
        """`heeds_others` says that what somebody else writes into pod templates matters."""
        self._client = client
        self._index = index
        self._observer = observer
        self._heeds_others = detects_conflicts
        self._flap_limit = flap_limit
        #: When a consumer that is waited for was first found so, on the monotonic clock.
        self._waiting_since: dict[ObjectKey, float] = {}

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept of a consumer that is gone."""
        self._waiting_since.pop(key, None)

    async def decide(self, consumer: Consumer) -> Decision:
        """Decide on a consumer.

        Raises:
            ApiError, Unreachable: its pods had to be looked at and could not be.
        """
        index = self._index
        seen = self._observer.observe(consumer)
        policy, record, key, snapshots = seen.policy, seen.record, seen.key, seen.snapshots
        facts = Facts(
            now=self._client.server_time(),
            revision=revision_of(snapshots, key, uid=consumer.uid, live_rolls=seen.live_rolls),
            catch_up=policy.catch_up,
            live_rolls=seen.live_rolls,
            writing=policy.writing,
            wants_created=policy.wants_created,
            wants_deleted=policy.wants_deleted,
            partial=index.is_partial or not all(index.knows(p.source.kind) for p in snapshots),
            windows=self._windows(record, snapshots),
            waited=self._waited(consumer.key),
            before_template=self._before_template(consumer, record, snapshots),
        )
        assessment = assess(consumer, record, snapshots, facts)
        if assessment.verdict is Verdict.LOOK:
            pods = await list_pods(self._client, consumer)
            facts = facts._replace(starts=pod_starts(consumer, pods))
            assessment = assess(consumer, record, snapshots, facts)
        plan = make_plan(consumer, policy, assessment, changed=self._seen(record, snapshots))
        if record is not None:
            changed = [finding.present.source for finding in assessment.changed()]
            writers = [seen.sources[one].writer for one in changed if one in seen.sources]
            plan = limit_flapping(
                plan, record.rolls, now=facts.now, writers=writers, limit=self._flap_limit
            )
        writer_conflict = self._interference(seen, now=facts.now)
        plan = defer_to(
            plan, writer_conflict, told=is_reported(record, writer_conflict), now=facts.now
        )
        return Decision(
            consumer,
            policy,
            record,
            key,
            snapshots,
            assessment,
            plan,
            facts.revision,
            pods_checked=facts.starts is not None,
            writer_conflict=writer_conflict,
        )

    def note_wait(self, decision: Decision) -> None:
        """Count the time from the first decision that waits to the last (rule 6)."""
        key = decision.consumer.key
        if decision.plan.requeue_after is None:
            self._waiting_since.pop(key, None)
        else:
            self._waiting_since.setdefault(key, loop_time())

    def first_seen(self, decision: Decision) -> float | None:
        """Say when what is decided on was first seen to change, POSIX seconds; None: unknown."""
        times = [
            at
            for present, version in _versions_asked(decision.record, decision.snapshots)
            if (at := self._index.history.first_since(present, version)) is not None
        ]
        return min(times) if times else None

    def _interference(self, seen: Observation, *, now: float) -> WriterConflict | None:
        """Find what somebody else wrote; in Reloader's ways of writing its marks are ours."""
        if not self._heeds_others or seen.policy.writing is not Writing.REVISION:
            return None
        own = self._observer.key_ids
        return find_writer_conflict(seen.consumer, seen.record, own_keys=own, now=now)

    def _windows(
        self, record: Record | None, snapshots: Sequence[SourceSnapshot]
    ) -> tuple[Window, ...]:
        """Find edits that were taken back since something was asked (rule 3)."""
        held = _remade_immutable(record, snapshots)
        windows = []
        for present, version in _versions_asked(record, snapshots):
            if present.source in held:
                continue  # new pods would read what the old ones did, again and again
            if window := self._index.history.window_since(present, version):
                windows.append(window)
        return tuple(windows)

    def _before_template(
        self, consumer: Consumer, record: Record | None, snapshots: Sequence[SourceSnapshot]
    ) -> frozenset[ObjectKey]:
        """Name the sources that were seen to change, and the pod template after them (rule 6).

        A template of the generation that the record vouches for is our own doing.
        """
        template = self._index.template_seen(consumer.key)
        if template is None or record is None or template.generation <= record.generation:
            return frozenset()
        history = self._index.history
        return frozenset(
            present.source
            for present, version in _versions_asked(record, snapshots)
            if (last := history.last_since(present, version)) is not None and last < template.at
        )

    def _seen(
        self, record: Record | None, snapshots: Sequence[SourceSnapshot]
    ) -> Mapping[ObjectKey, frozenset[str]]:
        return {
            present.source: self._index.history.keys_since(present.source, version)
            for present, version in _versions_asked(record, snapshots)
        }

    def _waited(self, key: ObjectKey) -> float:
        since = self._waiting_since.get(key)
        return 0.0 if since is None else loop_time() - since


def _versions_asked(
    record: Record | None, snapshots: Sequence[SourceSnapshot]
) -> list[tuple[SourceSnapshot, str]]:
    """Pair what is present with the resourceVersion that was last asked for, where known."""
    known = {(s.kind, s.name): s for s in record.sources} if record else {}
    return [
        (present, asked.resource_version)
        for present in snapshots
        if (asked := known.get((present.source.kind, present.source.name)))
    ]


def _remade_immutable(record: Record | None, snapshots: Sequence[SourceSnapshot]) -> set[ObjectKey]:
    """Name the sources that were immutable and are other objects now (rule 7)."""
    immutable = {(s.kind, s.name): s.uid for s in record.sources if s.immutable} if record else {}
    return {
        present.source
        for present in snapshots
        if immutable.get((present.source.kind, present.source.name), present.uid) != present.uid
    }
