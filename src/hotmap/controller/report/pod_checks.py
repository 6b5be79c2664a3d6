"""Checks the pods of consumers after adoptions and rollouts, and reports those with older content.

Pods are not watched. After an adoption and after a rollout the consumer's own pods are listed once
and compared with the desired content. `pod_check_schedule` has the times, `pod_check_results` what
follows from a result. Checks run in the background:

1. a consumer is scheduled if its record says that its pods were not checked yet: after an adoption
   in turn with all others, a few per second; after a rollout when its own controller has finished
2. no request is sent for a consumer without pods (a CronJob may have some at any time), while
   reconciles are in progress, or for a consumer whose reconcile is due or settling, since it may be
   rolled out next
3. a rollout without progress is checked after a while, to report the cause
4. a consumer that is not current yet, or latent, is checked again with increasing pauses; one that
  is current since its pods were nudged, once more: a kubelet that is down shows a minute later; and
  one of which fewer pods are available than before
5. after a nudge with other content, a consumer with agents is checked as soon as they may have
   loaded it, independent of the other checks, and repeatedly until the agents have finished

Namespaces take turns, and none has all checks at once: thousands of consumers or pods of one of
them delay no other's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import NamedTuple, NoReturn

from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionEntry, DecisionLog
from hotmap.controller.report.pod_check_results import REACHED, PodCheckResults
from hotmap.controller.report.pod_check_schedule import AgentCheckSchedule, PodCheckSchedule
from hotmap.controller.report.pod_reader import PodReader
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.controller.watch.stores import template_in
from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import ApiError, ResponseTooLarge, Unreachable
from hotmap.core.model.consumer import Consumer, rolled_by
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck, Record
from hotmap.core.status.consumer import (
    NO_PODS,
    ConsumerStatus,
    LastDecision,
    RolloutProgress,
    State,
)
from hotmap.core.status.pod_check import PodCheckResult
from hotmap.kube.loop_clock import loop_time

__all__ = ["PodCheckGate", "PodCheckStores", "PodChecker"]

#: The states of a rollout in progress, which are known without a check.
_IN_PROGRESS = (State.WAITING, State.PAUSED)

#: Seconds between two writes of check results, where nothing else has to be written.
_WRITE_INTERVAL = 60.0

#: Seconds from a decision to the check of a consumer whose agents were nudged before.
_DECIDED_PAUSE = 0.25

#: Seconds between agent checks while agents are working or failing; then as all others.
_AGENT_CHECK_PAUSES = (0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 15.0)

#: Consumers that are checked concurrently, and consumers whose agents are queried.
_CHECKERS = 2
_MAX_AGENT_CHECKS = 8

_log = logging.getLogger(__name__)


class PodCheckStores(NamedTuple):
    """The stores that checks read and write."""

    watch_index: Index
    records: Records
    decision_log: DecisionLog
    consumer_states: ConsumerStates


class PodCheckGate(NamedTuple):
    """The conditions that checks wait for."""

    #: Whether any reconcile is due.
    is_busy: Callable[[], bool]
    #: Whether a reconcile of this consumer is due, settling or under way.
    is_pending: Callable[[ObjectKey], bool]
    #: Whether one may become due any moment, though a decision need not follow: a source of this
    #: namespace has changed, and it is not known yet which consumers follow that.
    may_be_pending: Callable[[str], bool]


class PodChecker:
    """The pod checks of one term as leader."""

    def __init__(
        self,
        reader: PodReader,
        *,
        observer: Observer,
        stores: PodCheckStores,
        results: PodCheckResults,
        settings: PodCheckSettings,
        gate: PodCheckGate,
        clock: Callable[[], float] = loop_time,
    ) -> None:
        self._reader = reader
        self._observer = observer
        self._index, self._records, self._decision_log, self._consumer_states = stores
        self._results = results
        self._settings = settings
        self._gate = gate
        self._clock = clock
        self._schedule = PodCheckSchedule(workers=_CHECKERS, clock=clock)
        self._agent_checks = AgentCheckSchedule(workers=_MAX_AGENT_CHECKS, clock=clock)
        #: When check results were written last.
        self._written_at = clock()
        #: Checks that cost a LIST.
        self.checks = 0

    # -- schedule ------------------------------------------------------------------------------

    def schedule_check(self, key: ObjectKey) -> None:
        """Schedule a consumer after a decision on it, if its pods have to be checked."""
        consumer, latest = self._index.consumer(key), self._decision_log.latest(key)
        record = self._records.get(consumer.uid) if consumer else None
        if consumer is None or record is None or latest is None:
            self._drop(key)
        elif key in self._agent_checks:
            self._agent_checks.resume(key, _DECIDED_PAUSE)
        elif record.pods_checked in REACHED:
            if key not in self._schedule:  # otherwise it is to be confirmed
                self._drop(key)
        elif latest.verdict == Verdict.FROZEN.value or (
            latest.verdict == Verdict.LIVE.value and record.pods_checked is PodCheck.NOT_YET
        ):
            self._schedule_action(key, consumer, latest)
        elif key not in self._schedule:
            self._schedule.add_adopted(key, self._settings.initial_delay)

    def schedule_agent_check(self, key: ObjectKey) -> None:
        """Schedule a consumer whose agents were nudged with other content."""
        self._reader.expire_reports(key)
        self._schedule.drop(key)
        self._results.forget_reports(key)
        self._consumer_states.set_announced(key)
        self._agent_checks.add(key, self._settings.agent_check_delay, checks=0)

    def _schedule_action(self, key: ObjectKey, consumer: Consumer, latest: DecisionEntry) -> None:
        """Schedule a consumer after each rollout, each nudge of its pods, and each mere report."""
        scheduled = self._schedule.get(key)
        if scheduled is not None and scheduled.requested_at == latest.at:
            return
        self._drop(key)
        self._schedule.begin(key, consumer.behind, requested_at=latest.at)
        delay = self._settings.initial_delay
        if latest.verdict == Verdict.LIVE.value:
            delay = self._settings.nudged_delay
        self._schedule.add(key, consumer.behind, delay)

    def consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        """Follow what a consumer's own controller reports; the consumers' stores call this.

        What Argo reports of a Rollout is about the Deployment whose pod template that uses.
        """
        if key.kind == "Rollout":
            keys = {each for item in (old, new) if item for each in template_in(item)}
            for deployment_key in keys:
                deployment = self._index.consumers[deployment_key.kind].get(deployment_key)
                if deployment is not None:
                    before, after = (_as_run_by(deployment, item) for item in (old, new))
                    self._progress_changed(deployment_key, before, after)
        elif key.kind == "Deployment":
            old, new = (item and self._index.with_template_user(item) for item in (old, new))
        self._progress_changed(key, old, new)

    def _progress_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        if new is None or old is None or old.uid != new.uid:
            self._drop(key)
            self._results.forget_reports(key)
            self._reader.forget(key)
            return
        if _reported_state(old) == _reported_state(new):
            return
        scheduled = self._schedule.get(key)
        proceeds = scheduled is not None and scheduled.behind != new.behind
        if scheduled is not None and proceeds:
            scheduled.behind, scheduled.progress_at = new.behind, self._clock()
        if proceeds or _reported_phase(old) != _reported_phase(new):
            self._drop_stall(key, new, State.STUCK, *_IN_PROGRESS)
        record = self._records.get(new.uid)
        is_open = record is not None and record.pods_checked not in REACHED
        # A pod that is not ready any more is not current, whatever it has read.
        has_lost_pods = record is not None and new.available < min(old.available, new.wanted)
        if (is_open or has_lost_pods) and not new.rolling:
            self._schedule.drop_adopted(key)
            self._schedule.add(key, new.behind, self._settings.rollout_delay)
        self._consumer_states.update(key)

    def _drop_stall(self, key: ObjectKey, consumer: Consumer, *states: State) -> None:
        """Drop an earlier result of these states, since the rollout proceeds."""
        known, scheduled = self._consumer_states.pod_check(key), self._schedule.get(key)
        if known is None or known.state not in states or scheduled is None:
            return
        scheduled.pause = 0.0
        self._consumer_states.set_pod_check(key, None)
        self._schedule.add(key, consumer.behind, self._settings.stalled_after)

    def _schedule_again(
        self,
        key: ObjectKey,
        consumer: Consumer,
        *,
        files_pending: bool = False,
        reached_in: float = inf,
    ) -> None:
        """Schedule the next check after a pause that is twice the last one.

        `files_pending` says that a kubelet has to update files: soon, if its pod is nudged now.
        `reached_in` is the number of seconds until pods have the content for which only time has to
        pass.
        """
        scheduled, settings = self._schedule.get(key), self._settings
        if scheduled is None:
            return  # it was deleted while its pods were listed
        longest = settings.max_pause_rolling if consumer.rolling else settings.max_pause
        if self._index.policies.of(consumer).agent is not None:
            longest = min(longest, settings.max_pause_agents)
        first = settings.nudged_delay if files_pending else settings.pause
        scheduled.pause = min(longest, max(first, scheduled.pause * 2))
        self._schedule.add(key, consumer.behind, min(scheduled.pause, reached_in))

    def _drop(self, key: ObjectKey) -> None:
        """Stop checking a consumer, and forget the result of its last check."""
        self._unschedule(key)
        self._consumer_states.set_pod_check(key, None)

    def _unschedule(self, key: ObjectKey) -> None:
        self._schedule.drop(key)
        self._agent_checks.drop(key)

    # -- run -----------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Check pods when they are due, until cancelled."""
        if not self._settings.rate:
            await asyncio.Event().wait()
        self._written_at = self._clock()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CHECKERS):
                tasks.create_task(self._check_in_turn())
        raise AssertionError

    async def _check_in_turn(self) -> NoReturn:
        interval = _CHECKERS / self._settings.rate
        while True:
            taken = None if self._gate.is_busy() else self._schedule.take_due()
            if taken is not None:
                key, queue = taken
                try:
                    is_listed = await self._check_safely(key)
                finally:
                    queue.done(key)
                await asyncio.sleep(interval if is_listed else 0)
            elif self._schedule.has_keys:
                await asyncio.sleep(interval)
            else:
                await self._schedule.wait(self._seconds_to_write())
            if self._clock() - self._written_at >= _WRITE_INTERVAL:
                self.write()
                self._written_at = self._clock()

    def _seconds_to_write(self) -> float | None:
        """Return when check results have to be written; None: there are none."""
        if not self._results.has_unwritten:
            return None
        return self._written_at + _WRITE_INTERVAL - self._clock()

    async def run_agent_checks(self) -> NoReturn:
        """Check consumers whose agents were nudged, several at a time, until cancelled."""
        if not self._settings.rate:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_MAX_AGENT_CHECKS):
                tasks.create_task(self._check_agents_in_turn())
        raise AssertionError

    async def _check_agents_in_turn(self) -> NoReturn:
        while True:
            key = await self._agent_checks.take_due()
            try:
                await self._check_agents_safely(key)
            finally:
                self._agent_checks.done(key)

    async def _check_agents_safely(self, key: ObjectKey) -> None:
        scheduled = self._agent_checks.get(key)
        if scheduled is None:
            return  # it was dropped since it was taken
        _, checks = scheduled
        try:
            if self._gate.is_pending(key):
                # Until a decision was made: see `schedule_check`.
                self._agent_checks.suspend(key)
                await self._confirm_nudges(key)
            elif not await self._check_agents(key, checks):
                pause = _AGENT_CHECK_PAUSES[min(checks, len(_AGENT_CHECK_PAUSES) - 1)]
                self._agent_checks.add(key, pause, checks=checks + 1)
        except Exception:
            _log.exception("internal error checking pods", extra={"workload": str(key)})
            self._agent_checks.add(key, _AGENT_CHECK_PAUSES[-1], checks=checks)

    async def _confirm_nudges(self, key: ObjectKey) -> None:
        """Cancel second nudges that are not needed, while a decision on a consumer is to come.

        The reports of agents are kept, so the check after the decision does not request them again.
        """
        snapshot = self._observer.snapshot(key)
        if snapshot is None:
            return
        self.checks += 1
        with suppress(ApiError, Unreachable):
            self._results.confirm_nudges(key, await self._reader.check(snapshot))

    async def _check_agents(self, key: ObjectKey, checks: int) -> bool:
        """Check one consumer; False: that failed, or a decision was made meanwhile."""
        if (tracked := self._find_tracked(key)) is None:
            return True
        consumer, record, _ = tracked
        scheduled = self._agent_checks.get(key)
        self._schedule.ensure(key, consumer.behind)
        result = await self._read_pods(consumer, record)
        if self._agent_checks.get(key) != scheduled:
            return True  # they were nudged again meanwhile, or the consumer was deleted
        if result is None:
            return False
        last = self._decision_log.last_decision(key)
        if result.status.state is State.LATENT and last is not None and last.waits:
            # Other pods restart when it is their turn.
            self._results.confirm_nudges(key, result)
        else:
            self._apply_result(consumer, record, result.status, result)
        if result.status.is_reached:
            return True
        if checks < len(_AGENT_CHECK_PAUSES):
            self._agent_checks.add(key, _AGENT_CHECK_PAUSES[checks], checks=checks + 1)
        else:
            self._agent_checks.drop(key)
        return True

    async def check_now(self, snapshot: Snapshot) -> PodCheckResult:
        """Check a consumer for a query, and keep the result.

        A query causes no rollout: pods that are found to be latent are left to the next check.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        consumer, key = snapshot.consumer, snapshot.consumer.key
        self.checks += 1
        result = await self._reader.check(snapshot, progress=self._rollout_progress(key))
        record, last = snapshot.record, self._decision_log.last_decision(key)
        counts = (
            record is not None
            and self._records.get(consumer.uid) == record
            and not self._may_be_pending(key)
            and last is not None
            and last.is_over
        )
        if counts:
            assert record is not None
            self._apply_queried(consumer, record, result)
        return result

    def _apply_queried(self, consumer: Consumer, record: Record, result: PodCheckResult) -> None:
        key, state = consumer.key, result.status.state
        if consumer.rolling and state in _IN_PROGRESS:
            # What a rollout in progress waits for is known without a check.
            self._drop_stall(key, consumer, State.STUCK)
        elif state is State.LATENT and record.pods_checked is not PodCheck.LATENT:
            self._results.show_latent(key, result.status)
            if self._schedule.get(key) is None:
                self._schedule.add(key, consumer.behind, self._settings.initial_delay)
        else:
            self._schedule.ensure(key, consumer.behind)
            self._apply_result(consumer, record, result.status, result)

    async def _check_safely(self, key: ObjectKey) -> bool:
        """Check one consumer; an internal error affects only this one, as in the queues."""
        try:
            return await self._check_consumer(key)
        except Exception:
            _log.exception("internal error checking pods", extra={"workload": str(key)})
            return True

    async def _check_consumer(self, key: ObjectKey) -> bool:
        """Check one consumer's pods if it is due; return whether that needed a LIST."""
        if (tracked := self._find_tracked(key)) is None:
            return False
        consumer, record, last = tracked
        self._schedule.ensure(key, consumer.behind)
        if self._may_be_pending(key) or consumer.generation < record.generation:
            # A decision is to come, or the watch has not delivered our own write yet.
            self._schedule.add(key, consumer.behind, self._settings.rollout_delay)
            return False
        if not last.is_over:  # more follows from the decision
            self._schedule_again(key, consumer)
            return False
        left = self._settings.stalled_after - self._seconds_without_progress(key)
        if consumer.rolling and left > 0:
            self._schedule.add(key, consumer.behind, left)
            return False
        if not consumer.wanted and key.kind != "CronJob":
            self._apply_scaled_to_zero(consumer, record)
            return False
        await self._list_and_apply(consumer, record)
        return True

    def _find_tracked(self, key: ObjectKey) -> tuple[Consumer, Record, LastDecision] | None:
        """Find a consumer that was decided on, and its record; checks of others are dropped."""
        consumer = self._index.consumer(key)
        record = self._records.get(consumer.uid) if consumer else None
        last = self._decision_log.last_decision(key)
        if consumer is None or record is None or last is None:
            self._drop(key)
            return None
        return consumer, record, last

    def _apply_scaled_to_zero(self, consumer: Consumer, record: Record) -> None:
        """Complete the check of a consumer scaled to zero, once it has no pods."""
        if consumer.rolling or consumer.pods:
            self._schedule_again(consumer.key, consumer)
        else:
            self._apply_result(consumer, record, NO_PODS)

    async def _list_and_apply(self, consumer: Consumer, record: Record) -> None:
        result = await self._read_pods(consumer, record)
        if result is None:
            self._schedule_again(consumer.key, consumer)
        else:
            self._apply_result(consumer, record, result.status, result)

    async def _read_pods(self, consumer: Consumer, record: Record) -> PodCheckResult | None:
        """Check a consumer's pods; None: the check failed, or its result is outdated."""
        key = consumer.key
        snapshot = self._observer.snapshot(key)
        if snapshot is None:  # its name patterns are not matched yet
            return None
        self.checks += 1
        try:
            result = await self._reader.check(snapshot, progress=self._rollout_progress(key))
        except (ApiError, ResponseTooLarge, Unreachable) as error:
            _log.info("pods not checked, retrying later: %s", error, extra={"workload": str(key)})
            self._results.show_unverified(consumer, error)
            return None
        if self._records.get(consumer.uid) != record or self._may_be_pending(key):
            return None  # something was decided meanwhile, or will be
        return result

    def _may_be_pending(self, key: ObjectKey) -> bool:
        return self._gate.is_pending(key) or self._gate.may_be_pending(key.namespace)

    def _rollout_progress(self, key: ObjectKey) -> RolloutProgress:
        seconds = self._seconds_without_progress(key)
        if seconds >= self._settings.retried_after:
            return RolloutProgress.RETRIED
        stalled = seconds >= self._settings.stalled_after
        return RolloutProgress.STALLED if stalled else RolloutProgress.RECENT

    def _seconds_without_progress(self, key: ObjectKey) -> float:
        """Return how long a consumer's own controller has updated no pod; 0 where not followed."""
        scheduled = self._schedule.get(key)
        return self._clock() - scheduled.progress_at if scheduled else 0.0

    def _apply_result(
        self,
        consumer: Consumer,
        record: Record,
        status: ConsumerStatus,
        result: PodCheckResult | None = None,
    ) -> None:
        """Apply a check result, and schedule the next check."""
        self._results.apply(consumer, record, status, result)
        if not status.is_reached:
            pods = result.pods if result is not None else ()
            self._schedule_again(
                consumer.key,
                consumer,
                files_pending=any(proof.files_pending for proof in pods),
                reached_in=result.reached_in if result is not None else inf,
            )
        elif result is not None and result.confirmed_in:
            self._schedule.add(consumer.key, consumer.behind, result.confirmed_in)
        else:
            self._unschedule(consumer.key)

    def write(self) -> None:
        """Schedule check results to be written with the records."""
        self._results.write()


def _as_run_by(deployment: Consumer, rollout: Consumer | None) -> Consumer:
    """Return a Deployment as run by an Argo Rollout, if that uses its pod template."""
    is_used = rollout is not None and deployment.key in template_in(rollout)
    return rolled_by(deployment, rollout) if rollout is not None and is_used else deployment


def _reported_state(consumer: Consumer) -> tuple[object, ...]:
    """Return what a consumer's own controller reports of its pods."""
    counts = consumer.behind, consumer.available
    return *counts, consumer.rolling, consumer.runs, *_reported_phase(consumer)


def _reported_phase(consumer: Consumer) -> tuple[object, ...]:
    """Return what a consumer's own controller says of its rollout, apart from counts of pods."""
    argo = consumer.argo and (consumer.argo.phase, consumer.argo.message, consumer.argo.aborted)
    return consumer.paused, consumer.blocked_by, argo
