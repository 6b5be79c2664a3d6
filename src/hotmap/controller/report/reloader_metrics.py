"""Metrics under the names of stakater/Reloader, beside hotmap's, with --reloader-compat.

Names and labels are Reloader's (internal/pkg/metrics/prometheus.go). What hotmap does not have is
left out instead of being always zero: it scans no workloads for an event, and skips none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.workqueue import WorkQueueStatistics

__all__ = ["OTHER_NAMESPACES", "ReloaderMetrics"]

#: Namespaces with series of their own; the others share one, so that the number is bounded. No
#: namespace has this name.
_MAX_NAMESPACES = 1000
OTHER_NAMESPACES = "(other)"

_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ReloaderMetrics(Collector):
    """Counts rollouts, and shows them and other statistics at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        by_namespace: bool,
        host: str,
        answers: Callable[[], Mapping[tuple[str, str], int]],
        queues: Callable[[], Mapping[str, WorkQueueStatistics]],
    ) -> None:
        """`by_namespace`: count rollouts by namespace, too. `host` is that of the API server.

        `answers` counts its responses by method and status.
        """
        self._by_namespace = by_namespace
        self._host = host
        self._answers = answers
        self._queues = queues
        #: By kind and outcome, and by namespace and outcome.
        self._rollouts: Counter[tuple[str, bool]] = Counter()
        self._in_namespace: dict[str, Counter[bool]] = {}
        self._latency = Histogram(
            "reloader_action_latency_seconds",
            "Seconds from observing a change to writing the rollout.",
            labelnames=["workload_kind"],
            buckets=_BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def record_rollout(
        self, workload: ObjectKey, *, succeeded: bool, delay: float | None = None
    ) -> None:
        """Count an attempt to replace a workload's pods.

        `delay` is the seconds since its change; None: unknown.
        """
        self._rollouts[workload.kind, succeeded] += 1
        if delay is not None and succeeded:
            self._latency.labels(workload.kind).observe(delay)
        if self._by_namespace:
            known = self._in_namespace
            full = len(known) >= _MAX_NAMESPACES and workload.namespace not in known
            namespace = OTHER_NAMESPACES if full else workload.namespace
            known.setdefault(namespace, Counter())[succeeded] += 1

    def collect(self) -> Iterator[Metric]:
        """Return the families; prometheus_client calls this at each scrape."""
        yield from self._reloads()
        yield from self._reconciles()
        yield self._requests()

    def _reloads(self) -> Iterator[Metric]:
        executed = CounterMetricFamily(
            "reloader_reload_executed", "Rollouts, by success.", labels=["success"]
        )
        for succeeded in (True, False):
            count = sum(n for (_, done), n in self._rollouts.items() if done is succeeded)
            executed.add_metric([str(succeeded).lower()], count)
        yield executed
        if self._by_namespace:
            name = "reloader_reload_executed_total_by_namespace"
            # A counter, but the library appends _total to the names of those.
            family = Metric(name, "Rollouts, by success and namespace.", "unknown")
            for namespace, counts in self._in_namespace.items():
                for succeeded, count in counts.items():
                    labels = {"success": str(succeeded).lower(), "namespace": namespace}
                    family.add_sample(name, labels, count)
            yield family
        actions = CounterMetricFamily(
            "reloader_action",
            "Rollouts, by kind of workload and result.",
            labels=["workload_kind", "result"],
        )
        for (kind, succeeded), count in self._rollouts.items():
            actions.add_metric([kind, "success" if succeeded else "error"], count)
        yield actions

    def _reconciles(self) -> Iterator[Metric]:
        queue = self._queues().get("reconcile")
        reconciles = CounterMetricFamily(
            "reloader_reconcile", "Reconciles of a workload, by result.", labels=["result"]
        )
        depth = GaugeMetricFamily("reloader_workqueue_depth", "Workloads that wait for a worker.")
        adds = CounterMetricFamily("reloader_workqueue_adds", "Workloads added to the queue.")
        retries = CounterMetricFamily("reloader_retries", "Reconciles that are repeated.")
        if queue is not None:
            reconciles.add_metric(["success"], max(0, queue.delivered - queue.retries))
            reconciles.add_metric(["error"], queue.retries)
            depth.add_metric([], queue.ready)
            adds.add_metric([], queue.adds)
            retries.add_metric([], queue.retries)
        yield from (reconciles, depth, adds, retries)

    def _requests(self) -> Metric:
        requests = CounterMetricFamily(
            "rest_client_requests",
            "Requests to the API server, by status, method and host.",
            labels=["code", "method", "host"],
        )
        for (method, status), count in self._answers().items():
            code = status if status.isdigit() else "<error>"
            requests.add_metric([code, method, self._host], count)
        return requests
