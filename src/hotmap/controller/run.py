"""Starts and stops the parts of the controller, and connects them.

1. the status server listens, so that probes are answered from the first moment
2. wait for the API server; read the keyring, or create it at the very first start
3. try to acquire the Lease, if there may be several replicas
4. reflectors fill the stores, on a standby too
5. the leader's term begins when its stores are complete; a standby lists again before
6. at the end the term ends, the Lease is released, Events are written, the server closes
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

from hotmap.controller.leadership import Leadership
from hotmap.controller.reconcile.job_recreation import JobRecreations
from hotmap.controller.reconcile.payload_digests import PayloadDigests
from hotmap.controller.report.agents import AgentClient
from hotmap.controller.report.alerts import Alerts
from hotmap.controller.report.change_webhooks import ChangeWebhooks
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.health import check_health, check_readiness
from hotmap.controller.report.loop_lag import measure_loop_lag
from hotmap.controller.report.metrics import CONTENT_TYPE, Metrics, MetricSources
from hotmap.controller.report.object_events import write_consumer_event
from hotmap.controller.report.pod_reader import PodReader
from hotmap.controller.report.reasons import Reason
from hotmap.controller.report.server import Endpoints, StatusServer
from hotmap.controller.report.status import StatusPage
from hotmap.controller.settings import Settings
from hotmap.controller.shadow import Shadow
from hotmap.controller.startup import StartupRetry, wait_for_apiserver
from hotmap.controller.storage.keyring import KeyringFollower, load_keyring, passing_keyring
from hotmap.controller.storage.record_shards import RecordShards
from hotmap.controller.storage.records import Records
from hotmap.controller.term_factory import SharedParts, TermFactory
from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.reflectors import Reflectors
from hotmap.core.fingerprint import FingerprintKey
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Record
from hotmap.kube.client import Client
from hotmap.kube.events import EventWriter
from hotmap.kube.recorder import Recorder
from hotmap.kube.reflector_statistics import ReflectorStatistics
from hotmap.kube.supervisor import Supervisor
from hotmap.kube.workqueue import WorkQueueStatistics

__all__ = ["Controller"]


class Controller:
    """One controller, from entering the context to leaving it."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self.supervisor = Supervisor()
        self.decision_log = DecisionLog(wall_clock=client.server_time)
        self._shadow = Shadow(reason_of=self._latest_reason) if settings.shadow else None
        self.index = self._make_index()
        self._changes = ChangeListener(self.index, clock=client.server_time)
        self.records = Records()
        # What a shadow would have applied ends with it.
        self.record_shards = None if self._shadow else self._make_record_shards()
        self._leadership = Leadership(client, settings, self.supervisor)
        self._webhooks = ChangeWebhooks(settings.webhooks, followers=self.index.followers_of)
        self._alerts = Alerts(settings.webhooks.alert)
        self._recorder = Recorder(
            None if self._shadow else EventWriter(client, self.supervisor),
            component="hotmap",
            clock=client.server_time,
            skips=self.index.policies.is_terminating,
        )
        self._recreations = JobRecreations(
            client,
            settings.namespace,
            recorder=self._recorder,
            may_write=self._leadership.may_write,
        )
        self._metrics = self._make_metrics()
        self._payloads = PayloadDigests(client, self.index.sources.get("ConfigMap"))
        self._pod_reader = PodReader(client, AgentClient(client.server), self._payloads.digests)
        self._status_page = StatusPage(
            client,
            index=self.index,
            decision_log=self.decision_log,
            serves=settings.serves,
            leader_view=self._leadership.leader_view,
        )
        self._server = self._make_server()
        self._startup_retry = StartupRetry()
        self._reflectors: Reflectors | None = None
        self._background = self.supervisor.tasks()
        self.port = 0
        self.status_port = 0

    async def __aenter__(self) -> Self:
        """Start; returns when every consumer is queued, or another replica leads.

        Raises:
            SettingsError: the key cannot be read or created, or the listen address cannot be used.
            ApiError, Unreachable: the API server is unreachable or returns an error.
        """
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def run(self) -> None:
        """Wait without end, unless a term ends by an error.

        Raises:
            HotmapError: a retry cannot help: the permission to read the records is gone.
        """
        await self._leadership.run()

    async def _start(self) -> None:
        await self._listen()
        self._background.start(
            "measure loop lag", lambda: measure_loop_lag(self._metrics.observe_loop_lag)
        )
        await self._wait_for_apiserver()
        keys = passing_keyring() if self._shadow else await self._load_keyring()
        self._leadership.use_keys(keys)
        if self._shadow:
            self._start_comparison(self._shadow)
        reflectors = self._reflectors = Reflectors(
            self._client,
            index=self.index,
            settings=self._settings,
            keys=keys,
            supervisor=self.supervisor,
        )
        if not self._shadow:
            self._start_keyring_check(reflectors)
        for sources in self.index.sources.values():
            sources.subscribe(self._enqueue_webhooks)
        self._webhooks.start(self.supervisor)
        self._alerts.start(self.supervisor)
        await self._leadership.start(reflectors, self._make_term_factory(reflectors).make)
        reflectors.start()
        await self._leadership.wait_until_acting_or_warm(reflectors)

    async def _listen(self) -> None:
        """Listen for probes, scrapers and users; the ports are known from then on."""
        if self._settings.listen is not None:
            await self._server.start(*self._settings.listen)
            self.port = self._server.port
        if self._settings.status_listen is not None:
            await self._server.start_for_users(*self._settings.status_listen)
            self.status_port = self._server.user_port

    def _start_comparison(self, shadow: Shadow) -> None:
        for consumers in self.index.consumers.values():
            consumers.subscribe(shadow.consumer_changed)
        self._background.start("compare with Reloader", shadow.run)

    def _start_keyring_check(self, reflectors: Reflectors) -> None:
        leadership = self._leadership

        def use_keys(keys: tuple[FingerprintKey, ...]) -> None:
            reflectors.use_keys(keys)
            leadership.use_keys(keys)

        keyring = KeyringFollower(
            self._client,
            self._settings.namespace,
            keys_in_use=lambda: leadership.keys,
            may_restore=lambda: leadership.is_acting and leadership.may_write(),
            on_change=use_keys,
        )
        self._background.start("check keyring", keyring.run)

    async def _wait_for_apiserver(self) -> None:
        """Wait for the API server, as long as the settings allow."""
        if self._settings.patient:
            await self._startup_retry.retry_until_available(
                lambda: wait_for_apiserver(self._client), what="not started yet"
            )
        else:
            await wait_for_apiserver(self._client)

    async def _load_keyring(self) -> tuple[FingerprintKey, ...]:
        namespace = self._settings.namespace
        if not self._settings.patient:
            return await load_keyring(self._client, namespace)
        return await self._startup_retry.retry_until_available(
            lambda: load_keyring(self._client, namespace), what="the key cannot be read"
        )

    def _make_index(self) -> Index:
        settings = self._settings
        return Index(
            defaults=settings.defaults,
            namespaces=max(1, len(settings.watch_namespaces)),
            is_partial=bool(settings.source_selector),
            selects_namespaces=bool(settings.namespace_selector) and not settings.watch_namespaces,
            view=self._shadow.without_reloader_writes if self._shadow else None,
            clock=self._client.server_time,
        )

    def _make_server(self) -> StatusServer:
        return StatusServer(
            Endpoints(
                metrics=self._metrics.render,
                metrics_type=CONTENT_TYPE,
                health=self._health,
                readiness=self._readiness,
                status=self._status_page.answer,
                user_status=self._status_page.answer_user,
            )
        )

    def _make_record_shards(self) -> RecordShards:
        return RecordShards(
            self._client,
            self._settings.namespace,
            self.records,
            on_too_large=self._report_too_large,
        )

    def _make_metrics(self) -> Metrics:
        leadership = self._leadership
        return Metrics(
            MetricSources(
                client=self._client,
                decision_log=self.decision_log,
                records=self.records,
                record_shards=self.record_shards,
                reflectors=self.reflector_statistics,
                queues=self.queue_statistics,
                consumer_states=lambda: (
                    leadership.term.leader_view.consumer_states.statistics()
                    if leadership.term
                    else None
                ),
                pod_checks=lambda: leadership.term.pod_checker.checks if leadership.term else 0,
                pending_jobs=lambda: len(self._recreations),
                rollout_turn_age=lambda: (
                    leadership.term.rollout_turns.longest_wait() if leadership.term else 0.0
                ),
                task_restarts=lambda: self.supervisor.restarts,
                alerts=self._alerts.outcomes,
            ),
            self._settings.reloader,
        )

    def _make_term_factory(self, reflectors: Reflectors) -> TermFactory:
        shared = SharedParts(
            client=self._client,
            watch_index=self.index,
            changes=self._changes,
            records=self.records,
            record_shards=self.record_shards,
            decision_log=self.decision_log,
            recorder=self._recorder,
            job_recreations=self._recreations,
            payloads=self._payloads,
            pod_reader=self._pod_reader,
            metrics=self._metrics,
            alerts=self._alerts,
            webhooks=self._webhooks,
            shadow=self._shadow,
            reflectors=reflectors,
            startup_retry=self._startup_retry,
            supervisor=self.supervisor,
            leadership=self._leadership,
        )
        return TermFactory(shared, self._settings)

    def _latest_reason(self, consumer: ObjectKey) -> str:
        latest = self.decision_log.latest(consumer)
        return latest.reason if latest else ""

    def _report_too_large(self, record: Record, size: int) -> None:
        """Report on a consumer that its record is too large to be stored."""
        message = (
            f"the record of its {len(record.sources)} sources has {size >> 10} KiB, which is too"
            " large to store: changes while the controller restarts may be missed"
        )
        for store in self.index.consumers.values():
            for consumer in store.values():
                if consumer.uid == record.uid:
                    write_consumer_event(
                        self._recorder, consumer, Reason.STATE_NOT_KEPT, message, type_="Warning"
                    )

    def _enqueue_webhooks(self, key: ObjectKey, old: Any, new: Any) -> None:
        if self._leadership.is_acting and self.index.policies.selects(key.namespace):
            self._webhooks.source_changed(key, old, new)

    async def _stop(self) -> None:
        await self._leadership.stop()
        if self._reflectors is not None:
            await self._reflectors.stop()
        await self._background.stop()
        if self._shadow:
            self._shadow.close()
        await asyncio.gather(self._webhooks.aclose(), self._alerts.aclose())
        await self._recorder.aclose()
        await self._server.close()

    # -- status -------------------------------------------------------------------------

    def reflector_statistics(self) -> list[ReflectorStatistics]:
        """Return the statistics of each watched resource, over all its namespaces."""
        return self._reflectors.statistics() if self._reflectors else []

    def queue_statistics(self) -> dict[str, WorkQueueStatistics]:
        """Count the waiting and processed consumers, by queue; a standby has none."""
        term = self._leadership.term
        return term.queues.statistics() if term else {}

    def _health(self) -> tuple[bool, dict[str, Any]]:
        return check_health(self.reflector_statistics(), failing=self.supervisor.failing())

    def _readiness(self) -> tuple[bool, dict[str, Any]]:
        problems = [self._startup_retry.problem, self._leadership.lease_problem()]
        if self._reflectors is not None:
            problems += self._reflectors.problems()
        return check_readiness(
            self.reflector_statistics(),
            is_leader=self._leadership.is_acting,
            may_write=self._leadership.may_write(),
            problems=tuple(filter(None, problems)),
        )
