"""Reconciles one consumer with its sources.

Two entry points, one decision:

* `refresh` runs at once after a change and only nudges, since that is not a disruption
* `reconcile` runs after the settle time and does everything else

Both take a key and observe the current state; neither knows the watch event that caused the call.
They never process one consumer at the same time: each would nudge pods that the other just nudged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

from hotmap.controller.reconcile.executor import Executor
from hotmap.controller.reconcile.rollout_turns import RolloutTurns
from hotmap.controller.report.decision_reporter import DecisionReporter
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.observation import Observer
from hotmap.controller.watch.other_uses import FindUses
from hotmap.controller.watch.pods import in_groups
from hotmap.core.decide.assessment import OtherUse
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.immutable_uses import (
    add_immutable_uses,
    immutable_uses,
    keep_added_uses,
)
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import first_record, is_worth_writing, next_record, with_windows
from hotmap.core.decide.record_evidence import keep_older_pods
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unreachable
from hotmap.core.model.consumer import Consumer, is_replaced_by_argo
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.model.state import Record

__all__ = ["Lookups", "Reconciler"]


class ListPods(Protocol):
    """Lists the pods of a consumer, as the API server's cache has them or consistently."""

    async def __call__(self, consumer: Consumer, /, *, cached: bool) -> list[Pod]: ...


class PodNudges(Protocol):
    """The nudges of consumers' pods."""

    async def send(self, decision: Decision) -> int:
        """Nudge a consumer's pods; returns how many were nudged.

        Raises:
            ApiError, Unreachable: some could not be nudged; only these are retried.
        """
        ...

    def second_in(self, snapshot: Snapshot) -> float | None:
        """Seconds until the second nudge of a consumer's pods; None: there is none.

        Called after a decision on `snapshot` was carried out.
        """
        ...

    def waiting_restarts(self, key: ObjectKey) -> str:
        """Return why pods of a consumer wait to restart in place; "" when none does."""
        ...

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        ...


#: Seconds until a decision on a stale version is repeated; the store is mostly up to date then.
_STALE_PAUSE = 0.05

#: Seconds until a consumer that waits for its turn is decided on again, if nothing else happens.
_TURN_PAUSE = 60.0

#: Actions that delete the consumer, which another of its name succeeds.
_DELETING = frozenset((ActionType.EVICT, ActionType.RECREATE))

#: Conflicts in a row after which a consumer is read consistently, and the longest pause in seconds
#: between two attempts.
_CONFLICTS = 3
_CONFLICT_PAUSE = 10.0


class Lookups(NamedTuple):
    """What a decision may need that no store has; each takes a request or more."""

    pods: ListPods
    #: Pods that use sources of a namespace, beside some by their uids.
    other_uses: FindUses
    #: A CronJob with all its Jobs in progress.
    runs: Callable[[Consumer], Awaitable[Consumer]]
    #: Reads one object consistently into its store.
    reread: Callable[[ObjectKey], Awaitable[None]]


class Reconciler:
    """Decides and acts for one consumer at a time; workers of both queues call it."""

    def __init__(
        self,
        *,
        observer: Observer,
        lookups: Lookups,
        executor: Executor,
        nudges: PodNudges,
        turns: RolloutTurns,
        records: Records,
        reporter: DecisionReporter,
    ) -> None:
        self._observer = observer
        self._lookups = lookups
        self._executor = executor
        self._nudges = nudges
        self._turns = turns
        self._records = records
        self._reporter = reporter
        #: Consumers whose name patterns are not matched yet, so that there is no snapshot of them.
        self._without_snapshot: set[ObjectKey] = set()
        #: Consumers whose first decision is to act, which waits or has failed.
        self._pending: set[ObjectKey] = set()
        #: Conflicts in a row, by consumer.
        self._conflicts: dict[ObjectKey, int] = {}
        #: Locks of consumers in progress.
        self._locks: WeakValueDictionary[ObjectKey, asyncio.Lock] = WeakValueDictionary()

    async def refresh(self, key: ObjectKey) -> float | None:
        """Nudge a consumer's pods if that is sufficient; returns seconds until the next call.

        Raises:
            ApiError, Unreachable: retry later.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            snapshot = self._observer.snapshot(key)
            if snapshot is None:
                return self._retry_or_forget(key)
            if snapshot.policy.opted_in:
                await self._refresh(await self._decide(snapshot))
            return self._nudges.second_in(snapshot)

    async def _refresh(self, decision: Decision) -> None:
        if decision.snapshot.record is None:
            record = first_record(decision)
            self._store_record(decision, record)
            if record is not None:
                self._reporter.log(decision)
        elif decision.only_nudges and not decision.follows_deletion:
            if await self._nudges.send(decision):
                self._reporter.log(decision)
        elif decision.corrects_nudge:
            await self._nudges.send(decision)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one consumer; returns seconds until the next reconcile.

        1. observe: the consumer, its policy, its sources, its record
        2. decide, with the pods' starts if a rule needs them
        3. act
        4. record what was applied
        5. report

        Raises:
            ApiError, Unreachable: nothing is recorded; retry later.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            # 1. Observe
            snapshot = self._observer.snapshot(key)
            if snapshot is None:
                return self._retry_or_forget(key)
            self._without_snapshot.discard(key)
            self._reporter.report_annotation_problems(snapshot)
            snapshot = self._keep_immutable_uses(snapshot)
            # 2. Decide; then nothing may be left to do, or it may have to wait
            decision = await self._decide(snapshot)
            if snapshot.record is None and decision.assessment.changed():
                self._pending.add(key)
            else:
                self._pending.discard(key)
            if not snapshot.policy.opted_in and not decision.plan.actions:
                self._turns.forget(key)
                return decision.resume_in
            if decision.settle_in:
                self._turns.leave(key)
                self._keep_windows(decision)
                self._reporter.report_settling(decision)
                return decision.settle_in
            if waiting := self._turns.take(decision):
                self._keep_windows(decision)
                self._reporter.report_waiting(decision, waiting)
                return _TURN_PAUSE
            return await self._carry_out(decision)

    async def _carry_out(self, decision: Decision) -> float | None:
        """Act, record and report: steps 3 to 5 of `reconcile`; returns the same."""
        snapshot, key = decision.snapshot, decision.snapshot.consumer.key
        # 3. Act
        try:
            if decision.plan.starts_run and snapshot.consumer.exclusive:
                decision = decision.beside_runs(await self._lookups.runs(snapshot.consumer))
            with self._turns.writing(key):
                outcome = await self._executor.execute(decision)
        except (ApiError, Unreachable) as error:
            self._keep_windows(decision)
            return await self._on_error(decision, error)
        self._turns.written(key, outcome.generation)
        self._conflicts.pop(key, None)
        if waiting := self._nudges.waiting_restarts(key):
            # Not recorded, so that another leader goes on where this one ends.
            self._reporter.report_waiting(decision, waiting)
        else:
            # 4. Record
            self._store_record(decision, next_record(decision, outcome))
            # 5. Report
            self._reporter.report(decision)
            if self._is_gone(decision):
                self.forget(key)
                return None
        again = (
            decision.plan.requeue_after,
            decision.resume_in,
            self._nudges.second_in(snapshot),
        )
        return min(filter(None, again), default=None)

    def _retry_or_forget(self, key: ObjectKey) -> float | None:
        """Return seconds until there is a snapshot of a consumer; forget one that is gone."""
        again = self._observer.retry_in(key)
        if again is None:
            self.forget(key)
        else:
            self._without_snapshot.add(key)
        return again

    def has_decided(self, key: ObjectKey) -> bool:
        """Return whether the last call for a consumer came to a decision."""
        return key not in self._without_snapshot

    def is_pending(self, key: ObjectKey) -> bool:
        """Return whether the first decision on a consumer is not carried out yet."""
        return key in self._pending

    async def _decide(self, snapshot: Snapshot) -> Decision:
        decision = decide(snapshot)
        if stale := decision.stale_sources:
            snapshot = await self._confirm(snapshot, stale)
            decision = decide(snapshot)
        if not decision.needs_pod_starts:
            return decision
        try:
            # A cache that lags may lack a pod that has started between an edit and its revert.
            pods = await self._lookups.pods(snapshot.consumer, cached=not snapshot.has_windows)
        except Forbidden as error:  # it is retried, and nothing else would tell a user
            self._reporter.report_failure(decision, error)
            raise
        own = {pod.metadata.uid for pod in pods}
        kept = [pod for pod in pods if not is_replaced_by_argo(snapshot.consumer, pod)]
        starts = [
            start
            async for group in in_groups(kept)
            for start in pod_starts(snapshot.consumer, group)
        ]
        del pods, kept  # they may be large
        decision, others = decide(snapshot, starts), dict[ObjectKey, OtherUse | None]()
        while sources := decision.shared_sources:
            others |= await self._lookups.other_uses(sources, own)
            decision = decide(snapshot, starts, others)
        return decision

    async def _confirm(self, snapshot: Snapshot, stale: Sequence[ObjectKey]) -> Snapshot:
        """Read sources consistently that have been older than the applied version for a while."""
        for source in stale:
            await self._lookups.reread(source)
        fresh = self._observer.snapshot(snapshot.consumer.key) or snapshot
        confirmed = frozenset(stale) & set(decide(fresh).stale_sources)
        if confirmed:
            self._reporter.report_restored(fresh, sorted(confirmed))
        return fresh._replace(confirmed=confirmed)

    def _is_gone(self, decision: Decision) -> bool:
        """Return whether a consumer was deleted during its own write, and not by that."""
        types = {action.type for action in decision.plan.actions}
        consumer = decision.snapshot.consumer
        return types.isdisjoint(_DELETING) and not self._observer.exists(consumer)

    def _store_record(self, decision: Decision, record: Record | None) -> None:
        """Store a record; one without news is written with the next change."""
        consumer, before = decision.snapshot.consumer, decision.snapshot.record
        if record is not None:
            self._pending.discard(consumer.key)
            if self._observer.exists(consumer):
                record = self._with_news(record, before)
                if is_worth_writing(decision, record):
                    self._records.put(record)
                else:
                    self._records.put_in_memory(record)
        self._observer.remember(decision, record)

    def _keep_immutable_uses(self, snapshot: Snapshot) -> Snapshot:
        """Remember immutable sources that came into use, though the decision may have to wait."""
        before = snapshot.record
        if before is None or not snapshot.policy.opted_in:
            return snapshot
        record = add_immutable_uses(before, immutable_uses(snapshot))
        if record is before:
            return snapshot
        self._records.put(record)
        return snapshot._replace(record=record)

    def _keep_windows(self, decision: Decision) -> None:
        """Write what only this controller knows, before a change of it is carried out."""
        record = decision.snapshot.record
        if record is not None and decision.assessment.windows:
            self._records.put(self._with_news(with_windows(record, decision), record))

    def _with_news(self, record: Record, before: Record | None) -> Record:
        """Keep in a record what was added to the one that it was made from in the meantime."""
        latest = self._records.get(record.uid)
        return keep_older_pods(keep_added_uses(record, before, latest), latest)

    async def _on_error(self, decision: Decision, error: ApiError | Unreachable) -> float | None:
        """Handle an error: repeat a stale decision, report a failed write.

        The store is mostly up to date at once. If not after a few attempts, its watch may be
        stalled, or the consumer exists and something else answered: it is read consistently then.
        """
        wrong_uid = isinstance(error, Invalid) and "metadata.uid" in str(error)
        if isinstance(error, (Conflict, NotFound)) or wrong_uid:
            self._reporter.report_stale(decision, error)
            return await self._pause_after(decision)
        self._reporter.report_failure(decision, error)
        raise error

    async def _pause_after(self, decision: Decision) -> float:
        """Count a conflict; returns seconds until the consumer is decided on again."""
        key = decision.snapshot.consumer.key
        count = self._conflicts[key] = self._conflicts.get(key, 0) + 1
        if count == _CONFLICTS:
            await self._lookups.reread(key)
        return min(_STALE_PAUSE * 2.0 ** min(count - 1, 30), _CONFLICT_PAUSE)

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted consumer."""
        self._conflicts.pop(key, None)
        self._without_snapshot.discard(key)
        self._pending.discard(key)
        for part in (self._reporter, self._observer, self._nudges, self._turns):
            part.forget(key)
