"""One term of leadership: from the first reconcile of every consumer to the last write.

1. the records are read: what was last applied to every consumer, the observed changes of its
   sources, and the Jobs that an earlier leader had not recreated yet
2. every consumer is reconciled once, then whenever something changes
3. pods are checked in the background
4. at the end workers finish their key, and the records are written

A controller that loses its Lease ends its term and may begin another. Carried over are the state in
the cluster, and records that could not be written unless another controller has written since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Self

from hotmap.controller.queues import ConsumerQueues
from hotmap.controller.reconcile.immutable_uses import ImmutableUses
from hotmap.controller.reconcile.job_recreation import JobRecreations
from hotmap.controller.reconcile.reconcile import Reconciler
from hotmap.controller.reconcile.rollout_turns import RolloutTurns
from hotmap.controller.report.annotation_warnings import AnnotationWarnings
from hotmap.controller.report.pod_checks import PodChecker
from hotmap.controller.report.status import LeaderView
from hotmap.controller.report.unreadable_objects import UnreadableObjects
from hotmap.controller.settings import Settings
from hotmap.controller.startup import StartupRetry
from hotmap.controller.storage.record_shards import RecordShards
from hotmap.controller.storage.records import Records
from hotmap.controller.watch.changes import ChangeListener, Enqueue
from hotmap.controller.watch.deleted_immutables import DeletedImmutables
from hotmap.controller.watch.first_decisions import FirstDecisions
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.controller.watch.stored_changes import StoredChanges
from hotmap.controller.watch.stored_progress import StoredProgress
from hotmap.core.errors import ApiError, HotmapError, NotLeading, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.text import shorten
from hotmap.kube.log_throttle import LogThrottle
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.loop_slices import SHORT_SLICE, LoopSlices, share_loop
from hotmap.kube.supervisor import Supervisor
from hotmap.kube.workqueue import QueueShutDown, WorkQueue

__all__ = ["LeaderTerm", "TermParts"]

#: Seconds for workers to finish their key at the end, and for the records to be written then. With
#: the Lease and the Events, an API server that does not answer has to cost less than the 30 s after
#: which a kubelet kills the process (deploy/controller/deployment.yaml).
_GRACE = 5.0
_WRITE_GRACE = 10.0

_RETRY = "reconcile failed, retrying in %.1fs: %s"

_log = logging.getLogger(__name__)


class TermParts(NamedTuple):
    """The parts that run while a replica leads."""

    queues: ConsumerQueues
    changes: ChangeListener
    observer: Observer
    reconciler: Reconciler
    rollout_turns: RolloutTurns
    pod_checker: PodChecker
    leader_view: LeaderView
    annotation_warnings: AnnotationWarnings
    unreadable_objects: UnreadableObjects
    first_decisions: FirstDecisions
    deleted_immutables: DeletedImmutables
    stored_progress: StoredProgress
    #: Returns whether more watch events have arrived than were read.
    is_behind: Callable[[], bool]
    #: None: records are kept in memory alone (shadow mode).
    record_shards: RecordShards | None
    #: None: no Job is ever deleted (shadow mode).
    job_recreations: JobRecreations | None
    #: Writes Reloader's ConfigMap about itself; None: it is not wanted.
    write_meta_info: Callable[[], Awaitable[None]] | None


class LeaderTerm:
    """The workers and background tasks of one leader, from entering the context to leaving it."""

    def __init__(
        self,
        *,
        index: Index,
        records: Records,
        parts: TermParts,
        settings: Settings,
        may_write: Callable[[], bool],
        startup_retry: StartupRetry,
        supervisor: Supervisor,
    ) -> None:
        self._index = index
        self._records = records
        self._stored_changes = StoredChanges(index, records)
        self._parts = parts
        self.queues = parts.queues
        self.rollout_turns = parts.rollout_turns
        self.pod_checker = parts.pod_checker
        #: The source of the status documents.
        self.leader_view = parts.leader_view
        self._settings = settings
        self._may_write = may_write
        self._startup_retry = startup_retry
        self._workers = supervisor.tasks()
        self._background = supervisor.tasks()
        self._unsubscribe: list[Callable[[], None]] = []
        self._log_throttle = LogThrottle()
        #: Whether changes are no longer followed, so that nothing it shows is up to date.
        self.is_ending = False

    async def __aenter__(self) -> Self:
        """Start; returns when every consumer is queued for its first reconcile.

        Waits while the API server cannot return the records; otherwise a leader would hold the
        Lease without acting.

        Raises:
            ApiError: the records may not be read.
        """
        try:
            await self._begin()
        except BaseException:  # also when the Lease is lost meanwhile
            self._end_subscriptions()
            self._parts.first_decisions.end()
            raise
        return self

    async def _begin(self) -> None:
        parts = self._parts
        consumers = (key for store in self._index.consumers.values() for key in store)
        parts.first_decisions.begin(consumers)
        await self._index.read_policies()
        if parts.record_shards is not None:
            await self._startup_retry.retry_until_available(
                parts.record_shards.load, what="the records cannot be read"
            )
        self._stored_changes.restore()
        self._subscribe_to_sources()
        await self._note_deletions()
        if parts.job_recreations is not None:
            await self._startup_retry.retry_until_available(
                parts.job_recreations.load, what="pending Jobs cannot be read"
            )
        self._subscribe_to_consumers()
        self._drop_records_of_deleted()
        parts.deleted_immutables.begin()
        parts.changes.set_queues(
            Enqueue(refresh=self.queues.refreshes.add, reconcile=self._add_settled)
        )
        parts.annotation_warnings.begin()
        self._queue_consumers()
        self._start_workers()
        self._start_background_tasks()

    def _subscribe_to_sources(self) -> None:
        parts = self._parts
        for sources in self._index.sources.values():
            self._unsubscribe.append(sources.subscribe(self._stored_changes.source_changed))
            self._unsubscribe.append(sources.subscribe(parts.deleted_immutables.source_changed))
        immutable_uses = ImmutableUses(self._index, parts.changes, self._records)
        self._unsubscribe.extend(immutable_uses.subscribe())

    def _subscribe_to_consumers(self) -> None:
        for store in self._index.consumers.values():
            self._unsubscribe.append(store.subscribe(self._forget_deleted))
            self._unsubscribe.append(store.subscribe(self.rollout_turns.consumer_changed))
            self._unsubscribe.append(store.subscribe(self.pod_checker.consumer_changed))

    def _queue_consumers(self) -> None:
        """Queue each consumer for its first reconcile."""
        consumers = list(self._index.all_consumers())
        self._parts.first_decisions.wait_for(
            (consumer.key for consumer in consumers), watched_until=self._records.watched_until
        )
        for consumer in consumers:
            self.queues.reconciles.add(consumer.key)
        count = len(consumers)
        _log.info("watching %d %s", count, "workload" if count == 1 else "workloads")

    def _start_workers(self) -> None:
        for _ in range(self._settings.workers):
            for name, queue, work in (
                ("refresh", self.queues.refreshes, self._parts.reconciler.refresh),
                ("reconcile", self.queues.reconciles, self._reconcile),
            ):
                self._workers.start(name, partial(self._work, queue, work), may_return=True)

    def _start_background_tasks(self) -> None:
        parts = self._parts
        if parts.record_shards is not None:
            self._background.start("write records", parts.record_shards.run)
            self._background.start("check records", parts.record_shards.check)
        self._background.start("store watch progress", parts.stored_progress.run)
        self._background.start("check pods", self.pod_checker.run)
        self._background.start("report unreadable objects", parts.unreadable_objects.run)
        self._background.start("follow deleted immutable sources", parts.deleted_immutables.run)
        self._background.start("check agents", self.pod_checker.run_agent_checks)
        if parts.job_recreations is not None:
            self._background.start("recreate jobs", parts.job_recreations.run)
        if parts.write_meta_info is not None:
            self._background.start("write meta-info", parts.write_meta_info, may_return=True)

    async def __aexit__(self, *exc_info: object) -> None:
        self.is_ending = True
        watched_until = self._parts.stored_progress.by_watches()
        try:
            if self._may_write():
                watched_until = await self._parts.stored_progress.by_reading()
        finally:  # also where it is cancelled meanwhile
            await self._end(watched_until)

    async def _end(self, watched_until: float) -> None:
        """Stop the workers, and write what is known by then; later changes are not kept."""
        self._parts.changes.set_queues(None)
        self._parts.annotation_warnings.end()
        self._end_subscriptions()
        self.queues.shutdown()
        if self._may_write():
            await self._workers.wait(timeout=_GRACE)
        await self._workers.stop()
        await self._background.stop()
        if self._may_write():
            self.pod_checker.write()
            self._parts.stored_progress.write(watched_until)
            if self._parts.record_shards is not None:
                await _flush(self._parts.record_shards)
        self._parts.first_decisions.end()

    def _end_subscriptions(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()

    async def _share_loop(self) -> None:
        """Wait until this turn of the event loop has time for one more decision.

        While watches are behind, they have most of the turns: what is decided on old content is
        decided again, and writes of it are refused.
        """
        await _decisions.share(turns=_TURNS_BEHIND if self._parts.is_behind() else 1)

    def _add_settled(self, key: ObjectKey, settle: float, settle_max: float) -> None:
        """Reconcile a consumer that something has changed for, after its settle time."""
        self.queues.reconciles.add_settled(key, settle=settle, settle_max=settle_max)
        self.leader_view.consumer_states.set_pending(key, pending=True, changed=True)

    async def _work(
        self, queue: WorkQueue[ObjectKey], work: Callable[[ObjectKey], Awaitable[float | None]]
    ) -> None:
        """Take keys and work on them until the queue is shut down.

        Failures are retried forever, with pauses that grow per key; an internal error is treated
        the same way, so that it affects one consumer only.
        """
        while True:
            await self._share_loop()
            try:
                key = await queue.get()
            except QueueShutDown:
                return
            try:
                again = await work(key)
            except (ApiError, Unreachable, NotLeading) as error:
                pause = queue.retry(key, least=getattr(error, "retry_after", None) or 0.0)
                level = self._retry_level(key, error)
                _log.log(level, _RETRY, pause, error, extra={"workload": str(key)})
            except HotmapError as error:
                pause = queue.retry(key)
                _log.error(_RETRY, pause, error, extra={"workload": str(key)})
            except Exception:
                queue.retry(key)
                _log.exception("internal error reconciling %s", key)
            else:
                queue.forget(key)
                self._log_throttle.end(str(key))
                if again is not None:
                    queue.add_after(key, again)
            finally:
                queue.done(key)
                self._after_work(key)

    def _retry_level(self, key: ObjectKey, error: HotmapError) -> int:
        """Choose the log level of a retry: one that a policy denies goes on forever."""
        text = shorten(str(error), 200)  # a policy's message may have 64 KiB, and it is kept
        news = self._log_throttle.should_log(str(key), text, now=loop_time())
        return logging.INFO if news else logging.DEBUG

    def _after_work(self, key: ObjectKey) -> None:
        """Update the pod checks and the status after a decision."""
        self.pod_checker.schedule_check(key)
        consumer_states, reconciles = self.leader_view.consumer_states, self.queues.reconciles
        # A failed one is retried, so it stays behind.
        consumer_states.set_pending(
            key, pending=reconciles.has(key), changed=reconciles.is_pending(key)
        )
        consumer_states.update(key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        again = await self._parts.reconciler.reconcile(key)
        if self._parts.reconciler.is_pending(key):
            self._parts.first_decisions.note_pending(key)
            return again
        # A consumer whose pods could not be listed is not decided on either.
        if self._parts.reconciler.has_decided(key) and self._parts.stored_progress.note_decided(
            key
        ):
            self.queues.reconciles.add(key)
        return again

    async def _note_deletions(self) -> None:
        """Record which sources were deleted while no controller watched.

        Nothing is known of those outside the watched scope.
        """
        for record in self._records.values():
            await share_loop()
            if self._settings.serves(record.namespace):
                self._stored_changes.note_deletions(record)
        for consumer in list(self._index.all_consumers()):
            await share_loop()
            for key in self._parts.observer.unrecorded_deletions(consumer):
                self._stored_changes.note_deletion(key)

    def _drop_records_of_deleted(self) -> None:
        """Drop the records of consumers that were deleted while no controller was running.

        Records of consumers outside the watched scope stay, in case the scope grows again.
        """
        stores = self._index.consumers.values()
        if all(store.synced.is_set() for store in stores):
            unreadable = {error.uid for store in stores for error in store.unreadable.values()}
            self._records.retain(
                unreadable | {item.uid for store in stores for item in store.values()},
                is_visible=self._settings.serves,
            )

    def _forget_deleted(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            if new is not None or not self._index.is_unreadable(key):
                if (record := self._records.get(old.uid)) is not None:
                    self._parts.observer.keep_record(key, record)
                if (kept := self._records.forget(old.uid)) is not None:
                    self._parts.deleted_immutables.consumer_deleted(kept)
            self._parts.reconciler.forget(key)
            self.leader_view.consumer_states.update(key)


#: The slices in which workers decide, and how many turns have one slice while watches are behind.
_decisions = LoopSlices(SHORT_SLICE)
_TURNS_BEHIND = 4


async def _flush(record_shards: RecordShards) -> None:
    # Not asyncio.timeout: as in kube/leaderelection.py.
    try:
        await asyncio.wait_for(record_shards.flush(), _WRITE_GRACE)
    except TimeoutError:
        _log.warning("the last records are not written: no response within %gs", _WRITE_GRACE)
