"""Brings one consumer to what its sources say, once.

Two entries, one decision:

* `refresh` runs at once after a change and only ever nudges, since that disturbs nobody
* `reconcile` runs after the settle time and does everything else

Both take a key and look at what is true when they run; neither knows what event asked for it.
They never work on one consumer at the same time: each would nudge pods that the other just told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from hotmap.controller.reconcile.deciding import Decider, Decision
from hotmap.controller.reconcile.executor import Executor
from hotmap.controller.reconcile.nudges import Nudges
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.events import EventReporter
from hotmap.controller.report.reasons import Reason
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.core.decide.evidence import MARGIN
from hotmap.core.decide.flap_breaker import note_rollout
from hotmap.core.decide.freshness import Finding, Verdict
from hotmap.core.decide.plan import NEW_PODS, Action, ActionType, live_change_rolls
from hotmap.core.decide.record import (
    distinct_revision,
    record_applied,
    record_reloader_write,
    record_rollout,
)
from hotmap.core.decide.snapshot import recorded_revision, take_snapshots
from hotmap.core.errors import (
    ApiError,
    Conflict,
    HotmapError,
    Invalid,
    NotFound,
    Unreachable,
)
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import UNVOUCHED, PodCheck, Record, RolloutTimes
from hotmap.core.patch.jobs import run_name
from hotmap.core.patch.rollout import restart_time, template_patch
from hotmap.core.policy.policy import Policy, Strategy
from hotmap.core.reloader.annotations import Writing
from hotmap.kube.client import Client

__all__ = ["Reconciler"]

#: Jobs and Pods that are remembered after they went; most come back, and within a minute.
_LEFT_BEHIND = 1024

#: Seconds after which a decision that met a stale version is made again; the store has mostly
#: caught up by then.
_STALE_PAUSE = 0.05


class _Asked(NamedTuple):
    """What a consumer shows once a plan is carried out."""

    generation: int
    #: What its pod template carries.
    revision: str


class Reconciler:
    """Decides and acts for one consumer at a time; workers of both queues call it."""

    def __init__(
        self,
        client: Client,
        *,
        index: Index,
        records: Records,
        observer: Observer,
        decider: Decider,
        executor: Executor,
        nudges: Nudges,
        event_reporter: EventReporter,
        decision_log: DecisionLog,
        observe_delay: Callable[[float], None],
        flap_limit: int,
    ) -> None:
        """`observe_delay` is told the seconds from a change to the write that starts new pods."""
        self._client = client
        self._index = index
        self._records = records
        self._observer = observer
        self._decider = decider
        self._executor = executor
        self._nudges = nudges
        self._announcer = event_reporter
        self._journal = decision_log
        self._observe_delay = observe_delay
        self._flap_limit = flap_limit
        #: Of Jobs and Pods that went, for who comes under their name: the new one has a new uid,
        #: so the record of the old one is not its own.
        self._left_behind: dict[ObjectKey, RolloutTimes] = {}
        #: Held by whoever works on a consumer; gone when nobody does.
        self._locks: WeakValueDictionary[ObjectKey, asyncio.Lock] = WeakValueDictionary()

    # -- entries -------------------------------------------------------------------------------

    async def refresh(self, key: ObjectKey) -> float | None:
        """Nudge a consumer's pods if that settles the change; returns seconds to look again.

        Raises:
            ApiError, Unreachable: try again later.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._refresh(key)

    async def _refresh(self, key: ObjectKey) -> float | None:
        consumer = self._index.consumer(key)
        if consumer is None:
            self.forget(key)
            return None
        decision = await self._decider.decide(consumer)
        if decision.record is None:
            self._adopt_at_once(decision)
        elif _nudge_settles(decision) and await self._nudges.send(decision):
            self._note(decision)
        elif self._nudges.owes(decision):
            await self._nudges.send(decision)
        return self._nudges.second_in(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Bring one consumer to what its sources say; returns seconds to look again.

        1. observe: the consumer, its policy, its sources, what was asked of it
        2. judge, with the pods' starts where a rule asks for them
        3. plan
        4. act
        5. record what was asked, and why

        Raises:
            ApiError, Unreachable: nothing is recorded; try again later.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._reconcile(key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        consumer = self._index.consumer(key)
        if consumer is None:
            self.forget(key)
            return None
        policy = self._index.policy(consumer)
        self._announcer.problems(consumer, policy)
        if not policy.opted_in:
            self._journal.forget(key)
            return None
        left = _pause_left(policy, now=self._client.server_time())
        if left == 0.0:
            return await self._resume(consumer)
        decision = await self._decider.decide(consumer)
        self._decider.note_wait(decision)
        try:
            asked = await self._act(decision)
        except (Conflict, NotFound) as error:
            return self._on_conflict(decision, error)
        except (ApiError, Unreachable) as error:
            if isinstance(error, Invalid) and "metadata.uid" in str(error):
                return self._on_conflict(decision, error)
            self._on_write_error(decision, error)
            raise
        self._record(decision, asked)
        self._note(decision)
        self._announcer.settled(decision)
        self._announcer.writer_conflict(decision)
        again = (decision.plan.requeue_after, left, self._nudges.second_in(key))
        return min(filter(None, again), default=None)

    # -- act -----------------------------------------------------------------------------------

    async def _act(self, decision: Decision) -> _Asked:
        """Carry out the plan."""
        asked = _Asked(decision.consumer.generation, decision.consumer.revision)
        for action in decision.plan.actions:
            if action.act is ActionType.NUDGE:
                await self._nudges.send(decision)
            elif action.act in NEW_PODS:
                asked = await self._start_new_pods(decision, action)
                if (first := self._decider.first_seen(decision)) is not None:
                    self._observe_delay(self._client.server_time() - first)
        if not decision.plan.actions and self._nudges.owes(decision):
            await self._nudges.send(decision)
        return asked

    async def _start_new_pods(self, decision: Decision, action: Action) -> _Asked:
        """Have new pods started in the way of the kind."""
        consumer, executor = decision.consumer, self._executor
        match action.act:
            case ActionType.ROLLOUT:
                return await self._roll_out(decision, action)
            case ActionType.RESTART_PODS:
                changes = [found.present.changed_at for found in decision.assessment.changed()]
                at = restart_time(changes, now=self._client.server_time())
                return _Asked(await executor.restart_pods(consumer, at), consumer.revision)
            case ActionType.RUN_NOW:
                await executor.run_now(consumer, run_name(consumer, decision.assessment))
            case ActionType.RECREATE:
                await executor.recreate(consumer, decision.plan.reason)
            case _:
                await executor.evict(consumer)
        return _Asked(consumer.generation, consumer.revision)

    async def _roll_out(self, decision: Decision, action: Action) -> _Asked:
        revision = decision.revision
        if action.distinct:
            previous = self._previous_revision(decision)
            revision = distinct_revision(revision, decision.record, previous=previous)
        patch = template_patch(
            decision.consumer,
            revision,
            writing=decision.policy.writing,
            stamps=action.stamps,
            distinct=action.distinct,
            now=self._client.server_time(),
        )
        generation = await self._executor.rollout(decision.consumer, patch)
        return _Asked(generation, patch.revision)

    async def _resume(self, consumer: Consumer) -> float:
        """Resume what was left paused; everything else is looked at after that."""
        left_paused = self._index.policy(consumer).left_paused
        assert left_paused is not None
        with suppress(Conflict, NotFound):
            await self._executor.resume(consumer, left_paused.annotation)
            reason = "Reloader had paused it, and its pause period is over"
            self._announcer.event(consumer, Reason.RESUMED, reason)
        return _STALE_PAUSE

    def _on_conflict(self, decision: Decision, error: ApiError) -> float | None:
        """A write met another truth than the decision saw; that is no failure."""
        outcome = f"the {decision.consumer.key.kind} is another one by now: {error}"
        self._note(decision, outcome=outcome)
        return _STALE_PAUSE if isinstance(error, Conflict) else None

    def _on_write_error(self, decision: Decision, error: HotmapError) -> None:
        """Say once what keeps a consumer from its change; it is tried again, with pauses."""
        outcome = f"failed, and is tried again: {error}"
        if self._note(decision, outcome=outcome):
            message = f"{decision.plan.reason}; {outcome}"
            self._announcer.event(decision.consumer, Reason.FAILED, message, type_="Warning")

    # -- record --------------------------------------------------------------------------------

    def _record(self, decision: Decision, done: _Asked) -> None:
        """Keep what was asked, unless the plan asked for nothing and nothing is new."""
        if not decision.plan.settles:
            return
        consumer, record = decision.consumer, decision.record
        rollout = next((a for a in decision.plan.actions if a.act is ActionType.ROLLOUT), None)
        starts_pods = any(action.act in NEW_PODS for action in decision.plan.actions)
        generation = done.generation
        if not starts_pods and consumer.rolling:
            # What its own controller is rolling out may have read older content: not vouched for.
            generation = record.generation if record else UNVOUCHED
        findings, key = self._for_record(decision)
        asked = record_applied(consumer, record, findings, key_id=key.id, generation=generation)
        now = self._client.server_time()
        if record is None:
            asked = self._with_rolls_left_behind(consumer.key, asked)
        if rollout is not None:
            asked = record_rollout(
                asked,
                previous=self._previous_revision(decision),
                revision=decision.revision,
                distinct=rollout.distinct,
                left_at=self._decider.first_seen(decision) or now,
                now=now,
            )
            asked = msgspec.structs.replace(asked, revision=done.revision)
            if decision.policy.writing is not Writing.REVISION:
                asked = record_reloader_write(asked, now=now)
        if starts_pods:
            rolls = note_rollout(asked.rolls, now, limit=self._flap_limit)
            asked = msgspec.structs.replace(asked, rolls=rolls)
            if consumer.key.kind in ("Job", "Pod"):
                self._leave_behind(consumer.key, rolls)
        elif _leaves_older_pods(decision):
            asked = msgspec.structs.replace(asked, pods_checked=PodCheck.LATENT)
        elif (
            record is not None and not decision.pods_checked and _only_versions_moved(record, asked)
        ):
            self._records.note(asked)
            return
        self._records.put(asked)

    def _adopt_at_once(self, decision: Decision) -> None:
        """Note what there is at first sight; an edit within the settle time counts then.

        A source that does not exist goes on being unknown until the settle time is over: what is
        made together comes in any order, and is no change.
        """
        adopted = tuple(
            finding
            for finding in decision.assessment.findings
            if finding.verdict is Verdict.ADOPT and finding.present.exists
        )
        if not decision.policy.opted_in or not adopted:
            return
        consumer, key = decision.consumer, decision.key
        generation = UNVOUCHED if consumer.rolling else consumer.generation
        asked = record_applied(consumer, None, adopted, key_id=key.id, generation=generation)
        self._records.put(self._with_rolls_left_behind(consumer.key, asked))
        self._note(decision)

    def _with_rolls_left_behind(self, key: ObjectKey, asked: Record) -> Record:
        rolls = self._left_behind.pop(key, None)
        return asked if rolls is None else msgspec.structs.replace(asked, rolls=rolls)

    def _leave_behind(self, key: ObjectKey, rolls: RolloutTimes) -> None:
        self._left_behind.pop(key, None)
        self._left_behind[key] = rolls
        if len(self._left_behind) > _LEFT_BEHIND:
            del self._left_behind[next(iter(self._left_behind))]

    def _previous_revision(self, decision: Decision) -> str:
        """Name what the template was asked for before; Reloader's ways of writing do not say."""
        consumer, policy, record = decision.consumer, decision.policy, decision.record
        if policy.writing is Writing.REVISION or record is None:
            return consumer.revision
        return recorded_revision(
            record,
            decision.key,
            namespace=consumer.key.namespace,
            uid=consumer.uid,
            live_rolls=live_change_rolls(consumer, policy),
        )

    def _for_record(self, decision: Decision) -> tuple[tuple[Finding, ...], FingerprintKey]:
        """Give the findings with fingerprints of the newest key, and that key.

        What is kept of a source that is held or gone was made with the older key and cannot be
        made again, so such a record stays with it.
        """
        findings = decision.assessment.findings
        kept = any(f.verdict is Verdict.HOLD or not f.present.exists for f in findings)
        newest = self._observer.newest
        if kept or decision.key is newest:
            return findings, decision.key
        uses = [use for present in decision.snapshots for use in present.uses]
        snapshots = take_snapshots(uses, self._index.sources_of(uses), newest)
        pairs = zip(findings, snapshots, strict=True)
        return tuple(f._replace(present=present) for f, present in pairs), newest

    def forget(self, key: ObjectKey) -> None:
        """Drop what is kept in memory of a consumer that is gone."""
        for kept in (self._journal, self._decider, self._nudges, self._announcer):
            kept.forget(key)

    def _note(self, decision: Decision, *, outcome: str = "done") -> bool:
        """Keep a decision; False when it was told before."""
        return self._journal.note(
            decision.consumer,
            decision.plan,
            revision=decision.revision,
            versions=decision.versions,
            outcome=outcome,
        )


def _pause_left(policy: Policy, *, now: float) -> float | None:
    """Seconds until what Reloader left paused is to be resumed; None: it is not ours to do."""
    if policy.left_paused is None or policy.strategy is Strategy.NOTIFY:
        return None
    return max(0.0, policy.left_paused.until + MARGIN - now)


def _nudge_settles(decision: Decision) -> bool:
    """Tell whether the plan only nudges."""
    actions = decision.plan.actions
    return bool(actions) and all(action.act is ActionType.NUDGE for action in actions)


def _leaves_older_pods(decision: Decision) -> bool:
    """Tell whether what changed takes effect at the next restart only, and that was reported."""
    reported = any(action.act is ActionType.NOTIFY for action in decision.plan.actions)
    return reported and decision.assessment.verdict is Verdict.FROZEN


def _only_versions_moved(before: Record, after: Record) -> bool:
    """Tell whether two records say the same, apart from resourceVersions; not worth a write."""

    def content(record: Record) -> tuple[object, ...]:
        sources = [(s.kind, s.name, s.uses, s.uid, s.frozen, s.live) for s in record.sources]
        return record.key_id, record.generation, record.windows, sources

    return content(before) == content(after)
