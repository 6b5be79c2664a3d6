"""Makes the parts of each term of leadership, and connects them with what outlasts a term.

A term has its own queues, observer and pod checks, since keys and records may be others than in the
term before. Stores, connections, the decision log and the recorder are shared by all terms.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from hotmap.controller.leadership import Leadership
from hotmap.controller.queues import ConsumerQueues
from hotmap.controller.reconcile.executor import ClusterExecutor
from hotmap.controller.reconcile.job_recreation import JobRecreations
from hotmap.controller.reconcile.nudges import Nudges
from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.controller.reconcile.reconcile import Lookups, Reconciler
from hotmap.controller.reconcile.restart_waves import RestartWaves
from hotmap.controller.reconcile.rollout_turns import RolloutTurns
from hotmap.controller.report.alerts import Alerts
from hotmap.controller.report.annotation_warnings import AnnotationWarnings
from hotmap.controller.report.change_webhooks import ChangeWebhooks
from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.decision_reporter import DecisionReporter
from hotmap.controller.report.metrics import Metrics
from hotmap.controller.report.pod_check_results import FollowUps, PodCheckResults
from hotmap.controller.report.pod_checks import PodChecker, PodCheckGate, PodCheckStores
from hotmap.controller.report.pod_reader import PodReader
from hotmap.controller.report.status import LeaderView
from hotmap.controller.report.unreadable_objects import UnreadableObjects
from hotmap.controller.settings import Settings
from hotmap.controller.shadow import Shadow, ShadowExecutor, ShadowNudges
from hotmap.controller.startup import StartupRetry
from hotmap.controller.storage.meta_info import write_meta_info
from hotmap.controller.storage.record_shards import RecordShards
from hotmap.controller.storage.records import Records
from hotmap.controller.term import LeaderTerm, TermParts
from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.consistent_reads import ConsistentReader
from hotmap.controller.watch.deleted_immutables import DeletedImmutables
from hotmap.controller.watch.disruption_budgets import DisruptionBudgets
from hotmap.controller.watch.first_decisions import FirstDecisions
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer, ObserverSettings, TermKnowledge
from hotmap.controller.watch.other_uses import OtherUses
from hotmap.controller.watch.pods import list_pods, with_all_runs
from hotmap.controller.watch.reflectors import Reflectors
from hotmap.controller.watch.stored_progress import StoredProgress
from hotmap.controller.watch.watched_until import WatchedUntil
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.objects import ObjectKey
from hotmap.core.target import Target
from hotmap.kube.client import Client
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.recorder import Recorder
from hotmap.kube.supervisor import Supervisor

__all__ = ["SharedParts", "TermFactory"]


class SharedParts(NamedTuple):
    """What outlasts a term."""

    client: Client
    watch_index: Index
    changes: ChangeListener
    records: Records
    #: None: records are kept in memory alone (shadow mode).
    record_shards: RecordShards | None
    decision_log: DecisionLog
    recorder: Recorder
    job_recreations: JobRecreations
    payloads: PayloadDigests
    pod_reader: PodReader
    metrics: Metrics
    alerts: Alerts
    webhooks: ChangeWebhooks
    #: None: hotmap acts.
    shadow: Shadow | None
    reflectors: Reflectors
    startup_retry: StartupRetry
    supervisor: Supervisor
    leadership: Leadership


class TermFactory:
    """Makes terms, one after the other."""

    def __init__(self, shared: SharedParts, settings: Settings) -> None:
        self._shared = shared
        self._settings = settings

    def make(self, keys: tuple[FingerprintKey, ...]) -> LeaderTerm:
        """Make a term that fingerprints with these keys."""
        shared = self._shared
        shared.decision_log.begin_term()
        shared.webhooks.begin_term()
        queues = ConsumerQueues(workers=self._settings.workers)
        reporter = self._make_reporter()

        def on_agents_notified(key: ObjectKey) -> None:
            pod_checker.schedule_agent_check(key)  # it needs an observer, which needs the nudges

        nudges = self._make_nudges(reporter, on_agents_notified=on_agents_notified)
        first_decisions = FirstDecisions(shared.watch_index.sources.values())
        deleted = DeletedImmutables(
            OtherUses(shared.client).find,
            shared.records,
            is_replaced=shared.watch_index.is_replaced,
        )
        knowledge = TermKnowledge(first_decisions, nudges.sent, deleted.may_be_kept)
        observer = self._make_observer(keys, knowledge)
        consumer_states = self._make_consumer_states(observer, queues)
        pod_checker = self._make_pod_checker(observer, consumer_states, nudges, queues)
        turns = RolloutTurns(
            shared.watch_index,
            default_limit=self._settings.rollout_limit,
            reconcile=queues.reconciles.add,
        )
        reader = ConsistentReader(shared.client, shared.watch_index, shared.reflectors)
        watched = WatchedUntil(shared.watch_index, reader, clock=shared.client.server_time)
        parts = TermParts(
            queues=queues,
            changes=shared.changes,
            observer=observer,
            rollout_turns=turns,
            reconciler=self._make_reconciler(observer, nudges, turns, reporter, deleted),
            pod_checker=pod_checker,
            leader_view=LeaderView(
                observer, consumer_states, pod_checker, reader, rollout_limit=turns.limit_of
            ),
            annotation_warnings=AnnotationWarnings(
                shared.watch_index, shared.recorder, self._settings.defaults.dialect.names
            ),
            unreadable_objects=UnreadableObjects(shared.watch_index, shared.recorder),
            first_decisions=first_decisions,
            deleted_immutables=deleted,
            stored_progress=StoredProgress(
                shared.records, watched, first_decisions, serves=self._settings.serves
            ),
            is_behind=shared.reflectors.is_behind,
            record_shards=shared.record_shards,
            job_recreations=None if shared.shadow else shared.job_recreations,
            write_meta_info=self._meta_info_writer(),
        )
        return LeaderTerm(
            index=shared.watch_index,
            records=shared.records,
            parts=parts,
            settings=self._settings,
            may_write=shared.leadership.may_write,
            startup_retry=shared.startup_retry,
            supervisor=shared.supervisor,
        )

    def _make_consumer_states(self, observer: Observer, queues: ConsumerQueues) -> ConsumerStates:
        shared = self._shared

        def settled_at(consumer: ObjectKey) -> float | None:
            left = queues.settles_in(consumer)
            return None if left is None else shared.client.server_time() + left

        return ConsumerStates(
            index=shared.watch_index,
            decision_log=shared.decision_log,
            records=shared.records,
            take_snapshot=observer.snapshot,
            refused=shared.reflectors.refused,
            settled_at=settled_at,
            waiting_namespaces=lambda: shared.changes.waiting_namespaces,
        )

    def _meta_info_writer(self) -> Callable[[], Awaitable[None]] | None:
        surface, shared = self._settings.reloader, self._shared
        if surface is None or surface.meta_info is None:
            return None
        return partial(
            write_meta_info,
            shared.client,
            surface.meta_info,
            check_leading=shared.leadership.check_leading,
        )

    def _make_reporter(self) -> DecisionReporter:
        shared = self._shared
        shadow = shared.shadow
        return DecisionReporter(
            shared.recorder,
            decision_log=shared.decision_log,
            alert=shadow.record_own_rollout if shadow else shared.alerts.rolled_out,
            found_changed=shared.webhooks.source_found_changed,
            record_rollout=shared.metrics.record_rollout,
            is_terminating=shared.watch_index.policies.is_terminating,
        )

    def _make_nudges(
        self, reporter: DecisionReporter, *, on_agents_notified: Callable[[ObjectKey], None]
    ) -> Nudges:
        shared = self._shared
        return Nudges(
            shared.client,
            shared.payloads,
            shared.records,
            check_leading=shared.leadership.check_leading,
            reporter=reporter,
            on_agents_notified=on_agents_notified,
            waves=RestartWaves(
                clock=loop_time,
                report_stop=reporter.report_stopped_restart,
                read_agents=shared.pod_reader.read_restarts,
                find_budgets=DisruptionBudgets(shared.client).find,
            ),
        )

    def _make_observer(
        self, keys: tuple[FingerprintKey, ...], knowledge: TermKnowledge
    ) -> Observer:
        shared = self._shared
        return Observer(
            index=shared.watch_index,
            records=shared.records,
            settings=ObserverSettings(
                keys,
                flap_limit=self._settings.flap_limit,
                detects_conflicts=shared.shadow is None,
            ),
            clock=shared.client.server_time,
            knowledge=knowledge,
        )

    def _make_reconciler(
        self,
        observer: Observer,
        nudges: Nudges,
        turns: RolloutTurns,
        reporter: DecisionReporter,
        deleted: DeletedImmutables,
    ) -> Reconciler:
        shared = self._shared
        executor = ClusterExecutor(
            shared.client,
            nudges=nudges,
            job_recreations=shared.job_recreations,
            check_leading=shared.leadership.check_leading,
        )
        return Reconciler(
            observer=observer,
            lookups=Lookups(
                pods=partial(list_pods, shared.client),
                other_uses=deleted.find_uses,
                runs=partial(with_all_runs, shared.client, cached=False),
                reread=shared.reflectors.reread,
            ),
            executor=ShadowExecutor() if shared.shadow else executor,
            nudges=ShadowNudges() if shared.shadow else nudges,
            turns=turns,
            records=shared.records,
            reporter=reporter,
        )

    def _make_pod_checker(
        self,
        observer: Observer,
        consumer_states: ConsumerStates,
        nudges: Nudges,
        queues: ConsumerQueues,
    ) -> PodChecker:
        shared = self._shared

        def request_nudges(key: ObjectKey, target: Target, uids: Sequence[str]) -> None:
            if nudges.request(key, target, uids):
                queues.refreshes.add(key)

        results = PodCheckResults(
            observer=observer,
            records=shared.records,
            consumer_states=consumer_states,
            recorder=shared.recorder,
            follow_ups=FollowUps(
                reconcile=queues.reconciles.add,
                confirm_nudges=nudges.confirm,
                request_nudges=request_nudges,
            ),
        )
        return PodChecker(
            shared.pod_reader,
            observer=observer,
            stores=PodCheckStores(
                shared.watch_index, shared.records, shared.decision_log, consumer_states
            ),
            results=results,
            settings=self._settings.pod_checks,
            gate=PodCheckGate(
                is_busy=queues.has_ready,
                is_pending=queues.is_pending,
                may_be_pending=lambda namespace: namespace in shared.changes.waiting_namespaces,
            ),
        )
