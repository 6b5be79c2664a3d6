"""Checks the pods of consumers after adoptions and rollouts, and reports those with older content.

Pods are not watched. After an adoption and after a rollout one LIST of the consumer's own pods
shows what they have; the result is kept in the record, so nothing is checked twice for the same
cause. Checks only ever report. They run in the background:

1. a consumer whose record says that its pods were not checked yet is scheduled: after an adoption
   in line with all others, a few a second; after a rollout once its own controller has finished
2. nothing is sent for one that has no pods, none while reconciles are in progress, and none for a
   consumer whose reconcile is due or settling: it may be about to be rolled
3. a rollout that makes no progress is checked after a while, to report what it waits for
4. a consumer that is not current yet, or latent, is checked again with growing pauses
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, NoReturn

import msgspec

from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.event_writer import EventType, write_consumer_event
from hotmap.controller.report.reasons import Reason
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.controller.watch.pods import list_pods
from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.errors import ApiError, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.model.state import PodCheck, Record
from hotmap.core.status.consumer import NO_PODS, ConsumerStatus, State, status_from_pods
from hotmap.core.status.pods import (
    DesiredContent,
    PodProof,
    desired_content,
    has_current_template,
    observe_pods,
    pod_proofs,
)
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.recorder import Recorder

__all__ = [
    "PodCheckGate",
    "PodCheckResult",
    "PodCheckStores",
    "PodChecker",
    "check_pods",
    "conclude_from_pods",
]

#: Seconds between two writes of check results, where nothing else has to be written.
_WRITE_INTERVAL = 60.0

_log = logging.getLogger(__name__)


class PodCheckResult(NamedTuple):
    """The result of one check of a consumer's pods."""

    desired: DesiredContent
    pods: tuple[PodProof, ...]
    status: ConsumerStatus


async def check_pods(
    client: Client, snapshot: Snapshot, *, stalled: bool = False, retried: bool = False
) -> PodCheckResult:
    """List a consumer's pods and determine which content they have; one LIST, no writes.

    `stalled` means that its own controller has reported no progress for a while, `retried` for
    longer than the back-off of kubelets.

    Raises:
        ApiError, Unreachable: as the client raises them.
    """
    pods = await list_pods(client, snapshot.consumer)
    return conclude_from_pods(
        snapshot, pods, now=client.server_time(), stalled=stalled, retried=retried
    )


def conclude_from_pods(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    *,
    now: float,
    stalled: bool = False,
    retried: bool = False,
) -> PodCheckResult:
    """Determine which content the pods of a consumer have; see `check_pods`."""
    consumer, record = snapshot.consumer, snapshot.record
    desired = desired_content(snapshot)
    proofs = pod_proofs(
        desired,
        observe_pods(consumer, pods),
        now=now,
        template_current=has_current_template(snapshot),
        windows=record.windows if record else (),
    )
    status = status_from_pods(
        consumer,
        proofs,
        desired,
        stalled=stalled,
        retried=retried,
        agents_restart=snapshot.policy.agent_restarts,
    )
    return PodCheckResult(desired, proofs, status)


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
    #: Asks for a reconcile of a consumer whose pods may have to be replaced.
    reconcile: Callable[[ObjectKey], None]


class _Schedule:
    """When the pods of one consumer are checked; times on the event loop's clock."""

    __slots__ = ("behind", "due", "pause", "progress_at", "requested_at")

    def __init__(self, now: float, behind: int, requested_at: float = 0.0) -> None:
        self.due = now
        #: Seconds of the last pause.
        self.pause = 0.0
        #: How many pods its own controller had left, and since when.
        self.behind = behind
        self.progress_at = now
        #: When its rollout was decided, POSIX seconds; 0: there was none.
        self.requested_at = requested_at


class PodChecker:
    """The pod checks of one term as leader."""

    def __init__(
        self,
        client: Client,
        *,
        observer: Observer,
        stores: PodCheckStores,
        recorder: Recorder,
        settings: PodCheckSettings,
        gate: PodCheckGate,
        clock: Callable[[], float] = loop_time,
    ) -> None:
        self._client = client
        self._observer = observer
        self._index, self._records, self._decision_log, self._consumer_states = stores
        self._recorder = recorder
        self._settings = settings
        self._gate = gate
        self._clock = clock
        #: Adopted consumers that wait in line, and since when they may be checked; keys alone, as
        #: there may be many.
        self._adopted: dict[ObjectKey, float] = {}
        #: Consumers with a time of their own, and the times; a key may be in the heap repeatedly.
        self._schedules: dict[ObjectKey, _Schedule] = {}
        self._heap: list[tuple[float, ObjectKey]] = []
        #: uids of records with a check result that is not written yet.
        self._unwritten: set[str] = set()
        self._wake = asyncio.Event()
        #: Checks that cost a LIST.
        self.checks = 0

    # -- schedule ------------------------------------------------------------------------------

    def schedule_check(self, key: ObjectKey) -> None:
        """Schedule a consumer after a decision on it, if its pods have to be checked."""
        consumer, latest = self._index.consumer(key), self._decision_log.latest(key)
        record = self._records.get(consumer.uid) if consumer else None
        if (
            consumer is None
            or record is None
            or latest is None
            or record.pods_checked is PodCheck.CURRENT
        ):
            self._drop(key)
        elif latest.verdict == Verdict.FROZEN.value and record.pods_checked is PodCheck.NOT_YET:
            self._schedule_rollout(key, consumer, requested_at=latest.at)
        elif key not in self._schedules and key not in self._adopted:
            self._adopted[key] = self._clock() + self._settings.initial_delay
            self._wake.set()

    def _schedule_rollout(self, key: ObjectKey, consumer: Consumer, *, requested_at: float) -> None:
        """Schedule a consumer that was rolled out, anew for each rollout."""
        schedule = self._schedules.get(key)
        if schedule is not None and schedule.requested_at == requested_at:
            return
        self._drop(key)
        self._schedules[key] = _Schedule(self._clock(), consumer.behind, requested_at)
        self._schedule_after(key, consumer, self._settings.initial_delay)

    def consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        """Follow what a consumer's own controller reports; the consumers' stores call this."""
        if new is None or old is None or old.uid != new.uid:
            self._drop(key)
            return
        if (old.behind, old.rolling, old.paused) == (new.behind, new.rolling, new.paused):
            return
        schedule = self._schedules.get(key)
        if schedule is not None and schedule.behind != new.behind:
            schedule.behind, schedule.progress_at = new.behind, self._clock()
        record = self._records.get(new.uid)
        if record is not None and record.pods_checked is not PodCheck.CURRENT and not new.rolling:
            self._adopted.pop(key, None)
            self._schedule_after(key, new, self._settings.rollout_delay)
        self._consumer_states.update(key)

    def _schedule_after(self, key: ObjectKey, consumer: Consumer, seconds: float) -> None:
        now = self._clock()
        schedule = self._schedules.get(key)
        if schedule is None:
            schedule = self._schedules[key] = _Schedule(now, consumer.behind)
        schedule.due = now + seconds
        heappush(self._heap, (schedule.due, key))
        self._wake.set()

    def _schedule_again(self, key: ObjectKey, consumer: Consumer) -> None:
        """Schedule the next check after a pause that is twice the last one."""
        schedule, settings = self._schedules.get(key), self._settings
        if schedule is None:
            return  # it was deleted while its pods were listed
        longest = settings.max_pause_rolling if consumer.rolling else settings.max_pause
        schedule.pause = min(longest, max(settings.pause, schedule.pause * 2))
        self._schedule_after(key, consumer, schedule.pause)

    def _drop(self, key: ObjectKey) -> None:
        self._adopted.pop(key, None)
        self._schedules.pop(key, None)
        self._consumer_states.set_pod_check(key, None)

    # -- run -----------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Check pods as their times come, until cancelled."""
        if not self._settings.rate:
            await asyncio.Event().wait()
        interval = 1 / self._settings.rate
        written_at = self._clock()
        while True:
            key = None if self._gate.is_busy() else self._take_due_key()
            if key is not None and await self._check_safely(key):
                await asyncio.sleep(interval)
            elif key is not None:
                await asyncio.sleep(0)
            elif self._adopted or self._heap:
                await asyncio.sleep(interval)
            else:
                await self._wait_for_work(written_at)
            if self._clock() - written_at >= _WRITE_INTERVAL:
                self.write()
                written_at = self._clock()

    async def _wait_for_work(self, written_at: float) -> None:
        """Wait until a consumer is scheduled, or check results have to be written."""
        self._wake.clear()
        left = written_at + _WRITE_INTERVAL - self._clock() if self._unwritten else None
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            return

    def _take_due_key(self) -> ObjectKey | None:
        """Take a key whose time has come; adopted consumers come after those with a time."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, key = heappop(self._heap)
            schedule = self._schedules.get(key)
            if schedule is not None and schedule.due == due:
                return key
        for key, due in self._adopted.items():
            if due > now:
                break
            del self._adopted[key]
            return key
        return None

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
        if not consumer.wanted:
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
        key, settings = consumer.key, self._settings
        snapshot = self._observer.snapshot(key)
        if snapshot is None:  # its name patterns are not matched yet
            self._schedule_again(key, consumer)
            return
        self.checks += 1
        try:
            result = await check_pods(
                self._client,
                snapshot,
                stalled=quiet >= settings.stalled_after,
                retried=quiet >= settings.retried_after,
            )
        except (ApiError, Unreachable) as error:
            _log.info("pods not checked, retrying later: %s", error, extra={"workload": str(key)})
            self._schedule_again(key, consumer)
            return
        if self._records.get(consumer.uid) != record or self._gate.is_pending(key):
            self._schedule_again(key, consumer)  # another decision was made or is due
        else:
            self._apply_result(consumer, record, result.status)

    # -- results -------------------------------------------------------------------------------

    def _apply_result(self, consumer: Consumer, record: Record, status: ConsumerStatus) -> None:
        """Record a check result, report what is new about it, and schedule the next check."""
        key, state = consumer.key, status.state
        if state is State.CURRENT:
            self._record_result(record, PodCheck.CURRENT)
            self._drop(key)
            return
        if state is State.LATENT and record.pods_checked is not PodCheck.LATENT:
            self._record_result(record, PodCheck.LATENT)
            if self._may_be_replaced(key):
                self._gate.reconcile(key)
            else:
                self._report(consumer, Reason.LATENT, status.reason, "Normal")
        elif state is State.STUCK and not self._is_known(key, status):
            self._report(consumer, Reason.STUCK, status.reason, "Warning")
        self._consumer_states.set_pod_check(key, status)
        self._schedule_again(key, consumer)

    def _is_known(self, key: ObjectKey, status: ConsumerStatus) -> bool:
        known = self._consumer_states.pod_check(key)
        return known is not None and (known.state, known.reason) == (status.state, status.reason)

    def _may_be_replaced(self, key: ObjectKey) -> bool:
        """Return whether a decision may replace pods that were just found to be latent."""
        snapshot = self._observer.snapshot(key)
        return snapshot is not None and decide(snapshot).needs_pod_starts

    def _record_result(self, record: Record, pods_checked: PodCheck) -> None:
        if record.pods_checked is not pods_checked:
            self._records.note(msgspec.structs.replace(record, pods_checked=pods_checked))
            self._unwritten.add(record.uid)

    def write(self) -> None:
        """Schedule check results to be written with the records."""
        self._records.write(self._unwritten)
        self._unwritten.clear()

    def _report(self, consumer: Consumer, reason: Reason, message: str, type_: EventType) -> None:
        level = logging.WARNING if type_ == "Warning" else logging.INFO
        _log.log(level, message, extra={"workload": str(consumer.key)})
        write_consumer_event(self._recorder, consumer, reason, message, type_=type_)
