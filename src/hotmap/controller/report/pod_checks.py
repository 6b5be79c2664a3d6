"""Checks the pods of consumers after adoptions and rollouts, and reports those with older content.

Pods are not watched. After an adoption and after a rollout the consumer's own pods are listed once
and compared with the desired content. The result is stored in the record, so nothing is checked
twice for the same cause. Checks only report. They run in the background:

1. a consumer is scheduled if its record says that its pods were not checked yet: after an adoption
   in turn with all others, a few per second; after a rollout when its own controller has finished
2. no request is sent for a consumer without pods (a CronJob may have some at any time), while
   reconciles are in progress, or for a consumer whose reconcile is due or settling, since it may be
   rolled out next
3. a rollout without progress is checked after a while, to report the cause
4. a consumer that is not current yet, or latent, is checked again with increasing pauses
5. after a nudge with other content, a consumer with agents is checked as soon as they may have
   loaded it, independent of the other checks, and repeatedly until the agents have finished

Namespaces take turns, and none has all checks at once: thousands of consumers or pods of one of
them delay no other's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple, NoReturn

import msgspec

from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionEntry, DecisionLog
from hotmap.controller.report.event_writer import EventType, write_consumer_event
from hotmap.controller.report.pod_reader import PodCheckResult, PodReader
from hotmap.controller.report.reasons import Reason
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import ApiError, HotmapError, ResponseTooLarge, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import PodCheck, Record
from hotmap.core.status.consumer import (
    NO_PODS,
    ConsumerStatus,
    State,
    describe_agents,
    status_before_replacement,
)
from hotmap.core.status.stage import Confidence, PodState
from hotmap.core.target import Target
from hotmap.core.text import printable
from hotmap.kube.fair_slots import most_of_one_group
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.recorder import Recorder
from hotmap.kube.workqueue import WorkQueue

__all__ = [
    "PodCheckGate",
    "PodCheckStores",
    "PodChecker",
]

#: Seconds between two writes of check results, where nothing else has to be written.
_WRITE_INTERVAL = 60.0

#: Seconds from a decision to the check of a consumer whose agents were nudged before.
_DECIDED_PAUSE = 0.25

#: Results after which pods are not checked again, and verdicts whose actions reach them.
_REACHED = (PodCheck.CURRENT, PodCheck.DELIVERED)
_CHECK_AFTER = (Verdict.FROZEN.value, Verdict.LIVE.value)

#: Seconds between agent checks while agents are working or failing; then as all others.
_AGENT_CHECK_PAUSES = (0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 15.0)

#: Consumers that are checked concurrently, and consumers whose agents are queried.
_CHECKERS = 2
_MAX_AGENT_CHECKS = 8

#: States of pods that end by themselves within seconds.
_AT_WORK = frozenset(
    (
        PodState.WAITING,
        PodState.SETTLING,
        PodState.CHECKING,
        PodState.LOADING,
        PodState.RESTARTING,
    )
)

#: How results are recorded after which nothing more happens.
_RESULTS = {State.CURRENT: PodCheck.CURRENT, State.DELIVERED: PodCheck.DELIVERED}

#: The Events about the reports of agents.
_AGENT_REASONS = {PodState.REFUSED: Reason.REFUSED, PodState.FAILED: Reason.LOAD_FAILED}

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
    #: Schedules a reconcile of a consumer whose pods may have to be replaced.
    reconcile: Callable[[ObjectKey], None]
    #: Gets the pods whose agents have proven the content that they were nudged with, by uid.
    confirm_nudges: Callable[[ObjectKey, Target, Sequence[str]], None] = lambda *_: None
    #: The same for pods without that content that may have files from before, and no nudge.
    request_nudges: Callable[[ObjectKey, Target, Sequence[str]], None] = lambda *_: None


class _Schedule:
    """When the pods of one consumer are checked; times on the event loop's clock."""

    __slots__ = ("behind", "due", "pause", "progress_at", "requested_at")

    def __init__(self, now: float, behind: int, requested_at: float = 0.0) -> None:
        self.due = now
        #: Seconds of the last pause.
        self.pause = 0.0
        #: How many pods its own controller still had to update, and since when.
        self.behind = behind
        self.progress_at = now
        #: When its rollout was decided, POSIX seconds; 0: there was none.
        self.requested_at = requested_at


class PodChecker:
    """The pod checks of one term as leader."""

    def __init__(
        self,
        reader: PodReader,
        *,
        observer: Observer,
        stores: PodCheckStores,
        recorder: Recorder,
        settings: PodCheckSettings,
        gate: PodCheckGate,
        clock: Callable[[], float] = loop_time,
    ) -> None:
        self._reader = reader
        self._observer = observer
        self._index, self._records, self._decision_log, self._consumer_states = stores
        self._recorder = recorder
        self._settings = settings
        self._gate = gate
        self._clock = clock
        # The queues have the keys by time; what counts is the time that is noted beside them.
        #: Adopted consumers, and when they may be checked; keys only, since there may be many.
        self._adopted: dict[ObjectKey, float] = {}
        self._adopted_queue = self._make_queue(_CHECKERS)
        #: Consumers with a time of their own.
        self._schedules: dict[ObjectKey, _Schedule] = {}
        self._queue = self._make_queue(_CHECKERS)
        #: Consumers whose agents were nudged with other content: the time of the next check, and
        #: the number of checks.
        self._agent_checks: dict[ObjectKey, tuple[float, int]] = {}
        self._agent_queue = self._make_queue(_MAX_AGENT_CHECKS)
        #: uids of records with a check result that is not written yet.
        self._unwritten: set[str] = set()
        #: The content of the last Event about the reports of agents.
        self._reported_agents: dict[tuple[ObjectKey, Reason], str] = {}
        self._wake = asyncio.Event()
        #: When check results were written last.
        self._written_at = clock()
        #: Checks that cost a LIST.
        self.checks = 0

    def _make_queue(self, workers: int) -> WorkQueue[ObjectKey]:
        most = most_of_one_group(workers)
        return WorkQueue(clock=self._clock, group=lambda key: key.namespace, most=most)

    # -- schedule ------------------------------------------------------------------------------

    def schedule_check(self, key: ObjectKey) -> None:
        """Schedule a consumer after a decision on it, if its pods have to be checked."""
        consumer, latest = self._index.consumer(key), self._decision_log.latest(key)
        record = self._records.get(consumer.uid) if consumer else None
        if (
            consumer is None
            or record is None
            or latest is None
            or (record.pods_checked in _REACHED and key not in self._agent_checks)
        ):
            self._drop(key)
        elif key in self._agent_checks:
            due, checks = self._agent_checks[key]
            if due == inf:
                self._schedule_agent_check(key, _DECIDED_PAUSE, checks)
        elif latest.verdict in _CHECK_AFTER and record.pods_checked is PodCheck.NOT_YET:
            self._schedule_action(key, consumer, latest)
        elif key not in self._schedules and key not in self._adopted:
            self._adopted[key] = self._clock() + self._settings.initial_delay
            self._adopted_queue.add_after(key, self._settings.initial_delay)
            self._wake.set()

    def schedule_agent_check(self, key: ObjectKey) -> None:
        """Schedule a consumer whose agents were nudged with other content."""
        self._reader.expire_reports(key)
        self._adopted.pop(key, None)
        self._schedules.pop(key, None)
        self._forget_reports(key)
        self._consumer_states.set_announced(key)
        self._schedule_agent_check(key, self._settings.agent_check_delay, 0)

    def _forget_reports(self, key: ObjectKey) -> None:
        for reason in _AGENT_REASONS.values():
            self._reported_agents.pop((key, reason), None)

    def _schedule_agent_check(self, key: ObjectKey, seconds: float, checks: int) -> None:
        self._agent_checks[key] = self._clock() + seconds, checks
        self._agent_queue.add_after(key, seconds)

    def _schedule_action(self, key: ObjectKey, consumer: Consumer, latest: DecisionEntry) -> None:
        """Schedule a consumer that was rolled out, or whose pods were nudged, anew each time."""
        schedule = self._schedules.get(key)
        if schedule is not None and schedule.requested_at == latest.at:
            return
        self._drop(key)
        self._schedules[key] = _Schedule(self._clock(), consumer.behind, latest.at)
        delay = self._settings.initial_delay
        if latest.verdict == Verdict.LIVE.value:
            delay = self._settings.nudged_delay
        self._schedule_after(key, consumer, delay)

    def consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        """Follow what a consumer's own controller reports; the consumers' stores call this."""
        if new is None or old is None or old.uid != new.uid:
            self._drop(key)
            self._forget_reports(key)
            self._reader.forget(key)
            return
        if (old.behind, old.rolling, old.paused, old.runs) == (
            *(new.behind, new.rolling, new.paused, new.runs),
        ):
            return
        schedule = self._schedules.get(key)
        if schedule is not None and schedule.behind != new.behind:
            schedule.behind, schedule.progress_at = new.behind, self._clock()
            self._drop_stall(key, new, State.STUCK, State.WAITING)
        record = self._records.get(new.uid)
        if record is not None and record.pods_checked not in _REACHED and not new.rolling:
            self._adopted.pop(key, None)
            self._schedule_after(key, new, self._settings.rollout_delay)
        self._consumer_states.update(key)

    def _drop_stall(self, key: ObjectKey, consumer: Consumer, *states: State) -> None:
        """Drop an earlier result of these states, since the rollout proceeds."""
        known, schedule = self._consumer_states.pod_check(key), self._schedules.get(key)
        if known is None or known.state not in states or schedule is None:
            return
        schedule.pause = 0.0
        self._consumer_states.set_pod_check(key, None)
        self._schedule_after(key, consumer, self._settings.stalled_after)

    def _schedule_after(self, key: ObjectKey, consumer: Consumer, seconds: float) -> None:
        now = self._clock()
        schedule = self._schedules.get(key)
        if schedule is None:
            schedule = self._schedules[key] = _Schedule(now, consumer.behind)
        schedule.due = now + seconds
        self._queue.add_after(key, seconds)
        self._wake.set()

    def _schedule_again(self, key: ObjectKey, consumer: Consumer) -> None:
        """Schedule the next check after a pause that is twice the last one."""
        schedule, settings = self._schedules.get(key), self._settings
        if schedule is None:
            return  # it was deleted while its pods were listed
        longest = settings.max_pause_rolling if consumer.rolling else settings.max_pause
        if self._index.policies.of(consumer).agent is not None:
            longest = min(longest, settings.max_pause_agents)
        schedule.pause = min(longest, max(settings.pause, schedule.pause * 2))
        self._schedule_after(key, consumer, schedule.pause)

    def _drop(self, key: ObjectKey) -> None:
        self._adopted.pop(key, None)
        self._schedules.pop(key, None)
        self._agent_checks.pop(key, None)
        self._consumer_states.set_pod_check(key, None)

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
            taken = None if self._gate.is_busy() else self._take_due_key()
            if taken is not None:
                key, queue = taken
                try:
                    is_listed = await self._check_safely(key)
                finally:
                    queue.done(key)
                await asyncio.sleep(interval if is_listed else 0)
            elif self._queue or self._adopted_queue:
                await asyncio.sleep(interval)
            else:
                await self._wait_for_work()
            if self._clock() - self._written_at >= _WRITE_INTERVAL:
                self.write()
                self._written_at = self._clock()

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
            key = await self._agent_queue.get()
            try:
                due, _ = self._agent_checks.get(key, (inf, 0))
                left = due - self._clock()
                if left <= 0:
                    await self._check_agents_safely(key)
                elif due != inf:
                    self._agent_queue.add_after(key, left)
            finally:
                self._agent_queue.done(key)

    async def _check_agents_safely(self, key: ObjectKey) -> None:
        scheduled = self._agent_checks.get(key)
        if scheduled is None:
            return  # it was dropped since it was taken
        _, checks = scheduled
        try:
            if self._gate.is_pending(key):
                # Until a decision was made: see `schedule_check`.
                self._agent_checks[key] = inf, checks
                await self._confirm_nudges(key)
            elif not await self._check_agents(key, checks):
                self._schedule_agent_check(
                    key, _AGENT_CHECK_PAUSES[min(checks, len(_AGENT_CHECK_PAUSES) - 1)], checks + 1
                )
        except Exception:
            _log.exception("internal error checking pods", extra={"workload": str(key)})
            self._schedule_agent_check(key, _AGENT_CHECK_PAUSES[-1], checks)

    async def _confirm_nudges(self, key: ObjectKey) -> None:
        """Cancel second nudges that are not needed, while a decision on a consumer is to come.

        The reports of agents are kept, so the check after the decision requests them no more.
        """
        snapshot = self._observer.snapshot(key)
        if snapshot is None:
            return
        self.checks += 1
        with suppress(ApiError, Unreachable):
            result = await self._reader.check(snapshot)
            self._gate.confirm_nudges(key, result.desired.target, _confirmed(result))

    async def _check_agents(self, key: ObjectKey, checks: int) -> bool:
        """Check one consumer; False: that failed, or a decision was made meanwhile."""
        consumer = self._index.consumer(key)
        record = self._records.get(consumer.uid) if consumer else None
        last = self._decision_log.last_decision(key)
        if consumer is None or record is None or last is None:
            self._drop(key)
            return True
        scheduled = self._agent_checks.get(key)
        schedule = self._schedules.setdefault(key, _Schedule(self._clock(), consumer.behind))
        quiet = self._clock() - schedule.progress_at
        result = await self._read_pods(consumer, record, quiet=quiet)
        if self._agent_checks.get(key) != scheduled:
            return True  # they were nudged again meanwhile, or the consumer was deleted
        if result is None:
            return False
        self._apply_result(consumer, record, result.status, result)
        if result.status.is_reached:
            return True
        if checks < len(_AGENT_CHECK_PAUSES):
            self._schedule_agent_check(key, _AGENT_CHECK_PAUSES[checks], checks + 1)
        else:
            self._agent_checks.pop(key, None)
        return True

    async def check_now(self, snapshot: Snapshot) -> PodCheckResult:
        """Check a consumer for a query, and keep the result.

        A query causes no rollout: pods that are found to be latent are left to the next check.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        consumer, key = snapshot.consumer, snapshot.consumer.key
        schedule = self._schedules.get(key)
        quiet = self._clock() - schedule.progress_at if schedule else 0.0
        self.checks += 1
        result = await self._reader.check(
            snapshot,
            stalled=quiet >= self._settings.stalled_after,
            retried=quiet >= self._settings.retried_after,
        )
        record, last = snapshot.record, self._decision_log.last_decision(key)
        counts = (
            record is not None
            and self._records.get(consumer.uid) == record
            and not self._gate.is_pending(key)
            and last is not None
            and last.is_over
        )
        if counts:
            assert record is not None
            self._apply_queried(consumer, record, result)
        return result

    def _apply_queried(self, consumer: Consumer, record: Record, result: PodCheckResult) -> None:
        key, state = consumer.key, result.status.state
        if consumer.rolling and state is State.WAITING:
            # What a rollout in progress waits for is known without a check.
            self._drop_stall(key, consumer, State.STUCK)
        elif state is State.LATENT and record.pods_checked is not PodCheck.LATENT:
            status = result.status
            if self._may_be_replaced(key):
                status = status_before_replacement(status)
            self._consumer_states.set_pod_check(key, status)
            if key not in self._schedules:
                self._schedule_after(key, consumer, self._settings.initial_delay)
        else:
            self._schedules.setdefault(key, _Schedule(self._clock(), consumer.behind))
            self._apply_result(consumer, record, result.status, result)

    async def _wait_for_work(self) -> None:
        """Wait until a consumer is scheduled, or check results have to be written."""
        self._wake.clear()
        left = self._written_at + _WRITE_INTERVAL - self._clock() if self._unwritten else None
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            return

    def _take_due_key(self) -> tuple[ObjectKey, WorkQueue[ObjectKey]] | None:
        """Take a key whose time has come; adopted consumers come after those with a time.

        The caller must call `done` of the queue that is returned with it.
        """
        key = _take(self._queue, self._due_time, clock=self._clock)
        if key is not None:
            return key, self._queue
        key = _take(self._adopted_queue, self._adopted.get, clock=self._clock)
        if key is None:
            return None
        del self._adopted[key]
        return key, self._adopted_queue

    def _due_time(self, key: ObjectKey) -> float | None:
        schedule = self._schedules.get(key)
        return schedule.due if schedule else None

    async def _check_safely(self, key: ObjectKey) -> bool:
        """Check one consumer; an internal error affects only this one, as in the queues."""
        try:
            return await self._check_consumer(key)
        except Exception:
            _log.exception("internal error checking pods", extra={"workload": str(key)})
            return True

    async def _check_consumer(self, key: ObjectKey) -> bool:
        """Check one consumer's pods if it is due; return whether that needed a LIST."""
        consumer = self._index.consumer(key)
        record = self._records.get(consumer.uid) if consumer else None
        last = self._decision_log.last_decision(key)
        if consumer is None or record is None or last is None:
            self._drop(key)
            return False
        schedule = self._schedules.setdefault(key, _Schedule(self._clock(), consumer.behind))
        if self._gate.is_pending(key):
            self._schedule_after(key, consumer, self._settings.rollout_delay)
            return False
        if not last.is_over or consumer.generation < record.generation:
            # More follows from the decision, or the watch has not delivered our own write yet.
            self._schedule_again(key, consumer)
            return False
        quiet = self._clock() - schedule.progress_at
        if consumer.rolling and quiet < self._settings.stalled_after:
            self._schedule_after(key, consumer, self._settings.stalled_after - quiet)
            return False
        if not consumer.wanted and key.kind != "CronJob":
            self._apply_scaled_to_zero(consumer, record)
            return False
        await self._list_and_apply(consumer, record, quiet=quiet)
        return True

    def _apply_scaled_to_zero(self, consumer: Consumer, record: Record) -> None:
        """Complete the check of a consumer scaled to zero, once it has no pods."""
        if consumer.rolling or consumer.pods:
            self._schedule_again(consumer.key, consumer)
        else:
            self._apply_result(consumer, record, NO_PODS)

    async def _list_and_apply(self, consumer: Consumer, record: Record, *, quiet: float) -> None:
        result = await self._read_pods(consumer, record, quiet=quiet)
        if result is None:
            self._schedule_again(consumer.key, consumer)
        else:
            self._apply_result(consumer, record, result.status, result)

    async def _read_pods(
        self, consumer: Consumer, record: Record, *, quiet: float
    ) -> PodCheckResult | None:
        """Check a consumer's pods; None: that failed, or does not count any more."""
        key, settings = consumer.key, self._settings
        snapshot = self._observer.snapshot(key)
        if snapshot is None:  # its name patterns are not matched yet
            return None
        self.checks += 1
        try:
            result = await self._reader.check(
                snapshot,
                stalled=quiet >= settings.stalled_after,
                retried=quiet >= settings.retried_after,
            )
        except (ApiError, ResponseTooLarge, Unreachable) as error:
            _log.info("pods not checked, retrying later: %s", error, extra={"workload": str(key)})
            self._set_unverified(consumer, error)
            return None
        if self._records.get(consumer.uid) != record or self._gate.is_pending(key):
            return None  # something was decided meanwhile, or will be
        return result

    def _set_unverified(self, consumer: Consumer, error: HotmapError) -> None:
        """Show why pods are not verified, unless something else is known of them."""
        key = consumer.key
        known = self._consumer_states.pod_check(key)
        if not consumer.rolling and (known is None or known.state is State.UNVERIFIED):
            reason = printable(f"its pods cannot be listed: {error}")
            self._consumer_states.set_pod_check(key, ConsumerStatus(State.UNVERIFIED, reason))

    # -- results -------------------------------------------------------------------------------

    def _apply_result(
        self,
        consumer: Consumer,
        record: Record,
        status: ConsumerStatus,
        result: PodCheckResult | None = None,
    ) -> None:
        """Record a check result, report what is new about it, and schedule the next check."""
        key, state = consumer.key, status.state
        self._consumer_states.set_pod_states(
            key, Counter(proof.state for proof in result.pods) if result else {}
        )
        if result is not None:
            self._gate.confirm_nudges(key, result.desired.target, _confirmed(result))
            if missed := _without_nudge(result):
                self._gate.request_nudges(key, result.desired.target, missed)
            self._report_agents(consumer, result)
        if status.is_reached:
            self._record_result(record, _RESULTS[state])
            self._drop(key)
            return
        if state is State.LATENT and record.pods_checked is not PodCheck.LATENT:
            self._record_result(record, PodCheck.LATENT)
            if self._may_be_replaced(key):
                status = status_before_replacement(status)
                self._gate.reconcile(key)
            else:
                self._report(consumer, Reason.LATENT, status.reason, "Normal")
        elif state is State.STUCK and not self._is_known(key, status):
            self._report(consumer, Reason.STUCK, status.reason, "Warning")
        if record.pods_checked in _REACHED and state is not State.LATENT:
            self._record_result(record, PodCheck.NOT_YET)
        self._consumer_states.set_pod_check(key, status)
        self._schedule_again(key, consumer)

    def _is_known(self, key: ObjectKey, status: ConsumerStatus) -> bool:
        known = self._consumer_states.pod_check(key)
        return known is not None and (known.state, known.reason) == (status.state, status.reason)

    def _may_be_replaced(self, key: ObjectKey) -> bool:
        """Return whether a decision may replace pods that were just found to be latent."""
        snapshot = self._observer.snapshot(key)
        if snapshot is None or snapshot.record is None:
            return False
        latent = msgspec.structs.replace(snapshot.record, pods_checked=PodCheck.LATENT)
        return decide(snapshot._replace(record=latent)).needs_pod_starts

    def _report_agents(self, consumer: Consumer, result: PodCheckResult) -> None:
        """Write a Warning Event if agents refused or failed to load content, once per change.

        The Event counts pods, so it is written when no agent is working any more.
        """
        if any(proof.state in _AT_WORK for proof in result.pods):
            return
        change = result.desired.revision
        for state, reason in _AGENT_REASONS.items():
            found = [proof for proof in result.pods if proof.state is state]
            if found and self._reported_agents.get((consumer.key, reason)) != change:
                self._reported_agents[consumer.key, reason] = change
                message = describe_agents(found, len(result.pods))
                self._report(consumer, reason, message, "Warning")

    def _record_result(self, record: Record, pods_checked: PodCheck) -> None:
        if record.pods_checked is not pods_checked:
            self._records.put_in_memory(msgspec.structs.replace(record, pods_checked=pods_checked))
            self._unwritten.add(record.uid)

    def write(self) -> None:
        """Schedule check results to be written with the records."""
        self._records.write(self._unwritten)
        self._unwritten.clear()

    def _report(self, consumer: Consumer, reason: Reason, message: str, type_: EventType) -> None:
        level = logging.WARNING if type_ == "Warning" else logging.INFO
        _log.log(level, message, extra={"workload": str(consumer.key)})
        write_consumer_event(self._recorder, consumer, reason, message, type_=type_)


def _take(
    queue: WorkQueue[ObjectKey],
    due_time: Callable[[ObjectKey], float | None],
    *,
    clock: Callable[[], float],
) -> ObjectKey | None:
    """Take the next key whose time has come; one that was dropped has none, others were put off."""
    with suppress(asyncio.QueueEmpty):
        while True:
            key = queue.get_nowait()
            due = due_time(key)
            left = 0.0 if due is None else due - clock()
            if due is not None and left <= 0:
                return key
            queue.done(key)
            if due is not None:
                queue.add_after(key, left)
    return None


def _without_nudge(result: PodCheckResult) -> list[str]:
    """List the pods whose files a kubelet would update only at its next sync."""
    target = result.desired.target
    return [
        proof.pod.uid
        for proof in result.pods
        if proof.files_pending
        and (proof.pod.nudged is None or proof.pod.nudged.live != target.live)
    ]


def _confirmed(result: PodCheckResult) -> list[str]:
    """List the pods that were nudged with the desired content, and have proven it."""
    target = result.desired.target
    return [
        proof.pod.uid
        for proof in result.pods
        if proof.state is PodState.CURRENT
        and proof.loaded.confidence is Confidence.PROVEN
        and proof.pod.nudged is not None
        and proof.pod.nudged.names_same_content(target)
    ]
