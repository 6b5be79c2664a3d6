"""The controller's metrics, read from its parts at each scrape.

Nothing is counted twice: each part keeps its own statistics, and this turns them into families.
Reasons, names and versions of objects are not labels, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hotmap.controller.report.consumer_states import ConsumerStateStatistics
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.reloader_metrics import ReloaderMetrics
from hotmap.controller.settings import ReloaderSurface
from hotmap.controller.storage.record_shards import RecordShards, RecordShardsStatistics
from hotmap.controller.storage.records import Records
from hotmap.core.decide.conflicts import ConflictKind
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.reflector_statistics import ReflectorStatistics
from hotmap.kube.workqueue import WorkQueueStatistics

__all__ = ["CONTENT_TYPE", "MetricSources", "Metrics"]

#: The text format that every Prometheus reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Seconds from an observed edit to the written rollout. The settle time is part of it.
_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.6, 0.75, 1, 2, 5, 10, 30, 60, 300)

#: Nothing is meant to take longer than 50 ms.
_LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class MetricSources(NamedTuple):
    """The parts of the controller whose statistics are shown."""

    client: Client
    decision_log: DecisionLog
    records: Records
    #: None: records are not written.
    record_shards: RecordShards | None
    reflectors: Callable[[], Sequence[ReflectorStatistics]]
    queues: Callable[[], dict[str, WorkQueueStatistics]]
    #: None on a standby.
    consumer_states: Callable[[], ConsumerStateStatistics | None]
    pod_checks: Callable[[], int]
    pending_jobs: Callable[[], int]
    rollout_turn_age: Callable[[], float]
    task_restarts: Callable[[], Mapping[str, int]]
    #: By what became of them.
    alerts: Callable[[], Mapping[str, int]]


class Metrics:
    """All metrics of the controller."""

    def __init__(self, sources: MetricSources, reloader: ReloaderSurface | None = None) -> None:
        """`reloader`: show metrics under Reloader's names, too."""
        self._registry = CollectorRegistry()
        self._delay = Histogram(
            "hotmap_change_to_rollout_seconds",
            "Seconds from observing a change to writing the rollout.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._lag = Histogram(
            "hotmap_event_loop_lag_seconds",
            "Seconds by which a timer of the event loop was late, measured four times a second.",
            buckets=_LAG_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_StatisticsCollector(sources))
        self._reloader = _reloader_metrics(sources, reloader, self._registry) if reloader else None

    def record_rollout(self, workload: ObjectKey, succeeded: bool, delay: float | None) -> None:
        """Count an attempt to replace a workload's pods.

        `delay` is the seconds since its change was observed; None: it was not.
        """
        if succeeded and delay is not None:
            self._delay.observe(delay)
        if self._reloader is not None:
            self._reloader.record_rollout(workload, succeeded=succeeded, delay=delay)

    def observe_loop_lag(self, seconds: float) -> None:
        """Count one measurement of how late the event loop is."""
        self._lag.observe(seconds)

    def render(self) -> bytes:
        """Write all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _StatisticsCollector(Collector):
    """Turns the parts' statistics into metric families, at each scrape."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        yield from self._decisions()
        yield from self._states()
        yield from self._watches()
        yield from self._work()
        yield from self._requests()

    def _decisions(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily(
            "hotmap_decisions", "Decisions made, by verdict.", labels=["verdict"]
        )
        for verdict, count in self._sources.decision_log.decisions.items():
            decisions.add_metric([verdict], count)
        yield decisions
        actions = CounterMetricFamily(
            "hotmap_actions",
            "Actions taken, by kind of workload, action and outcome.",
            labels=["kind", "action", "outcome"],
        )
        for labels, count in self._sources.decision_log.actions.items():
            actions.add_metric(list(labels), count)
        yield actions
        writer_conflicts = CounterMetricFamily(
            "hotmap_template_conflicts",
            "Writes of others into pod templates, by kind.",
            labels=["kind"],
        )
        for kind in ConflictKind:
            writer_conflicts.add_metric(
                [kind.value], self._sources.decision_log.writer_conflicts[kind.value]
            )
        yield writer_conflicts
        yield _gauge("hotmap_records", "Workloads with a record.", len(self._sources.records))
        shards = self._sources.record_shards
        written = shards.statistics() if shards else RecordShardsStatistics()
        text = "Workloads whose record is not written: too large, or its shard cannot be written."
        yield _gauge("hotmap_records_unpersisted", text, written.unpersisted)
        yield _gauge("hotmap_record_shards_dirty", "Shards not written yet.", written.dirty)
        yield _counter("hotmap_record_writes", "Shards written.", written.writes)
        yield _counter("hotmap_record_write_failures", "Shard writes failed.", written.failures)
        text = "Jobs that are deleted and not recreated yet."
        yield _gauge("hotmap_jobs_pending", text, self._sources.pending_jobs())
        text = "Time for which a workload has its turn while others wait for it; the longest."
        yield _gauge("hotmap_rollout_turn_age_seconds", text, self._sources.rollout_turn_age())

    def _states(self) -> Iterator[Metric]:
        consumers = GaugeMetricFamily(
            "hotmap_workloads", "Followed workloads, by state.", labels=["state"]
        )
        statistics = self._sources.consumer_states()
        yield _gauge("hotmap_leader", "1 on the replica that acts.", statistics is not None)
        if statistics is not None:
            for state, count in statistics.consumers.items():
                consumers.add_metric([state.value], count)
        yield consumers
        pods = GaugeMetricFamily(
            "hotmap_pods",
            "Pods by state, as of the last check of their workload.",
            labels=["state"],
        )
        for pod_state, count in (statistics.pods if statistics else {}).items():
            pods.add_metric([pod_state.value], count)
        yield pods
        behind = statistics.behind if statistics else 0
        yield _gauge("hotmap_pods_behind", "Pods that are not known to be up to date.", behind)
        yield _counter(
            "hotmap_pod_checks",
            "Pod checks; each lists the pods of one workload.",
            self._sources.pod_checks(),
        )

    def _watches(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "hotmap_watch_last_byte_age_seconds",
            "Seconds since the API server last sent a byte on a watch.",
            labels=["resource"],
        )
        synced = GaugeMetricFamily(
            "hotmap_watch_synced",
            "Whether a resource was listed completely.",
            labels=["resource"],
        )
        events = CounterMetricFamily(
            "hotmap_watch_events", "Watch events that carried an object.", labels=["resource"]
        )
        lists = CounterMetricFamily("hotmap_lists", "Lists started.", labels=["resource"])
        errors = CounterMetricFamily(
            "hotmap_watch_errors", "Watches and lists that failed.", labels=["resource"]
        )
        unreadable = GaugeMetricFamily(
            "hotmap_watch_unreadable_objects",
            "Objects that cannot be decoded and are ignored.",
            labels=["resource"],
        )
        refused = GaugeMetricFamily(
            "hotmap_watch_refused",
            "1 while the API server does not permit the watch of a resource.",
            labels=["resource"],
        )
        for reflector in self._sources.reflectors():
            refused.add_metric([reflector.resource], reflector.refused)
            unreadable.add_metric([reflector.resource], reflector.unreadable)
            age.add_metric([reflector.resource], reflector.last_byte_age)
            synced.add_metric([reflector.resource], reflector.synced)
            events.add_metric([reflector.resource], reflector.events)
            lists.add_metric([reflector.resource], reflector.lists)
            errors.add_metric([reflector.resource], reflector.errors)
        yield from (age, synced, refused, events, lists, errors, unreadable)

    def _work(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "hotmap_queue_depth", "Workloads in a queue, by state.", labels=["queue", "state"]
        )
        retries = CounterMetricFamily("hotmap_queue_retries", "Retries.", labels=["queue"])
        for name, queue in self._sources.queues().items():
            depth.add_metric([name, "ready"], queue.ready)
            depth.add_metric([name, "waiting"], queue.waiting)
            depth.add_metric([name, "processing"], queue.processing)
            depth.add_metric([name, "failing"], queue.failing)
            retries.add_metric([name], queue.retries)
        yield from (depth, retries)
        restarts = CounterMetricFamily(
            "hotmap_task_restarts",
            "Background tasks that ended unexpectedly and were restarted.",
            labels=["task"],
        )
        for task, count in self._sources.task_restarts().items():
            restarts.add_metric([task], count)
        yield restarts
        alerts = CounterMetricFamily(
            "hotmap_alerts",
            "Alerts of rollouts, by what became of them: sent, failed or dropped.",
            labels=["outcome"],
        )
        for outcome, count in self._sources.alerts().items():
            alerts.add_metric([outcome], count)
        yield alerts

    def _requests(self) -> Iterator[Metric]:
        statistics = self._sources.client.statistics()
        answers = CounterMetricFamily(
            "hotmap_api_requests", "Responses of the API server.", labels=["method", "status"]
        )
        for labels, count in statistics.answers.items():
            answers.add_metric(list(labels), count)
        yield answers
        yield _counter("hotmap_api_retries", "Requests retried.", statistics.retries)


def _reloader_metrics(
    sources: MetricSources, settings: ReloaderSurface, registry: CollectorRegistry
) -> ReloaderMetrics:
    return ReloaderMetrics(
        registry,
        by_namespace=settings.counts_by_namespace,
        host=urlsplit(sources.client.server).netloc,
        answers=lambda: sources.client.statistics().answers,
        queues=sources.queues,
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family
