"""The controller's metrics, read off the parts when somebody asks.

Nothing is counted twice: each part keeps its own statistics, and this turns them into families.
Reasons, names and versions of objects are no labels, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hotmap.controller.report.consumer_states import ConsumerStateStatistics
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.storage.records import Records
from hotmap.core.decide.conflicts import Kind
from hotmap.kube.client import Client
from hotmap.kube.reflector import ReflectorStatistics
from hotmap.kube.workqueue import WorkQueueStatistics

__all__ = ["CONTENT_TYPE", "Metrics"]

#: The text format that every Prometheus reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Seconds from an edit, as it was seen, to the rollout written. The settle time is part of it.
_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.6, 0.75, 1, 2, 5, 10, 30, 60, 300)


class Metrics:
    """Everything that /metrics shows."""

    def __init__(
        self,
        *,
        client: Client,
        decision_log: DecisionLog,
        records: Records,
        reflectors: Callable[[], Sequence[ReflectorStatistics]],
        queues: Callable[[], dict[str, WorkQueueStatistics]],
        consumer_states: Callable[[], ConsumerStateStatistics | None],
        looks: Callable[[], int],
        pending_jobs: Callable[[], int],
        task_restarts: Callable[[], Mapping[str, int]],
    ) -> None:
        self._registry = CollectorRegistry()
        self._delay = Histogram(
            "hotmap_change_to_rollout_seconds",
            "Seconds from a change, as the controller saw it, to the rollout written.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(
            _Parts(
                client,
                decision_log,
                records,
                reflectors,
                queues,
                consumer_states,
                looks,
                pending_jobs,
                task_restarts,
            )
        )

    def observe_delay(self, seconds: float) -> None:
        """Count one rollout that followed a change after some seconds."""
        self._delay.observe(seconds)

    def render(self) -> bytes:
        """Write all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _Parts(Collector):
    def __init__(
        self,
        client: Client,
        decision_log: DecisionLog,
        records: Records,
        reflectors: Callable[[], Sequence[ReflectorStatistics]],
        queues: Callable[[], dict[str, WorkQueueStatistics]],
        consumer_states: Callable[[], ConsumerStateStatistics | None],
        looks: Callable[[], int],
        pending_jobs: Callable[[], int],
        task_restarts: Callable[[], Mapping[str, int]],
    ) -> None:
        self._client = client
        self._journal = decision_log
        self._records = records
        self._reflectors = reflectors
        self._queues = queues
        self._standings = consumer_states
        self._looks = looks
        self._pending_jobs = pending_jobs
        self._task_restarts = task_restarts

    def collect(self) -> Iterator[Metric]:
        yield from self._decisions()
        yield from self._proof()
        yield from self._watches()
        yield from self._work()
        yield from self._requests()

    def _decisions(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily(
            "hotmap_decisions", "Decisions made, by verdict.", labels=["verdict"]
        )
        for verdict, count in self._journal.decisions.items():
            decisions.add_metric([verdict], count)
        yield decisions
        actions = CounterMetricFamily(
            "hotmap_actions",
            "Actions taken, by kind of consumer, action and outcome.",
            labels=["kind", "action", "outcome"],
        )
        for labels, count in self._journal.actions.items():
            actions.add_metric(list(labels), count)
        yield actions
        writer_conflicts = CounterMetricFamily(
            "hotmap_interferences",
            "Writes of others into pod templates that were told of, by kind.",
            labels=["kind"],
        )
        for kind in Kind:
            writer_conflicts.add_metric([kind.value], self._journal.writer_conflicts[kind.value])
        yield writer_conflicts
        records = self._records.statistics()
        yield _gauge("hotmap_records", "Consumers that something is known of.", records.records)
        yield _gauge("hotmap_record_shards_dirty", "Shards not written yet.", records.dirty)
        text = "Consumers whose state is not written: too large, or their shard cannot be written."
        yield _gauge("hotmap_records_unpersisted", text, records.unpersisted)
        yield _counter("hotmap_record_writes", "Shards written.", records.writes)
        yield _counter("hotmap_record_write_failures", "Shard writes failed.", records.failures)
        text = "Jobs that are deleted and not created again yet."
        yield _gauge("hotmap_jobs_pending", text, self._pending_jobs())

    def _proof(self) -> Iterator[Metric]:
        consumers = GaugeMetricFamily(
            "hotmap_consumers", "Followed consumers, by how they stand.", labels=["state"]
        )
        statistics = self._standings()
        if statistics is not None:
            for state, count in statistics.consumers.items():
                consumers.add_metric([state.value], count)
        yield consumers
        behind = statistics.behind if statistics else 0
        yield _gauge("hotmap_pods_behind", "Pods that are not known to be up to date.", behind)
        yield _counter("hotmap_looks", "Looks at a consumer's pods after the fact.", self._looks())

    def _watches(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "hotmap_watch_last_byte_age_seconds",
            "Seconds since the API server last sent a byte on a watch.",
            labels=["resource"],
        )
        synced = GaugeMetricFamily(
            "hotmap_watch_synced", "1 once everything of a resource is known.", labels=["resource"]
        )
        events = CounterMetricFamily(
            "hotmap_watch_events", "Watch events that carried an object.", labels=["resource"]
        )
        lists = CounterMetricFamily("hotmap_lists", "Lists begun.", labels=["resource"])
        errors = CounterMetricFamily(
            "hotmap_watch_errors", "Watches and lists that failed.", labels=["resource"]
        )
        unreadable = GaugeMetricFamily(
            "hotmap_watch_unreadable_objects",
            "Objects that cannot be decoded now, and are ignored.",
            labels=["resource"],
        )
        for one in self._reflectors():
            unreadable.add_metric([one.resource], one.unreadable)
            age.add_metric([one.resource], one.last_byte_age)
            synced.add_metric([one.resource], one.synced)
            events.add_metric([one.resource], one.events)
            lists.add_metric([one.resource], one.lists)
            errors.add_metric([one.resource], one.errors)
        yield from (age, synced, events, lists, errors, unreadable)

    def _work(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "hotmap_queue_depth", "Consumers in a queue, by state.", labels=["queue", "state"]
        )
        retries = CounterMetricFamily("hotmap_queue_retries", "Retries.", labels=["queue"])
        for name, queue in self._queues().items():
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
        for task, count in self._task_restarts().items():
            restarts.add_metric([task], count)
        yield restarts

    def _requests(self) -> Iterator[Metric]:
        statistics = self._client.statistics()
        answers = CounterMetricFamily(
            "hotmap_api_requests", "Answers of the API server.", labels=["method", "status"]
        )
        for labels, count in statistics.answers.items():
            answers.add_metric(list(labels), count)
        yield answers
        yield _counter("hotmap_api_retries", "Requests repeated.", statistics.retries)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family
